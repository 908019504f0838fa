"""Many connections with one request under way each, served by one thread of the test."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from ottla.process.tuning import raise_file_limit

_LENGTH = struct.Struct(">i")
_MOST_EVENTS = 8192


class BusyCrowd:
    """Each connection sends `frame` again as soon as it is answered; `answers` counts them."""

    def __init__(self, address: tuple[str, int], frame: bytes) -> None:
        raise_file_limit()
        self.answers: dict[int, int] = {}
        self._address = address
        self._frame = frame
        self._sockets: dict[int, socket.socket] = {}
        self._unfinished: dict[int, bytes] = {}
        self._epoll = select.epoll()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for peer in self._sockets.values():
            peer.close()
        self._epoll.close()

    def join(self, count: int) -> list[int]:
        """So many more, all at once; they send as soon as they are connected."""
        joined = []
        for _ in range(count):
            peer = socket.socket()
            peer.setblocking(False)
            peer.connect_ex(self._address)
            self._sockets[peer.fileno()] = peer
            self.answers[peer.fileno()] = 0
            self._epoll.register(peer, select.EPOLLOUT)
            joined.append(peer.fileno())
        return joined

    def run_until(self, is_done: Callable[[], bool], timeout_s: float) -> None:
        ends = time.monotonic() + timeout_s
        while not is_done():
            assert time.monotonic() < ends, f"not done after {timeout_s} s"
            for fd, events in self._epoll.poll(1.0, _MOST_EVENTS):
                peer = self._sockets[fd]
                if events & select.EPOLLOUT:
                    self._epoll.modify(fd, select.EPOLLIN)
                    peer.sendall(self._frame)
                elif self._is_answered(fd, peer.recv(65536)):
                    self.answers[fd] += 1
                    peer.sendall(self._frame)

    def _is_answered(self, fd: int, data: bytes) -> bool:
        assert data, "the broker closed a connection"
        data = self._unfinished.pop(fd, b"") + data
        if len(data) >= 4 and len(data) == 4 + _LENGTH.unpack_from(data)[0]:
            return True
        self._unfinished[fd] = data
        return False
