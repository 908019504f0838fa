"""Records to Arrow columns, back, and to their partitions; rows of `ottla bench codec`.

Values are JSON of 80 to 400 bytes, as real topics have them. Where native code is in force, pure
Python is its peer. Times are those of the processor. Needs numpy and pyarrow.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.bench.table import Row
from ottla.bench.validation import beside_pure_python
from ottla.spark.sink.digest import digest_of
from ottla.spark.sink.partitioner import partitions_of
from ottla.wire import columnar, columnar_encode, native
from ottla.wire.records import iter_batches

# The goal. It is never edited to fit a result.
HASH_AT_LEAST_MB_S = 500

ROUNDS = 7
RECORDS = 40_000
PARTITIONS = 4
LONG_KEYS, LONG_KEY_BYTES = 3, 1 << 20
_BASE_MS = 1_700_000_000_000


def rows() -> list[Row]:
    chance = random.Random(2)
    same, json_values = [b"v" * 100] * RECORDS, [_json(chance) for _ in range(RECORDS)]
    keys = pa.array([b"user-%d" % chance.randrange(100_000) for _ in range(RECORDS)], pa.binary())
    names = [b"n" * chance.randrange(3, 40) for _ in range(RECORDS)]
    long_keys = pa.array([chance.randbytes(LONG_KEY_BYTES) for _ in range(LONG_KEYS)], pa.binary())
    headers = pa.array(
        [[("trace", b"%d" % number), ("kind", b"json")] for number in range(RECORDS)],
        columnar.HEADERS_TYPE,
    )
    found = []
    for work, values, more in (
        ("100 B each", same, None),
        ("JSON of 80 to 400 B", json_values, None),
        ("JSON of 80 to 400 B, two headers", json_values, headers),
    ):
        table = columnar_encode.Rows(
            keys, pa.array(values, pa.binary()), _BASE_MS + np.arange(RECORDS) // 100, more
        )
        found.append(_decoding(work, table, more is not None))
        found.append(_encoding(work, table))
    for work, column in (("of one length or two", keys), ("of 3 to 39 B", pa.array(names))):
        found.append(_partitioning(work, column))
    for work, values in (("100 B each", same), ("JSON of 80 to 400 B", json_values)):
        found.append(_digesting(work, keys, values))
    return [*found, _hashing(long_keys)]


def _json(chance: random.Random) -> bytes:
    event = {"id": chance.randrange(1 << 40), "page": "/p" * chance.randrange(1, 30)}
    event["note"] = "x" * chance.randrange(10, 260)
    return json.dumps(event).encode()


def _row(work: str, action: Callable[[], object]) -> Row:
    ours, peer = beside_pure_python(lambda: _seconds(action), ROUNDS)
    scale = 1e9 / RECORDS
    return Row(f"{work}, per record", ours * scale, None if peer is None else peer * scale, "ns")


def _seconds(action: Callable[[], object]) -> float:
    began = time.process_time()
    action()
    return time.process_time() - began


def _all(things: Iterable[Any]) -> None:
    for _ in things:
        pass


def _partitions(table: columnar_encode.Rows) -> Any:
    return np.arange(len(table.values)) % PARTITIONS


def _decoding(work: str, table: columnar_encode.Rows, has_headers: bool) -> Row:
    one_partition = np.zeros(len(table.values), np.int64)
    batches = columnar_encode.encode(table, one_partition)
    data = bytearray(b"".join(columnar_encode.seal(batch) for batch in batches))
    # As they stand in a log, one behind the other.
    offset = 0
    for header, view in iter_batches(data):
        view[:8] = offset.to_bytes(8, "big")
        offset += header.record_count

    def decode() -> None:
        scanned = columnar.scan(data, 0, offset, check_crcs=False)
        of = {"topic": "events", "partition": 0, "start": 0, "end": offset}
        _all(columnar.decode(scanned.batches, include_headers=has_headers, **of))  # type: ignore[arg-type]

    return _row(f"records to columns: {work}", decode)


def _encoding(work: str, table: columnar_encode.Rows) -> Row:
    partitions = _partitions(table)
    return _row(
        f"columns to records: {work}", lambda: _all(columnar_encode.encode(table, partitions))
    )


def _partitioning(work: str, keys: pa.Array) -> Row:
    return _row(f"keys to partitions: {work}", lambda: partitions_of(keys, len(keys), 7, 0))


def _digesting(work: str, keys: pa.Array, values: list[bytes]) -> Row:
    rows = pa.record_batch({"key": keys, "value": pa.array(values, pa.binary())})
    asked = {"with_topic": False, "with_timestamp": False}
    return _row(f"digest of rows: {work}", lambda: digest_of(rows, **asked))


def _hashing(keys: pa.Array) -> Row:
    """Megabytes in a second, of a few long keys; the goal is that of native code."""
    ours, peer = beside_pure_python(lambda: _seconds(lambda: partitions_of(keys, 3, 7, 0)), 3)
    megabytes = LONG_KEYS * LONG_KEY_BYTES / 1e6
    is_judged = native.code is not None
    return Row(
        f"murmur2 of {LONG_KEYS} keys of 1 MiB",
        megabytes / ours,
        None if peer is None else megabytes / peer,
        "MB/s",
        goal=f"at least {HASH_AT_LEAST_MB_S} MB/s" if is_judged else "",
        holds=megabytes / ours >= HASH_AT_LEAST_MB_S if is_judged else None,
        higher_is_better=True,
    )
