"""The turns of a process whose work takes time: order, duration, pauses and the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.simulation.loop import Process, SimulationLoop, run
from ottla.simulation.scenario import SocketPlan
from ottla.simulation.turns import Turns


class World:
    def __init__(self, events: int = 1024) -> None:
        self.loop = SimulationLoop("seed")
        self.process = Process("broker")
        plan = SocketPlan(events=events, read_us=(1000, 1000), callback_us=(100, 100))
        self.turns = self.process.turns = Turns(self.loop, self.process, plan, "seed")
        self.seen: list[tuple[str, float]] = []

    def note(self, name: str) -> None:
        self.seen.append((name, round(self.loop.time() * 1000, 6)))

    def handle(self, callback: Callable[..., object], *args: Any) -> asyncio.Handle:
        return asyncio.Handle(callback, args, self.loop, self.process.context)

    def call_soon(self, callback: Callable[..., object], *args: Any) -> asyncio.Handle:
        return self.loop.call_soon(callback, *args, context=self.process.context)

    @property
    def names(self) -> str:
        return " ".join(name for name, _ in self.seen)

    def run(self, story: Coroutine[Any, Any, None]) -> None:
        run(self.loop, story)


@pytest.fixture
def world() -> World:
    return World()


def test_each_thing_begins_when_the_one_before_has_had_its_time(world: World) -> None:
    async def story() -> None:
        for name in ("one", "two", "three"):
            world.call_soon(world.note, name)
        world.turns.readable(world.handle(world.note, "read"))
        await asyncio.sleep(1)
        assert world.loop.time() == 1  # nobody else pays for it

    world.run(story())
    assert world.seen == [("one", 0.1), ("two", 0.2), ("three", 0.3), ("read", 1.3)]


def test_time_goes_on_within_a_callback(world: World) -> None:
    def work() -> None:
        world.note("began")
        world.loop.spend(0.005)
        world.note("ended")
        world.loop.call_later(0.001, world.note, "timer")
        world.call_soon(world.note, "next")

    async def story() -> None:
        world.call_soon(work)
        await asyncio.sleep(1)

    world.run(story())
    # The timer was set at 5.1 ms.
    assert world.seen == [("began", 0.1), ("ended", 5.1), ("next", 5.2), ("timer", 6.2)]


def test_what_is_ready_waits_for_the_sockets_that_were_found_readable(world: World) -> None:
    async def story() -> None:
        world.turns.readable(world.handle(lambda: world.call_soon(world.note, "callback")))
        for number in range(5):
            world.turns.readable(world.handle(world.note, str(number)))
        await asyncio.sleep(1)

    world.run(story())
    assert world.names == "0 1 2 3 4 callback"


def test_where_enough_are_readable_libuv_asks_again_48_times() -> None:
    world = World(events=2)

    def read(number: int) -> None:
        world.note("r")
        world.turns.readable(world.handle(read, number))

    async def story() -> None:
        for number in range(3):
            world.turns.readable(world.handle(read, number))
        await asyncio.sleep(0.0005)
        world.call_soon(world.note, "callback")
        await asyncio.sleep(0.2)
        world.process.alive = False

    world.run(story())
    assert world.names.startswith("r " * (2 * 48) + "callback r")


def test_a_paused_process_goes_on_where_it_was_and_a_killed_one_never(world: World) -> None:
    async def story() -> None:
        world.call_soon(world.note, "before")
        await asyncio.sleep(1)
        world.loop.pause(world.process)
        world.call_soon(world.note, "callback")
        world.turns.readable(world.handle(world.note, "read"))
        await asyncio.sleep(1)
        assert world.names == "before"
        world.loop.resume(world.process)
        await asyncio.sleep(1)
        world.call_soon(world.note, "never")
        world.process.alive = False
        await asyncio.sleep(1)

    world.run(story())
    assert sorted(world.names.split()) == ["before", "callback", "read"]


def test_what_was_cancelled_costs_nothing(world: World) -> None:
    async def story() -> None:
        cancelled = world.call_soon(world.note, "cancelled")
        world.call_soon(world.note, "kept")
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.sleep(1)

    world.run(story())
    assert world.seen == [("kept", 0.1)]


def test_tasks_of_the_process_have_their_time_as_well(world: World) -> None:
    async def work() -> None:
        for _ in range(3):
            world.note("step")
            await asyncio.sleep(0)

    async def story() -> None:
        await world.loop.spawn(world.process, work())

    world.run(story())
    assert world.seen == [("step", 0.1), ("step", 0.2), ("step", 0.3)]
