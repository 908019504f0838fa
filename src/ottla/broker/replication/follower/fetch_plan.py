"""What a follower's next fetch says: its side of an incremental session (FetchSessionHandler)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.broker.replication.fetch_protocol import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    MAX_SESSION_EPOCH,
    NO_SESSION,
    FetchPartition,
)
from ottla.types import TopicPartition


class Plan(NamedTuple):
    """What the next request says."""

    session_id: int
    session_epoch: int
    wanted: dict[TopicPartition, FetchPartition]
    forgotten: list[TopicPartition]


class FollowerSession:
    """What the leader was told, so that the next request names only what differs."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        # What the leader was last told of each partition.
        self.told: dict[TopicPartition, FetchPartition] = {}

    @property
    def starts_over(self) -> bool:
        """The next request names all partitions."""
        return self._epoch in (INITIAL_EPOCH, FINAL_EPOCH)

    def full_plan(self, wanted: Mapping[TopicPartition, FetchPartition]) -> Plan:
        self.told = dict(wanted)
        return Plan(self._id, self._epoch, dict(wanted), [])

    def plan(
        self,
        wanted: Mapping[TopicPartition, FetchPartition],
        unwanted: Iterable[TopicPartition] = (),
    ) -> Plan:
        """Names what differs from what was told before, of the partitions given here; the leader
        goes on with all others."""
        told = self.told
        changed = {tp: want for tp, want in wanted.items() if told.get(tp) != want}
        forgotten = [tp for tp in unwanted if told.pop(tp, None) is not None]
        told.update(changed)
        return Plan(self._id, self._epoch, changed, forgotten)

    def answered(self, session_id: int) -> None:
        """A good answer: the session goes on, or there is none (id 0)."""
        if session_id == NO_SESSION:
            self._id, self._epoch = NO_SESSION, INITIAL_EPOCH
            return
        self._id = session_id
        self._epoch = 1 if self._epoch in (INITIAL_EPOCH, MAX_SESSION_EPOCH) else self._epoch + 1

    def failed(self) -> None:
        """Unknown id, wrong epoch or a lost connection: start over with a full request, which
        also closes what may be left of the old session."""
        self._epoch = INITIAL_EPOCH
