"""What it costs a leader to look at every record of a batch; rows of `ottla bench codec`.

Where native code is in force, pure Python is its peer. Times are those of the processor: other work
on the machine does not count.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

from ottla.bench.table import Row
from ottla.storage.append.inner import holds_quickly
from ottla.wire import native, records
from ottla.wire.compression import LZ4, NONE
from ottla.wire.records import HEADER, Record

ROUNDS = 15
_BASE_MS = 1_700_000_000_000
_PER_MS = 30


def rows() -> list[Row]:
    """Nanoseconds for each record; Kafka has no such number by itself."""
    chance = random.Random(1)
    return [
        _row("1,000 × 100 B", [100] * 1000, chance),
        _row("145 × 100 B (16 kB, what ProducerPerformance sends)", [100] * 145, chance),
        _row("15 × 1 kB", [1000] * 15, chance),
        _row("1 × 100 B", [100], chance),
        _row("1,000 of 80 to 400 B", _sizes(chance), chance),
        _row("1,000 of 80 to 400 B with keys", _sizes(chance), chance, has_keys=True),
        _row("145 × 100 B, lz4", [100] * 145, chance, codec=LZ4),
    ]


def _sizes(chance: random.Random) -> list[int]:
    return [chance.randint(80, 400) for _ in range(1000)]


def _records(sizes: list[int], chance: random.Random, has_keys: bool) -> Iterator[Record]:
    for number, size in enumerate(sizes):
        key = b"user-%d" % chance.randrange(100_000) if has_keys else None
        yield Record(key, chance.randbytes(size), _BASE_MS + number // _PER_MS)


def _row(
    work: str,
    sizes: list[int],
    chance: random.Random,
    *,
    has_keys: bool = False,
    codec: int = NONE,
) -> Row:
    batch = records.build_batch(_records(sizes, chance, has_keys), compression=codec)
    view, fields = memoryview(batch), HEADER.unpack_from(batch)
    repeats = max(1, 2000 // len(sizes))
    ours, peer = beside_pure_python(lambda: _seconds(view, fields, repeats), ROUNDS)
    scale = 1e9 / repeats / len(sizes)
    return Row(
        f"validate a batch: {work}, per record",
        ours * scale,
        None if peer is None else peer * scale,
        "ns",
    )


def beside_pure_python(seconds: Callable[[], float], rounds: int) -> tuple[float, float | None]:
    """The least of some rounds in the form in force, and in pure Python where that is another."""
    ours: list[float] = []
    peer: list[float] = []
    for _ in range(rounds):
        ours.append(seconds())
        if native.code is not None:
            with native.pure_python():
                peer.append(seconds())
    return min(ours), min(peer, default=None)


def _seconds(view: memoryview, fields: tuple[int, ...], repeats: int) -> float:
    began = time.process_time()
    for _ in range(repeats):
        if not holds_quickly(view, fields, len(view)):
            raise AssertionError("a batch that was made here is not right")
    return time.process_time() - began
