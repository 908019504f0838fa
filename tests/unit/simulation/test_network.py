"""Transports in memory: order, flow control, cuts, resets, crashes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from ottla.simulation.loop import Process, SimulationLoop, run
from ottla.simulation.network import HostNetwork, SimNetwork
from ottla.simulation.trace import Trace


class Recorder(asyncio.Protocol):
    def __init__(self) -> None:
        self.received = b""
        self.lost: list[Exception | None] = []
        self.writable = True
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True


class World:
    def __init__(self) -> None:
        self.loop = SimulationLoop("seed")
        self.trace = Trace(self.loop.time, keep=True)
        self.network = SimNetwork(self.loop, "seed", self.trace)
        self.processes = {name: Process(name) for name in ("a", "b")}
        self.served: list[Recorder] = []

    def at(self, name: str) -> HostNetwork:
        return HostNetwork(self.network, name, self.processes[name])

    def serve(self) -> Recorder:
        self.served.append(Recorder())
        return self.served[-1]

    async def connect(self) -> tuple[Recorder, Recorder]:
        if ("b", 9) not in self.network.listeners:
            await self.at("b").listen(self.serve, "b", 9)
        _, protocol = await self.at("a").connect(Recorder, "b", 9)
        await asyncio.sleep(1)
        assert isinstance(protocol, Recorder)
        return protocol, self.served[-1]

    def run(self, story: Coroutine[Any, Any, None]) -> None:
        run(self.loop, story)


@pytest.fixture
def world() -> World:
    return World()


def test_bytes_arrive_in_order_and_later(world: World) -> None:
    async def story() -> None:
        near, far = await world.connect()
        assert near.transport.get_extra_info("peername") == ("b", 9)
        assert far.transport.get_extra_info("peername")[0] == "a"
        expected = b""
        for number in range(300):
            chunk = str(number).encode() * 3
            near.transport.writelines([chunk, memoryview(b"|")])
            expected += chunk + b"|"
        assert far.received == b""
        await asyncio.sleep(30)
        assert far.received == expected

    world.run(story())


def test_refused_where_nobody_listens(world: World) -> None:
    async def story() -> None:
        with pytest.raises(ConnectionRefusedError):
            await world.at("a").connect(Recorder, "b", 9)
        server = await world.at("b").listen(world.serve, "b", 9)
        with pytest.raises(OSError, match="in use"):
            await world.at("b").listen(world.serve, "b", 9)
        await server.close()
        with pytest.raises(ConnectionRefusedError):
            await world.at("a").connect(Recorder, "b", 9)

    world.run(story())


def test_a_cut_holds_bytes_back_until_it_heals(world: World) -> None:
    async def story() -> None:
        near, far = await world.connect()
        world.network.cut("a", "b")
        near.transport.write(b"there")
        far.transport.write(b"back")
        await asyncio.sleep(60)
        assert (far.received, near.received) == (b"", b"back")
        world.network.heal("a", "b")
        await asyncio.sleep(1)
        assert far.received == b"there"

    world.run(story())


def test_connecting_over_a_cut_waits_and_then_times_out(world: World) -> None:
    async def story() -> None:
        await world.connect()
        world.network.cut("b", "a")
        with pytest.raises(TimeoutError):
            await world.at("a").connect(Recorder, "b", 9)
        assert world.loop.time() > 60
        attempt = asyncio.ensure_future(world.at("a").connect(Recorder, "b", 9))
        await asyncio.sleep(2)
        world.network.heal_all()
        await attempt

    world.run(story())


def test_close_delivers_what_was_written_and_abort_does_not(world: World) -> None:
    async def story() -> None:
        near, far = await world.connect()
        near.transport.write(b"last words")
        near.transport.close()
        near.transport.write(b"too late")
        await asyncio.sleep(1)
        assert far.received == b"last words"
        assert near.lost == [None] and far.lost == [None]
        near, far = await world.connect()
        near.transport.write(b"never mind")
        near.transport.abort()
        await asyncio.sleep(1)
        assert far.received == b"" and near.lost == [None]
        assert isinstance(far.lost[0], ConnectionResetError)
        assert world.network.transports == {}

    world.run(story())


def test_a_slow_reader_pauses_the_writer(world: World) -> None:
    async def story() -> None:
        near, far = await world.connect()
        far.transport.pause_reading()
        near.transport.write(bytes(70_000))
        assert not near.writable and near.transport.get_write_buffer_size() == 70_000
        await asyncio.sleep(5)
        assert far.received == b""
        far.transport.resume_reading()
        await asyncio.sleep(5)
        assert len(far.received) == 70_000 and near.writable

    world.run(story())


def test_a_dead_process_is_noticed_unless_the_whole_host_went_dark(world: World) -> None:
    async def story() -> None:
        near, _ = await world.connect()
        victim = world.processes["b"]
        victim.alive = False
        world.network.end_process(victim, silently=False)
        await asyncio.sleep(1)
        assert len(near.lost) == 1
        with pytest.raises(ConnectionRefusedError):
            await world.at("a").connect(Recorder, "b", 9)
        world.processes["b"] = Process("b")
        near, _ = await world.connect()
        world.processes["b"].alive = False
        world.network.end_process(world.processes["b"], silently=True)
        world.network.dark.add("b")
        near.transport.write(b"anybody there?")
        await asyncio.sleep(60)
        assert near.lost == []

    world.run(story())


def test_a_reset_ends_both_sides(world: World) -> None:
    async def story() -> None:
        near, far = await world.connect()
        near.transport.write(b"lost")
        world.network.reset_connections("a", "b")
        await asyncio.sleep(1)
        assert far.received == b""
        assert isinstance(near.lost[0], ConnectionResetError)
        assert isinstance(far.lost[0], ConnectionResetError)

    world.run(story())
