"""Reassignments, elections, log directories and config changes: requests and answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ottla.client.admin.client import Admin
from ottla.client.admin.types import (
    ConfigEdit,
    ConfigOperation,
    ConfigResource,
    ElectionType,
    ReplicaOnDisk,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.runtime import system_runtime
from ottla.types import TopicPartition, TopicPartitionReplica
from ottla.wire import messages as m
from tests.support.client.fake_kafka import RANGES, FakeKafka

ALL = RANGES | {33: (0, 2), 34: (0, 2), 35: (0, 2), 43: (0, 2), 44: (0, 1), 45: (0, 0)}
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
async def kafka() -> AsyncIterator[FakeKafka]:
    fake = await FakeKafka(1, ALL).start()
    yield fake
    await fake.stop()


@pytest.fixture
async def admin(kafka: FakeKafka) -> AsyncIterator[Admin]:
    async with Admin.connect(system_runtime(), kafka.address, timeout_ms=2000) as session:
        yield session


def sent(kafka: FakeKafka, request_class: type) -> Any:
    return [request for request, _ in kafka.seen if isinstance(request, request_class)][-1]


async def test_moves_start_and_are_cancelled(kafka: FakeKafka, admin: Admin) -> None:
    response = m.AlterPartitionReassignmentsResponse
    result = response.ReassignablePartitionResponse

    kafka.on(
        m.AlterPartitionReassignmentsRequest,
        lambda _: response(
            responses=[
                response.ReassignableTopicResponse(
                    name="t",
                    partitions=[
                        result(partition_index=0),
                        result(partition_index=1, error_code=85),
                    ],
                )
            ]
        ),
    )
    answer = await admin.alter_reassignments({T0: [2, 3], T1: None})
    (topic,) = sent(kafka, m.AlterPartitionReassignmentsRequest).topics
    assert [(p.partition_index, p.replicas) for p in topic.partitions] == [(0, [2, 3]), (1, None)]
    assert answer[T0] is None
    failed = answer[T1]
    assert failed is not None and failed.code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    kafka.on(m.AlterPartitionReassignmentsRequest, lambda _: response(error_code=31))
    with pytest.raises(KafkaError, match="Cluster authorization failed"):
        await admin.alter_reassignments({T0: None})


async def test_a_move_is_sent_again_to_the_new_controller(kafka: FakeKafka, admin: Admin) -> None:
    response = m.AlterPartitionReassignmentsResponse
    codes = iter([41, 0])
    kafka.on(m.AlterPartitionReassignmentsRequest, lambda _: response(error_code=next(codes)))
    assert await admin.alter_reassignments({T0: [1]}) == {}


async def test_moves_of_some_partitions_are_listed(kafka: FakeKafka, admin: Admin) -> None:
    kafka.on(m.ListPartitionReassignmentsRequest, lambda _: m.ListPartitionReassignmentsResponse())
    await admin.list_reassignments([T0, TopicPartition("u", 3), T1])
    topics = sent(kafka, m.ListPartitionReassignmentsRequest).topics
    assert [(t.name, t.partition_indexes) for t in topics] == [("t", [0, 1]), ("u", [3])]


async def test_leaders_are_elected(kafka: FakeKafka, admin: Admin) -> None:
    response = m.ElectLeadersResponse
    result = response.PartitionResult
    kafka.on(
        m.ElectLeadersRequest,
        lambda _: response(
            replica_election_results=[
                response.ReplicaElectionResult(
                    topic="t",
                    partition_result=[
                        result(partition_id=0),
                        result(partition_id=1, error_code=80, error_message="no"),
                    ],
                )
            ]
        ),
    )
    answer = await admin.elect_leaders(ElectionType.UNCLEAN, [T0, T1])
    request = sent(kafka, m.ElectLeadersRequest)
    assert request.election_type == 1
    assert [(t.topic, t.partitions) for t in request.topic_partitions] == [("t", [0, 1])]
    assert answer[T0] is None and str(answer[T1]) == "no"
    await admin.elect_leaders(ElectionType.PREFERRED)
    assert sent(kafka, m.ElectLeadersRequest).topic_partitions is None


async def test_an_old_broker_elects_no_unclean_leader() -> None:
    old = await FakeKafka(1, ALL | {43: (0, 0)}).start()
    async with Admin.connect(system_runtime(), old.address, timeout_ms=2000) as admin:
        with pytest.raises(KafkaError) as caught:
            await admin.elect_leaders(ElectionType.UNCLEAN, [T0])
        assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
    await old.stop()


async def test_log_directories(kafka: FakeKafka, admin: Admin) -> None:
    response = m.DescribeLogDirsResponse
    kafka.on(
        m.DescribeLogDirsRequest,
        lambda _: response(
            results=[
                response.DescribeLogDirsResult(
                    log_dir="/a",
                    topics=[
                        response.DescribeLogDirsTopic(
                            name="t",
                            partitions=[
                                response.DescribeLogDirsPartition(
                                    partition_index=0, partition_size=7, offset_lag=2,
                                    is_future_key=True,
                                )
                            ],
                        )
                    ],
                ),
                response.DescribeLogDirsResult(log_dir="/b", error_code=56),
            ]
        ),
    )  # fmt: skip
    dirs = await admin.describe_log_dirs(1, [T0])
    assert dirs["/a"].replicas == [ReplicaOnDisk(T0, 7, 2, True)] and dirs["/a"].error is None
    assert dirs["/b"].error is not None
    assert dirs["/b"].error.code is ErrorCode.KAFKA_STORAGE_ERROR


async def test_replicas_change_directories(kafka: FakeKafka, admin: Admin) -> None:
    def answer(request: Any) -> m.AlterReplicaLogDirsResponse:
        response = m.AlterReplicaLogDirsResponse
        return response(
            results=[
                response.AlterReplicaLogDirTopicResult(
                    topic_name=topic.name,
                    partitions=[
                        response.AlterReplicaLogDirPartitionResult(
                            partition_index=p, error_code=0 if log_dir.path == "/a" else 57
                        )
                        for p in topic.partitions
                    ],
                )
                for log_dir in request.dirs
                for topic in log_dir.topics
            ]
        )

    kafka.on(m.AlterReplicaLogDirsRequest, answer)
    first, second = TopicPartitionReplica("t", 0, 1), TopicPartitionReplica("t", 1, 1)
    results = await admin.alter_replica_log_dirs({first: "/a", second: "/b"})
    assert results[first] is None
    failed = results[second]
    assert failed is not None and failed.code is ErrorCode.LOG_DIR_NOT_FOUND


async def test_configs_change_one_by_one_or_all_at_once(kafka: FakeKafka, admin: Admin) -> None:
    def answer(response: Any) -> Any:
        return lambda request: response(
            responses=[
                response.AlterConfigsResourceResponse(
                    resource_type=r.resource_type,
                    resource_name=r.resource_name,
                    error_code=42 if r.resource_name == "bad" else 0,
                    error_message="why" if r.resource_name == "bad" else None,
                )
                for r in request.resources
            ]
        )

    kafka.on(m.IncrementalAlterConfigsRequest, answer(m.IncrementalAlterConfigsResponse))
    kafka.on(m.AlterConfigsRequest, answer(m.AlterConfigsResponse))
    good, bad = ConfigResource.topic("t"), ConfigResource.topic("bad")
    broker, every = ConfigResource.broker(1), ConfigResource.all_brokers()
    edits = [ConfigEdit("a", "1"), ConfigEdit("b", None, ConfigOperation.DELETE)]
    results = await admin.incremental_alter_configs(
        dict.fromkeys([good, bad, broker, every], edits)
    )
    assert results[good] is results[broker] is results[every] is None
    assert str(results[bad]) == "why"
    asked = [r for r, _ in kafka.seen if isinstance(r, m.IncrementalAlterConfigsRequest)]
    named = [[(r.resource_type, r.resource_name) for r in request.resources] for request in asked]
    assert named == [[(2, "t"), (2, "bad"), (4, "")], [(4, "1")]], "a broker answers for itself"
    assert [(c.name, c.config_operation, c.value) for c in asked[0].resources[0].configs] == [
        ("a", 0, "1"),
        ("b", 1, None),
    ]
    assert await admin.alter_configs({good: {"a": "1"}}) == {good: None}
    (resource,) = sent(kafka, m.AlterConfigsRequest).resources
    assert [(c.name, c.value) for c in resource.configs] == [("a", "1")]
