"""Incremental fetch sessions on the leader's side (KIP-227; FetchSession, FetchManager).

A session remembers which partitions a client fetches and what it was told last, so that a request
names only what changed and an answer only what is new. Sessions made by topic id (v13+) and by
name do not mix (KIP-516).

A session also knows which of its partitions a request must look at: those named in it, those that
could not be read to their end, and those that have moved since. The others cost nothing, so that a
session with tens of thousands of idle partitions is cheap.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Protocol

from ottla.broker.fetching.waits import FetchWait, Readable
from ottla.broker.replication.fetch_protocol import (
    MAX_SESSION_EPOCH,
    NO_SESSION,
    FetchPartition,
    FetchResult,
)
from ottla.broker.replication.partition import Watcher
from ottla.errors import ErrorCode
from ottla.types import ZERO_TOPIC_ID, TopicId, TopicPartition

_EVICTABLE_AFTER_MS = 120_000
_LARGEST_ID = 0x7FFFFFFE
# What all sessions together may hold, and what one partition of one of them takes beside its name.
MOST_BYTES = 128 * 1024 * 1024
ENTRY_BYTES = 800


Identity = tuple[TopicId | str, int]


class SessionEntry:
    """One partition of a fetch, as the client names it; an id that is not known (yet) has no topic.

    In a session it also remembers what the client was told last, and hears of its partition.
    """

    __slots__ = (
        "_watched",
        "high_watermark",
        "is_known",
        "last",
        "session",
        "start_offset",
        "topic_id",
        "tp",
        "want",
    )

    def __init__(
        self, topic_id: TopicId, topic: str | None, partition: int, want: FetchPartition
    ) -> None:
        self.topic_id = topic_id
        self.tp = TopicPartition(topic or "", partition)
        self.is_known = topic is not None
        self.want = want
        self.high_watermark = -1
        self.start_offset = -1
        self.last: FetchResult | None = None
        self.session: FetchSession | None = None
        self._watched: Watched | None = None

    def watch(self, partition: Watched) -> None:
        if self._watched is not partition:
            self.unwatch()
            self._watched = partition
            partition.watchers[self] = None

    def unwatch(self) -> None:
        if self._watched is not None:
            self._watched.watchers.pop(self, None)
            self._watched = None

    def moved(self) -> None:
        """The partition has new records or other bounds."""
        session, partition = self.session, self._watched
        if session is not None and partition is not None:
            session.dirty[self] = None
            if session.wait is not None:
                session.wait.consider(partition, self.want.fetch_offset)

    def interrupted(self) -> None:
        """The partition has another role or is gone."""
        self.unwatch()
        if self.session is not None:
            self.session.dirty[self] = None
            if self.session.wait is not None:
                self.session.wait.complete()

    @property
    def identity(self) -> Identity:
        return identity(self.topic_id, self.tp.topic, self.tp.partition)

    @property
    def weight(self) -> int:
        return ENTRY_BYTES + len(self.tp.topic)

    def resolve(self, topic: str) -> None:
        """The metadata cache has learnt the name behind the id."""
        if self.session is not None:
            self.session.weight += len(topic) - len(self.tp.topic)
        self.tp = TopicPartition(topic, self.tp.partition)
        self.is_known = True

    def asked_again(self, want: FetchPartition) -> None:
        """A follower that learnt of another epoch meanwhile has dropped the last answer, and with
        it perhaps the newest high watermark: the next one is news whatever it says."""
        if want.current_leader_epoch != self.want.current_leader_epoch:
            self.high_watermark, self.last = -1, None
        self.want = want

    def is_news(self, result: FetchResult) -> bool:
        """Whether an incremental answer has to hold this partition; remembers what it says."""
        if result is self.last and result.error is ErrorCode.NONE and not result.records:
            return False  # the very answer of last time, without records
        # Not its records: a session lives long.
        self.last = None if result.records else result
        news = (
            result.size > 0
            or result.error is not ErrorCode.NONE
            or result.diverging_epoch is not None
            or result.preferred_read_replica >= 0
            or self.high_watermark != result.high_watermark
            or self.start_offset != result.log_start_offset
        )
        # After an error the next good answer is news again, whatever it says; after a divergence
        # too, since a follower that cuts its log does not take the high watermark with it.
        failed = result.error is not ErrorCode.NONE or result.diverging_epoch is not None
        self.high_watermark = -1 if failed else result.high_watermark
        self.start_offset = result.log_start_offset
        return news


def identity(topic_id: TopicId, topic: str, partition: int) -> Identity:
    """What makes two entries of a session the same: id or name, and partition."""
    return (topic if topic_id == ZERO_TOPIC_ID else topic_id), partition


Results = list[tuple[SessionEntry, FetchResult]]


class Watched(Readable, Protocol):
    """A partition that tells sessions when it moves."""

    @property
    def watchers(self) -> dict[Watcher, None]: ...


class FetchSession:
    """`dirty` entries are to be looked at by the next request; `wait` is the one under way."""

    def __init__(self, session_id: int, *, uses_ids: bool, privileged: bool, now_ms: float) -> None:
        self.id = session_id
        self.uses_ids = uses_ids
        self.privileged = privileged
        self.created_ms = now_ms
        self.used_ms = self.used_before_ms = now_ms
        self.next_epoch = 1
        self.dirty: dict[SessionEntry, None] = {}
        self.wait: FetchWait | None = None
        # Of its entries, about.
        self.weight = 0
        self._entries: dict[Identity, SessionEntry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def update(self, named: Iterable[SessionEntry], forgotten: Iterable[Identity] = ()) -> None:
        entries = self._entries
        for entry in named:
            known = entries.get(entry.identity)
            if known is None:
                known = entries[entry.identity] = entry
                entry.session = self
                self.weight += entry.weight
            else:
                known.asked_again(entry.want)
            # To the end: partitions with data are named again in every request, and others are to
            # get their turn when the response size is short.
            self.dirty.pop(known, None)
            self.dirty[known] = None
        for name in forgotten:
            gone = entries.pop(name, None)
            if gone is not None:
                self.dirty.pop(gone, None)
                gone.unwatch()
                self.weight -= gone.weight

    def new_among(self, named: Iterable[SessionEntry]) -> list[SessionEntry]:
        """Those that the session does not have yet."""
        return [entry for entry in named if entry.identity not in self._entries]

    def close(self) -> None:
        for entry in self._entries.values():
            entry.unwatch()
            entry.session = None

    def news(self, results: Results, *, full: bool) -> Results:
        """What the answer holds. Those with records come last in the next one, even where the
        client does not name them again (KIP-227)."""
        news = [(entry, result) for entry, result in results if entry.is_news(result) or full]
        dirty = self.dirty
        for entry, result in news:
            if result.records and entry in dirty:
                del dirty[entry]
                dirty[entry] = None
        return news


class FetchSessions:
    """At most `slots` sessions, and no more than fit into `most_bytes`; a new one takes the place
    of an idle or a smaller, older one."""

    def __init__(self, slots: int, random: Random, most_bytes: int = MOST_BYTES) -> None:
        self._slots = slots
        self._most_bytes = most_bytes
        self._random = random
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: int) -> FetchSession | None:
        return self._sessions.get(session_id)

    def close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()

    def continued(
        self, session_id: int, epoch: int, *, uses_ids: bool, now_ms: float
    ) -> FetchSession | ErrorCode:
        """The session for an incremental request, its epoch moved on; or why not."""
        session = self._sessions.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.next_epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_ids != uses_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.next_epoch = 1 if epoch == MAX_SESSION_EPOCH else epoch + 1
        session.used_before_ms, session.used_ms = session.used_ms, now_ms
        return session

    def create(
        self,
        size: int,
        *,
        uses_ids: bool,
        privileged: bool,
        now_ms: float,
        weight: int = 0,
    ) -> FetchSession | None:
        """None where there is no room: the client then goes on without a session."""
        if (
            size == 0
            or not self.has_room_for(weight, privileged=privileged)
            or not self._make_room(size, privileged, now_ms)
        ):
            return None
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._random.randint(1, _LARGEST_ID)
        session = FetchSession(session_id, uses_ids=uses_ids, privileged=privileged, now_ms=now_ms)
        self._sessions[session_id] = session
        return session

    def has_room_for(self, weight: int, *, privileged: bool) -> bool:
        """Whether so many bytes more may be held; consumers' sessions make way for followers'."""
        room = self._most_bytes - weight - sum(s.weight for s in self._sessions.values())
        if room >= 0 or not privileged:
            return room >= 0
        others = [session for session in self._sessions.values() if not session.privileged]
        for session in sorted(others, key=lambda session: session.weight, reverse=True):
            if room >= 0:
                break
            room += session.weight
            self.close(session.id)
        return room >= 0

    def _make_room(self, size: int, privileged: bool, now_ms: float) -> bool:
        if len(self._sessions) < self._slots:
            return True
        if not self._sessions:
            return False
        idlest = min(self._sessions.values(), key=lambda session: session.used_ms)
        if now_ms - idlest.used_ms > _EVICTABLE_AFTER_MS:
            self.close(idlest.id)
            return True
        # A follower may take any consumer's place; otherwise only an older session that is not
        # larger than the new one has to go.
        evictable = [
            session
            for session in self._sessions.values()
            if (privileged and not session.privileged)
            or (
                now_ms - session.created_ms > _EVICTABLE_AFTER_MS
                and session.privileged <= privileged
                and len(session) <= size
            )
        ]
        if not evictable:
            return False
        smallest = min(evictable, key=lambda session: (session.privileged, len(session)))
        self.close(smallest.id)
        return True
