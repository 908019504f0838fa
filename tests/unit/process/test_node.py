"""One broker on an embedded store: identity, start-up checks, clean ends."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ottla.client.connection import Connection
from ottla.config.broker import BrokerConfig
from ottla.metadata import znodes
from ottla.process.node import Node, run_broker
from ottla.process.settings import StartError
from ottla.runtime import system_runtime
from ottla.storage.manager.identity import ForeignData
from ottla.types import TopicPartition
from ottla.wire import messages as m
from ottla.zk.embedded import EmbeddedStore
from ottla.zk.server.engine import Engine
from ottla.zk.server.server import ZooKeeperServer
from tests.support.zk.polling import until

HOST = "127.0.0.1"


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    engine = Engine(system_runtime())
    await engine.start()
    yield engine
    await engine.stop()


def _node(engine: Engine, folder: Path, **overrides: str) -> Node:
    properties = {
        "broker.id": "5",
        "listeners": f"PLAINTEXT://{HOST}:0",
        "log.dirs": str(folder),
        "zookeeper.connect": "unused:2181",
    }
    properties.update((name.replace("_", "."), value) for name, value in overrides.items())
    config = BrokerConfig.from_properties(properties)
    return Node(config, system_runtime(), EmbeddedStore(engine))


async def _ask(node: Node, request: m.Message, version: int) -> m.Message:
    connection = await Connection.open(system_runtime().network, HOST, node.port, client_id="test")
    try:
        answer: m.Message = await connection.send(request, version)
        return answer
    finally:
        connection.close()


def _checkpoints(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if "checkpoint" in path.name}


async def test_a_started_node_knows_itself_and_stops_without_a_trace(
    engine: Engine, tmp_path: Path
) -> None:
    node = _node(engine, tmp_path)
    await node.start()
    answer = await _ask(node, m.MetadataRequest(topics=[]), 9)
    assert isinstance(answer, m.MetadataResponse)
    assert [(b.node_id, b.port) for b in answer.brokers] == [(5, node.port)]
    assert answer.controller_id == 5
    assert len(answer.cluster_id or "") == 22
    meta = (tmp_path / "meta.properties").read_text()
    assert "broker.id=5\n" in meta and f"cluster.id={answer.cluster_id}\n" in meta
    before = asyncio.all_tasks()
    await node.stop()
    watcher = EmbeddedStore(engine)
    assert await watcher.exists("/brokers/ids/5") is None
    assert await watcher.exists("/controller") is None
    left = {task.get_name() for task in asyncio.all_tasks() & before if not task.done()}
    assert len(left) == 2, f"only the test and the engine's ticker go on: {left}"


async def test_generated_id_is_kept_over_restarts(engine: Engine, tmp_path: Path) -> None:
    first = _node(engine, tmp_path, broker_id="-1")
    await first.start()
    assert first.broker_id == 1001
    await first.stop()
    again = _node(engine, tmp_path, broker_id="-1")
    await again.start()
    assert again.broker_id == 1001
    await again.stop()


async def test_foreign_data_is_refused_and_nothing_is_left(engine: Engine, tmp_path: Path) -> None:
    node = _node(engine, tmp_path)
    await node.start()
    await node.stop()
    with pytest.raises(ForeignData, match=r"Configured broker.id 6 doesn't match stored"):
        await _node(engine, tmp_path, broker_id="6").start()
    other = Engine(system_runtime())
    await other.start()
    with pytest.raises(ForeignData, match="The broker is trying to join the wrong cluster"):
        await _node(other, tmp_path).start()
    await other.stop()
    watcher = EmbeddedStore(engine)
    assert await watcher.children("/brokers/ids") == []


async def test_unknown_features_are_fatal(engine: Engine, tmp_path: Path) -> None:
    store = EmbeddedStore(engine)
    finalised = {"metadata.version": {"min_version_level": 1, "max_version_level": 2}}
    await store.create("/feature", znodes.FeatureZnode.encode(znodes.Features(finalised, 1, 1)))
    with pytest.raises(StartError, match=r"metadata\.version"):
        await _node(engine, tmp_path).start()


async def test_a_failed_start_leaves_checkpoints_alone(engine: Engine, tmp_path: Path) -> None:
    node = _node(engine, tmp_path)
    await node.start()
    topic = m.CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    await _ask(node, m.CreateTopicsRequest(topics=[topic], timeout_ms=5_000), 5)
    assert node.services.replica_manager.partitions.log(TopicPartition("t", 0)) is not None
    await node.stop()
    checkpoints = _checkpoints(tmp_path)
    assert b"t 0 0" in checkpoints["replication-offset-checkpoint"]
    with pytest.raises(ForeignData):
        await _node(engine, tmp_path, broker_id="6").start()
    assert _checkpoints(tmp_path) == checkpoints


async def test_dynamic_broker_configs_are_read_at_start(engine: Engine, tmp_path: Path) -> None:
    store = EmbeddedStore(engine)
    for path in ("/config", "/config/brokers"):
        await store.create(path)
    await store.create(
        "/config/brokers/<default>", znodes.ConfigZnode.encode({"log.retention.ms": "77"})
    )
    node = _node(engine, tmp_path)
    await node.start()
    assert node.services.topic_settings.of("any").retention_ms == 77
    await node.stop()


async def test_last_log_dir_gone_is_fatal(engine: Engine, tmp_path: Path) -> None:
    node = _node(engine, tmp_path)
    await node.start()
    node.parts.log_manager.dirs.failed(tmp_path, OSError("gone"))
    assert node.failed is not None
    with pytest.raises(StartError, match="no other folder"):
        await asyncio.wait_for(node.failed, 1)
    await node.stop(controlled=False)


async def test_a_failed_dir_is_reported_to_the_controller(engine: Engine, tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    node = _node(engine, tmp_path, log_dirs=",".join(map(str, folders)))
    await node.start()
    seen: list[str] = []
    store = EmbeddedStore(engine)
    await store.children("/log_dir_event_notification", lambda event: seen.append(event.path))
    node.parts.log_manager.dirs.failed(folders[0], OSError("gone"))
    await until(lambda: seen)
    assert seen == ["/log_dir_event_notification"]
    assert node.failed is not None and not node.failed.done()
    await node.stop(controlled=False)


async def test_run_broker_ends_on_sigterm(tmp_path: Path) -> None:
    server = ZooKeeperServer(system_runtime(), None)
    await server.start()
    config = BrokerConfig.from_properties(
        {
            "broker.id": "1",
            "listeners": f"PLAINTEXT://{HOST}:0",
            "log.dirs": str(tmp_path),
            "zookeeper.connect": f"{HOST}:{server.port}/some/chroot",
        }
    )
    started: list[int] = []

    def ready(node: Node) -> None:
        started.append(node.broker_id)
        os.kill(os.getpid(), signal.SIGTERM)

    await asyncio.wait_for(run_broker(config, system_runtime(), ready), 10)
    assert started == [1]
    assert server.engine.tree.nodes.get("/some/chroot/brokers/topics") is not None
    assert server.engine.tree.nodes.get("/some/chroot/brokers/ids/1") is None
    await server.stop()


async def test_partitions_with_one_replica_do_not_hold_up_a_stop(
    engine: Engine, tmp_path: Path
) -> None:
    node = _node(engine, tmp_path, controlled_shutdown_retry_backoff_ms="5000")
    await node.start()
    topic = m.CreateTopicsRequest.CreatableTopic(name="t", num_partitions=2, replication_factor=1)
    await _ask(node, m.CreateTopicsRequest(topics=[topic], timeout_ms=5_000), 5)
    await asyncio.wait_for(node.stop(), 3)
