"""Sends fuzz frames over many connections at once and counts those that were served."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

HOST = "127.0.0.1"
CONNECTIONS = 12
# A frame that makes its connection wait longer is left to it.
PATIENCE_S = 0.3
_CHUNK = 1 << 16
_LENGTH = struct.Struct(">i")


class Told(NamedTuple):
    """What became of the frames."""

    frames: int = 0
    answers: int = 0
    closed: int = 0
    waiting: int = 0

    def plus(self, other: Told) -> Told:
        return Told(*(a + b for a, b in zip(self, other, strict=True)))


class Opening(NamedTuple):
    """What goes before the frames of a connection, and what after them."""

    before: bytes = b""
    # Answers to what stands before.
    answers: int = 0
    # Its answer is the last one: not every frame has one of its own.
    after: bytes = b""
    after_id: bytes = b""


class _Line:
    """One connection with the frames that were sent on it."""

    def __init__(self, port: int, opening: Opening, frames: list[bytes]) -> None:
        self.frames = frames
        self._opening = opening
        self._socket = socket.create_connection((HOST, port), timeout=PATIENCE_S)
        with contextlib.suppress(OSError):
            self._socket.sendall(b"".join((opening.before, *frames, opening.after)))

    def finish(self) -> tuple[Told, list[bytes]]:
        """What was served, and the frames behind one that ended the connection."""
        found, end = self._read()
        self._socket.close()
        answers = max(0, found - self._opening.answers)
        if end == "all" or answers >= len(self.frames):
            return Told(len(self.frames), min(answers, len(self.frames))), []
        served = answers + 1
        return Told(served, answers, int(end == "closed"), int(end == "waits")), self.frames[
            served:
        ]

    def _read(self) -> tuple[int, str]:
        """How many answers came before the last one that is waited for, and how it ended."""
        wanted = len(self.frames) + self._opening.answers
        count, data = 0, b""
        try:
            while self._opening.after or count < wanted:
                more = self._socket.recv(_CHUNK)
                if not more:
                    return count, "closed"
                data += more
                at = 0
                while len(data) - at >= 8:
                    end = at + 4 + _LENGTH.unpack_from(data, at)[0]
                    if end > len(data):
                        break
                    if self._opening.after_id and data[at + 4 : at + 8] == self._opening.after_id:
                        return count, "all"
                    count += 1
                    at = end
                data = data[at:]
        except TimeoutError:
            return count, "waits"
        except OSError:
            return count, "closed"
        return count, "all"


def drive(
    port: int,
    frames: Iterator[bytes],
    count: int,
    opening: Callable[[], Opening] = Opening,
    per_connection: int = 64,
) -> Told:
    """Sends frames until `count` of them were served: answered, or the end of a connection."""
    told = Told()
    again: list[bytes] = []
    while told.frames < count:
        lines = []
        for _ in range(CONNECTIONS):
            batch, again = again[:per_connection], again[per_connection:]
            batch += islice(frames, per_connection - len(batch))
            lines.append(_Line(port, opening(), batch))
        for line in lines:
            served, rest = line.finish()
            told = told.plus(served)
            again += rest
    return told
