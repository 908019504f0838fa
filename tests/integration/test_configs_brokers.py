"""Broker configs and cluster-wide defaults, changed by `ottla configs` on a running cluster."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from ottla.broker.quotas.replication import ALTER_LOG_DIRS_RATE, UNLIMITED, dynamic_rate
from ottla.cli import main as cli_main
from ottla.metadata import znodes
from ottla.metadata.store import CreateMode
from ottla.metadata.znodes import ConfigZnode
from ottla.process.node import Node
from ottla.topics.configs import LogConfig
from ottla.types import TopicPartition
from tests.support.integration import lifecycle_helpers as h
from tests.support.integration.local_cluster import LocalCluster

DEFAULT = ("--entity-type", "brokers", "--entity-default")


async def ottla(cluster: LocalCluster, command: str, *arguments: str) -> tuple[int, str]:
    """Exit code and output of a command; an error is part of the output."""

    def call() -> tuple[int, str]:
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            code = cli_main.run([command, "--bootstrap-server", cluster.bootstrap, *arguments])
        return code, out.getvalue()

    return await asyncio.to_thread(call)


async def add(cluster: LocalCluster, entity: tuple[str, ...], configs: str) -> None:
    code, out = await ottla(cluster, "configs", "--alter", *entity, "--add-config", configs)
    assert code == 0, out


async def remove(cluster: LocalCluster, entity: tuple[str, ...], names: str) -> None:
    code, out = await ottla(cluster, "configs", "--alter", *entity, "--delete-config", names)
    assert code == 0, out


def settings(node: Node, topic: str) -> LogConfig:
    log = node.parts.log_manager.get(TopicPartition(topic, 0))
    assert log is not None and isinstance(log.settings, LogConfig)
    return log.settings


async def until_settings(cluster: LocalCluster, topic: str, **wanted: Any) -> None:
    """`wanted` maps a setting to its value on the brokers 0, 1, 2."""

    def so() -> bool:
        return all(
            [getattr(settings(cluster.nodes[i], topic), name) for i in range(3)] == values
            for name, values in wanted.items()
        )

    await cluster.until(so, f"{topic}: {wanted}")


async def test_defaults_reach_logs_under_the_topics_own_configs(cluster: LocalCluster) -> None:
    await h.create(cluster, "plain", [0, 1, 2])
    await h.create(cluster, "own", [0, 1, 2], retention_ms="5")
    await add(cluster, DEFAULT, "log.retention.ms=1000,log.segment.bytes=5000")
    await until_settings(cluster, "plain", retention_ms=[1000] * 3, segment_bytes=[5000] * 3)
    await until_settings(cluster, "own", retention_ms=[5] * 3, segment_bytes=[5000] * 3)
    await add(cluster, ("--broker", "1"), "log.retention.ms=2000,log.cleanup.policy=compact")
    await until_settings(cluster, "plain", retention_ms=[1000, 2000, 1000])
    assert settings(cluster.nodes[1], "own").cleanup_policy == {"compact"}
    await h.create(cluster, "later", [0, 1, 2])
    await until_settings(cluster, "later", retention_ms=[1000, 2000, 1000])
    # The topic's own config goes; what is under it shows.
    await remove(cluster, ("--topic", "own"), "retention.ms")
    await until_settings(cluster, "own", retention_ms=[1000, 2000, 1000])

    _, described = await ottla(cluster, "configs", "--describe", "--broker", "1")
    assert (
        "  log.retention.ms=2000 sensitive=false synonyms={"
        "DYNAMIC_BROKER_CONFIG:log.retention.ms=2000, "
        "DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=1000, "
        "DEFAULT_CONFIG:log.retention.hours=168}"
    ) in described.splitlines()
    _, described = await ottla(cluster, "topics", "--describe", "--topic", "plain")
    assert "segment.bytes=5000" in described

    await cluster.stop(1)
    await cluster.start(1)
    assert settings(cluster.nodes[1], "plain").retention_ms == 2000, "also after a start"
    await remove(cluster, ("--broker", "1"), "log.retention.ms,log.cleanup.policy")
    await remove(cluster, DEFAULT, "log.retention.ms,log.segment.bytes")
    await until_settings(
        cluster, "plain", retention_ms=[604_800_000] * 3, segment_bytes=[2**30] * 3
    )


async def produce_one(cluster: LocalCluster, topic: str, value: bytes) -> int | None:
    """The error code of one record with acks=all."""

    def call() -> int | None:
        codes: list[int | None] = []
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "retries": 0})
        producer.produce(
            topic, value, partition=0, on_delivery=lambda e, _: codes.append(e and e.code())
        )
        assert producer.flush(15) == 0
        return codes[0]

    return await asyncio.to_thread(call)


async def test_producers_feel_new_defaults(cluster: LocalCluster) -> None:
    await h.create(cluster, "t", [0, 1])
    assert await produce_one(cluster, "t", b"x" * 5000) is None
    await add(cluster, DEFAULT, "message.max.bytes=1000")
    await until_settings_of(cluster, 0, "max_message_bytes", 1000)
    assert await produce_one(cluster, "t", b"x" * 5000) == KafkaError.MSG_SIZE_TOO_LARGE
    await add(cluster, DEFAULT, "message.max.bytes=9000,min.insync.replicas=3")
    await until_settings_of(cluster, 0, "min_insync_replicas", 3)
    assert await produce_one(cluster, "t", b"x" * 5000) == KafkaError.NOT_ENOUGH_REPLICAS


async def until_settings_of(
    cluster: LocalCluster, broker_id: int, name: str, value: object
) -> None:
    node = cluster.nodes[broker_id]
    await cluster.until(lambda: getattr(settings(node, "t"), name) == value, f"{name}={value}")


async def test_a_default_that_allows_unclean_leaders_finds_one(cluster: LocalCluster) -> None:
    await h.create(cluster, "t", [1, 2])
    await cluster.stop(2, controlled=False)
    await cluster.until(lambda: h.isr(cluster.nodes[0], "t") == {1}, "broker 2 out of the ISR")
    await cluster.stop(1, controlled=False)
    await cluster.start(2)

    def leader() -> int:
        return cluster.nodes[0].services.metadata_cache.topic_partitions("t")[0].leader

    await cluster.until(lambda: leader() == -1, "no leader")
    await h.controller_has_caught_up(cluster)
    assert leader() == -1
    await add(cluster, DEFAULT, "unclean.leader.election.enable=true")
    await cluster.until(lambda: leader() == 2, "an unclean leader")


async def test_throttled_reassignment(cluster: LocalCluster, tmp_path: Path) -> None:
    await h.create(cluster, "t", [0])
    await h.produce(cluster, "t", range(100))
    plan = tmp_path / "plan.json"
    plan.write_text(
        json.dumps(
            {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 0]}]}
        )
    )
    file = ("--reassignment-json-file", str(plan))
    code, out = await ottla(cluster, "reassign", "--execute", *file, "--throttle", "5000000")
    assert (code, "The inter-broker throttle limit was set to 5000000 B/s" in out) == (0, True), out

    def limits() -> list[tuple[int, int]]:
        managers = [cluster.nodes[i].parts.replica_manager for i in range(3)]
        return [(m.throttles.leader.limit, m.throttles.follower.limit) for m in managers]

    set_to, free = (5_000_000, 5_000_000), (UNLIMITED, UNLIMITED)
    await cluster.until(lambda: limits() == [set_to, set_to, free], "the rates are known")
    assert settings(cluster.nodes[0], "t").leader_replication_throttled_replicas == ("0:0",)
    await cluster.until(lambda: h.isr(cluster.nodes[0], "t") == {0, 1}, "the move is done")
    code, out = await ottla(cluster, "reassign", "--verify", *file)
    assert code == 0
    assert out.splitlines()[-2:] == [
        "Clearing broker-level throttles on brokers 0,1,2",
        "Clearing topic-level throttles on topic t",
    ]
    await cluster.until(lambda: limits() == [free] * 3, "the rates are gone")
    await cluster.until(
        lambda: settings(cluster.nodes[0], "t").leader_replication_throttled_replicas == (),
        "no replica is throttled",
    )


async def test_moves_between_folders_have_a_rate(cluster: LocalCluster) -> None:
    node = cluster.nodes[2]
    await add(cluster, ("--broker", "2"), f"{ALTER_LOG_DIRS_RATE}=5000")
    await cluster.until(
        lambda: dynamic_rate(node.parts.log_manager.config, ALTER_LOG_DIRS_RATE) == 5000, "a rate"
    )


@pytest.mark.parametrize(
    ("entity", "config", "reason"),
    [
        (("--broker", "0"), "broker.id=5", "Cannot update these configs dynamically"),
        (DEFAULT, "listeners=PLAINTEXT://:1", "broker id must be specified: Set(listeners)"),
        (
            ("--broker", "0"),
            "listeners=PLAINTEXT://127.0.0.1:1",
            "listeners cannot be changed while this broker runs",
        ),
        (
            ("--broker", "0"),
            "advertised.listeners=PLAINTEXT://127.0.0.1:1",
            "cannot be changed while this broker runs",
        ),
        (
            ("--broker", "0"),
            "listener.name.plaintext.plain.sasl.jaas.config=x",
            "Password encoder secret not configured",
        ),
        (("--broker", "0"), "num.io.threads=99", "greater than double the current value 8"),
        (("--broker", "0"), "log.roll.ms=0", "requirement failed: log.roll.ms must be"),
    ],
)
async def test_refusals_leave_nothing_behind(
    cluster: LocalCluster, entity: tuple[str, ...], config: str, reason: str
) -> None:
    code, out = await ottla(cluster, "configs", "--alter", *entity, "--add-config", config)
    assert (code, reason in out) == (1, True), out
    store = cluster.nodes[0].services.store
    assert await store.children("/config/brokers") == []
    assert await store.children("/config/changes") == []


async def test_znodes_written_by_hand(cluster: LocalCluster) -> None:
    """Whatever holds is taken; a listener waits for the next start; nothing stops a broker."""
    await h.create(cluster, "t", [0, 1, 2])
    store = cluster.nodes[0].services.store
    before = cluster.nodes[1].services.config.advertised_listeners
    entries = {
        "log.segment.bytes": "x",
        "log.retention.ms": "77",
        "broker.id": "9",
        "advertised.listeners": "PLAINTEXT://elsewhere:1",
        "listener.name.plaintext.plain.sasl.jaas.config": "encoded",
    }
    await store.create("/config/brokers/1", ConfigZnode.encode(entries))
    await store.create("/config/brokers/<default>", b"garbage")
    for entity in ("1", "<default>"):
        await store.create(
            znodes.ConfigChangeZnode.path(),
            znodes.ConfigChangeZnode.encode(znodes.ConfigChange(f"brokers/{entity}")),
            mode=CreateMode.PERSISTENT_SEQUENTIAL,
        )
    await until_settings(cluster, "t", retention_ms=[604_800_000, 77, 604_800_000])
    assert cluster.nodes[1].services.config.advertised_listeners == before
    # A change through the broker keeps the password that only Kafka can read.
    await add(cluster, ("--broker", "1"), "log.roll.ms=500")
    data, _ = await store.get("/config/brokers/1")
    kept = ConfigZnode.decode(data)
    assert kept["listener.name.plaintext.plain.sasl.jaas.config"] == "encoded"
    assert (kept["log.roll.ms"], "broker.id" in kept) == ("500", False)


async def test_limits_on_connections_hold_at_once(cluster: LocalCluster) -> None:
    """For an address of its own: the cluster's other connections come from 127.0.0.1."""
    node = cluster.nodes[0]
    address = "127.0.0.2"

    async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", node.port, local_addr=(address, 0))

    async def until_limit(limit: str) -> None:
        name = "max.connections.per.ip.overrides"
        await cluster.until(lambda: node.config.text(name) == limit, f"{name}={limit}")

    async with asyncio.timeout(60):
        first = await connect()
        await add(cluster, DEFAULT, f"max.connections.per.ip.overrides={address}:1")
        await until_limit(f"{address}:1")
        second = await connect()
        assert await second[0].read() == b"", "one too many"
        await remove(cluster, DEFAULT, "max.connections.per.ip.overrides")
        await until_limit("")
        third = await connect()
        third[1].write(bytes.fromhex("0000000e 0012 0000 00000007 0004") + b"test")
        assert (await third[0].readexactly(8))[4:] == bytes.fromhex("00000007")
    for _, writer in (first, second, third):
        writer.close()
