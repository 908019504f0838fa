from __future__ import annotations

import asyncio

import pytest

from ottla.console.topic_numbers import Remembered


def test_all_who_ask_at_once_share_one_answer() -> None:
    taken = []

    async def take() -> int:
        taken.append(1)
        await asyncio.sleep(0)
        return len(taken)

    async def run() -> list[int]:
        remembered = Remembered(take, 60.0)
        together = await asyncio.gather(*(remembered.get() for _ in range(5)))
        return [*together, await remembered.get()]

    assert asyncio.run(run()) == [1] * 6


def test_an_old_answer_is_asked_for_again() -> None:
    taken = []

    async def take() -> int:
        taken.append(1)
        return len(taken)

    async def run() -> list[int]:
        remembered = Remembered(take, 0.0)
        first = await remembered.get()
        second = first
        while second == first:  # it is young for 100 times as long as it took
            second = await remembered.get()
            await asyncio.sleep(0)
        return [first, second]

    assert asyncio.run(run()) == [1, 2]


def test_a_failure_is_not_remembered() -> None:
    taken = []

    async def take() -> int:
        taken.append(1)
        if len(taken) == 1:
            raise ConnectionError("gone")
        return len(taken)

    async def run() -> int:
        remembered = Remembered(take, 60.0)
        with pytest.raises(ConnectionError):
            await remembered.get()
        return await remembered.get()

    assert asyncio.run(run()) == 2


def test_one_who_leaves_does_not_take_the_answer_along() -> None:
    async def run() -> int:
        gate = asyncio.Event()

        async def take() -> int:
            await gate.wait()
            return 7

        remembered = Remembered(take, 60.0)
        leaving = asyncio.ensure_future(remembered.get())
        staying = asyncio.ensure_future(remembered.get())
        await asyncio.sleep(0)
        leaving.cancel()
        gate.set()
        return await staying

    assert asyncio.run(run()) == 7
