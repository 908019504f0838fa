"""The table of this broker's partitions, and of those that a failed folder took offline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.replication.partition import Partition
from ottla.errors import ErrorCode, KafkaError
from ottla.storage.log.log import Log
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.membership.metadata_cache import MetadataCache


class LeaderNode(NamedTuple):
    """Where a leader is, for clients that asked the wrong broker (KIP-951)."""

    id: int
    host: str
    port: int
    rack: str | None


class HostedPartitions:
    """Which partitions are here; what is not here, the metadata cache may know (`make` makes a
    partition that comes here for the first time)."""

    def __init__(
        self, metadata_cache: MetadataCache, make: Callable[[TopicPartition], Partition]
    ) -> None:
        self._metadata_cache = metadata_cache
        self._make = make
        self._partitions: dict[TopicPartition, Partition] = {}
        self._offline: set[TopicPartition] = set()
        # Topics that take no records now, and those that consumers may not read (ADR 53).
        self.fenced_topics: set[str] = set()
        self.closed_topics: set[str] = set()

    def __len__(self) -> int:
        return len(self._partitions)

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def get(self, tp: TopicPartition) -> Partition | None:
        return self._partitions.get(tp)

    def require(self, tp: TopicPartition) -> Partition:
        """Raises KafkaError: 56 on an offline folder, 6 if only the cluster knows it, else 3."""
        partition = self._partitions.get(tp)
        if partition is not None:
            return partition
        if tp in self._offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Partition {tp} is offline")
        if self._metadata_cache.contains(tp):
            # The controller assigned it here and the request is on its way, or it moved away.
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def is_known(self, tp: TopicPartition) -> bool:
        """Whether the partition exists, here or elsewhere in the cluster."""
        return tp in self._partitions or tp in self._offline or self._metadata_cache.contains(tp)

    def partition_count(self, topic: str) -> int:
        """As clients are told; 0 where the topic is not known."""
        return len(self._metadata_cache.topic_partitions(topic))

    def leads(self, tp: TopicPartition) -> bool:
        partition = self._partitions.get(tp)
        return partition is not None and partition.is_leader

    def log(self, tp: TopicPartition) -> Log | None:
        partition = self._partitions.get(tp)
        return None if partition is None else partition.log

    def current_leader(self, tp: TopicPartition) -> tuple[int, int]:
        """(leader, epoch) as this replica knows it, else as the cluster does, else (-1, -1)."""
        partition = self._partitions.get(tp)
        if partition is not None and partition.leader is not None:
            return partition.leader, partition.leader_epoch
        state = self._metadata_cache.partition_state(tp)
        return (-1, -1) if state is None else (state.leader, state.leader_epoch)

    def leader_nodes(self, leaders: Iterable[int], listener: str) -> list[LeaderNode]:
        """Where clients of a listener find these brokers; unknown ones are left out (KIP-951)."""
        nodes = []
        for leader in sorted(leaders):
            endpoint = self._metadata_cache.endpoint(leader, listener)
            if endpoint is not None:
                broker = self._metadata_cache.broker(leader)
                rack = None if broker is None else broker.rack
                nodes.append(LeaderNode(leader, endpoint.host, endpoint.port, rack))
        return nodes

    def enter(self, tp: TopicPartition) -> Partition:
        """The partition, made if it is not here yet."""
        partition = self._partitions.get(tp)
        if partition is None:
            partition = self._partitions[tp] = self._make(tp)
        return partition

    def remove(self, tp: TopicPartition) -> Partition | None:
        """Takes the partition out of the table; whoever calls this closes it."""
        return self._partitions.pop(tp, None)

    # --- offline ----------------------------------------------------------------------------

    @property
    def offline_count(self) -> int:
        """Replicas that were in a folder that failed."""
        return len(self._offline)

    def is_offline(self, tp: TopicPartition) -> bool:
        return tp in self._offline

    def set_offline(self, tp: TopicPartition) -> Partition | None:
        """As `remove`, and remembers that the replica is offline."""
        self._offline.add(tp)
        return self._partitions.pop(tp, None)
