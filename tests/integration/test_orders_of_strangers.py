"""What a client can do that poses as the controller or as another broker: nothing that lasts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ottla.client.connection import Connection
from ottla.errors import ErrorCode
from ottla.runtime import system_runtime
from ottla.types import TopicPartition
from ottla.wire import messages as m
from tests.support.integration.local_cluster import HOST, LocalCluster, running_brokers

REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
FAR_AHEAD = 2**31 - 1
TOPIC_ID = bytes(range(16))


class TwoListeners(LocalCluster):
    """INTERNAL for brokers, CLIENTS for everyone else; no authoriser."""

    def properties(self, broker_id: int) -> dict[str, str]:
        both = f"INTERNAL://{HOST}:0,CLIENTS://{HOST}:0"
        return super().properties(broker_id) | {
            "listeners": both,
            "advertised.listeners": both,
            "listener.security.protocol.map": "INTERNAL:PLAINTEXT,CLIENTS:PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
        }


async def ask(
    cluster: LocalCluster, broker_id: int, listener: str, message: Any, version: int
) -> Any:
    endpoint = cluster.nodes[broker_id].services.metadata_cache.endpoint(broker_id, listener)
    assert endpoint is not None
    network = system_runtime().network
    connection = await Connection.open(network, HOST, endpoint.port, client_id="stranger")
    try:
        return await connection.send(message, version)
    finally:
        connection.close()


async def create(cluster: LocalCluster, listener: str, name: str, replicas: int) -> None:
    topic = m.CreateTopicsRequest.CreatableTopic(
        name=name, num_partitions=1, replication_factor=replicas
    )
    request = m.CreateTopicsRequest(topics=[topic], timeout_ms=5000)
    answer = await ask(cluster, cluster.controller.broker_id, listener, request, 5)
    assert answer.topics[0].error_code == 0, answer
    await cluster.until_all_know(name, 1, replicas)


def lead(
    *names: str, controller_epoch: int, leader_epoch: int = 9, partition: int = 0
) -> m.LeaderAndIsrRequest:
    """An order to lead partitions that nobody has made."""
    request = m.LeaderAndIsrRequest
    state = request.LeaderAndIsrPartitionState(
        partition_index=partition,
        leader=0,
        leader_epoch=leader_epoch,
        replicas=[0],
        isr=[0],
        is_new=True,
    )
    return request(
        controller_id=0,
        controller_epoch=controller_epoch,
        broker_epoch=-1,
        topic_states=[
            request.LeaderAndIsrTopicState(
                topic_name=name, topic_id=TOPIC_ID, partition_states=[state]
            )
            for name in names
        ],
    )


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def codes(answer: m.LeaderAndIsrResponse) -> list[int]:
    return [partition.error_code for topic in answer.topics for partition in topic.partition_errors]


def requests_of_brokers(topic: str, epoch: int) -> list[tuple[Any, int]]:
    stop, fetch, markers = m.StopReplicaRequest, m.FetchRequest, m.WriteTxnMarkersRequest
    return [
        (lead("made-by-a-stranger", controller_epoch=epoch), 5),
        (
            stop(
                controller_epoch=epoch,
                broker_epoch=-1,
                topic_states=[
                    stop.StopReplicaTopicState(
                        topic_name=topic,
                        partition_states=[
                            stop.StopReplicaPartitionState(
                                partition_index=0, leader_epoch=-2, delete_partition=True
                            )
                        ],
                    )
                ],
            ),
            3,
        ),
        (m.UpdateMetadataRequest(controller_id=9, controller_epoch=epoch, broker_epoch=-1), 6),
        (m.ControlledShutdownRequest(broker_id=0, broker_epoch=-1), 3),
        (m.AlterPartitionRequest(broker_id=0, broker_epoch=-1), 0),
        (
            fetch(
                replica_id=1,
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=1,
                session_epoch=-1,
                topics=[
                    fetch.FetchTopic(
                        topic=topic,
                        partitions=[fetch.FetchPartition(partition=0, partition_max_bytes=1)],
                    )
                ],
            ),
            12,
        ),
        (
            markers(
                markers=[
                    markers.WritableTxnMarker(
                        producer_id=1,
                        producer_epoch=1,
                        coordinator_epoch=FAR_AHEAD,
                        topics=[markers.WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
                    )
                ]
            ),
            1,
        ),
    ]


def code_of(answer: Any) -> int:
    if isinstance(answer, m.WriteTxnMarkersResponse):
        return answer.markers[0].topics[0].partitions[0].error_code
    if isinstance(answer, m.FetchResponse):
        # Kafka's code for a follower without the right of brokers.
        code = answer.responses[0].partitions[0].error_code
        return REFUSED if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED else code
    return int(answer.error_code)


async def test_what_brokers_say_among_themselves_is_refused_from_clients(tmp_path: Path) -> None:
    async with running_brokers(TwoListeners(tmp_path), brokers=2) as cluster:
        await create(cluster, "CLIENTS", "t", replicas=2)
        epoch = cluster.controller.services.orders.epochs.controller_epoch
        controller_id = cluster.controller.broker_id
        for broker_id in (0, 1):
            for message, version in requests_of_brokers("t", epoch):
                answer = await ask(cluster, broker_id, "CLIENTS", message, version)
                assert code_of(answer) == REFUSED, type(message).__name__
            logs = cluster.nodes[broker_id].services.replica_manager.log_manager
            assert [str(log.tp) for log in logs.logs()] == ["t-0"]
        assert cluster.controller.broker_id == controller_id
        # Among themselves they still say it: leadership moves.
        await cluster.stop(controller_id)
        (left,) = cluster.nodes.values()
        await cluster.until(lambda: left.controller.is_active, "another controller")
        await create(cluster, "CLIENTS", "after", replicas=1)


async def test_an_epoch_from_nowhere_locks_nobody_out(tmp_path: Path) -> None:
    async with running_brokers(TwoListeners(tmp_path), brokers=2) as cluster:
        await create(cluster, "CLIENTS", "t", replicas=2)
        for broker_id in (0, 1):
            for message, version in requests_of_brokers("t", FAR_AHEAD)[:3]:
                answer = await ask(cluster, broker_id, "INTERNAL", message, version)
                assert answer.error_code == REFUSED, type(message).__name__
        await create(cluster, "CLIENTS", "after", replicas=2)
        # Nor does the epoch of a leader.
        epoch = cluster.controller.services.orders.epochs.controller_epoch
        order = lead("t", controller_epoch=epoch, leader_epoch=FAR_AHEAD)
        order.topic_states[0].topic_id = bytes(16)
        assert codes(await ask(cluster, 0, "INTERNAL", order, 5)) == [
            ErrorCode.UNKNOWN_LEADER_EPOCH
        ]
        await cluster.stop(1)
        await cluster.start(1)
        await cluster.until_all_know("t", 1, 2)


@pytest.fixture
async def alone(tmp_path: Path) -> AsyncIterator[LocalCluster]:
    async with running_brokers(LocalCluster(tmp_path / "data"), brokers=1) as cluster:
        yield cluster


async def test_names_of_orders_are_names_of_topics(alone: LocalCluster, tmp_path: Path) -> None:
    names = ("../../x", "a/b", "x\ny", "n" * 300, "", "..", "n" * 249)
    epoch = alone.controller.services.orders.epochs.controller_epoch
    order = lead(*names, controller_epoch=epoch, partition=123_456)
    answer = await ask(alone, 0, "PLAINTEXT", order, 5)
    assert codes(answer) == [ErrorCode.INVALID_TOPIC_EXCEPTION] * len(names)
    order = lead("t", controller_epoch=epoch, partition=-1)
    assert codes(await ask(alone, 0, "PLAINTEXT", order, 5)) == [ErrorCode.INVALID_REQUEST]
    update = m.UpdateMetadataRequest
    state = update.UpdateMetadataPartitionState(partition_index=0, leader=0, replicas=[0], isr=[0])
    told = update(
        controller_id=0,
        controller_epoch=epoch,
        broker_epoch=-1,
        topic_states=[
            update.UpdateMetadataTopicState(topic_name=name, partition_states=[state])
            for name in ("fine", "../x", "x\ny")
        ],
        live_brokers=[
            update.UpdateMetadataBroker(
                id=0,
                endpoints=[
                    update.UpdateMetadataEndpoint(
                        host=HOST, port=alone.nodes[0].port, listener="PLAINTEXT"
                    )
                ],
            )
        ],
    )
    assert (await ask(alone, 0, "PLAINTEXT", told, 6)).error_code == 0
    assert alone.nodes[0].services.metadata_cache.topics() == ["fine"]
    # Nothing was made, nothing failed, and the broker starts again.
    await create(alone, "PLAINTEXT", "good", replicas=1)
    logs = alone.nodes[0].services.replica_manager.log_manager
    assert logs.dirs.offline() == [] and [log.tp for log in logs.logs()] == [
        TopicPartition("good", 0)
    ]
    assert names_in(tmp_path) == ["data"]
    await alone.stop(0)
    await alone.start(0)
    await alone.until_all_know("good", 1, 1)


async def test_one_partition_twice_in_an_order(alone: LocalCluster) -> None:
    epoch = alone.controller.services.orders.epochs.controller_epoch
    order = lead("t", "t", "u", controller_epoch=epoch)
    order.topic_states[1].partition_states[0] = m.LeaderAndIsrRequest.LeaderAndIsrPartitionState(
        partition_index=0, leader=0, leader_epoch=11, replicas=[0], isr=[0, 77], is_new=True
    )
    order.topic_states[2].topic_id = TOPIC_ID[::-1]
    assert codes(await ask(alone, 0, "PLAINTEXT", order, 5)) == [0, 0, 0]
    partition = alone.nodes[0].services.replica_manager.partitions.require(TopicPartition("t", 0))
    assert partition.leader_epoch == 11
