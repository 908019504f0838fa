"""Orders that no controller gave: names that are paths, epochs from nowhere, lines forged.

When they were found, `../../x` made folders outside log.dirs, a name of 300 characters ended the
broker, `a/b` and a line feed kept it from ever starting again, and one epoch of 2^31-1 locked it
out for good.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.bench import attack_wire as wire
from ottla.bench.attack_cases import make_topic, produce
from ottla.bench.attack_sides import BrokerSide, StoreSide
from ottla.wire import messages as m
from ottla.wire.records import Record, build_batch
from tests.support.attacks.bounds import complaints

NAMES = ("../../x", "..", ".", "", "a/b", "a\nb", "a\0b", "n" * 300, "é")
MAX_EPOCH = 2**31 - 1
# A broker that was killed comes back when its session is over.
QUICK = {"zookeeper.session.timeout.ms": "2000"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("orders")


@pytest.fixture(scope="module")
def broker(folder: Path) -> Iterator[BrokerSide]:
    with (
        StoreSide(folder / "store") as store,
        BrokerSide(folder / "broker", store, QUICK) as broker,
    ):
        make_topic(broker, "good")
        yield broker


def leader_and_isr(name: str, epoch: int = 1) -> m.LeaderAndIsrRequest:
    request = m.LeaderAndIsrRequest
    state = request.LeaderAndIsrPartitionState(
        partition_index=0,
        controller_epoch=epoch,
        leader=0,
        isr=[0],
        replicas=[0],
        is_new=True,
    )
    topic = request.LeaderAndIsrTopicState(
        topic_name=name, topic_id=bytes(range(16)), partition_states=[state]
    )
    return request(controller_id=0, controller_epoch=epoch, broker_epoch=-1, topic_states=[topic])


def update_metadata(name: str, epoch: int = 1) -> m.UpdateMetadataRequest:
    request = m.UpdateMetadataRequest
    state = request.UpdateMetadataPartitionState(
        partition_index=0, controller_epoch=epoch, leader=0, isr=[0], replicas=[0]
    )
    topic = request.UpdateMetadataTopicState(
        topic_name=name, topic_id=bytes(range(16)), partition_states=[state]
    )
    return request(controller_id=0, controller_epoch=epoch, broker_epoch=-1, topic_states=[topic])


def stop_replica(name: str, epoch: int = 1) -> m.StopReplicaRequest:
    request = m.StopReplicaRequest
    state = request.StopReplicaPartitionState(partition_index=0, delete_partition=True)
    topic = request.StopReplicaTopicState(topic_name=name, partition_states=[state])
    return request(controller_id=0, controller_epoch=epoch, broker_epoch=-1, topic_states=[topic])


ORDERS = ((leader_and_isr, 5), (update_metadata, 7), (stop_replica, 3))


def _give(broker: BrokerSide, message: Any, version: int) -> None:
    """Answered or hung up on: both are fine."""
    with wire.Peer(broker.port, wait_s=20) as peer:
        peer.send(wire.request(message, version))
        peer.read()


def _is_served(broker: BrokerSide, topic: str = "good") -> bool:
    batch = build_batch([Record(None, b"v", 0)])
    with wire.Peer(broker.port, wait_s=20) as peer:
        peer.send(produce(topic, batch))
        answer = m.ProduceResponse.decode(peer.read(), 7, 4)[0]
    return bool(answer.responses[0].partition_responses[0].error_code == 0)


def _folders(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_dir()}


def _shown(broker: BrokerSide) -> set[str]:
    return {topic.name for topic in wire.ask(broker.port, m.MetadataRequest(topics=None), 9).topics}


def test_names_in_orders_are_looked_at(broker: BrokerSide, folder: Path) -> None:
    """And a broker that got them starts again."""
    before, shown = _folders(folder), _shown(broker)
    for name in NAMES:
        for make, version in ORDERS:
            _give(broker, make(name), version)
    assert broker.is_alive
    assert _folders(folder) == before
    assert not list(folder.parent.glob("x*"))
    assert _shown(broker) == shown
    assert _is_served(broker)
    broker.kill()
    broker.start()
    assert _is_served(broker)
    assert complaints(broker) == []


@pytest.mark.parametrize(("make", "version"), ORDERS, ids=["LeaderAndIsr", "Update", "Stop"])
def test_an_epoch_from_nowhere_locks_nobody_out(
    make: Any, version: int, broker: BrokerSide
) -> None:
    _give(broker, make("nowhere", MAX_EPOCH), version)
    name = f"after-{make.__name__}".replace("_", "-")
    deadline = time.monotonic() + 30
    make_topic(broker, name)
    while not _is_served(broker, name):
        assert time.monotonic() < deadline, "the controller's orders are refused"
        time.sleep(0.1)


def test_text_of_clients_forges_no_lines(broker: BrokerSide) -> None:
    forged = "x\n[2026-01-01 00:00:00,000] ERROR FORGED (kafka.Forged)\r\nFORGED"
    join = m.JoinGroupRequest(
        group_id=forged,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[m.JoinGroupRequest.JoinGroupRequestProtocol(name=forged, metadata=b"")],
    )
    delete = m.DeleteTopicsRequest(topic_names=[forged], timeout_ms=1000)
    with wire.Peer(broker.port) as peer:
        for message, version in ((join, 2), (delete, 4), (leader_and_isr(forged), 5)):
            peer.send(wire.request(message, version, client_id=forged))
            peer.read()
    lines = broker.log.read_bytes().splitlines()
    assert [
        line for line in lines if re.search(rb"^(broker-\d: )?(\[[^]]*\] \w+ )?\W*FORGED", line)
    ] == []
    assert [line for line in lines if re.search(rb"\] \w+ \[2026-01-01", line)] == []
