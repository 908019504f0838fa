"""Items that are made ahead of whoever takes them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator

import pytest

from ottla.spark.loop_thread import LoopClosed, LoopThread
from ottla.spark.source.read_ahead import NothingCame, ReadAhead

WAIT_S = 30


class Numbers:
    """0, 1, 2, …, and which of them was begun last."""

    def __init__(self, count: int, error: Exception | None = None) -> None:
        self.count, self.error = count, error
        self.begun = -1
        self.changed = threading.Condition()
        self.ended = threading.Event()

    async def make(self) -> AsyncGenerator[int, None]:
        try:
            for number in range(self.count):
                with self.changed:
                    self.begun = number
                    self.changed.notify_all()
                await asyncio.sleep(0)
                yield number
            if self.error is not None:
                raise self.error
        finally:
            self.ended.set()

    def wait_until_begun(self, number: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.begun >= number, WAIT_S)


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_two_are_made_ahead_and_no_more(thread: LoopThread) -> None:
    numbers = Numbers(10)
    ahead: ReadAhead[int] = ReadAhead(thread, 2)
    ahead.begin(numbers.make())
    numbers.wait_until_begun(1)
    for taken in range(8):
        assert ahead.take(WAIT_S) == taken
        numbers.wait_until_begun(taken + 2)
        thread.result(thread.begin(turns(20)))
        assert numbers.begun == taken + 2
    assert [ahead.take(WAIT_S) for _ in range(3)] == [8, 9, None]


def test_what_ends_the_work_comes_after_what_was_made(thread: LoopThread) -> None:
    numbers = Numbers(2, ConnectionResetError("gone"))
    ahead: ReadAhead[int] = ReadAhead(thread, 2)
    ahead.begin(numbers.make())
    assert [ahead.take(WAIT_S), ahead.take(WAIT_S)] == [0, 1]
    with pytest.raises(ConnectionResetError, match="gone"):
        ahead.take(WAIT_S)


def test_a_wait_has_an_end_and_the_work_goes_on(thread: LoopThread) -> None:
    go = asyncio.Event()

    async def late() -> AsyncGenerator[int, None]:
        await go.wait()
        yield 7

    ahead: ReadAhead[int] = ReadAhead(thread, 2)
    ahead.begin(late())
    with pytest.raises(NothingCame):
        ahead.take(0.001)
    thread.call(go.set)
    assert ahead.take(WAIT_S) == 7


@pytest.mark.parametrize("taken", [0, 1])
def test_what_is_not_wanted_any_more_ends(thread: LoopThread, taken: int) -> None:
    numbers = Numbers(10)
    ahead: ReadAhead[int] = ReadAhead(thread, 2)
    ahead.begin(numbers.make())
    numbers.wait_until_begun(1)
    for _ in range(taken):
        ahead.take(WAIT_S)
    ahead.close()
    assert numbers.ended.wait(WAIT_S)


def test_a_closed_client_is_no_reason_to_wait(thread: LoopThread) -> None:
    async def never() -> AsyncGenerator[int, None]:
        await asyncio.get_running_loop().create_future()
        yield 1

    ahead: ReadAhead[int] = ReadAhead(thread, 2)
    ahead.begin(never())
    thread.close()
    with pytest.raises(LoopClosed):
        ahead.take(WAIT_S)
