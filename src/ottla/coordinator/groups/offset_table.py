"""The committed offsets of one group, and the rules by which they expire (KIP-211).

A commit is `pending` from the moment it is handed to the log until the log has answered; a
transactional one stays pending under its producer id until the marker. What is removed meanwhile
stays away, whatever the log answers: its tombstone stands behind the commit. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.coordinator.groups.hidden_names import read_hidden
from ottla.coordinator.groups.records import CommittedOffset
from ottla.types import TopicPartition

Commits = Mapping[TopicPartition, CommittedOffset]
# None: a tombstone.
Changes = Mapping[TopicPartition, CommittedOffset | None]
_BEFORE_ALL = -1


class _Staged(NamedTuple):
    """A transactional commit and where in the log it stands. One that was loaded stands before
    everything that this coordinator writes, and after every commit that was loaded with it."""

    commit: CommittedOffset
    position: int = _BEFORE_ALL


# The commits of one partition in one transaction: the last that the log has, then those on their
# way there. The last of all is the one that counts, unless the log refuses it.
_Stages = list[_Staged]


class UnderWay:
    """Changes on their way into the log, without what has been removed since (GroupMetadata's
    removeOffsets ends pending commits too)."""

    __slots__ = ("changes",)

    def __init__(self, changes: Changes) -> None:
        self.changes = dict(changes)


@dataclass(slots=True, eq=False, repr=False)
class OffsetTable:
    """What is visible, what is on its way into the log, and what waits for a marker."""

    committed: dict[TopicPartition, CommittedOffset] = field(default_factory=dict)
    _pending: dict[TopicPartition, list[UnderWay]] = field(default_factory=dict)
    # Where in the log the visible commit stands, as far as this coordinator wrote it; or the
    # tombstone, while older commits may still become visible.
    _positions: dict[TopicPartition, int] = field(default_factory=dict)
    _transactional: dict[int, dict[TopicPartition, _Stages]] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not (self.committed or self._pending or self._transactional)

    def begin(self, changes: Changes) -> UnderWay:
        under_way = UnderWay(changes)
        for partition in changes:
            self._pending.setdefault(partition, []).append(under_way)
        return under_way

    def finish(self, under_way: UnderWay, appended_at: int | None) -> None:
        """The log has answered with the offset of the changes' batch; None if it refused them.

        The change that stands later in the log wins, whichever answer came first.
        """
        for partition, commit in under_way.changes.items():
            pending = self._pending[partition]
            pending.remove(under_way)
            if not pending:
                del self._pending[partition]
            if appended_at is not None and appended_at >= self._positions.get(partition, -1):
                self._positions[partition] = appended_at
                if commit is not None:
                    self.committed[partition] = commit
                else:
                    self.committed.pop(partition, None)
            if partition not in self.committed:
                self._trim_position(partition)

    def _trim_position(self, partition: TopicPartition) -> None:
        """Of a tombstone it is of no use any more when nothing is on its way."""
        if not self.is_unstable(partition):
            self._positions.pop(partition, None)

    def stage(self, producer_id: int, partition: TopicPartition, commit: CommittedOffset) -> None:
        """A transactional commit that the log has: not visible before the transaction's marker."""
        self._transactional.setdefault(producer_id, {})[partition] = [_Staged(commit)]

    def begin_staged(self, producer_id: int, commits: Commits) -> None:
        """Transactional commits go to the log. They count already: the marker may be faster than
        the log's answer."""
        staged = self._transactional.setdefault(producer_id, {})
        for partition, commit in commits.items():
            staged.setdefault(partition, []).append(_Staged(commit))

    def finish_staged(self, producer_id: int, commits: Commits, appended_at: int | None) -> None:
        """The log has answered with the offset of the commits' batch. None if it refused them: what
        the transaction committed before still stands."""
        staged = self._transactional.get(producer_id)
        if staged is None:
            return  # the marker was faster
        for partition, commit in commits.items():
            stages = staged.get(partition, [])
            place = next((n for n, each in enumerate(stages) if each.commit is commit), None)
            if place is None:
                continue
            if appended_at is not None:
                stages[: place + 1] = [_Staged(commit, appended_at)]
            elif len(stages) > 1:
                del stages[place]
            else:
                del staged[partition]
        if not staged:
            del self._transactional[producer_id]

    def restore(self, partition: TopicPartition, commit: CommittedOffset) -> None:
        """A plain commit as it is read from the log: transactional ones before it have lost."""
        self._unstage_partition(partition)
        self.committed[partition] = commit

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Here too the commit that stands later in the log wins."""
        for partition, stages in self._transactional.pop(producer_id, {}).items():
            commit, position = stages[-1]
            if committed and position >= self._positions.get(partition, _BEFORE_ALL):
                self.committed[partition] = commit
                if position > _BEFORE_ALL:
                    self._positions[partition] = position
            if partition not in self.committed:
                self._trim_position(partition)

    def is_unstable(self, partition: TopicPartition) -> bool:
        """A commit is under way, which a reader of stable offsets must wait for (KIP-447)."""
        return partition in self._pending or any(
            partition in staged for staged in self._transactional.values()
        )

    def has_staged(self, topic: str) -> bool:
        """Whether offsets of the topic wait for a marker."""
        return any(tp.topic == topic for staged in self._transactional.values() for tp in staged)

    def has_pending(self, topic: str) -> bool:
        """Whether commits of the topic are on their way into the log."""
        return any(tp.topic == topic for tp in self._pending)

    def remove(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Drops offsets, even those pending; returns those that the log has or may get. Tombstones
        of them have to be appended before anything else is."""
        removed = []
        for partition in partitions:
            found = self.committed.pop(partition, None) is not None
            self._positions.pop(partition, None)
            found = self._unstage_partition(partition) or found
            for under_way in self._pending.pop(partition, ()):
                del under_way.changes[partition]
                found = True
            if found:
                removed.append(partition)
        return removed

    def _unstage_partition(self, partition: TopicPartition) -> bool:
        found = False
        for producer_id, staged in list(self._transactional.items()):
            found = staged.pop(partition, None) is not None or found
            if not staged:
                del self._transactional[producer_id]
        return found

    def all_partitions(self) -> set[TopicPartition]:
        staged = (partition for each in self._transactional.values() for partition in each)
        return {*self.committed, *self._pending, *staged}

    def expired(
        self,
        now_ms: int,
        retention_ms: int,
        *,
        base_timestamp_ms: int | None = None,
        except_topics: Collection[str] = (),
    ) -> list[TopicPartition]:
        """Offsets past their time: `retention_ms` after `base_timestamp_ms` (or after the commit
        where that is None), or at the time that the commit itself named."""
        found = []
        for partition, commit in self.committed.items():
            if partition.topic in except_topics or self.is_unstable(partition):
                continue
            hidden = read_hidden(partition.topic)
            if hidden is not None:
                is_due = now_ms >= hidden.until_ms
            elif commit.expire_timestamp_ms is not None:
                is_due = now_ms >= commit.expire_timestamp_ms
            else:
                base = (
                    commit.commit_timestamp_ms if base_timestamp_ms is None else base_timestamp_ms
                )
                is_due = now_ms - base >= retention_ms
            if is_due:
                found.append(partition)
        return found


def within_limit(commits: Commits, max_metadata: int) -> dict[TopicPartition, CommittedOffset]:
    """The commits whose metadata is not too long (offset.metadata.max.bytes)."""
    return {tp: commit for tp, commit in commits.items() if len(commit.metadata) <= max_metadata}
