"""Commits of many groups on their way into the log, those of one turn together.

A consumer commits a few offsets at a time, and there are many consumers. Each commit could be a
batch of its own; what the append of a batch costs is paid once where all that one turn of the
event loop brings for a partition of `__consumer_offsets` is one batch. (Apache Kafka's coordinator
does the same since 4.0: `group.coordinator.append.linger.ms`.)

Whatever else is appended for groups comes behind what was gathered before it: a tombstone must not
be overtaken by a commit that it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.coordinator.groups.answers import OFFSET_WRITE_ERRORS, TOO_LARGE
from ottla.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.coordinator.groups.group import Group
    from ottla.coordinator.groups.offset_table import Commits, UnderWay
    from ottla.coordinator.groups.registry import GroupRegistry
    from ottla.coordinator.shards import Shard

# Far below the usual max.message.bytes.
TOGETHER_BYTES = 64 * 1024
# A record's own fields, at most.
_RECORD_OVERHEAD_BYTES = 32

OnEnd = Callable[[ErrorCode], None]
Entries = Sequence[tuple[bytes, bytes]]


class _Commit:
    """The offsets of one request."""

    __slots__ = ("commits", "entries", "group", "on_end")

    def __init__(self, group: Group, commits: UnderWay, entries: Entries, on_end: OnEnd) -> None:
        self.group = group
        self.commits = commits
        self.entries = entries
        self.on_end = on_end


@dataclass(slots=True, eq=False)
class _Batch:
    shard: Shard[Group]
    commits: list[_Commit] = field(default_factory=list)
    size_bytes: int = 0


class CommitBatches:
    """What was committed in this turn; written at its end or before anything else is, in the order
    it came."""

    def __init__(self, registry: GroupRegistry) -> None:
        self._registry = registry
        self._batches: list[_Batch] = []
        # The batch of a partition that takes more.
        self._open: dict[int, _Batch] = {}
        registry.before_append.append(self.flush)

    def add(
        self, shard: Shard[Group], group: Group, commits: Commits, entries: Entries, on_end: OnEnd
    ) -> None:
        """`entries` are the records of the commits; `on_end` is told how they ended."""
        size = sum([len(key) + len(value) + _RECORD_OVERHEAD_BYTES for key, value in entries])
        batch = self._open.get(shard.partition)
        if batch is None or batch.shard is not shard or batch.size_bytes + size > TOGETHER_BYTES:
            if not self._batches:
                asyncio.get_running_loop().call_soon(self.flush)
            batch = self._open[shard.partition] = _Batch(shard)
            self._batches.append(batch)
        batch.commits.append(_Commit(group, group.offsets.begin(commits), entries, on_end))
        batch.size_bytes += size

    def flush(self) -> None:
        """What was gathered is in the log, or refused by it, when this returns."""
        batches, self._batches = self._batches, []
        self._open.clear()
        for batch in batches:
            self._registry.begin(self._write(batch))

    async def _write(self, batch: _Batch) -> None:
        # What those who wait are told where this is cancelled: the broker stops.
        error, base_offset = ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
        entries = [entry for each in batch.commits for entry in each.entries]
        try:
            error, base_offset = await self._registry.shards.append(batch.shard, entries)
        finally:
            if error in TOO_LARGE and len(batch.commits) > 1:
                self._write_halves(batch)
            else:
                _finish(batch, error, base_offset)

    def _write_halves(self, batch: _Batch) -> None:
        """None of these may fail for what came with it. The log has refused them at once: their
        halves still come before whatever waits to be written."""
        middle = len(batch.commits) // 2
        for half in (batch.commits[:middle], batch.commits[middle:]):
            self._registry.begin(self._write(_Batch(batch.shard, half)))


def _finish(batch: _Batch, error: ErrorCode, base_offset: int) -> None:
    answer = OFFSET_WRITE_ERRORS.get(error, error)
    position = base_offset
    for each in batch.commits:
        each.group.offsets.finish(each.commits, position if error is ErrorCode.NONE else None)
        position += len(each.entries)
        each.on_end(answer)
