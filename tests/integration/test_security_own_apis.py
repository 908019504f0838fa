"""Rights for what no Kafka has: trash, renames and resizes (ADR 50, 51, 53)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Position

from ottla.errors import ErrorCode
from ottla.security.acls import Operation, PatternType, Permission, ResourceType
from ottla.wire import messages as m
from tests.support.integration.secure_cluster import ADMIN, ALICE, BOB, SecureCluster, running

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[SecureCluster]:
    settings = {"ottla.delete.retention.ms": "86400000"}
    async with running(tmp_path, brokers=1, settings=settings) as cluster:
        yield cluster


def rename(name: str, new_name: str) -> m.RenameTopicsRequest:
    topic = m.RenameTopicsRequest.TopicRename(name=name, new_name=new_name)
    return m.RenameTopicsRequest(topics=[topic], timeout_ms=10_000)


def undelete(name: str, new_name: str | None = None) -> m.UndeleteTopicsRequest:
    topic = m.UndeleteTopicsRequest.UndeletableTopic(name=name, new_name=new_name)
    return m.UndeleteTopicsRequest(topics=[topic], timeout_ms=10_000)


def purge(name: str) -> m.PurgeDeletedTopicsRequest:
    topic = m.PurgeDeletedTopicsRequest.PurgeableTopic(name=name)
    return m.PurgeDeletedTopicsRequest(topics=[topic])


async def delete(cluster: SecureCluster, *names: str) -> None:
    request = m.DeleteTopicsRequest(topic_names=list(names), timeout_ms=10_000)
    answer = await cluster.ask(ADMIN, request, 5, cluster.controller_id)
    assert {topic.error_code for topic in answer.responses} == {0}
    # Answered when it is gone from the metadata; its znodes go a moment later.
    async with asyncio.timeout(10):
        while not set(names) <= await deleted(cluster, ADMIN):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.02)


async def deleted(cluster: SecureCluster, who: Any) -> set[str]:
    seen = await cluster.ask(who, m.DescribeDeletedTopicsRequest(with_folders=True), 0)
    return {topic.name for topic in seen.topics}


async def test_a_reader_may_do_nothing_and_sees_nothing_of_others(cluster: SecureCluster) -> None:
    for name in ("mine", "secret"):
        await cluster.create_topic(name)
    await cluster.add_acl("User:bob", Operation.READ, TOPIC, "mine")
    for name in ("mine", "secret", "missing"):
        answer = await cluster.ask(BOB, rename(name, "other"), 0)
        assert answer.results[0].error_code == REFUSED
        requests: list[Any] = [
            m.BeginResizeRequest(topic=name, partitions=3, partitioner="murmur2"),
            m.FenceResizeRequest(topic=name),
            m.FinishResizeRequest(topic=name),
            m.AbortResizeRequest(topic=name),
        ]
        for request in requests:
            assert (await cluster.ask(BOB, request, 0)).error_code == REFUSED
    await delete(cluster, "mine", "secret")
    for name in ("mine", "secret", "missing"):
        for request in (undelete(name), undelete(name, "other"), purge(name)):
            assert (await cluster.ask(BOB, request, 0)).results[0].error_code == REFUSED
    seen = await cluster.ask(BOB, m.DescribeDeletedTopicsRequest(with_folders=True), 0)
    assert {topic.name for topic in seen.topics} == {"mine"}
    assert {folder.topic for folder in seen.folders} <= {"mine"}
    for order in (m.CarryOffsetsRequest(), m.ResizeOrderRequest()):
        answer = await cluster.ask(BOB, order, 0)
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def commit(cluster: SecureCluster, group: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.clients_bootstrap,
            "group.id": group,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": ADMIN.username,
            "sasl.password": ADMIN.password,
        }
    )
    consumer.commit(offsets=[Position("t", 0, 5)], asynchronous=False)
    consumer.close()


async def test_a_rename_names_only_groups_that_one_may_describe(cluster: SecureCluster) -> None:
    await cluster.create_topic("t")
    for group in ("known", "secret"):
        await asyncio.to_thread(commit, cluster, group)
    for operation in (Operation.ALTER, Operation.DELETE, Operation.CREATE):
        await cluster.add_acl("User:alice", operation, TOPIC, "*")
    await cluster.add_acl("User:alice", Operation.DESCRIBE, GROUP, "known")
    answer = await cluster.ask(ALICE, rename("t", "u"), 0)
    [result] = answer.results
    assert (result.error_code, result.groups, result.offsets) == (0, 2, 2)
    assert result.group_ids == ["known"]


async def test_what_one_may_not_describe_stays_hidden_under_a_long_name(
    cluster: SecureCluster,
) -> None:
    """Folders in the trash have only the beginning of a name."""
    name = "s" * 200
    await cluster.create_topic(name)
    await cluster.add_acl(
        "User:bob", Operation.DESCRIBE, TOPIC, "s", pattern_type=PatternType.PREFIXED
    )
    await cluster.add_acl("User:bob", Operation.DESCRIBE, TOPIC, name, permission=Permission.DENY)
    await delete(cluster, name)

    async def found(user: Any) -> list[str]:
        request = m.DescribeDeletedTopicsRequest(with_folders=True)
        answer = await cluster.ask(user, request, 0)
        return [folder.topic for folder in answer.folders]

    for _ in range(100):
        if await found(ADMIN) == [name]:
            break
        await asyncio.sleep(0.1)
    assert await found(ADMIN) == [name]
    assert await found(BOB) == []
