from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from ottla.bounds.turns import Turns


class _Now:
    """A loop's clock that moves by a step whenever somebody looks at it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, step_s: float) -> None:
        self._s = 0.0
        self._step_s = step_s
        monkeypatch.setattr(asyncio.get_running_loop(), "time", self._next, raising=False)

    def _next(self) -> float:
        self._s += self._step_s
        return self._s


async def _count_rounds(counts: list[int]) -> None:
    while True:
        counts[0] += 1
        await asyncio.sleep(0)


async def test_a_short_loop_gives_nothing_away() -> None:
    turns = Turns(turn_s=3600)
    counts = [0]
    beside = asyncio.create_task(_count_rounds(counts))
    assert [item async for item in turns.each(range(1000))] == list(range(1000))
    assert counts == [0]
    beside.cancel()


async def test_others_run_while_a_long_loop_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(turn_s=0.01)
    counts = [0]
    beside = asyncio.create_task(_count_rounds(counts))
    _Now(monkeypatch, 0.002)
    assert [item async for item in turns.each(range(100))] == list(range(100))
    assert counts[0] >= 20
    beside.cancel()


async def test_long_loops_have_one_turn_per_round_together() -> None:
    turns = Turns(turn_s=0.0)
    steps: list[int] = []
    rounds = [0]
    beside = asyncio.create_task(_count_rounds(rounds))

    async def loop_over(count: int) -> None:
        async for _ in turns.each(range(count)):
            steps.append(rounds[0])

    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(loop_over(10))
    beside.cancel()
    # After the first steps, which all take before they know of each other, one in each round.
    later = steps[20:]
    assert len(later) == 180
    assert max(later.count(number) for number in set(later)) <= 2


async def test_one_that_is_cancelled_while_it_waits_holds_up_nobody() -> None:
    turns = Turns(turn_s=0.0)
    gone = asyncio.create_task(turns.give())
    stays = asyncio.create_task(turns.give())
    await asyncio.sleep(0)
    gone.cancel()
    async with asyncio.timeout(30):
        await stays
        await turns.give()
    assert gone.cancelled()


def _sum_of(numbers: int, *, fails: bool = False) -> Generator[None, None, int]:
    total = 0
    for number in range(numbers):
        total += number
        yield
    if fails:
        raise ValueError("at the end")
    return total


async def test_work_that_is_quick_is_done_in_its_first_turn() -> None:
    work = Turns(turn_s=3600).start(_sum_of(1000))
    assert work.is_done
    assert work.result == 499_500


async def test_work_that_is_long_is_finished_in_turns() -> None:
    turns = Turns(turn_s=0.0)
    counts = [0]
    beside = asyncio.create_task(_count_rounds(counts))
    work = turns.start(_sum_of(100))
    assert not work.is_done
    assert await turns.finish(work) == 4950
    assert counts[0] >= 90
    beside.cancel()


async def test_what_work_raises_comes_out() -> None:
    turns = Turns(turn_s=0.0)
    with pytest.raises(ValueError, match="at the end"):
        await turns.finish(turns.start(_sum_of(3, fails=True)))
