"""One Apache Kafka 2.8.2 and one Ottla broker in a cluster where brokers use SASL among themselves,
with one set of ACLs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from ottla.client.connection import Connection
from ottla.config.broker import BrokerConfig
from ottla.process.node import Node
from ottla.runtime import system_runtime
from ottla.security.sasl.plain import PlainCredentials
from ottla.testing.cluster import free_ports
from ottla.testing.java import ApacheZooKeeper
from ottla.wire import messages as m
from tests.support.peers import acl_matrix
from tests.support.peers.secured_kafka import SecuredKafka, Tool

HOST = "127.0.0.1"
pytestmark = pytest.mark.peers


def _settings(internal: int) -> dict[str, str]:
    users = " ".join(f'user_{user}="{acl_matrix.password(user)}"' for user in acl_matrix.USERS)
    own = f'username="admin" password="{acl_matrix.password("admin")}"'
    return acl_matrix.broker_settings(internal, internal + 1) | {
        "inter.broker.listener.name": "CLIENTS",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": (
            f"{acl_matrix.MODULE} required {own} {users};"
        ),
        "super.users": "User:admin",
        "min.insync.replicas": "2",
    }


class Pair:
    """Kafka is broker 0 and the controller, Ottla broker 1."""

    def __init__(self, kafka_port: int, ottla: Node, ottla_port: int) -> None:
        self.ottla = ottla
        self.ports = (kafka_port, ottla_port)

    async def ask(self, broker: int, user: str, message: Any, version: int) -> Any:
        connection = await Connection.open(
            system_runtime().network,
            HOST,
            self.ports[broker],
            client_id="test",
            sasl=PlainCredentials(user, acl_matrix.password(user)),
        )
        try:
            return await connection.send(message, version)
        finally:
            connection.close()


@pytest.fixture
async def pair(
    apache_zookeeper: ApacheZooKeeper, java_tool: Callable[[str, str], Tool], tmp_path: Path
) -> AsyncIterator[Pair]:
    java_tool("kafka-2.8.2", "kafka.Kafka")  # skips where the jars are missing
    zookeeper = f"{apache_zookeeper.address}/secured-mixed"
    first = free_ports(4)
    kafka = SecuredKafka(zookeeper, overrides=_settings(first))
    kafka.internal_port = first
    await asyncio.to_thread(kafka.start)
    try:
        properties = _settings(first + 2) | {
            "broker.id": "1",
            "zookeeper.connect": zookeeper,
            "log.dirs": str(tmp_path / "ottla"),
        }
        node = Node(BrokerConfig.from_properties(properties), system_runtime())
        await node.start()
        try:
            yield Pair(first + 1, node, first + 3)
        finally:
            await node.stop(controlled=False)
    finally:
        await asyncio.to_thread(kafka.stop)


async def _eventually(ask: Any, expected: Any) -> None:
    found = None
    for _ in range(100):
        found = await ask()
        if found == expected:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{found} instead of {expected}")


def _produce_everywhere(ports: tuple[int, int]) -> list[str]:
    errors: list[str] = []
    producer = Producer(
        {
            "bootstrap.servers": ",".join(f"{HOST}:{port}" for port in ports),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "admin",
            "sasl.password": acl_matrix.password("admin"),
            "acks": "all",
        }
    )
    for partition in (0, 1):
        producer.produce(
            "t",
            b"x",
            partition=partition,
            on_delivery=lambda error, _: errors.append(str(error)) if error else None,
        )
    left = producer.flush(20)
    return [*errors, f"{left} left"] if left else errors


async def test_brokers_replicate_and_share_acls(pair: Pair) -> None:
    request = m.CreateTopicsRequest
    assignments = [
        request.CreatableReplicaAssignment(partition_index=index, broker_ids=ids)
        for index, ids in enumerate(([0, 1], [1, 0]))
    ]
    topic = request.CreatableTopic(
        name="t", num_partitions=-1, replication_factor=-1, assignments=assignments
    )
    created = await pair.ask(0, "admin", request(topics=[topic], timeout_ms=10_000), 5)
    assert created.topics[0].error_code == 0, created
    # Each leads one partition and needs the other's fetches for acks=all.
    assert await asyncio.to_thread(_produce_everywhere, pair.ports) == []

    asked = m.MetadataRequest(
        topics=[m.MetadataRequest.MetadataRequestTopic(name="t")], allow_auto_topic_creation=False
    )

    async def seen_by_alice() -> list[int]:
        answers = [await pair.ask(broker, "alice", asked, 9) for broker in (0, 1)]
        return [answer.topics[0].error_code for answer in answers]

    assert await seen_by_alice() == [29, 29]
    for broker, permission, expected in ((0, 3, [0, 0]), (1, 2, [29, 29])):
        creation = m.CreateAclsRequest.AclCreation(
            resource_type=2,
            resource_name="t",
            resource_pattern_type=3,
            principal="User:alice",
            host="*",
            operation=8,
            permission_type=permission,
        )
        answer = await pair.ask(broker, "admin", m.CreateAclsRequest(creations=[creation]), 2)
        assert answer.results[0].error_code == 0
        await _eventually(seen_by_alice, expected)
