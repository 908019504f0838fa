"""Admin calls: what goes out, what comes back, errors with the server's text or the default."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ottla.client.admin.client import Admin
from ottla.client.admin.types import (
    ConfigItem,
    ConfigResource,
    NewPartitions,
    NewTopic,
    Reassignment,
    raise_first_error,
)
from ottla.config.definitions import ConfigSource, ConfigType
from ottla.errors import ErrorCode, KafkaError
from ottla.runtime import system_runtime
from ottla.types import TopicPartition
from ottla.wire import messages as m
from tests.support.client.fake_kafka import FakeKafka, topic


@pytest.fixture
async def kafka() -> AsyncIterator[FakeKafka]:
    fake = await FakeKafka(1).start()
    yield fake
    await fake.stop()


@pytest.fixture
async def admin(kafka: FakeKafka) -> AsyncIterator[Admin]:
    async with Admin.connect(system_runtime(), kafka.address, timeout_ms=2000) as session:
        yield session


def last(kafka: FakeKafka, request_class: type) -> tuple[Any, int]:
    return [seen for seen in kafka.seen if isinstance(seen[0], request_class)][-1]


async def test_topics_are_created(kafka: FakeKafka, admin: Admin) -> None:
    result = m.CreateTopicsResponse.CreatableTopicResult
    kafka.on(
        m.CreateTopicsRequest,
        lambda _: m.CreateTopicsResponse(
            topics=[
                result(name="a", num_partitions=3, replication_factor=2),
                result(name="b", error_code=36, error_message="Topic 'b' already exists."),
                result(name="c", error_code=7),
            ]
        ),
    )
    answer = await admin.create_topics(
        [
            NewTopic("a", 3, 2, configs={"retention.ms": "5"}),
            NewTopic("b", assignments={0: [1, 2]}),
            NewTopic("c"),
        ]
    )
    request, version = last(kafka, m.CreateTopicsRequest)
    assert version == 5
    first, second, third = request.topics
    assert (first.num_partitions, first.replication_factor) == (3, 2)
    assert [(c.name, c.value) for c in first.configs] == [("retention.ms", "5")]
    assert [(a.partition_index, a.broker_ids) for a in second.assignments] == [(0, [1, 2])]
    assert (third.num_partitions, third.replication_factor) == (-1, -1)
    created = answer["a"]
    assert not isinstance(created, KafkaError)
    assert (created.partitions, created.replication_factor) == (3, 2)
    assert str(answer["b"]) == "Topic 'b' already exists."
    assert str(answer["c"]) == "The request timed out."
    with pytest.raises(KafkaError, match="already exists"):
        raise_first_error(answer)


async def test_topics_are_deleted(kafka: FakeKafka, admin: Admin) -> None:
    result = m.DeleteTopicsResponse.DeletableTopicResult
    kafka.on(
        m.DeleteTopicsRequest,
        lambda _: m.DeleteTopicsResponse(
            responses=[result(name="a"), result(name="b", error_code=3)]
        ),
    )
    answer = await admin.delete_topics(["a", "b"])
    request, version = last(kafka, m.DeleteTopicsRequest)
    assert (request.topic_names, version) == (["a", "b"], 5)
    assert answer["a"] is None
    assert str(answer["b"]) == "This server does not host this topic-partition."


async def test_partitions_are_added(kafka: FakeKafka, admin: Admin) -> None:
    result = m.CreatePartitionsResponse.CreatePartitionsTopicResult
    kafka.on(
        m.CreatePartitionsRequest,
        lambda _: m.CreatePartitionsResponse(
            results=[result(name="a"), result(name="b", error_code=37, error_message="why")]
        ),
    )
    answer = await admin.create_partitions({"a": NewPartitions(4), "b": NewPartitions(3, [[1, 2]])})
    first, second = last(kafka, m.CreatePartitionsRequest)[0].topics
    assert (first.count, first.assignments) == (4, None)
    assert [a.broker_ids for a in second.assignments] == [[1, 2]]
    assert answer["a"] is None and str(answer["b"]) == "why"


async def test_topics_are_listed_by_name(kafka: FakeKafka, admin: Admin) -> None:
    kafka.topics = [
        topic("b", 1),
        topic("__consumer_offsets", 1, is_internal=True),
        topic("a", 1),
        topic("broken", error_code=3),
    ]
    assert [t.name for t in await admin.list_topics()] == ["__consumer_offsets", "a", "b"]
    assert [t.name for t in await admin.list_topics(include_internal=False)] == ["a", "b"]


async def test_topics_are_described(kafka: FakeKafka, admin: Admin) -> None:
    kafka.topics = [topic("a", 1, -1), topic("b", error_code=17)]
    answer = await admin.describe_topics(["a", "b"])
    described = answer["a"]
    assert not isinstance(described, KafkaError)
    assert [(p.partition, p.leader, p.replicas, p.isr) for p in described.partitions] == [
        (0, 1, [1, 2], [1]),
        (1, -1, [1, 2], [1]),
    ]
    failed = answer["b"]
    assert isinstance(failed, KafkaError)
    assert failed.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert await admin.describe_topics([]) == {}


async def test_configs_are_described(kafka: FakeKafka, admin: Admin) -> None:
    result = m.DescribeConfigsResponse.DescribeConfigsResult
    config = m.DescribeConfigsResponse.DescribeConfigsResourceResult

    def answer(request: Any) -> m.DescribeConfigsResponse:
        return m.DescribeConfigsResponse(
            results=[
                result(
                    resource_type=r.resource_type,
                    resource_name=r.resource_name,
                    configs=[
                        config(name="z", value="1", config_source=5),
                        config(name="a", value=None, config_source=99, is_sensitive=True),
                    ],
                )
                if r.resource_name != "gone"
                else result(resource_type=2, resource_name="gone", error_code=3)
                for r in request.resources
            ]
        )

    kafka.on(m.DescribeConfigsRequest, answer)
    topic_resource, broker = ConfigResource.topic("t"), ConfigResource.broker(1)
    results = await admin.describe_configs([topic_resource, broker, ConfigResource.topic("gone")])
    assert results[topic_resource] == [
        ConfigItem("z", "1", ConfigSource.DEFAULT, ConfigType.UNKNOWN, False, False),
        ConfigItem("a", None, ConfigSource.UNKNOWN, ConfigType.UNKNOWN, True, False),
    ]
    items = results[broker]
    assert not isinstance(items, KafkaError)
    assert [item.is_default for item in items] == [True, False]
    assert isinstance(results[ConfigResource.topic("gone")], KafkaError)


async def test_the_cluster_is_described(kafka: FakeKafka, admin: Admin) -> None:
    described = await admin.describe_cluster()
    assert (described.cluster_id, described.controller_id) == ("fake", 1)
    assert [(node.id, node.port, node.rack) for node in described.nodes] == [(1, kafka.port, "r")]


async def test_moves_are_listed(kafka: FakeKafka, admin: Admin) -> None:
    response = m.ListPartitionReassignmentsResponse
    kafka.on(
        m.ListPartitionReassignmentsRequest,
        lambda _: response(
            topics=[
                response.OngoingTopicReassignment(
                    name="t",
                    partitions=[
                        response.OngoingPartitionReassignment(
                            partition_index=0,
                            replicas=[3, 1],
                            adding_replicas=[3],
                            removing_replicas=[1],
                        )
                    ],
                )
            ]
        ),
    )
    moves = await admin.list_reassignments()
    assert moves == {TopicPartition("t", 0): Reassignment([3, 1], [3], [1])}
    kafka.on(m.ListPartitionReassignmentsRequest, lambda _: response(error_code=31))
    with pytest.raises(KafkaError, match="Cluster authorization failed"):
        await admin.list_reassignments()
