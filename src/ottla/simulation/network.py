"""A network in memory between named hosts: seeded delays, cuts, slow links, resets.

Each direction of a connection is a pipe that keeps its order; different pipes overtake each
other. A cut link holds bytes back, as TCP sends them again when it heals. `HostNetwork` is the
Network port as one process sees it.
"""

from __future__ import annotations

import asyncio
import errno
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.simulation.links import Links
from ottla.simulation.sockets import AcceptingServer, ListeningSocket
from ottla.simulation.transport import SimTransport

if TYPE_CHECKING:
    from ottla.runtime import Server
    from ottla.simulation.loop import Process, SimulationLoop
    from ottla.simulation.scenario import SocketPlan
    from ottla.simulation.trace import Trace

# Linux sends its SYN six times, at doubled distances, before it gives up.
_CONNECT_TRIES = 6
_FIRST_EPHEMERAL_PORT = 32_768


class SimServer:
    """A listening socket of a process that accepts everybody at once."""

    is_full = False

    def __init__(
        self, network: SimNetwork, address: tuple[str, int], process: Process, factory: Factory
    ) -> None:
        self._network = network
        self.address = address
        self.process = process
        self.factory = factory

    @property
    def port(self) -> int:
        return self.address[1]

    def receive(self, connection: SimTransport) -> None:
        self._network.loop.call_soon(connection.accept, self.factory, context=self.process.context)

    def end(self, *, silently: bool) -> None:
        """Its process is gone; nobody has waited here."""

    async def close(self) -> None:
        self._network.listeners.pop(self.address, None)


Factory = Callable[[], asyncio.BaseProtocol]


class SimNetwork:
    """All hosts and what lies between them."""

    def __init__(
        self, loop: SimulationLoop, seed: str, trace: Trace, sockets: SocketPlan | None = None
    ) -> None:
        """Without `sockets` connections are handed over at once."""
        self.loop = loop
        self.trace = trace
        self.sockets = sockets
        self.links = Links(loop, seed, trace)
        self.listeners: dict[tuple[str, int], SimServer | ListeningSocket] = {}
        # Hosts without power: they do not even refuse.
        self.dark: set[str] = set()
        self.transports: dict[SimTransport, None] = {}
        self._next_port = _FIRST_EPHEMERAL_PORT

    # what a scenario does to it

    def cut(self, source: str, target: str) -> None:
        self.links.between(source, target).cut = True

    def heal(self, source: str, target: str) -> None:
        self.links.between(source, target).cut = False
        for transport in list(self.transports):
            if transport.host == source and transport.peer_host == target:
                transport.outgoing.kick()

    def heal_all(self) -> None:
        for source, target in self.links.used():
            self.links.between(source, target).slowness = 1.0
            self.heal(source, target)

    def reset_connections(self, one: str, other: str) -> None:
        """A box between the two forgets their connections: both ends are told so."""
        for transport in list(self.transports):
            if transport.host == one and transport.peer_host == other:
                transport.reset_both()

    def end_process(self, process: Process, *, silently: bool) -> None:
        """The sockets of a process that is gone; `silently` where the whole host lost power."""
        for address, server in list(self.listeners.items()):
            if server.process is process:
                del self.listeners[address]
                server.end(silently=silently)
        for transport in list(self.transports):
            if transport.process is process:
                transport.orphan(silently=silently)

    # the port

    def bind(self, process: Process, host: str, port: int, factory: Factory) -> Server:
        address = host, port or self._take_port()
        if address in self.listeners:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        if self.sockets is not None:
            listening = self.listeners[address] = ListeningSocket(
                self.loop,
                self.sockets,
                address,
                process,
                on_close=lambda: self.listeners.pop(address, None),
            )
            return AcceptingServer(self.loop, listening, factory)
        server = self.listeners[address] = SimServer(self, address, process, factory)
        return server

    async def open(
        self, process: Process, source: str, factory: Factory, host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        pause_s = 1.0
        for _ in range(_CONNECT_TRIES):
            there, back = self.links.between(source, host), self.links.between(host, source)
            if not (there.cut or back.cut or host in self.dark):
                await asyncio.sleep(self.links.arrival(source, host) - self.loop.time())
                await asyncio.sleep(self.links.arrival(host, source) - self.loop.time())
                server = self.listeners.get((host, port))
                if server is None:
                    self.trace.add("refused", f"{source}>{host}:{port}")
                    raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
                if not server.is_full:
                    return self._join(process, source, factory, server)
                self.trace.add("dropped", f"{source}>{host}:{port}")
            await asyncio.sleep(pause_s)
            pause_s *= 2
        raise TimeoutError(errno.ETIMEDOUT, "Connection timed out")

    def _join(
        self, process: Process, source: str, factory: Factory, server: SimServer | ListeningSocket
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        here, there = (source, self._take_port()), server.address
        protocol = factory()
        near = SimTransport(self.links, self.transports, process, protocol, here, there)
        far = SimTransport(self.links, self.transports, server.process, None, there, here)
        near.pair(far)
        self.trace.add("connect", f"{source}:{here[1]}>{there[0]}:{there[1]}")
        protocol.connection_made(near)
        server.receive(far)
        return near, protocol

    def _take_port(self) -> int:
        self._next_port += 1
        return self._next_port


class HostNetwork:
    """The Network port of one process on a host."""

    def __init__(self, network: SimNetwork, host: str, process: Process) -> None:
        self._network = network
        self._host = host
        self._process = process

    async def listen(
        self,
        protocol_factory: Factory,
        host: str,
        port: int,
        *,
        ssl_context: ssl.SSLContext | None = None,
    ) -> Server:
        return self._network.bind(self._process, self._host, port, protocol_factory)

    async def connect(
        self,
        protocol_factory: Factory,
        host: str,
        port: int,
        *,
        ssl_context: ssl.SSLContext | None = None,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        return await self._network.open(self._process, self._host, protocol_factory, host, port)
