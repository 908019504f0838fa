"""AlterIsr: leaders change the ISR through the controller (AlterPartition v0)."""

from __future__ import annotations

from ottla.controller.decisions.isr import Update, judge
from ottla.errors import ErrorCode
from ottla.metadata.znodes import LeaderAndIsr
from ottla.wire import messages as m
from tests.support.controller.controlled_cluster import ControlledCluster

Partition = m.AlterPartitionRequest.PartitionData


def wish(leader_epoch: int, isr: list[int], version: int, index: int = 0) -> Partition:
    return Partition(
        partition_index=index, leader_epoch=leader_epoch, new_isr=isr, partition_epoch=version
    )


async def ask(
    cluster: ControlledCluster, *wishes: Partition, topic: str = "t", broker: int = 1
) -> m.AlterPartitionResponse:
    request = m.AlterPartitionRequest(
        broker_id=broker,
        broker_epoch=await cluster.broker_epoch(broker),
        topics=[m.AlterPartitionRequest.TopicData(topic_name=topic, partitions=list(wishes))],
    )
    decoded, _ = m.AlterPartitionRequest.decode(request.encode(0), 0)
    response = await cluster.controllers[0].alter_isr(decoded)
    response.encode(0)
    return response


async def test_a_shrink_is_written_told_and_answered(cluster: ControlledCluster) -> None:
    await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (1, 2)})
    cluster.clear()
    response = await ask(cluster, wish(0, [1], 0))
    (partition,) = response.topics[0].partitions
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, 1, 0)
    assert (partition.isr, partition.partition_epoch) == ([1], 1)
    assert await cluster.state("t") == LeaderAndIsr(1, 0, (1,), 1, 1)
    await cluster.settle()
    for broker in cluster.brokers.values():
        (metadata,) = broker.requests
        assert metadata.topic_states[0].partition_states[0].isr == [1]


async def test_refusals_per_partition(cluster: ControlledCluster) -> None:
    await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (1, 2), 1: (2, 1)})
    await cluster.stop_broker(2)
    await cluster.settle()
    # Partition 1 was led by broker 2; it is led by 1 in epoch 1 now.
    response = await ask(
        cluster,
        wish(0, [1, 2], 0, index=0),
        wish(0, [1], 1, index=1),
        wish(1, [1, 2], 7, index=0),
        wish(0, [1], 0, index=5),
    )
    codes = [p.error_code for p in response.topics[0].partitions]
    # One answer per partition: the last wish for a partition wins, as in Kafka's map.
    assert codes[1] == ErrorCode.FENCED_LEADER_EPOCH == 74
    assert codes[2] == ErrorCode.INVALID_UPDATE_VERSION == 95
    assert codes[3] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION == 3


async def test_refusals_of_the_whole_request(cluster: ControlledCluster) -> None:
    controller = await cluster.start_controller(0)
    epoch = await cluster.broker_epoch(1)
    stale = m.AlterPartitionRequest(broker_id=1, broker_epoch=epoch - 1)
    assert (await controller.alter_isr(stale)).error_code == 77
    unknown = m.AlterPartitionRequest(broker_id=9, broker_epoch=epoch)
    assert (await controller.alter_isr(unknown)).error_code == 77
    standby = await cluster.start_controller(1)
    good = m.AlterPartitionRequest(broker_id=1, broker_epoch=epoch)
    assert (await standby.alter_isr(good)).error_code == 41


def test_judge_compares_the_isr_as_a_list() -> None:
    current = LeaderAndIsr(1, 3, (1, 2), 9, zk_version=4)
    assert judge(None, 1, wish(3, [1], 4), 9) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert judge(current, 1, wish(2, [1], 4), 9) is ErrorCode.FENCED_LEADER_EPOCH
    assert judge(current, 1, wish(3, [], 4), 9) is ErrorCode.INVALID_REQUEST
    assert judge(current, 1, wish(3, [1, 2], 0), 9) == current
    reordered = judge(current, 1, wish(3, [2, 1], 4), 9)
    assert isinstance(reordered, Update)
    assert reordered.state == LeaderAndIsr(1, 3, (2, 1), 9, 4)


async def test_a_broker_that_goes_is_not_let_into_the_isr(cluster: ControlledCluster) -> None:
    """KIP-841: the leader saw its last fetch; the answer has another ISR and a new version."""
    await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (1, 2, 0)})
    await ask(cluster, wish(0, [1], 0))
    shutdown = m.ControlledShutdownRequest(broker_id=2, broker_epoch=await cluster.broker_epoch(2))
    assert (await cluster.controllers[0].controlled_shutdown(shutdown)).error_code == 0
    for version in (1, 2):
        response = await ask(cluster, wish(0, [1, 2], version))
        (partition,) = response.topics[0].partitions
        assert (partition.error_code, partition.isr) == (0, [1])
        assert partition.partition_epoch == version + 1
        if version == 1:
            await cluster.stop_broker(2)
            await cluster.settle()
    response = await ask(cluster, wish(0, [1, 2, 0], 3))
    assert response.topics[0].partitions[0].isr == [1, 0]
