"""MultiRead (ZOOKEEPER-3402, since 3.6): reads that are asked together leave as one request.

Each read in it has its own outcome, so callers cannot tell the difference; the server is spared
the cost of a request for each. No IO but for the one question whether a server knows it.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ottla.metadata.store import STORE_ERRORS, Stat, StoreError, UnimplementedError
from ottla.zk import jute
from ottla.zk.client.request import Request
from ottla.zk.jute import JuteError

logger = logging.getLogger(__name__)

# Reads in one request. Each adds little after the first dozens, and this many nodes of 1 MB, the
# most that jute.maxbuffer lets a node hold, are still half of the largest answer we take.
MAX_READS = 32
MIN_READS = 2
# Where nodes are large, fewer are asked for at once, so that an answer is about this long: the
# server builds all of it in memory before it sends the first byte.
GOOD_ANSWER_BYTES = 1 << 20
# A read of a longer path goes alone. This bounds the request: the server takes 1 MB.
MAX_BODY_BYTES = 1024

_HEADS = {
    kind: jute.MULTI_HEADER.pack(kind, False, -1)
    for kind in (jute.OP_GET_DATA, jute.OP_GET_CHILDREN)
}
# A result's header and the four bytes that each kind of result begins with.
_RESULT = struct.Struct(">i?ii")
# Twice as fast as Stat._make, which checks the length that struct guarantees.
_as_stat: Callable[[type[Stat], tuple[int, ...]], Stat] = tuple.__new__


class Askable(Protocol):
    """A connection, as far as a server can be asked on it what it knows."""

    def request(self, operation: int, body: bytes) -> asyncio.Future[Any]: ...

    def abort(self) -> None: ...


class MultiReads:
    """What a client knows about MultiRead: which servers lack it, and how large answers are."""

    def __init__(self) -> None:
        self.limit = MAX_READS
        self._lacking: set[tuple[str, int]] = set()
        self._silent: set[tuple[str, int]] = set()
        self._is_given_up = False

    async def are_served(self, connection: Askable, server: tuple[str, int]) -> bool:
        """Asks for nothing at all, once, while there is nothing in flight that could be lost.

        A server before 3.6 answers what it does not know with Unimplemented, ahead of all that
        it was asked before, and hangs up a moment later (UnimplementedRequestProcessor): such a
        connection is given up here, and the next one to that server asks no more.
        """
        if self._is_given_up or server in self._lacking:
            return False
        if server in self._silent:
            # It may lack it, or have died by chance: the connection after this one asks again.
            self._silent.remove(server)
            return False
        self._silent.add(server)
        try:
            await connection.request(jute.OP_MULTI_READ, jute.END_OF_MULTI)
        except UnimplementedError:
            logger.info("%s:%d does not know MultiRead (ZooKeeper before 3.6)", *server)
            self._lacking.add(server)
            connection.abort()
        except StoreError as error:
            logger.debug("%s:%d does not say whether it knows MultiRead: %r", *server, error)
            return False
        self._silent.remove(server)
        return server not in self._lacking

    def answered(self, reads: int, size: int) -> None:
        """The next requests hold as many reads as make a good answer, if those are like these."""
        self.limit = max(MIN_READS, min(MAX_READS, reads * GOOD_ANSWER_BYTES // size))

    def give_up(self) -> None:
        """Two reads were too many for an answer: from the next connection on each goes alone."""
        self._is_given_up = True


def fits(request: Request) -> bool:
    """A watch needs a read of its own: servers ignore the flag in a MultiRead."""
    return (
        request.operation in _HEADS
        and request.on_answer is None
        and len(request.body) <= MAX_BODY_BYTES
    )


def encode(requests: Sequence[Request]) -> bytes:
    parts = []
    for request in requests:
        parts.append(_HEADS[request.operation])
        parts.append(request.body)
    parts.append(jute.END_OF_MULTI)
    return b"".join(parts)


def settle(requests: Sequence[Request], buffer: bytes, position: int, end: int) -> None:
    """Gives every caller its answer. Written out in full: as `replies.decode_get`, hot."""
    for future, path, operation, _, _, _ in requests:
        if end - position < _RESULT.size:
            raise JuteError("packet ends inside the answer to a MultiRead")
        kind, _, _, first = _RESULT.unpack_from(buffer, position)
        position += _RESULT.size
        if kind == jute.OP_ERROR:
            if not future.done():
                future.set_exception(STORE_ERRORS.get(first, StoreError)(path))
            continue
        if kind != operation:
            raise JuteError(f"result {kind} where {operation} was expected")
        if kind == jute.OP_GET_DATA:
            # `first` is the length of the data.
            stat_at = position + first if first > 0 else position
            if end - stat_at < jute.STAT.size:
                raise JuteError("packet ends inside a stat")
            data = buffer[position:stat_at] if first >= 0 else None
            if not future.done():
                future.set_result((data, _as_stat(Stat, jute.STAT.unpack_from(buffer, stat_at))))
            position = stat_at + jute.STAT.size
        else:
            children, position = jute.read_strings(buffer, position - 4, end)
            if not future.done():
                future.set_result(children)
    _, is_end, position = jute.read_multi_header(buffer, position, end)
    if not is_end or position != end:
        raise JuteError("more results than reads")
