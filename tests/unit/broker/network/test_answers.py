"""Answers leave in the order of their requests, together where they can."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any, cast

import pytest

from ottla.broker.network.answers import MAX_PARKED, WRITE_TOGETHER_BYTES, Answers
from ottla.broker.requests.parked import Parked


class Transport:
    def __init__(self) -> None:
        self.writes: list[bytes] = []

    def writelines(self, chunks: Any) -> None:
        self.writes.append(b"".join(chunks))


class Rig:
    def __init__(self) -> None:
        self.left = 0
        self.transport = Transport()
        self.answers = Answers(self.note)
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
