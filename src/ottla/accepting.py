"""Accepting connections of a listening socket, many in one turn of the event loop.

libuv accepts one connection per turn. Where a turn serves hundreds of others that is a few dozen in
a second, and whoever comes later waits in the kernel's queue, for good where it is full. Here those
who wait are taken in for about as long as everything else has had since the last time: newcomers
are soon served as well, and a flood of them leaves half of the time to those who are there.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress

logger = logging.getLogger(__name__)

# How many may wait to be accepted; the system may allow less (net.core.somaxconn).
BACKLOG = 4096
# What one costs, about, with the protocol that is made for it.
_COST_S = 20e-6
# In one turn of the loop: as many as take 5 ms, or up to 10 ms where the turns are long. The work
# that follows from each takes as long again, and makes the next turn longer.
FEWEST_PER_TURN = 250
MOST_PER_TURN = 500
# No descriptor, no memory: asyncio's own loop waits as long (ACCEPT_RETRY_DELAY).
_RETRY_S = 1.0
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


def allowed_now(since_last_s: float) -> int:
    """How many connections are accepted in a turn, by the time since they last were."""
    return min(max(FEWEST_PER_TURN, round(since_last_s / _COST_S)), MOST_PER_TURN)


class Acceptor:
    """The listening sockets of one server: bound already, and closed with it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sockets: Sequence[socket.socket],
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self.sockets = list(sockets)
        self._loop = loop
        self._protocol_factory = protocol_factory
        self._ssl_context = ssl_context
        self._last = loop.time()
        # Those on their way to their protocols: the loop alone would let go of them.
        self._joining: dict[asyncio.Task[None], socket.socket] = {}
        for listening in self.sockets:
            listening.setblocking(False)
            listening.listen(BACKLOG)
            loop.add_reader(listening, self._accept, listening)

    def close(self) -> None:
        for listening in self.sockets:
            if listening.fileno() >= 0:
                self._loop.remove_reader(listening)
                listening.close()
        for joining in self._joining:
            joining.cancel()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(allowed_now(self._loop.time() - self._last)):
            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, InterruptedError):
                break
            except ConnectionAbortedError:
                continue
            except OSError as error:
                self._could_not(listening, error)
                break
            task = self._loop.create_task(self._join(accepted))
            self._joining[task] = accepted
            task.add_done_callback(self._joined)
        self._last = self._loop.time()

    async def _join(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._protocol_factory, accepted, ssl=self._ssl_context
            )
        except (OSError, ssl.SSLError) as error:
            # The peer is gone again, or does not know how to begin.
            logger.debug("a connection ended before it began: %s", error)
            accepted.close()

    def _joined(self, task: asyncio.Task[None]) -> None:
        accepted = self._joining.pop(task)
        if task.cancelled():
            accepted.close()

    def _could_not(self, listening: socket.socket, error: OSError) -> None:
        """Where there is no descriptor left the others go on, and those who wait go on waiting."""
        if error.errno not in _EXHAUSTED:
            logger.debug("a connection ended before it was accepted: %s", error)
            return
        logger.error("no connection is accepted for %g s: %s", _RETRY_S, error)
        self._loop.remove_reader(listening)
        self._loop.call_later(_RETRY_S, self._accept_again, listening)

    def _accept_again(self, listening: socket.socket) -> None:
        if listening.fileno() >= 0:
            with suppress(RuntimeError):  # the loop is closing
                self._loop.add_reader(listening, self._accept, listening)
