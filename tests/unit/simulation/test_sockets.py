"""Listening sockets with queues: who waits, who is dropped, and what becomes of them."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla import accepting
from ottla.accepting import FEWEST_PER_TURN
from ottla.simulation.loop import Process, SimulationLoop, run
from ottla.simulation.network import HostNetwork, SimNetwork
from ottla.simulation.scenario import SocketPlan
from ottla.simulation.sockets import ListeningSocket
from ottla.simulation.trace import Trace


class Peer(asyncio.Protocol):
    def __init__(self) -> None:
        self.transport: Any = None
        self.heard = b""
        self.lost: Exception | str = "not lost"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.heard += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = exc or "closed"


class Greeter(Peer):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.write(b"hello")


class World:
    def __init__(self, backlog: int) -> None:
        self.loop = SimulationLoop("seed")
        self.trace = Trace(self.loop.time, keep=True)
        self.network = SimNetwork(self.loop, "seed", self.trace, SocketPlan(backlog=backlog))
        self.server = Process("server")
        self.client = Process("client")
        self.served: list[Greeter] = []

    def serve(self) -> Greeter:
        self.served.append(Greeter())
        return self.served[-1]

    async def listen(self) -> Any:
        return await HostNetwork(self.network, "server", self.server).listen(
            self.serve, "server", 9
        )

    @property
    def listening(self) -> ListeningSocket:
        found = self.network.listeners["server", 9]
        assert isinstance(found, ListeningSocket)
        return found

    async def connect(self, protocol: Callable[[], Peer] = Peer) -> Peer:
        host = HostNetwork(self.network, "client", self.client)
        _, peer = await host.connect(protocol, "server", 9)
        assert isinstance(peer, Peer)
        return peer

    async def connect_many(self, count: int) -> list[asyncio.Task[Peer]]:
        """Begun at once, with time for those who find room."""
        begun = [self.loop.spawn(self.client, self.connect()) for _ in range(count)]
        await asyncio.sleep(0.5)
        return begun

    def dropped(self) -> list[float]:
        return [float(line.split()[0]) for line in self.trace.lines if " dropped " in line]

    def run(self, story: Coroutine[Any, Any, None]) -> None:
        run(self.loop, story)


def test_who_finds_the_queue_full_comes_again_later() -> None:
    world = World(backlog=3)

    async def story() -> None:
        await world.listen()
        world.loop.pause(world.server)
        begun = await world.connect_many(4)
        assert [task.done() for task in begun].count(False) == 1
        await asyncio.sleep(6)
        world.loop.resume(world.server)
        await asyncio.wait(begun)
        await asyncio.sleep(0.5)
        assert all(task.result().heard == b"hello" for task in begun)

    world.run(story())
    # Linux waits one second, then two, then four.
    first, second, third = world.dropped()
    assert second - first == pytest.approx(1, abs=0.2)
    assert third - second == pytest.approx(2, abs=0.2)


def test_who_comes_to_a_full_queue_for_too_long_gives_up() -> None:
    world = World(backlog=0)

    async def story() -> None:
        await world.listen()
        with pytest.raises(TimeoutError):
            await world.connect()

    world.run(story())
    assert len(world.dropped()) == 6


def test_those_who_came_first_are_served_first() -> None:
    world = World(backlog=100)

    async def story() -> None:
        await world.listen()
        world.loop.pause(world.server)
        begun = await world.connect_many(20)
        world.loop.resume(world.server)
        await asyncio.sleep(0.5)
        places = [peer.transport.get_extra_info("peername") for peer in world.served]
        # Ports are given in the order in which connections are made.
        assert len(places) == 20 and places == sorted(places)
        assert all(task.result().heard == b"hello" for task in begun)

    world.run(story())


def test_bytes_sent_before_the_connection_is_accepted_wait_for_it() -> None:
    world = World(backlog=100)

    async def story() -> None:
        await world.listen()
        world.loop.pause(world.server)
        peer = await world.connect()
        peer.transport.write(b"early")
        await asyncio.sleep(5)
        world.loop.resume(world.server)
        await asyncio.sleep(0.5)
        assert (world.served[0].heard, peer.heard) == (b"early", b"hello")

    world.run(story())


def test_a_closed_listener_refuses_and_resets_who_waited() -> None:
    world = World(backlog=100)

    async def story() -> None:
        server = await world.listen()
        assert server.port == 9
        listening = world.listening
        with pytest.raises(OSError, match="in use"):
            await world.listen()
        world.loop.remove_reader(listening)
        waiting = await world.connect()
        await server.close()
        await server.close()
        await asyncio.sleep(0.5)
        assert isinstance(waiting.lost, ConnectionResetError)
        assert not world.served and listening.fileno() == -1
        with pytest.raises(OSError, match="Bad file") as caught:
            listening.accept()
        assert caught.value.errno == errno.EBADF
        with pytest.raises(ConnectionRefusedError):
            await world.connect()

    world.run(story())


@pytest.mark.parametrize("silently", [False, True])
def test_who_waits_when_the_process_is_killed(silently: bool) -> None:
    """Reset by its kernel; without power nobody is told."""
    world = World(backlog=100)

    async def story() -> None:
        await world.listen()
        served = await world.connect()
        await asyncio.sleep(0.5)
        world.loop.remove_reader(world.listening)
        waiting = await world.connect()
        world.server.alive = False
        world.network.end_process(world.server, silently=silently)
        await asyncio.sleep(0.5)
        if silently:
            assert (served.lost, waiting.lost) == ("not lost", "not lost")
        else:
            assert served.lost != "not lost"
            assert isinstance(waiting.lost, ConnectionResetError)
        with pytest.raises(ConnectionRefusedError):
            await world.connect()

    world.run(story())


def test_the_acceptor_of_production_accepts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many in a turn as it says, no more."""
    world = World(backlog=1000)
    turns: list[int] = []
    original = accepting.Acceptor._accept

    def counted(self: accepting.Acceptor, listening: Any) -> None:
        before = len(listening._queue)
        original(self, listening)
        turns.append(before - len(listening._queue))

    monkeypatch.setattr(accepting.Acceptor, "_accept", counted)

    async def story() -> None:
        await world.listen()
        world.loop.pause(world.server)
        await world.connect_many(3 * FEWEST_PER_TURN)
        monkeypatch.setattr(accepting, "allowed_now", lambda _: FEWEST_PER_TURN)
        world.loop.resume(world.server)
        await asyncio.sleep(0.5)

    world.run(story())
    assert turns == [FEWEST_PER_TURN] * 3 and len(world.served) == sum(turns)


def test_a_simulated_process_does_not_wait_for_a_socket() -> None:
    world = World(backlog=1)

    async def story() -> None:
        await world.listen()
        with pytest.raises(BlockingIOError):
            world.listening.accept()
        with pytest.raises(OSError, match="must not wait"):
            world.listening.setblocking(True)

    world.run(story())
