"""One account of the memory that all connections of a broker take: frames that are not whole yet,
frames that wait, requests under way, and answers that their peers do not take
(queued.max.request.bytes; Kafka counts whole requests alone, and by default none).

Small requests always get through. Where the account is full, reading pauses for connections in the
middle of a larger frame; the last quarter is for frames of a usual size. One frame of each kind may
be read on whatever it takes, so that they never all wait for each other; the others follow as
memory comes back. Frames that peers send too slowly, and answers that they do not take, cost them
their connections, but only where others need the memory.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio

    from ottla.config.broker import BrokerConfig

logger = logging.getLogger(__name__)

# What a connection may hold of a frame though the account is full: requests of this size, and with
# them everything but large batches, never wait.
SMALL_BYTES = 16 * 1024
# Larger frames are rare: clients send 1 MiB at most unless they are told to (max.request.size).
USUAL_FRAME_BYTES = 5 * 1024 * 1024 // 4
_LARGE_SHARE = 3 / 4
# From this share of the limit on everyone is given less at a time.
_TIGHT_SHARE = 1 / 2
# Where connections have to go, they go until this share is left.
_RELIEVED_SHARE = 5 / 8
# How often a full account is looked at, and what it asks of peers: slower ones are in the way.
_WATCH_S = 1.0
PATIENCE_S = 2.0
MIN_BYTES_PER_S = 64 * 1024


class Holder(Protocol):
    """A connection, as the account sees it."""

    # Its bytes in the account, kept by the account alone.
    held_bytes: int

    @property
    def missing_bytes(self) -> int:
        """What its unfinished frame lacks; 0 without one."""

    @property
    def frame_bytes(self) -> int:
        """What its unfinished frame will have; 0 without one."""

    @property
    def unread_bytes(self) -> int:
        """Its answers that the peer does not take."""

    def seconds_unread(self) -> float:
        """For how long the peer has taken nothing."""

    def is_too_slow(self) -> bool:
        """Whether it is read, and its frame has come in at less than MIN_BYTES_PER_S since this
        was asked before."""

    def pause_for_memory(self) -> None: ...

    def resume_for_memory(self) -> None: ...

    def abort(self) -> None:
        """Ends it at once. The account hears of it by `forget`."""


def limit_of(config: BrokerConfig) -> int | None:
    """None where there is none. One request of the largest size has to fit."""
    limit = config.integer("queued.max.request.bytes")
    return None if limit <= 0 else max(limit, config.integer("socket.request.max.bytes"))


def accounts(config: BrokerConfig) -> dict[str, ConnectionMemory]:
    """By listener: one account for all of them. Where brokers have a listener of their own it has
    another one, so that clients cannot keep brokers and controller from talking."""
    limit = limit_of(config)
    names = [endpoint.listener for endpoint in config.listeners]
    found = dict.fromkeys(names, ConnectionMemory(limit))
    if len(names) > 1:
        control_plane = config.optional_text("control.plane.listener.name")
        for own in {config.inter_broker_listener, (control_plane or "").upper()}.intersection(
            names
        ):
            found[own] = ConnectionMemory(limit)
    return found


class _Lane:
    """Unfinished frames of one kind: who waits, and up to where they may fill the account."""

    __slots__ = ("ceiling", "exempt", "waiting")

    def __init__(self, ceiling: float) -> None:
        self.ceiling = ceiling
        # In the order in which they began to wait.
        self.waiting: dict[Holder, None] = {}
        # May be read on above the ceiling.
        self.exempt: Holder | None = None

    def hold_back(self, holder: Holder) -> None:
        if holder is not self.exempt and holder not in self.waiting:
            self.waiting[holder] = None
            holder.pause_for_memory()

    def resume(self, used: int) -> None:
        """Those who waited longest first, as far as the rest of their frames has room."""
        waiting = self.waiting
        room = self.ceiling - used
        while waiting:
            first = next(iter(waiting))
            room -= first.missing_bytes
            if room < 0:
                if self.exempt is not None:
                    return
                self.exempt = first
            del waiting[first]
            first.resume_for_memory()

    def forget(self, holder: Holder) -> None:
        self.waiting.pop(holder, None)
        if self.exempt is holder:
            self.exempt = None


class ConnectionMemory:
    """Of all listeners of one broker."""

    def __init__(self, limit: int | None) -> None:
        self.used = 0
        # Plain numbers: both are looked at for every read.
        self.limit: float = float("inf") if limit is None else limit
        self.tight_at: float = self.limit * _TIGHT_SHARE
        self._holders: dict[Holder, None] = {}
        self._usual = _Lane(self.limit)
        self._large = _Lane(self.limit * _LARGE_SHARE)
        self._watch: asyncio.TimerHandle | None = None

    @property
    def is_tight(self) -> bool:
        return self.used >= self.tight_at

    def note(self, holder: Holder, held: int, loop: asyncio.AbstractEventLoop) -> None:
        """A connection holds more or less than before; it may be paused, or others resumed."""
        grown = held - holder.held_bytes
        holder.held_bytes = held
        self.used += grown
        if held:
            self._holders[holder] = None
        else:
            self._holders.pop(holder, None)
        if self.used < self.tight_at and not (self._usual.waiting or self._large.waiting):
            self._usual.exempt = self._large.exempt = None
            return
        self._settle(holder, loop)

    def _settle(self, holder: Holder, loop: asyncio.AbstractEventLoop) -> None:
        if not holder.missing_bytes:
            # Its frame is whole.
            self._usual.forget(holder)
            self._large.forget(holder)
        elif holder.held_bytes > SMALL_BYTES:
            lane = self._usual if holder.frame_bytes <= USUAL_FRAME_BYTES else self._large
            if self.used >= lane.ceiling:
                lane.hold_back(holder)
        self._resume()
        if self._is_full and self._watch is None:
            self._watch = loop.call_later(_WATCH_S, self._relieve, loop)

    @property
    def _is_full(self) -> bool:
        """Somebody has to wait, or more is held than may be."""
        return bool(self._large.waiting or self._usual.waiting) or self.used >= self.limit

    def forget(self, holder: Holder) -> None:
        """The connection is gone."""
        self._holders.pop(holder, None)
        self.used -= holder.held_bytes
        holder.held_bytes = 0
        self._usual.forget(holder)
        self._large.forget(holder)
        self._resume()

    def shed_unread(self, spared: Holder) -> None:
        """Answers cannot be held back by not reading: where they are too much, connections go whose
        peers have left the most untaken for the longest. Not the one that is just being answered:
        it has had no time to take it."""
        if self.used > self.limit:
            self._end(
                [h for h in self._holders if h is not spared and h.unread_bytes],
                "they did not take their answers",
            )

    def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()

    def _resume(self) -> None:
        if self._usual.waiting:
            self._usual.resume(self.used)
        if self._large.waiting:
            self._large.resume(self.used)

    def _relieve(self, loop: asyncio.AbstractEventLoop) -> None:
        """From time to time while the account is full."""
        self._watch = None
        if not self._is_full:
            return
        slow = [holder for holder in self._holders if holder.is_too_slow()]
        self._end(slow, "their requests came in too slowly")
        if self._is_full:
            # Slow consumers hold little, and go only where nothing else helps.
            least = 0 if self.used >= self.limit else USUAL_FRAME_BYTES
            unread = [h for h in self._holders if h.unread_bytes > least]
            self._end(
                [holder for holder in unread if holder.seconds_unread() > PATIENCE_S],
                "they did not take their answers",
            )
        self._watch = loop.call_later(_WATCH_S, self._relieve, loop)

    def _end(self, holders: list[Holder], reason: str) -> None:
        """Those who held the most for the longest go first, until there is room."""
        holders.sort(key=lambda holder: holder.held_bytes * (1 + holder.seconds_unread()))
        ended = 0
        while holders and self.used > self.limit * _RELIEVED_SHARE:
            holder = holders.pop()
            holder.abort()
            self.forget(holder)
            ended += 1
        if ended:
            logger.warning(
                "queued.max.request.bytes (%d) is reached: closed %d connections, %s",
                self.limit,
                ended,
                reason,
            )
