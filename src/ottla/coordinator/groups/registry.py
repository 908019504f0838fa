"""The groups that this broker coordinates: found, made, written, woken in time and let go.

The log, loading and unloading are in `coordinator/shards.py`, the rules of membership in
`rebalance.py`. After every change of a group comes `settle`, which does what the rules have asked
for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from math import inf

from ottla.coordinator.deadlines import Deadlines
from ottla.coordinator.groups import rebalance
from ottla.coordinator.groups.answers import GROUP_WRITE_ERRORS
from ottla.coordinator.groups.group import Group, GroupSettings, GroupState, GroupWrite
from ottla.coordinator.groups.records import encode_group_key, encode_group_value
from ottla.coordinator.groups.replay import Replay
from ottla.coordinator.ports import ClusterMetadata, CoordinatorConfig, CoordinatorReplicas
from ottla.coordinator.shards import Shard, Shards, ShardSettings
from ottla.errors import ErrorCode
from ottla.runtime import Runtime
from ottla.topics.names import OFFSETS_TOPIC

logger = logging.getLogger(__name__)


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
        self._tasks: set[asyncio.Task[None]] = set()

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
        entry = (encode_group_key(group.group_id), encode_group_value(write.value))
        error, _ = await self.shards.append(shard, [entry])
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

    def _unloaded(self, shard: Shard[Group]) -> None:
        for group in shard.entries.values():
            self.deadlines.forget(group.group_id)
            rebalance.close(group, ErrorCode.NOT_COORDINATOR)

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("Work of the group coordinator failed", exc_info=error)
