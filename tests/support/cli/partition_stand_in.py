"""A stand-in for the admin client with partitions, moves, directories and elections."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ottla.client.admin.types import (
    ClusterDescription,
    ConfigEdit,
    ConfigResource,
    ElectionType,
    LogDir,
    PartitionDescription,
    Reassignment,
    ReplicaOnDisk,
    TopicDescription,
)
from ottla.client.cluster import Node
from ottla.errors import ErrorCode, KafkaError
from ottla.types import ZERO_TOPIC_ID, TopicPartition, TopicPartitionReplica


class PartitionStandIn:
    """Answers from memory; a move is under way as soon as it was asked for."""

    def __init__(self) -> None:
        self.replicas = {TopicPartition("t", 0): [1, 2], TopicPartition("t", 1): [2, 3]}
        self.moves: dict[TopicPartition, Reassignment] = {}
        self.refused: dict[TopicPartition, KafkaError] = {}
        self.dirs: dict[TopicPartitionReplica, tuple[str | None, str | None]] = {}
        self.not_yet = 0
        self.edits: dict[ConfigResource, list[ConfigEdit]] = {}
        self.racks: list[str | None] = [None, None, None]
        self.elections: dict[TopicPartition, KafkaError | None] = {}
        self.asked: list[object] = []

    async def __aenter__(self) -> PartitionStandIn:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def describe_cluster(self) -> ClusterDescription:
        nodes = [Node(i + 1, "h", i, rack) for i, rack in enumerate(self.racks)]
        return ClusterDescription("c", 1, nodes)

    async def describe_topics(
        self, names: Iterable[str]
    ) -> dict[str, TopicDescription | KafkaError]:
        return {
            name: TopicDescription(
                name,
                ZERO_TOPIC_ID,
                False,
                [
                    PartitionDescription(tp.partition, replicas[0], 0, replicas, replicas, [])
                    for tp, replicas in self.replicas.items()
                    if tp.topic == name
                ],
            )
            if name in {tp.topic for tp in self.replicas}
            else KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            for name in names
        }

    async def list_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        wanted = self.moves if partitions is None else set(partitions)
        return {tp: move for tp, move in self.moves.items() if tp in wanted}

    async def alter_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, KafkaError | None]:
        for tp, target in targets.items():
            if tp in self.refused:
                continue
            if target is None:
                del self.moves[tp]
            else:
                new = [b for b in target if b not in self.replicas[tp]]
                gone = [b for b in self.replicas[tp] if b not in target]
                self.moves[tp] = Reassignment([*target, *gone], new, gone)
        return {tp: self.refused.get(tp) for tp in targets}

    async def incremental_alter_configs(
        self, edits: Mapping[ConfigResource, Sequence[ConfigEdit]]
    ) -> dict[ConfigResource, KafkaError | None]:
        self.edits |= {resource: list(given) for resource, given in edits.items()}
        return dict.fromkeys(edits)

    async def describe_log_dirs(
        self, broker_id: int, partitions: Iterable[TopicPartition]
    ) -> dict[str, LogDir]:
        found: dict[str, LogDir] = {}
        for tp in partitions:
            places = self.dirs.get(TopicPartitionReplica(*tp, broker_id), (None, None))
            for path, is_future in zip(places, (False, True), strict=True):
                if path is not None:
                    log_dir = found.setdefault(path, LogDir(path, None, []))
                    log_dir.replicas.append(ReplicaOnDisk(tp, 1, 0, is_future))
        return found

    async def alter_replica_log_dirs(
        self, targets: Mapping[TopicPartitionReplica, str]
    ) -> dict[TopicPartitionReplica, KafkaError | None]:
        self.asked.append(dict(targets))
        error = KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE) if self.not_yet else None
        self.not_yet = max(0, self.not_yet - 1)
        return dict.fromkeys(targets, error)

    async def elect_leaders(
        self, election: ElectionType, partitions: Iterable[TopicPartition] | None
    ) -> dict[TopicPartition, KafkaError | None]:
        self.asked.append((election, None if partitions is None else list(partitions)))
        return self.elections
