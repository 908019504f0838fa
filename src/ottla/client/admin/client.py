"""Administration over the wire: on Ottla and on Apache Kafka alike.

Calls about several things answer with one result per thing, a KafkaError where that one failed;
`raise_first_error` turns such an answer into an exception.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.client.admin.acls import AclCalls
from ottla.client.admin.configs import ConfigCalls
from ottla.client.admin.inner_views import InnerViewCalls
from ottla.client.admin.partitions import PartitionCalls
from ottla.client.admin.quotas import QuotaCalls
from ottla.client.admin.records import RecordCalls
from ottla.client.admin.renames import RenameCalls
from ottla.client.admin.resizing import ResizeCalls
from ottla.client.admin.scram import ScramCalls
from ottla.client.admin.session import error_or_none
from ottla.client.admin.tokens import TokenCalls
from ottla.client.admin.trash import TrashCalls
from ottla.client.admin.types import (
    ClusterDescription,
    CreatedTopic,
    NewPartitions,
    NewTopic,
    PartitionDescription,
    TopicDescription,
    TopicListing,
)
from ottla.client.cluster import (
    DEFAULT_CLIENT_ID,
    DEFAULT_TIMEOUT_MS,
    Cluster,
    Node,
    response_error,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.types import ZERO_TOPIC_ID
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.runtime import Runtime
    from ottla.security.sasl.exchange import Credentials

# DeleteTopics v6 names topics in another field; v5 has all that is needed here.
_DELETE_TOPICS_MAX_VERSION = 5


class Admin(
    AclCalls,
    ConfigCalls,
    InnerViewCalls,
    PartitionCalls,
    QuotaCalls,
    RecordCalls,
    RenameCalls,
    ScramCalls,
    TokenCalls,
    ResizeCalls,
    TrashCalls,
):
    """One session; `close` it, or use it as an async context manager."""

    @classmethod
    def connect(
        cls,
        runtime: Runtime,
        bootstrap: str,
        *,
        client_id: str = DEFAULT_CLIENT_ID,
        timeout_ms: float = DEFAULT_TIMEOUT_MS,
        credentials: Credentials | None = None,
    ) -> Admin:
        """Connections are opened by the first call; raises ConfigError for a bad address."""
        cluster = Cluster(runtime, bootstrap, client_id=client_id, credentials=credentials)
        return cls(cluster, timeout_ms=timeout_ms)

    async def __aenter__(self) -> Admin:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self.cluster.close()

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
            result.name: error_or_none(result.error_code, result.error_message)
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
            result.name: error_or_none(result.error_code, result.error_message)
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

    async def topics_known_to(self, broker_id: int, names: Iterable[str]) -> set[str]:
        """Those of the topics that one broker has in its metadata."""
        topic_class = m.MetadataRequest.MetadataRequestTopic
        request = m.MetadataRequest(
            topics=[topic_class(name=name) for name in names], allow_auto_topic_creation=False
        )
        answer = await self.cluster.send_to_broker(
            broker_id, request, timeout_ms=self._timeout_ms, min_version=4
        )
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return {topic.name for topic in answer.topics if topic.error_code != unknown}

    async def describe_cluster(self) -> ClusterDescription:
        answer = await self.cluster.metadata(timeout_ms=self._timeout_ms)
        nodes = [Node(b.node_id, b.host, b.port, b.rack) for b in answer.brokers]
        return ClusterDescription(answer.cluster_id, answer.controller_id, sorted(nodes))


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
