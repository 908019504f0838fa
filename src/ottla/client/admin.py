"""Administration of topics over the wire: on Ottla and on Apache Kafka alike.

Calls about several things answer with one result per thing, a KafkaError where that one failed;
`raise_first_error` turns such an answer into an exception.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ottla.client.cluster import (
    DEFAULT_CLIENT_ID,
    DEFAULT_TIMEOUT_MS,
    Cluster,
    Node,
    response_error,
)
from ottla.configdef import ConfigSource, ConfigType
from ottla.errors import ErrorCode, KafkaError
from ottla.types import ZERO_TOPIC_ID, TopicId, TopicPartition
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.runtime import Runtime

K = TypeVar("K")
V = TypeVar("V")

# DeleteTopics v6 names topics in another field; v5 has all that is needed here.
_DELETE_TOPICS_MAX_VERSION = 5
# How much longer to wait for the answer than the time the server is given.
_ANSWER_MARGIN_MS = 1_000


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be made; -1 takes the cluster's default. `assignments` exclude the numbers."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)


class CreatedTopic(NamedTuple):
    """What was made; -1 and the zero id where the server does not say."""

    name: str
    topic_id: TopicId
    partitions: int
    replication_factor: int


class NewPartitions(NamedTuple):
    """The total number a topic shall have, and the brokers of each new partition."""

    total: int
    assignments: Sequence[Sequence[int]] | None = None


class TopicListing(NamedTuple):
    name: str
    topic_id: TopicId
    is_internal: bool


class PartitionDescription(NamedTuple):
    partition: int
    leader: int  # -1 without one
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline: list[int]


class TopicDescription(NamedTuple):
    name: str
    topic_id: TopicId
    is_internal: bool
    partitions: list[PartitionDescription]  # by number


class Reassignment(NamedTuple):
    """A move under way."""

    replicas: list[int]
    adding: list[int]
    removing: list[int]


class ConfigResource(NamedTuple):
    """What configs belong to; `topic()` and `broker()` make the usual two."""

    type: int
    name: str

    @classmethod
    def topic(cls, name: str) -> ConfigResource:
        return cls(2, name)

    @classmethod
    def broker(cls, broker_id: int) -> ConfigResource:
        return cls(4, str(broker_id))


class ConfigItem(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource
    type: ConfigType
    is_sensitive: bool
    read_only: bool

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT


class ClusterDescription(NamedTuple):
    cluster_id: str | None
    controller_id: int
    nodes: list[Node]


def raise_first_error(results: Mapping[K, V | KafkaError]) -> dict[K, V]:
    """The results without errors; raises the first error there is."""
    sound: dict[K, V] = {}
    for key, result in results.items():
        if isinstance(result, KafkaError):
            raise result
        sound[key] = result
    return sound


class Admin:
    """One session; `close` it, or use it as an async context manager."""

    def __init__(self, cluster: Cluster, *, timeout_ms: float = DEFAULT_TIMEOUT_MS) -> None:
        self.cluster = cluster
        self._timeout_ms = timeout_ms

    @classmethod
    def connect(
        cls,
        runtime: Runtime,
        bootstrap: str,
        *,
        client_id: str = DEFAULT_CLIENT_ID,
        timeout_ms: float = DEFAULT_TIMEOUT_MS,
    ) -> Admin:
        """Connections are opened by the first call; raises ConfigError for a bad address."""
        return cls(Cluster(runtime, bootstrap, client_id=client_id), timeout_ms=timeout_ms)

    async def __aenter__(self) -> Admin:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self.cluster.close()

    @property
    def _server_timeout_ms(self) -> int:
        return int(self._timeout_ms)

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic | KafkaError]:
        request = m.CreateTopicsRequest(
            topics=[_creatable(topic) for topic in topics],
            timeout_ms=self._server_timeout_ms,
            validate_only=validate_only,
        )
        answer = await self._to_controller(request, lambda answer: answer.topics)
        return {
            topic.name: response_error(topic.error_code, topic.error_message)
            if topic.error_code
            else CreatedTopic(
                topic.name, topic.topic_id, topic.num_partitions, topic.replication_factor
            )
            for topic in answer.topics
        }

    async def delete_topics(self, names: Iterable[str]) -> dict[str, KafkaError | None]:
        request = m.DeleteTopicsRequest(topic_names=list(names), timeout_ms=self._server_timeout_ms)
        answer = await self._to_controller(
            request, lambda answer: answer.responses, max_version=_DELETE_TOPICS_MAX_VERSION
        )
        return {
            result.name: response_error(result.error_code, result.error_message)
            if result.error_code
            else None
            for result in answer.responses
        }

    async def create_partitions(
        self, wanted: Mapping[str, NewPartitions], *, validate_only: bool = False
    ) -> dict[str, KafkaError | None]:
        topic_class = m.CreatePartitionsRequest.CreatePartitionsTopic
        request = m.CreatePartitionsRequest(
            topics=[
                topic_class(name=name, count=new.total, assignments=_expansion(new.assignments))
                for name, new in wanted.items()
            ],
            timeout_ms=self._server_timeout_ms,
            validate_only=validate_only,
        )
        answer = await self._to_controller(request, lambda answer: answer.results)
        return {
            result.name: response_error(result.error_code, result.error_message)
            if result.error_code
            else None
            for result in answer.results
        }

    async def list_topics(self, *, include_internal: bool = True) -> list[TopicListing]:
        """All topics, by name."""
        request = m.MetadataRequest(topics=None, allow_auto_topic_creation=False)
        answer = await self.cluster.send_to_any(
            request, timeout_ms=self._timeout_ms, min_version=4, call="listTopics"
        )
        listings = [
            TopicListing(topic.name, topic.topic_id, topic.is_internal)
            for topic in answer.topics
            if not topic.error_code and (include_internal or not topic.is_internal)
        ]
        return sorted(listings)

    async def describe_topics(
        self, names: Iterable[str]
    ) -> dict[str, TopicDescription | KafkaError]:
        wanted = list(names)
        if not wanted:
            return {}
        answer = await self.cluster.metadata(wanted, timeout_ms=self._timeout_ms)
        return {
            topic.name or "": response_error(topic.error_code)
            if topic.error_code
            else _described(topic)
            for topic in answer.topics
        }

    async def describe_configs(
        self, resources: Iterable[ConfigResource]
    ) -> dict[ConfigResource, list[ConfigItem] | KafkaError]:
        """Configs by name. A broker answers for itself, any broker for topics."""
        targets: dict[int, list[ConfigResource]] = {}
        for resource in resources:
            is_broker = resource.type == ConfigResource.broker(0).type and resource.name
            targets.setdefault(int(resource.name) if is_broker else -1, []).append(resource)
        results: dict[ConfigResource, list[ConfigItem] | KafkaError] = {}
        for broker_id, group in targets.items():
            request = m.DescribeConfigsRequest(
                resources=[
                    m.DescribeConfigsRequest.DescribeConfigsResource(
                        resource_type=resource.type,
                        resource_name=resource.name,
                        configuration_keys=None,
                    )
                    for resource in group
                ]
            )
            if broker_id >= 0:
                answer = await self.cluster.send_to_broker(
                    broker_id, request, timeout_ms=self._timeout_ms
                )
            else:
                answer = await self.cluster.send_to_any(request, timeout_ms=self._timeout_ms)
            for result in answer.results:
                resource = ConfigResource(result.resource_type, result.resource_name)
                results[resource] = (
                    response_error(result.error_code, result.error_message)
                    if result.error_code
                    else sorted(_config_item(config) for config in result.configs)
                )
        return results

    async def describe_cluster(self) -> ClusterDescription:
        answer = await self.cluster.metadata(timeout_ms=self._timeout_ms)
        nodes = [Node(b.node_id, b.host, b.port, b.rack) for b in answer.brokers]
        return ClusterDescription(answer.cluster_id, answer.controller_id, sorted(nodes))

    async def list_reassignments(self) -> dict[TopicPartition, Reassignment]:
        """Moves under way, of all topics."""
        request = m.ListPartitionReassignmentsRequest(
            topics=None, timeout_ms=self._server_timeout_ms
        )
        answer = await self.cluster.send_to_controller(
            request,
            timeout_ms=self._timeout_ms + _ANSWER_MARGIN_MS,
            is_misdirected=lambda answer: answer.error_code == ErrorCode.NOT_CONTROLLER,
        )
        if answer.error_code:
            raise response_error(answer.error_code, answer.error_message)
        return {
            TopicPartition(topic.name, move.partition_index): Reassignment(
                move.replicas, move.adding_replicas, move.removing_replicas
            )
            for topic in answer.topics
            for move in topic.partitions
        }

    async def _to_controller(
        self, request: Any, results: Any, *, max_version: int | None = None
    ) -> Any:
        """NOT_CONTROLLER comes for every topic at once: the server has done nothing yet."""
        return await self.cluster.send_to_controller(
            request,
            timeout_ms=self._timeout_ms + _ANSWER_MARGIN_MS,
            max_version=max_version,
            is_misdirected=lambda answer: any(
                result.error_code == ErrorCode.NOT_CONTROLLER for result in results(answer)
            ),
        )


def _creatable(topic: NewTopic) -> m.CreateTopicsRequest.CreatableTopic:
    request = m.CreateTopicsRequest
    return request.CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            request.CreatableReplicaAssignment(partition_index=partition, broker_ids=list(ids))
            for partition, ids in topic.assignments.items()
        ],
        configs=[
            request.CreatableTopicConfig(name=name, value=value)
            for name, value in topic.configs.items()
        ],
    )


def _expansion(
    assignments: Sequence[Sequence[int]] | None,
) -> list[m.CreatePartitionsRequest.CreatePartitionsAssignment] | None:
    if assignments is None:
        return None
    assignment_class = m.CreatePartitionsRequest.CreatePartitionsAssignment
    return [assignment_class(broker_ids=list(replicas)) for replicas in assignments]


def _described(topic: m.MetadataResponse.MetadataResponseTopic) -> TopicDescription:
    partitions = sorted(
        PartitionDescription(
            partition.partition_index,
            partition.leader_id,
            partition.leader_epoch,
            partition.replica_nodes,
            partition.isr_nodes,
            partition.offline_replicas,
        )
        for partition in topic.partitions
    )
    topic_id = topic.topic_id or ZERO_TOPIC_ID
    return TopicDescription(topic.name or "", topic_id, topic.is_internal, partitions)


def _config_item(config: Any) -> ConfigItem:
    source, type_ = config.config_source, config.config_type
    return ConfigItem(
        config.name,
        config.value,
        # Newer servers may have sources and types that are not known here.
        ConfigSource(source) if source in iter(ConfigSource) else ConfigSource.UNKNOWN,
        ConfigType(type_) if type_ in iter(ConfigType) else ConfigType.UNKNOWN,
        config.is_sensitive,
        config.read_only,
    )
