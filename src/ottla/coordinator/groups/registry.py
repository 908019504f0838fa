"""The groups that this broker coordinates: found, made, written, woken in time and let go.

The log, loading and unloading are in `coordinator/shards.py`, the rules of membership in
`rebalance.py`. After every change of a group comes `settle`, which does what the rules have asked
for.

The log says the same as memory because it hears everything in the same order: what is changed in
one step is handed to the log in that step (`append`, `begin`), behind all that was changed before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from math import inf
from typing import Any, TypeVar

from ottla.bounds.first_step import resume
from ottla.coordinator.deadlines import Deadlines
from ottla.coordinator.fenced_topics import FencedTopics
from ottla.coordinator.groups import rebalance
from ottla.coordinator.groups.answers import GROUP_WRITE_ERRORS, TOO_LARGE
from ottla.coordinator.groups.group import Group, GroupSettings, GroupState, GroupWrite
from ottla.coordinator.groups.records import (
    CommittedOffset,
    encode_group_key,
    encode_group_value,
    encode_offset_key,
    offset_entries,
)
from ottla.coordinator.groups.replay import Replay
from ottla.coordinator.ports import ClusterMetadata, CoordinatorConfig, CoordinatorReplicas
from ottla.coordinator.shards import ProducerStamp, Shard, Shards, ShardSettings
from ottla.errors import ErrorCode
from ottla.runtime import Runtime
from ottla.topics.names import OFFSETS_TOPIC
from ottla.types import TopicPartition

logger = logging.getLogger(__name__)

# Of one append: far below what a batch of __consumer_offsets may hold as a rule.
_ENTRIES_PER_BATCH = 500
# Each of them has up to three records in a batch of `replace_many`.
_PARTITIONS_PER_BATCH = 500

Entry = tuple[bytes, bytes | None]
T = TypeVar("T")


class GroupRegistry:
    """Owns the shards of `__consumer_offsets`, the one timer of all groups and the writes that
    are under way."""

    def __init__(
        self,
        runtime: Runtime,
        config: CoordinatorConfig,
        replicas: CoordinatorReplicas,
        metadata: ClusterMetadata,
    ) -> None:
        self._clock = runtime.clock
        self._replicas = replicas
        self.settings = GroupSettings(
            config.integer("group.min.session.timeout.ms"),
            config.integer("group.max.session.timeout.ms"),
            config.integer("group.initial.rebalance.delay.ms"),
            config.integer("group.max.size"),
        )
        self.shards = Shards[Group](
            runtime.clock,
            ShardSettings(
                OFFSETS_TOPIC,
                config.integer("offsets.topic.num.partitions"),
                config.integer("offsets.commit.required.acks"),
                config.integer("offsets.commit.timeout.ms"),
                config.integer("offsets.load.buffer.size"),
            ),
            replicas,
            metadata,
            new_replay=lambda: Replay(runtime.clock, self.settings),
            on_loaded=self._loaded,
            on_unloaded=self._unloaded,
        )
        self.deadlines = Deadlines(runtime.clock, self._wake)
        self.is_active = False
        # Told of every shard that was loaded.
        self.after_load: list[Callable[[Shard[Group]], None]] = []
        # Hand over what comes before the next append.
        self.before_append: list[Callable[[], None]] = []
        # Names of topics that ended, while somebody finds out what becomes of their offsets: those
        # of another topic of that name would be taken for them.
        self.ending_topics = FencedTopics()
        self._tasks: set[asyncio.Future[Any]] = set()

    def start(self) -> None:
        self.is_active = True
        self._replicas.leadership.add(self.shards.became_leader, self.shards.resigned)

    async def close(self) -> None:
        self.is_active = False
        await self.shards.close()
        self.deadlines.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def find(self, group_id: str, *, allow_empty: bool = False) -> Shard[Group] | ErrorCode:
        """The gate of every request (validateGroupStatus)."""
        if not group_id and not allow_empty:
            return ErrorCode.INVALID_GROUP_ID
        if not self.is_active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return self.shards.find(group_id)

    def lacks(self, partitions: Collection[int]) -> bool:
        """Whether some of these are not loaded here."""
        loaded = {shard.partition for shard in self.shards.loaded()}
        return not loaded.issuperset(partitions)

    def create(self, shard: Shard[Group], group_id: str) -> Group:
        group = Group(group_id, self._clock, self.settings)
        shard.entries[group_id] = group
        return group

    def drop(self, shard: Shard[Group], group: Group) -> None:
        shard.entries.pop(group.group_id, None)
        self.deadlines.forget(group.group_id)
        rebalance.close(group, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def settle(self, shard: Shard[Group], group: Group) -> None:
        """After every change: does what fell due, writes what is to be written, sets the timer."""
        if group.wake_at <= group.now():
            rebalance.expire(group)
        if group.writes:
            writes, group.writes = group.writes, []
            for write in writes:
                self.spawn(self._write_group(shard, group, write))
        if group.wake_at < inf:
            self.deadlines.schedule(group.group_id, group.wake_at)

    async def _write_group(self, shard: Shard[Group], group: Group, write: GroupWrite) -> None:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        # A dead group may have its tombstone already: behind that it would be back.
        if group.state is not GroupState.DEAD:
            entry = (encode_group_key(group.group_id), encode_group_value(write.value))
            error, _ = await self.append(shard, [entry])
        write.written(GROUP_WRITE_ERRORS.get(error, error))
        if group.state is not GroupState.DEAD:
            self.settle(shard, group)

    def _wake(self, group_id: str) -> None:
        shard = self.shards.find(group_id)
        group = None if isinstance(shard, ErrorCode) else shard.entries.get(group_id)
        if group is not None and not isinstance(shard, ErrorCode):
            self.settle(shard, group)

    def _loaded(self, shard: Shard[Group]) -> None:
        for group in shard.entries.values():
            rebalance.start_sessions(group)
            self.settle(shard, group)
        for listener in self.after_load:
            listener(shard)

    def _unloaded(self, shard: Shard[Group]) -> None:
        for group in shard.entries.values():
            self.deadlines.forget(group.group_id)
            rebalance.close(group, ErrorCode.NOT_COORDINATOR)

    async def replace_offsets(
        self,
        shard: Shard[Group],
        group: Group,
        *,
        new: Mapping[TopicPartition, CommittedOffset],
        gone: Collection[TopicPartition],
    ) -> ErrorCode:
        """Stores some offsets of a group and ends others, in one append: all of it, or nothing."""
        if any(tp.topic in self.ending_topics for tp in new):
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        entries: list[Entry] = [*offset_entries(group.group_id, new)]
        entries += [(encode_offset_key(group.group_id, tp), None) for tp in gone]
        under_way = group.offsets.begin({**new, **dict.fromkeys(gone)})
        appended_at = None
        try:
            error, base_offset = await self.append(shard, entries)
            appended_at = base_offset if error is ErrorCode.NONE else None
        finally:
            group.offsets.finish(under_way, appended_at)
        return error

    async def replace_many(
        self,
        shard: Shard[Group],
        group: Group,
        *,
        new: Mapping[TopicPartition, CommittedOffset],
        gone: Collection[TopicPartition],
    ) -> ErrorCode:
        """As `replace_offsets`, in as many appends as it takes: names of groups and notes beside
        offsets can be long. What stands for a partition of either topic is in one of them."""
        numbers = sorted({tp.partition for tp in (*new, *gone)})
        size = _PARTITIONS_PER_BATCH
        parts = [numbers[start : start + size] for start in range(0, len(numbers), size)]
        while parts:
            part = parts.pop(0)
            some = set(part)
            error = await self.replace_offsets(
                shard,
                group,
                new={tp: commit for tp, commit in new.items() if tp.partition in some},
                gone=[tp for tp in gone if tp.partition in some],
            )
            if error in TOO_LARGE and len(part) > 1:
                middle = len(part) // 2
                parts[:0] = [part[:middle], part[middle:]]
            elif error is not ErrorCode.NONE:
                return error
        return ErrorCode.NONE

    # --- the log --------------------------------------------------------------------------

    async def append(
        self, shard: Shard[Group], entries: Sequence[Entry], producer: ProducerStamp | None = None
    ) -> tuple[ErrorCode, int]:
        """One batch, behind everything before it; Kafka's raw error and the batch's offset."""
        self._hand_over()
        return await self.shards.append(shard, entries, producer)

    async def append_all(self, shard: Shard[Group], entries: Sequence[Entry]) -> ErrorCode:
        """In as many batches as it takes, none of which waits for another: what comes later must
        not get between them. The first error, raw."""
        # Once: whoever is answered now may commit again at once.
        self._hand_over()
        size = _ENTRIES_PER_BATCH
        parts = [entries[start : start + size] for start in range(0, len(entries), size)]
        errors = [await each for each in [self.begin(self._append_part(shard, p)) for p in parts]]
        return next(filter(None, errors), ErrorCode.NONE)

    async def _append_part(self, shard: Shard[Group], entries: Sequence[Entry]) -> ErrorCode:
        error, _ = await self.shards.append(shard, entries)
        if error not in TOO_LARGE or len(entries) == 1:
            return error
        middle = len(entries) // 2
        halves = (entries[:middle], entries[middle:])
        first, second = [self.begin(self._append_part(shard, half)) for half in halves]
        return await first or await second

    def _hand_over(self) -> None:
        for hand_over in self.before_append:
            hand_over()

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
        """Like `spawn`, but the first step is made now: what it appends comes before all that is
        appended after this call."""
        ended: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        try:
            waiting = work.send(None)
        except StopIteration as end:
            ended.set_result(end.value)
        except Exception as error:
            ended.set_exception(error)
            self._finished(ended)
        else:
            return self.spawn(resume(work, waiting))
        return ended

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, work: asyncio.Future[Any]) -> None:
        self._tasks.discard(work)
        if not work.cancelled() and (error := work.exception()) is not None:
            logger.error("Work of the group coordinator failed", exc_info=error)
