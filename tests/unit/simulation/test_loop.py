"""Virtual time, processes that die and freeze, and a loop that notices when it is stuck."""

from __future__ import annotations

import asyncio
import time

import pytest

from ottla.simulation.loop import Process, SimulationLoop, SimulationStuck, current_process, run


def test_time_jumps_to_the_next_timer() -> None:
    loop = SimulationLoop("1")

    async def wait() -> list[float]:
        seen = []
        for delay_s in (3600.0, 0.5, 86_400.0):
            await asyncio.sleep(delay_s)
            seen.append(loop.time())
        return seen

    begun = time.monotonic()
    assert run(loop, wait()) == [3600.0, 3600.5, 90_000.5]
    assert time.monotonic() - begun < 1


def test_timers_of_one_moment_run_in_the_order_they_were_due() -> None:
    loop = SimulationLoop("1")
    seen: list[int] = []

    async def wait() -> None:
        for number, delay_s in enumerate((0.3, 0.1, 0.2)):
            loop.call_later(delay_s, seen.append, number)
        loop.call_later(0.15, seen.append, 9).cancel()
        await asyncio.sleep(1)

    run(loop, wait())
    assert seen == [1, 2, 0]


def test_waiting_for_nothing_is_an_error() -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    with pytest.raises(SimulationStuck, match="no timer"):
        run(SimulationLoop("1"), wait())


def test_an_instant_that_never_ends_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.simulation.loop.MAX_CALLBACKS_PER_INSTANT", 1000)

    async def spin() -> None:
        for _ in range(1_000_000):
            await asyncio.sleep(0)

    with pytest.raises(SimulationStuck, match="stands still"):
        run(SimulationLoop("1"), spin())


async def _count(seen: list[tuple[str, float]]) -> None:
    process = current_process()
    assert process is not None
    while True:
        await asyncio.sleep(1)
        seen.append((process.name, asyncio.get_running_loop().time()))


def test_a_killed_process_does_nothing_more_not_even_its_clean_up() -> None:
    loop = SimulationLoop("1")
    seen: list[tuple[str, float]] = []
    cleaned: list[str] = []

    async def tidy() -> None:
        try:
            await asyncio.create_task(_count(seen))
        finally:
            cleaned.append("up")

    async def story() -> list[str]:
        victim, other = Process("victim"), Process("other")
        loop.spawn(victim, tidy())
        loop.spawn(other, _count(seen))
        await asyncio.sleep(2.5)
        victim.alive = False
        await asyncio.sleep(2)
        return list(cleaned)

    assert run(loop, story()) == []
    assert [at for name, at in seen if name == "victim"] == [1.0, 2.0]
    assert [at for name, at in seen if name == "other"] == [1.0, 2.0, 3.0, 4.0]


def test_a_paused_process_goes_on_where_it_was() -> None:
    loop = SimulationLoop("1")
    seen: list[tuple[str, float]] = []

    async def story() -> None:
        process = Process("sleepy")
        loop.spawn(process, _count(seen))
        await asyncio.sleep(1.5)
        loop.pause(process)
        await asyncio.sleep(10)
        assert process.paused
        loop.resume(process)
        await asyncio.sleep(1.1)

    run(loop, story())
    assert [at for _, at in seen] == [1.0, 11.5, 12.5]


def test_work_on_the_executor_takes_virtual_time_and_hands_errors_on() -> None:
    loop = SimulationLoop("1")

    def fail() -> None:
        raise OSError("full")

    async def story() -> tuple[int, float]:
        result = await loop.run_in_executor(None, lambda: 7)
        with pytest.raises(OSError, match="full"):
            await loop.run_in_executor(None, fail)
        return result, loop.time()

    result, now = run(loop, story())
    assert result == 7 and 0 < now < 1


def test_sets_of_tasks_and_futures_keep_their_order() -> None:
    loop = SimulationLoop("1")

    async def story() -> bool:
        tasks = [loop.create_task(asyncio.sleep(1)) for _ in range(200)]
        futures = [loop.create_future() for _ in range(200)]
        return list(set(tasks)) == tasks and list(set(futures)) == futures

    assert run(loop, story())
