"""Incremental fetch sessions on the leader's side (KIP-227; FetchSession, FetchManager).

A session remembers which partitions a client fetches and what it was told last, so that a request
names only what changed and an answer only what is new. Sessions made by topic id (v13+) and by
name do not mix (KIP-516).
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import NamedTuple

from ottla.broker.replica_types import FetchPartition, FetchResult
from ottla.errors import ErrorCode
from ottla.types import ZERO_TOPIC_ID, TopicId

FINAL_EPOCH = -1
INITIAL_EPOCH = 0
NO_SESSION = 0
_MAX_EPOCH = 0x7FFFFFFF
_EVICTABLE_AFTER_MS = 120_000


class SessionKey(NamedTuple):
    """A partition as the client names it; `topic` is None for an id that is not known (yet)."""

    topic_id: TopicId
    topic: str | None
    partition: int

    @property
    def identity(self) -> tuple[TopicId | str | None, int]:
        return (self.topic if self.topic_id == ZERO_TOPIC_ID else self.topic_id), self.partition


class _Cached:
    __slots__ = ("high_watermark", "key", "start_offset", "want")

    def __init__(self, key: SessionKey, want: FetchPartition) -> None:
        self.key = key
        self.want = want
        self.high_watermark = -1
        self.start_offset = -1

    def is_news(self, result: FetchResult) -> bool:
        """Whether an incremental answer has to hold this partition; remembers what it says."""
        news = (
            result.size > 0
            or result.error is not ErrorCode.NONE
            or result.diverging_epoch is not None
            or result.preferred_read_replica >= 0
            or self.high_watermark != result.high_watermark
            or self.start_offset != result.log_start_offset
        )
        # After an error the next good answer is news again, whatever it says.
        failed = result.error is not ErrorCode.NONE
        self.high_watermark = -1 if failed else result.high_watermark
        self.start_offset = result.log_start_offset
        return news


class FetchSession:
    def __init__(self, session_id: int, *, uses_ids: bool, privileged: bool, now_ms: float) -> None:
        self.id = session_id
        self.uses_ids = uses_ids
        self.privileged = privileged
        self.created_ms = now_ms
        self.used_ms = now_ms
        self.next_epoch = 1
        self._cached: dict[tuple[TopicId | str | None, int], _Cached] = {}

    def __len__(self) -> int:
        return len(self._cached)

    def update(
        self,
        wanted: Iterable[tuple[SessionKey, FetchPartition]],
        forgotten: Iterable[SessionKey] = (),
    ) -> None:
        cached = self._cached
        for key, want in wanted:
            known = cached.get(key.identity)
            if known is None:
                cached[key.identity] = _Cached(key, want)
            else:
                known.key, known.want = key, want
        for key in forgotten:
            cached.pop(key.identity, None)

    def wanted(self) -> list[tuple[SessionKey, FetchPartition]]:
        return [(entry.key, entry.want) for entry in self._cached.values()]

    def rename(self, key: SessionKey) -> None:
        """The metadata cache has learnt the name behind an id."""
        entry = self._cached.get(key.identity)
        if entry is not None:
            entry.key = key

    def news(
        self, results: list[tuple[SessionKey, FetchResult]], *, full: bool
    ) -> list[tuple[SessionKey, FetchResult]]:
        """What the answer holds. Partitions with data go to the end, so that others get their
        turn when the response size is short."""
        kept: list[tuple[SessionKey, FetchResult]] = []
        for key, result in results:
            entry = self._cached.get(key.identity)
            if entry is None:
                continue
            if entry.is_news(result) or full:
                kept.append((key, result))
                if result.size and not full:
                    self._cached[key.identity] = self._cached.pop(key.identity)
        return kept


class FetchSessions:
    """At most `slots` sessions; a new one takes the place of an idle or a smaller, older one."""

    def __init__(self, slots: int, random: Random) -> None:
        self._slots = slots
        self._random = random
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: int) -> FetchSession | None:
        return self._sessions.get(session_id)

    def close(self, session_id: int) -> None:
        self._sessions.pop(session_id, None)

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
        session.next_epoch = 1 if epoch == _MAX_EPOCH else epoch + 1
        session.used_ms = now_ms
        return session

    def create(
        self, size: int, *, uses_ids: bool, privileged: bool, now_ms: float
    ) -> FetchSession | None:
        """None where there is no room: the client then goes on without a session."""
        if size == 0 or not self._make_room(size, privileged, now_ms):
            return None
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._random.randint(1, _MAX_EPOCH - 1)
        session = FetchSession(session_id, uses_ids=uses_ids, privileged=privileged, now_ms=now_ms)
        self._sessions[session_id] = session
        return session

    def _make_room(self, size: int, privileged: bool, now_ms: float) -> bool:
        if len(self._sessions) < self._slots:
            return True
        if not self._sessions:
            return False
        idlest = min(self._sessions.values(), key=lambda session: session.used_ms)
        if now_ms - idlest.used_ms > _EVICTABLE_AFTER_MS:
            del self._sessions[idlest.id]
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
        del self._sessions[smallest.id]
        return True
