"""The committed offsets of one group, and the rules by which they expire (KIP-211).

A commit is `pending` from the moment it is handed to the log until the log has answered; a
transactional one stays pending under its producer id until the marker. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.coordinator.groups.records import CommittedOffset
from ottla.types import TopicPartition

Commits = Mapping[TopicPartition, CommittedOffset]
_BEFORE_ALL = -1


class _Staged(NamedTuple):
    """A transactional commit and where in the log it stands. One that was loaded stands before
    everything that this coordinator writes, and after every commit that was loaded with it."""

    commit: CommittedOffset
    position: int = _BEFORE_ALL


# The commits of one partition in one transaction: the last that the log has, then those on their
# way there. The last of all is the one that counts, unless the log refuses it.
_Stages = list[_Staged]


@dataclass(slots=True, eq=False, repr=False)
class OffsetTable:
    """What is visible, what is on its way into the log, and what waits for a marker."""

    committed: dict[TopicPartition, CommittedOffset] = field(default_factory=dict)
    # How many commits of a partition are on their way into the log.
    _pending: dict[TopicPartition, int] = field(default_factory=dict)
    # Where in the log the visible commit stands, as far as this coordinator wrote it.
    _positions: dict[TopicPartition, int] = field(default_factory=dict)
    _transactional: dict[int, dict[TopicPartition, _Stages]] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not (self.committed or self._pending or self._transactional)

    def begin(self, commits: Commits) -> None:
        for partition in commits:
            self._pending[partition] = self._pending.get(partition, 0) + 1

    def finish(self, commits: Commits, appended_at: int | None) -> None:
        """The log has answered with the offset of the commits' batch; None if it refused them.

        The commit that stands later in the log wins, whichever answer came first.
        """
        for partition, commit in commits.items():
            left = self._pending.get(partition, 0) - 1
            if left > 0:
                self._pending[partition] = left
            else:
                self._pending.pop(partition, None)
            if appended_at is not None and appended_at >= self._positions.get(partition, -1):
                self._positions[partition] = appended_at
                self.committed[partition] = commit

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

    def is_unstable(self, partition: TopicPartition) -> bool:
        """A commit is under way, which a reader of stable offsets must wait for (KIP-447)."""
        return partition in self._pending or any(
            partition in staged for staged in self._transactional.values()
        )

    def remove(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Drops offsets, even those pending in a transaction; returns those that were there."""
        removed = []
        for partition in partitions:
            found = self.committed.pop(partition, None) is not None
            self._positions.pop(partition, None)
            found = self._unstage_partition(partition) or found
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
        return {*self.committed, *staged}

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
            if commit.expire_timestamp_ms is not None:
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
