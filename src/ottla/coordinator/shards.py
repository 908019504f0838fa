"""The partitions of an internal topic that this broker leads: loading, unloading, appending.

Both coordinators keep their state this way: groups in `__consumer_offsets`, transactions in
`__transaction_state`. A shard is one such partition with the entries that live in it. They become
visible only when the whole log was read; a resignation while it loads simply drops it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar

from ottla.coordinator.placement import partition_of
from ottla.coordinator.ports import ClusterMetadata, CoordinatorReplicas
from ottla.errors import ErrorCode, OttlaError
from ottla.runtime import Clock
from ottla.types import TopicPartition
from ottla.wire import records

logger = logging.getLogger(__name__)

# Read in small steps: other requests are served between two of them.
_LOAD_STEP_BYTES = 256 * 1024

Entry = TypeVar("Entry")


class Replay(Protocol[Entry]):
    """Rebuilds the entries of one partition from its batches, in log order."""

    def absorb(self, data: memoryview) -> int | None:
        """Takes over the whole batches at the front of `data`; the offset after them, None where
        there was no whole batch."""

    def entries(self) -> dict[str, Entry]: ...


class ShardSettings(NamedTuple):
    topic: str
    # Where the topic does not exist yet: how many partitions it will have.
    configured_partitions: int
    acks: int
    timeout_ms: int
    load_buffer_bytes: int


class ProducerStamp(NamedTuple):
    """On whose behalf a batch is written that belongs to a transaction."""

    producer_id: int
    producer_epoch: int


@dataclass(slots=True, eq=False, repr=False)
class Shard(Generic[Entry]):
    partition: int
    leader_epoch: int
    entries: dict[str, Entry] = field(default_factory=dict)
    is_loaded: bool = False


class Shards(Generic[Entry]):
    """Who leads which partition is heard from the replica manager; the coordinator is told when a
    shard has been loaded and when it goes."""

    def __init__(
        self,
        clock: Clock,
        settings: ShardSettings,
        replicas: CoordinatorReplicas,
        metadata: ClusterMetadata,
        *,
        new_replay: Callable[[], Replay[Entry]],
        on_loaded: Callable[[Shard[Entry]], None],
        on_unloaded: Callable[[Shard[Entry]], None],
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._replicas = replicas
        self._metadata = metadata
        self._new_replay = new_replay
        self._on_loaded = on_loaded
        self._on_unloaded = on_unloaded
        self._load_step_bytes = min(settings.load_buffer_bytes, _LOAD_STEP_BYTES)
        self._owned: dict[int, Shard[Entry]] = {}
        # The last leader epoch seen per partition: older news is ignored.
        self._epochs: dict[int, int] = {}
        self._loads: dict[int, asyncio.Task[None]] = {}
        # One load at a time, as Kafka's schedulers with their single thread.
        self._one_load = asyncio.Lock()

    # --- finding --------------------------------------------------------------------------

    def partition_for(self, key: str) -> int:
        settings = self._settings
        count = len(self._metadata.topic_partitions(settings.topic))
        return partition_of(key, count or settings.configured_partitions)

    def find(self, key: str) -> Shard[Entry] | ErrorCode:
        """The loaded shard of a group or transactional id, or why there is none."""
        shard = self._owned.get(self.partition_for(key))
        if shard is None:
            return ErrorCode.NOT_COORDINATOR
        return shard if shard.is_loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def owns(self, shard: Shard[Entry]) -> bool:
        return self._owned.get(shard.partition) is shard

    def loaded(self) -> list[Shard[Entry]]:
        return [shard for shard in self._owned.values() if shard.is_loaded]

    @property
    def is_loading(self) -> bool:
        return any(not shard.is_loaded for shard in self._owned.values())

    # --- leadership -----------------------------------------------------------------------

    def became_leader(self, tp: TopicPartition, leader_epoch: int) -> None:
        if tp.topic != self._settings.topic or leader_epoch < self._epochs.get(tp.partition, -1):
            return
        self._epochs[tp.partition] = leader_epoch
        shard = self._owned.get(tp.partition)
        if shard is not None:
            shard.leader_epoch = leader_epoch  # leader before and after: nothing to read
            return
        self._owned[tp.partition] = shard = Shard[Entry](tp.partition, leader_epoch)
        self._loads[tp.partition] = asyncio.get_running_loop().create_task(self._load(shard))

    def resigned(self, tp: TopicPartition, leader_epoch: int | None) -> None:
        """`leader_epoch` None: the replica is gone, whatever the epoch, and a topic that is made
        again starts from epoch 0."""
        if tp.topic != self._settings.topic:
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
            self.resigned(TopicPartition(self._settings.topic, partition), None)
        await asyncio.gather(*loads, return_exceptions=True)

    async def _load(self, shard: Shard[Entry]) -> None:
        tp = TopicPartition(self._settings.topic, shard.partition)
        started_ms = self._clock.monotonic_ms()
        try:
            async with self._one_load:
                entries = await self._read(tp)
        except (OttlaError, OSError) as error:
            # Dropped, so that clients look for a coordinator again instead of waiting forever.
            logger.error("%s cannot be loaded: %s", tp, error)
            self._loads.pop(shard.partition, None)
            self.resigned(tp, None)
            return
        self._loads.pop(shard.partition, None)
        shard.entries = entries
        shard.is_loaded = True
        took_ms = self._clock.monotonic_ms() - started_ms
        logger.info("Loaded %d entries from %s in %d ms", len(entries), tp, took_ms)
        self._on_loaded(shard)

    async def _read(self, tp: TopicPartition) -> dict[str, Entry]:
        replay = self._new_replay()
        source = self._replicas.partitions.log(tp)
        if source is not None:
            offset = source.start_offset
            # The end may move: transactions' markers are written whether this is loaded or not.
            while offset < (end_offset := source.end_offset):
                data = source.read(offset, self._load_step_bytes, end_offset, min_one_batch=True)
                next_offset = replay.absorb(data)
                if next_offset is None or next_offset <= offset:
                    break  # nothing whole is left below the end: the rest was compacted away
                offset = next_offset
                await asyncio.sleep(0)
        return replay.entries()

    # --- appending ------------------------------------------------------------------------

    async def append(
        self,
        shard: Shard[Entry],
        entries: Sequence[tuple[bytes, bytes | None]],
        producer: ProducerStamp | None = None,
    ) -> tuple[ErrorCode, int]:
        """Appends one batch of keys and values; Kafka's raw error and the batch's offset."""
        if not self.owns(shard):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
        batch = _build(entries, self._clock.now_ms(), producer)
        tp = TopicPartition(self._settings.topic, shard.partition)
        results = await self._replicas.appends.append(
            {tp: memoryview(bytearray(batch))},
            acks=self._settings.acks,
            timeout_ms=self._settings.timeout_ms,
            internal_topics_allowed=True,
            from_coordinator=True,
        )
        result = results[tp]
        return ErrorCode(result.error), result.base_offset


def _build(
    entries: Sequence[tuple[bytes, bytes | None]], now_ms: int, producer: ProducerStamp | None
) -> bytes:
    if producer is None:
        return records.build_of_entries(entries, now_ms)
    return records.build_of_entries(
        entries,
        now_ms,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=0,  # a coordinator's sequences are not checked
        transactional=True,
    )
