"""The partitions of `__consumer_offsets` that this broker leads: loading, unloading, appending.

A shard is one such partition with the groups that live in it. Its groups become visible only when
the whole log was read; a resignation while it loads simply drops it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ottla.coordinator.groups import Group, GroupSettings
from ottla.coordinator.placement import partition_of
from ottla.coordinator.ports import ClusterMetadata, CoordinatorConfig, CoordinatorReplicas
from ottla.coordinator.replay import Replay
from ottla.errors import ErrorCode, OttlaError
from ottla.runtime import Clock
from ottla.topics.names import OFFSETS_TOPIC
from ottla.types import TopicPartition
from ottla.wire import records

log = logging.getLogger(__name__)

# Read in small steps: other requests are served between two of them.
_LOAD_STEP_BYTES = 256 * 1024


@dataclass(slots=True, eq=False, repr=False)
class Shard:
    partition: int
    leader_epoch: int
    groups: dict[str, Group] = field(default_factory=dict)
    is_loaded: bool = False


class Shards:
    def __init__(
        self,
        clock: Clock,
        config: CoordinatorConfig,
        settings: GroupSettings,
        replicas: CoordinatorReplicas,
        metadata: ClusterMetadata,
        *,
        on_loaded: Callable[[Shard], None],
        on_unloaded: Callable[[Shard], None],
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._replicas = replicas
        self._metadata = metadata
        self._on_loaded = on_loaded
        self._on_unloaded = on_unloaded
        self._configured_partitions = config.integer("offsets.topic.num.partitions")
        self._acks = config.integer("offsets.commit.required.acks")
        self._timeout_ms = config.integer("offsets.commit.timeout.ms")
        self._load_step_bytes = min(config.integer("offsets.load.buffer.size"), _LOAD_STEP_BYTES)
        self._owned: dict[int, Shard] = {}
        # The last leader epoch seen per partition: older news is ignored.
        self._epochs: dict[int, int] = {}
        self._loads: dict[int, asyncio.Task[None]] = {}
        # One load at a time, as Kafka's group metadata scheduler with its single thread.
        self._one_load = asyncio.Lock()

    # --- finding --------------------------------------------------------------------------

    def partition_for(self, group_id: str) -> int:
        count = len(self._metadata.topic_partitions(OFFSETS_TOPIC)) or self._configured_partitions
        return partition_of(group_id, count)

    def find(self, group_id: str) -> Shard | ErrorCode:
        """The loaded shard of a group, or why there is none."""
        shard = self._owned.get(self.partition_for(group_id))
        if shard is None:
            return ErrorCode.NOT_COORDINATOR
        return shard if shard.is_loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def owns(self, shard: Shard) -> bool:
        return self._owned.get(shard.partition) is shard

    def loaded(self) -> list[Shard]:
        return [shard for shard in self._owned.values() if shard.is_loaded]

    @property
    def is_loading(self) -> bool:
        return any(not shard.is_loaded for shard in self._owned.values())

    # --- leadership -----------------------------------------------------------------------

    def became_leader(self, tp: TopicPartition, leader_epoch: int) -> None:
        if tp.topic != OFFSETS_TOPIC or leader_epoch < self._epochs.get(tp.partition, -1):
            return
        self._epochs[tp.partition] = leader_epoch
        shard = self._owned.get(tp.partition)
        if shard is not None:
            shard.leader_epoch = leader_epoch  # leader before and after: nothing to read
            return
        self._owned[tp.partition] = shard = Shard(tp.partition, leader_epoch)
        self._loads[tp.partition] = asyncio.get_running_loop().create_task(self._load(shard))

    def resigned(self, tp: TopicPartition, leader_epoch: int | None) -> None:
        """`leader_epoch` None: the replica is gone, whatever the epoch, and a topic that is made
        again starts from epoch 0."""
        if tp.topic != OFFSETS_TOPIC:
            return
        if leader_epoch is None:
            self._epochs.pop(tp.partition, None)
        else:
            if leader_epoch < self._epochs.get(tp.partition, -1):
                return
            self._epochs[tp.partition] = leader_epoch
        load = self._loads.pop(tp.partition, None)
        if load is not None:
            load.cancel()
        shard = self._owned.pop(tp.partition, None)
        if shard is not None:
            self._on_unloaded(shard)

    async def close(self) -> None:
        loads = list(self._loads.values())
        for partition in list(self._owned):
            self.resigned(TopicPartition(OFFSETS_TOPIC, partition), None)
        await asyncio.gather(*loads, return_exceptions=True)

    async def _load(self, shard: Shard) -> None:
        tp = TopicPartition(OFFSETS_TOPIC, shard.partition)
        started_ms = self._clock.monotonic_ms()
        try:
            async with self._one_load:
                groups = await self._read(tp)
        except (OttlaError, OSError) as error:
            # Dropped, so that clients look for a coordinator again instead of waiting for ever.
            log.error("Groups of %s cannot be loaded: %s", tp, error)
            self._loads.pop(shard.partition, None)
            self.resigned(tp, None)
            return
        self._loads.pop(shard.partition, None)
        shard.groups = groups
        shard.is_loaded = True
        took_ms = self._clock.monotonic_ms() - started_ms
        log.info("Loaded %d groups from %s in %d ms", len(groups), tp, took_ms)
        self._on_loaded(shard)

    async def _read(self, tp: TopicPartition) -> dict[str, Group]:
        replay = Replay()
        source = self._replicas.log(tp)
        if source is not None:
            offset, end_offset = source.start_offset, source.end_offset
            while offset < end_offset:
                data = source.read(offset, self._load_step_bytes, end_offset, min_one_batch=True)
                next_offset = replay.absorb(data)
                if next_offset is None or next_offset <= offset:
                    break  # nothing whole is left below the end: the rest was compacted away
                offset = next_offset
                await asyncio.sleep(0)
        return replay.groups(self._clock, self._settings)

    # --- appending ------------------------------------------------------------------------

    async def append(
        self, shard: Shard, entries: Sequence[tuple[bytes, bytes | None]]
    ) -> tuple[ErrorCode, int]:
        """Appends one batch of keys and values; Kafka's raw error and the batch's offset."""
        if not self.owns(shard):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
        now_ms = self._clock.now_ms()
        tp = TopicPartition(OFFSETS_TOPIC, shard.partition)
        results = await self._replicas.append(
            {tp: memoryview(bytearray(_build(entries, now_ms)))},
            acks=self._acks,
            timeout_ms=self._timeout_ms,
            internal_topics_allowed=True,
            from_coordinator=True,
        )
        result = results[tp]
        return ErrorCode(result.error), result.base_offset


def _build(entries: Iterable[tuple[bytes, bytes | None]], now_ms: int) -> bytes:
    return records.build_batch(
        [records.Record(timestamp=now_ms, key=key, value=value) for key, value in entries]
    )
