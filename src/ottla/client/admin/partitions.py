"""Calls about partitions: reassignment (KIP-455), leader election (KIP-460), log directories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ottla.client.admin.session import AdminSession, error_or_none
from ottla.client.admin.types import ElectionType, LogDir, Reassignment, ReplicaOnDisk, StrayOnDisk
from ottla.client.cluster import response_error
from ottla.errors import KafkaError
from ottla.types import ZERO_TOPIC_ID, TopicPartition, TopicPartitionReplica, format_topic_id
from ottla.wire import messages as m

# Version 1 of ElectLeaders brought the type of the election.
_ELECT_TYPED_VERSION = 1


class PartitionCalls(AdminSession):
    async def list_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """Moves under way, of all partitions or of those given."""
        topic_class = m.ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
        request = m.ListPartitionReassignmentsRequest(
            topics=None
            if partitions is None
            else [
                topic_class(name=topic, partition_indexes=indexes)
                for topic, indexes in _by_topic(partitions).items()
            ],
            timeout_ms=self._server_timeout_ms,
        )
        answer = await self._to_controller(request, lambda answer: [answer])
        if answer.error_code:
            raise response_error(answer.error_code, answer.error_message)
        return {
            TopicPartition(topic.name, move.partition_index): Reassignment(
                move.replicas, move.adding_replicas, move.removing_replicas
            )
            for topic in answer.topics
            for move in topic.partitions
        }

    async def alter_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Starts moves to the given replicas; None cancels what is under way."""
        request_class = m.AlterPartitionReassignmentsRequest
        request = request_class(
            topics=[
                request_class.ReassignableTopic(
                    name=topic,
                    partitions=[
                        request_class.ReassignablePartition(
                            partition_index=index, replicas=_list_or_none(targets, topic, index)
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in _by_topic(targets).items()
            ],
            timeout_ms=self._server_timeout_ms,
        )
        answer = await self._to_controller(request, lambda answer: [answer])
        if answer.error_code:
            raise response_error(answer.error_code, answer.error_message)
        return {
            TopicPartition(topic.name, result.partition_index): error_or_none(
                result.error_code, result.error_message
            )
            for topic in answer.responses
            for result in topic.partitions
        }

    async def elect_leaders(
        self, election: ElectionType, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, KafkaError | None]:
        """Without partitions: all; the server then leaves out those that need no election."""
        topic_class = m.ElectLeadersRequest.TopicPartitions
        request = m.ElectLeadersRequest(
            election_type=election,
            topic_partitions=None
            if partitions is None
            else [
                topic_class(topic=topic, partitions=indexes)
                for topic, indexes in _by_topic(partitions).items()
            ],
            timeout_ms=self._server_timeout_ms,
        )
        answer = await self._to_controller(
            request,
            lambda answer: [
                answer,
                *(r for t in answer.replica_election_results for r in t.partition_result),
            ],
            min_version=0 if election is ElectionType.PREFERRED else _ELECT_TYPED_VERSION,
        )
        if answer.error_code:
            raise response_error(answer.error_code)
        return {
            TopicPartition(topic.topic, result.partition_id): error_or_none(
                result.error_code, result.error_message
            )
            for topic in answer.replica_election_results
            for result in topic.partition_result
        }

    async def describe_log_dirs(
        self, broker_id: int, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[str, LogDir]:
        """Log directories of one broker with all replicas in them, or with those asked for."""
        topic_class = m.DescribeLogDirsRequest.DescribableLogDirTopic
        request = m.DescribeLogDirsRequest(
            topics=None
            if partitions is None
            else [
                topic_class(topic=topic, partitions=indexes)
                for topic, indexes in _by_topic(partitions).items()
            ]
        )
        answer = await self.cluster.send_to_broker(broker_id, request, timeout_ms=self._timeout_ms)
        if answer.error_code:
            raise response_error(answer.error_code)
        return {
            result.log_dir: LogDir(
                result.log_dir,
                error_or_none(result.error_code),
                [
                    ReplicaOnDisk(
                        TopicPartition(topic.name, replica.partition_index),
                        replica.partition_size,
                        replica.offset_lag,
                        replica.is_future_key,
                    )
                    for topic in result.topics
                    for replica in topic.partitions
                ],
            )
            for result in answer.results
        }

    async def describe_strays(self, broker_id: int) -> list[StrayOnDisk]:
        """Logs of one broker that no topic owns; UNSUPPORTED_VERSION where it is not Ottla's."""
        answer = await self.cluster.send_to_broker(
            broker_id, m.DescribeStrayLogsRequest(), timeout_ms=self._timeout_ms
        )
        if answer.error_code:
            raise response_error(answer.error_code)
        return [
            StrayOnDisk(
                f"{stray.log_dir}/{stray.folder}",
                None if stray.topic_id == ZERO_TOPIC_ID else format_topic_id(stray.topic_id),
                stray.size,
            )
            for stray in answer.strays
        ]

    async def alter_replica_log_dirs(
        self, targets: Mapping[TopicPartitionReplica, str]
    ) -> dict[TopicPartitionReplica, KafkaError | None]:
        """Asks brokers to move replicas to other directories of theirs."""
        request_class = m.AlterReplicaLogDirsRequest
        results: dict[TopicPartitionReplica, KafkaError | None] = {}
        for broker_id in sorted({replica.broker_id for replica in targets}):
            own = {r: path for r, path in targets.items() if r.broker_id == broker_id}
            request = request_class(
                dirs=[
                    request_class.AlterReplicaLogDir(
                        path=path,
                        topics=[
                            request_class.AlterReplicaLogDirTopic(name=topic, partitions=indexes)
                            for topic, indexes in _by_topic(
                                r.topic_partition for r, wanted in own.items() if wanted == path
                            ).items()
                        ],
                    )
                    for path in dict.fromkeys(own.values())
                ]
            )
            answer = await self.cluster.send_to_broker(
                broker_id, request, timeout_ms=self._timeout_ms
            )
            for topic in answer.results:
                for result in topic.partitions:
                    replica = TopicPartitionReplica(
                        topic.topic_name, result.partition_index, broker_id
                    )
                    results[replica] = error_or_none(result.error_code)
        return results


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition.partition)
    return topics


def _list_or_none(
    targets: Mapping[TopicPartition, Sequence[int] | None], topic: str, index: int
) -> list[int] | None:
    replicas = targets[TopicPartition(topic, index)]
    return None if replicas is None else list(replicas)
