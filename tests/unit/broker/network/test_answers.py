"""Answers leave in the order of their requests, together where they can."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import Any, cast

import pytest

from ottla.broker.network.answers import (
    MAX_PARKED,
    PIECE_BYTES,
    TIGHT_PIECE_BYTES,
    WRITE_TOGETHER_BYTES,
    Answers,
)
from ottla.broker.network.memory import ConnectionMemory
from ottla.broker.requests.parked import Parked
from ottla.storage.segment.slices import RecordSlice


class Transport:
    def __init__(self) -> None:
        self.writes: list[bytes] = []
        # How many more writes it takes; None: all.
        self.takes: int | None = None
        self.on_full: Callable[[], None] | None = None
        self.aborted = False

    def writelines(self, chunks: Any) -> None:
        self.writes.append(b"".join(chunks))
        if self.takes is not None:
            self.takes -= 1
            if not self.takes and self.on_full is not None:
                self.on_full()

    def abort(self) -> None:
        self.aborted = True

    def get_extra_info(self, name: str) -> None:
        """No socket."""


class HandClock:
    def __init__(self) -> None:
        self.now_ms = 0.0
        # How much later each look finds it.
        self.step_ms = 0.0

    def monotonic_ms(self) -> float:
        self.now_ms += self.step_ms
        return self.now_ms


class Rig:
    def __init__(self) -> None:
        self.left = 0
        self.clock = HandClock()
        self.transport = Transport()
        self.memory = ConnectionMemory(1 << 30)
        self.answers = Answers(self.note, self.clock.monotonic_ms, self.memory)
        self.answers.open(cast("Any", self.transport), asyncio.get_running_loop())

    def note(self) -> None:
        self.left += 1


@pytest.fixture
async def rig() -> Rig:
    return Rig()


async def test_what_is_gathered_leaves_with_one_write(rig: Rig) -> None:
    rig.answers.gathering = True
    rig.answers.write([b"a"])
    rig.answers.send([b"b", b"", b"c"])
    assert rig.transport.writes == []
    rig.answers.gathering = False
    rig.answers.flush()
    assert rig.transport.writes == [b"abc"]
    rig.answers.write([b"d"])
    assert rig.transport.writes[1:] == [b"d"], "nothing more is expected: at once"


async def test_much_does_not_wait_for_more(rig: Rig) -> None:
    rig.answers.gathering = True
    rig.answers.write([bytes(WRITE_TOGETHER_BYTES), b"x"])
    assert [len(written) for written in rig.transport.writes] == [WRITE_TOGETHER_BYTES + 1]


async def test_whatever_comes_after_a_parked_answer_waits_for_it(rig: Rig) -> None:
    first, second = Parked(), Parked()
    rig.answers.send([first, second])
    rig.answers.send([b"c"])
    assert rig.answers.room == MAX_PARKED - 3
    second.ready([b"b"])
    await asyncio.sleep(0)
    assert rig.transport.writes == [] and rig.left == 1
    first.ready([b"a"])
    assert rig.transport.writes == [], "whoever made it ready goes on first"
    await asyncio.sleep(0)
    assert rig.transport.writes == [b"abc"] and rig.left == 2
    assert not rig.answers.parked


async def test_one_that_is_ready_already_is_not_parked(rig: Rig) -> None:
    ready = Parked()
    ready.ready([b"a"])
    rig.answers.send([ready])
    assert rig.transport.writes == [b"a"] and not rig.answers.parked


async def test_after_the_end_nothing_is_written(rig: Rig) -> None:
    waits = Parked()
    rig.answers.send([waits])
    rig.answers.gathering = True
    rig.answers.write([b"x"])
    rig.answers.stop()
    assert rig.answers.parked, "whoever asks is still told that a request is under way"
    waits.ready([b"a"])
    rig.answers.forget()
    await asyncio.sleep(0)
    rig.answers.flush()
    assert rig.transport.writes == [] and rig.left == 0


async def test_a_connection_that_is_gone_does_not_wait_for_the_collector() -> None:
    gc.disable()
    try:
        rig = Rig()
        rig.answers.forget()
        gone = weakref.ref(rig)
        del rig
        assert gone() is None
    finally:
        gc.enable()


class Part:
    """A file with records, as a slice sees it."""

    def __init__(self, data: bytes) -> None:
        self.cuts = 0
        self.data = data
        self.read_bytes = 0

    def records(self, position: int, size: int) -> Any:
        return self

    def read_at(self, size: int, position: int) -> bytes:
        self.read_bytes += size
        return self.data[position : position + size]


SIZE = 10 * PIECE_BYTES + 77


def large_answer() -> tuple[Part, list[Any], bytes]:
    part = Part(bytes(range(256)) * (SIZE // 256 + 1))
    head, middle, end = b"head", memoryview(b"middle" * 1000), b"end"
    first, second = RecordSlice(part, 5, SIZE), RecordSlice(part, 0, 2000)
    whole = b"".join((head, part.data[5 : SIZE + 5], middle, part.data[:2000], end))
    return part, [head, first, middle, second, end], whole


async def test_records_are_read_as_the_socket_takes_them(rig: Rig) -> None:
    part, answer, whole = large_answer()
    rig.transport.takes = 3
    rig.transport.on_full = lambda: rig.answers.transport_is_full(1.0)
    rig.answers.write(answer)
    assert rig.answers.is_blocked and rig.answers.blocked_since == 1.0
    assert part.read_bytes < 3 * PIECE_BYTES
    assert rig.answers.rest_bytes == 6000 + len(b"end")
    # One that comes after it waits for it.
    rig.answers.write([b"next"])
    while rig.answers.is_blocked:
        rig.transport.takes = 2
        rig.answers.transport_has_room()
    assert b"".join(rig.transport.writes) == whole + b"next"
    assert rig.answers.rest_bytes == 0
    assert max(map(len, rig.transport.writes)) <= PIECE_BYTES


async def test_a_fast_peer_does_not_keep_the_others_waiting(rig: Rig) -> None:
    _, answer, whole = large_answer()
    rig.clock.step_ms = 2.0
    rig.answers.write(answer)
    assert rig.answers.is_blocked, "its next request waits for the rest of this answer"
    turns = 0
    while not rig.left:
        assert len(rig.transport.writes) <= (turns + 1) * 3
        await asyncio.sleep(0)
        turns += 1
    assert turns > 2 and not rig.answers.is_blocked
    assert b"".join(rig.transport.writes) == whole


async def test_less_at_a_time_where_memory_is_tight(rig: Rig) -> None:
    _, answer, whole = large_answer()
    rig.memory.used = 1 << 29
    rig.answers.write(answer)
    assert max(map(len, rig.transport.writes)) <= TIGHT_PIECE_BYTES
    assert b"".join(rig.transport.writes) == whole


async def test_records_that_are_gone_end_the_connection(rig: Rig) -> None:
    part, answer, whole = large_answer()
    rig.transport.takes = 3
    rig.transport.on_full = lambda: rig.answers.transport_is_full(1.0)
    rig.answers.write(answer)
    part.cuts += 1
    rig.answers.transport_has_room()
    assert rig.transport.aborted
    sent = b"".join(rig.transport.writes)
    assert whole.startswith(sent) and len(sent) < len(whole)
    rig.answers.write([b"next"])
    assert b"".join(rig.transport.writes) == sent
