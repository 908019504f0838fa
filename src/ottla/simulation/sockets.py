"""A kernel's listening socket, as far as production's `Acceptor` uses one.

Connections wait in its queue until the process accepts them; where the queue is full the peer's SYN
is dropped, and it tries again later (`SimNetwork.open`). Who still waits when the socket closes, or
when its process ends, is reset.
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, cast

from ottla.accepting import Acceptor

if TYPE_CHECKING:
    import socket

    from ottla.simulation.loop import Process, SimulationLoop
    from ottla.simulation.scenario import SocketPlan
    from ottla.simulation.transport import SimTransport

_OPEN, _CLOSED = 3, -1


class ListeningSocket:
    """Bound to an address of its network. Accepting takes time of the process that does it."""

    def __init__(
        self,
        loop: SimulationLoop,
        plan: SocketPlan,
        address: tuple[str, int],
        process: Process,
        on_close: Callable[[], object],
    ) -> None:
        self.address = address
        self.process = process
        self._loop = loop
        self._on_close = on_close
        self._plan = plan
        self._backlog = 0
        self._queue: deque[SimTransport] = deque()
        self._on_readable: asyncio.Handle | None = None
        # Somebody was told, and has not come yet.
        self._is_told = False
        self._fd = _OPEN

    # the kernel's side

    @property
    def is_full(self) -> bool:
        return len(self._queue) >= self._backlog

    def receive(self, connection: SimTransport) -> None:
        """A handshake has ended."""
        self._queue.append(connection)
        self._tell()

    def end(self, *, silently: bool) -> None:
        """`silently`: the host has no power, and nobody is told."""
        self._fd, self._on_readable = _CLOSED, None
        if not silently:
            for connection in self._queue:
                connection.turn_away()
        self._queue.clear()

    def _tell(self) -> None:
        """As long as somebody waits the socket is readable, once in each turn."""
        if self._is_told or self._on_readable is None or not self._queue:
            return
        self._is_told = True
        loop, process = self._loop, self.process
        if process.turns is None:
            loop.call_soon(self._come, context=process.context)
        else:
            process.turns.readable(asyncio.Handle(self._come, (), loop, process.context))

    def _come(self) -> None:
        if self._on_readable is not None:
            self._on_readable._run()
        self._is_told = False
        self._tell()

    # the process's side

    def watch(self, callback: Callable[..., object], *args: Any) -> None:
        self._on_readable = asyncio.Handle(callback, args, self._loop, copy_context())
        self._tell()

    def unwatch(self) -> bool:
        was_watched, self._on_readable = self._on_readable is not None, None
        return was_watched

    def setblocking(self, flag: bool, /) -> None:
        if flag:
            raise OSError(errno.EOPNOTSUPP, "a simulated process must not wait for a socket")

    def listen(self, backlog: int, /) -> None:
        """The system may allow less (net.core.somaxconn)."""
        self._backlog = min(backlog, self._plan.backlog)

    def accept(self) -> tuple[SimTransport, tuple[str, int]]:
        if self._fd == _CLOSED:
            raise OSError(errno.EBADF, "Bad file descriptor")
        if not self._queue:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        if self.process.turns is not None:
            self._loop.spend(self._plan.accept_us / 1e6)
        connection = self._queue.popleft()
        return connection, connection.get_extra_info("peername")

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        if self._fd != _CLOSED:
            self._on_close()
            self.end(silently=False)


class AcceptingServer:
    """A server whose connections are accepted by the code that accepts them in production."""

    def __init__(
        self,
        loop: SimulationLoop,
        listening: ListeningSocket,
        factory: Callable[[], asyncio.BaseProtocol],
    ) -> None:
        self._address = listening.address
        self._acceptor = Acceptor(loop, [cast("socket.socket", listening)], factory)

    @property
    def port(self) -> int:
        return self._address[1]

    async def close(self) -> None:
        self._acceptor.close()
