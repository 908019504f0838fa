"""Apache Kafka 2.8.2 brokers keep their metadata in our server, through a restart of it."""

from __future__ import annotations

import asyncio
import json

import pytest

from ottla.client.connection import Connection
from ottla.runtime import system_runtime
from ottla.testing import java
from ottla.wire import messages as m
from ottla.zk.client.store import ZooKeeperClient
from ottla.zk.server.server import ZooKeeperServer
from tests.support.judges import need

pytestmark = pytest.mark.peers

BROKERS = 2
TOPICS = "kafka.admin.TopicCommand"
EVENTUALLY_S = 60


async def kafka_topics(servers: str, *arguments: str) -> str:
    result = await asyncio.to_thread(
        java.run_tool, "kafka-2.8.2", TOPICS, "--bootstrap-server", servers, *arguments
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


async def eventually_listed(server: str, topic: str) -> None:
    network = system_runtime().network
    host, _, port = server.partition(":")
    connection = await Connection.open(network, host, int(port), client_id="listing")
    request = m.MetadataRequest(topics=None)
    try:
        async with asyncio.timeout(EVENTUALLY_S):
            known: set[str | None] = set()
            while topic not in known:
                await asyncio.sleep(0.05)
                known = {found.name for found in (await connection.send(request, 9)).topics}
    finally:
        connection.close()


async def eventually_gone(client: ZooKeeperClient, path: str) -> None:
    changed = asyncio.Event()
    async with asyncio.timeout(EVENTUALLY_S):
        while await client.exists(path, lambda _: changed.set()) is not None:
            await changed.wait()
            changed.clear()


async def test_kafka_brokers_live_on_our_store(tmp_path):
    need(java.missing_reason("kafka-2.8.2"))
    server = ZooKeeperServer(system_runtime(), tmp_path)
    await server.start()
    port = server.port
    kafka = java.ApacheKafka(f"127.0.0.1:{port}/apache", brokers=BROKERS)
    client = None
    try:
        await asyncio.to_thread(kafka.start)
        client = await ZooKeeperClient.connect(system_runtime(), f"127.0.0.1:{port}/apache")
        assert sorted(await client.children("/brokers/ids")) == ["0", "1"]
        servers = kafka.bootstrap_servers
        await kafka_topics(
            servers, "--create", "--topic", "t", "--partitions", "3", "--replication-factor", "2"
        )
        topic = json.loads((await client.get("/brokers/topics/t"))[0] or b"")
        assert sorted(topic["partitions"]) == ["0", "1", "2"]

        # The store restarts: sessions, ephemeral nodes and watches of the brokers live on.
        owner = (await client.get("/brokers/ids/0"))[1].ephemeral_owner
        await server.stop()
        server = ZooKeeperServer(system_runtime(), tmp_path, port=port)
        await server.start()
        assert (await client.get("/brokers/ids/0"))[1].ephemeral_owner == owner
        # The tools ask one broker or the other: each has to have heard of the topic.
        for each in servers.split(","):
            await eventually_listed(each, "t")
        assert "t" in (await kafka_topics(servers, "--list")).split()
        await kafka_topics(servers, "--delete", "--topic", "t")
        await eventually_gone(client, "/brokers/topics/t")
        await eventually_gone(client, "/admin/delete_topics/t")
    finally:
        if client is not None:
            await client.close()
        await asyncio.to_thread(kafka.stop)
        await server.stop()
