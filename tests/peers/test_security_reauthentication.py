"""Sessions that end (KIP-368) and clients that know it: their connections stay."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ottla.broker.network.server import BrokerServer
from ottla.security.acls import Operation, ResourceType
from ottla.security.sasl.server import Authenticated
from ottla.testing.java import run_tool
from tests.support.integration.secure_cluster import ALICE, SecureCluster, running
from tests.support.peers.java_tools import need_jars

LIFETIME_MS = 1500
SETTINGS = {"connections.max.reauth.ms": str(LIFETIME_MS)}
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
pytestmark = pytest.mark.peers


class Logins:
    """How often peers have begun to say who they are: on new connections, and on others."""

    first = 0
    again = 0


@pytest.fixture
def logins(monkeypatch: pytest.MonkeyPatch) -> Iterator[Logins]:
    counted = Logins()
    make = BrokerServer.new_authentication

    def new_authentication(self: BrokerServer, before: Authenticated | None = None) -> object:
        counted.first += before is None
        counted.again += before is not None
        return make(self, before)

    monkeypatch.setattr(BrokerServer, "new_authentication", new_authentication)
    yield counted


async def _prepare(cluster: SecureCluster) -> None:
    await cluster.create_topic("t")
    await cluster.add_acl("User:alice", Operation.ALL, ResourceType.TOPIC, "t")


async def test_java(tmp_path: Path, logins: Logins) -> None:
    need_jars("kafka-4.1")
    config = tmp_path / "alice.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f"sasl.jaas.config={MODULE} required "
        f'username="alice" password="{ALICE.password}";\n'
    )
    async with running(tmp_path / "cluster", settings=SETTINGS) as cluster:
        await _prepare(cluster)
        logins.first = logins.again = 0
        ran = await asyncio.to_thread(
            run_tool, "kafka-4.1", "org.apache.kafka.tools.ProducerPerformance",
            "--topic", "t", "--num-records", "80", "--record-size", "10", "--throughput", "20",
            "--producer.config", str(config),
            "--producer-props", f"bootstrap.servers={cluster.clients_bootstrap}",
        )  # fmt: skip
    assert "80 records sent" in ran.stdout, ran
    # Four seconds: at least two more sessions, on the connections that there are.
    assert logins.again >= 2
    assert logins.first <= 3


async def test_librdkafka(tmp_path: Path, logins: Logins) -> None:
    async with running(tmp_path, settings=SETTINGS) as cluster:
        await _prepare(cluster)
        logins.first = logins.again = 0
        await asyncio.to_thread(_produce_slowly, cluster.clients_bootstrap)
    assert logins.again >= 2
    assert logins.first <= 3


def _produce_slowly(bootstrap: str) -> None:
    errors: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": ALICE.username,
            "sasl.password": ALICE.password,
        }
    )
    for _ in range(20):
        producer.produce("t", b"x", on_delivery=lambda error, _: errors.append(error))
        producer.poll(0)
        time.sleep(0.2)
    assert producer.flush(10) == 0
    assert errors == [None] * 20
