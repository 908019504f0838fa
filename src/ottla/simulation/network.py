"""A network in memory between named hosts: seeded delays, cuts, slow links, resets.

Each direction of a connection is a pipe that keeps its order; different pipes overtake each
other. A cut link holds bytes back, as TCP sends them again when it heals. `HostNetwork` is the
Network port as one process sees it.
"""

from __future__ import annotations

import asyncio
import errno
import random
import ssl
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.simulation.transport import SimTransport

if TYPE_CHECKING:
    from ottla.simulation.loop import Process, SimulationLoop
    from ottla.simulation.trace import Trace

_DELAY_S = (0.00005, 0.0015)
_LONG_DELAY_S = (0.005, 0.06)
_LONG_DELAY_SHARE = 0.01
# A chunk of bytes may come in two parts: receivers must not count on whole frames.
_SPLIT_SHARE = 0.05
# Linux sends its SYN six times, at doubled distances, before it gives up.
_CONNECT_TRIES = 6
_FIRST_EPHEMERAL_PORT = 32_768


class Link:
    """One direction between two hosts."""

    __slots__ = ("cut", "slowness")

    def __init__(self) -> None:
        self.cut = False
        self.slowness = 1.0


class SimServer:
    """A listening socket of a process."""

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

    async def close(self) -> None:
        self._network.listeners.pop(self.address, None)


Factory = Callable[[], asyncio.BaseProtocol]


class SimNetwork:
    """All hosts and what lies between them."""

    def __init__(self, loop: SimulationLoop, seed: str, trace: Trace) -> None:
        self.loop = loop
        self.trace = trace
        self.listeners: dict[tuple[str, int], SimServer] = {}
        # Hosts without power: they do not even refuse.
        self.dark: set[str] = set()
        self.transports: dict[SimTransport, None] = {}
        self.random = random.Random(f"{seed}/network")
        self._links: dict[tuple[str, str], Link] = {}
        self._next_port = _FIRST_EPHEMERAL_PORT

    # what a scenario does to it

    def link(self, source: str, target: str) -> Link:
        found = self._links.get((source, target))
        if found is None:
            found = self._links[source, target] = Link()
        return found

    def cut(self, source: str, target: str) -> None:
        self.link(source, target).cut = True

    def heal(self, source: str, target: str) -> None:
        self.link(source, target).cut = False
        for transport in list(self.transports):
            if transport.host == source and transport.peer_host == target:
                transport.outgoing.kick()

    def heal_all(self) -> None:
        for source, target in self._links:
            self._links[source, target].slowness = 1.0
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
        for transport in list(self.transports):
            if transport.process is process:
                transport.orphan(silently=silently)

    # used by transports

    def arrival(self, source: str, target: str) -> float:
        """When bytes that leave now come in."""
        slowness = self.link(source, target).slowness
        is_long = self.random.random() < _LONG_DELAY_SHARE
        delay_s = self.random.uniform(*(_LONG_DELAY_S if is_long else _DELAY_S))
        return self.loop.time() + delay_s * slowness

    def pieces(self, data: bytes) -> tuple[bytes, ...]:
        if len(data) > 1 and self.random.random() < _SPLIT_SHARE:
            middle = self.random.randrange(1, len(data))
            return data[:middle], data[middle:]
        return (data,)

    def note(self, source: str, target: str, data: bytes) -> None:
        self.trace.add("send", f"{source}>{target} {len(data)} {zlib.crc32(data):08x}")

    # the port

    def bind(self, process: Process, host: str, port: int, factory: Factory) -> SimServer:
        if not port:
            port = self._take_port()
        if (host, port) in self.listeners:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        server = SimServer(self, (host, port), process, factory)
        self.listeners[host, port] = server
        return server

    async def open(
        self, process: Process, source: str, factory: Factory, host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        pause_s = 1.0
        for _ in range(_CONNECT_TRIES):
            there, back = self.link(source, host), self.link(host, source)
            if not (there.cut or back.cut or host in self.dark):
                await asyncio.sleep(self.arrival(source, host) - self.loop.time())
                await asyncio.sleep(self.arrival(host, source) - self.loop.time())
                server = self.listeners.get((host, port))
                if server is None:
                    self.trace.add("refused", f"{source}>{host}:{port}")
                    raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
                return self._join(process, source, factory, server)
            await asyncio.sleep(pause_s)
            pause_s *= 2
        raise TimeoutError(errno.ETIMEDOUT, "Connection timed out")

    def _join(
        self, process: Process, source: str, factory: Factory, server: SimServer
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        here, there = (source, self._take_port()), server.address
        protocol = factory()
        near = SimTransport(self, process, protocol, here, there)
        far = SimTransport(self, server.process, None, there, here)
        near.pair(far)
        self.trace.add("connect", f"{source}:{here[1]}>{there[0]}:{there[1]}")
        protocol.connection_made(near)
        self.loop.call_soon(far.accept, server.factory, context=server.process.context)
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
    ) -> SimServer:
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
