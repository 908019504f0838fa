"""LeaderAndIsr and StopReplica: codes and effects."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.handlers import leader_and_isr, stop_replica
from ottla.broker.replication import stale_logs
from ottla.broker.replication.stale_logs import StaleLogs
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.store import ConnectionLossError
from ottla.metadata.znodes import ReplicaAssignment, TopicZnode
from ottla.types import TopicPartition
from ottla.wire import messages as m
from ottla.zk.embedded import EmbeddedStore
from tests.support.broker.cluster_messages import context
from tests.support.broker.replica_cluster import TOPIC_ID, TP, MakeBrokers, brokers

__all__ = ["brokers"]


async def test_a_partition_alone_is_committed_at_once(brokers: MakeBrokers) -> None:
    (broker,) = await brokers(1)
    assert broker.order(0, 1, replicas=[0]) is ErrorCode.NONE
    result = await broker.produce(3, acks=-1)
    assert (result.error, result.base_offset, result.log_start_offset) == (ErrorCode.NONE, 0, 0)
    assert broker.log.high_watermark == 3
    metadata = broker.log.folder / "partition.metadata"
    assert not metadata.exists(), "a small log shares a file"
    await broker.log_manager.flusher.flush(broker.log)
    assert metadata.read_text() == "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"


@pytest.mark.parametrize("version", [1, 4, 5, 7])
async def test_codes_of_leader_and_isr(brokers: MakeBrokers, version: int) -> None:
    (broker,) = await brokers(1)
    assert broker.order(0, 3, replicas=[0], version=version) is ErrorCode.NONE
    for epoch in (2, 3):
        code = broker.order(0, epoch, replicas=[0], version=version)
        assert code is ErrorCode.STALE_CONTROLLER_EPOCH
    assert broker.partition.leader_epoch == 3
    code = broker.order(1, 4, replicas=[1, 2], version=version)
    assert code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_another_topic_id_is_refused(brokers: MakeBrokers) -> None:
    (broker,) = await brokers(1)
    broker.order(0, 1, replicas=[0])
    code = broker.order(0, 2, replicas=[0], topic_id=bytes(15) + b"\x09")
    assert code is ErrorCode.INCONSISTENT_TOPIC_ID
    assert broker.order(0, 2, replicas=[0], topic_id=bytes(16)) is ErrorCode.NONE
    assert broker.log.topic_id == TOPIC_ID


async def test_an_unknown_leader_changes_nothing_but_makes_the_log(brokers: MakeBrokers) -> None:
    (broker,) = await brokers(1)
    for leader in (9, -1):
        assert broker.order(leader, 5, replicas=[0, 9]) is ErrorCode.NONE
        assert broker.partition.leader_epoch == -1
        assert broker.log.end_offset == 0
    with pytest.raises(KafkaError) as raised:
        broker.partition.leader_log()
    assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_leadership_listeners(brokers: MakeBrokers) -> None:
    first, _ = await brokers(2)
    told: list[tuple[str, int | None]] = []
    first.manager.leadership.add(
        lambda tp, epoch: told.append(("leads", epoch)),
        lambda tp, epoch: told.append(("resigns", epoch)),
    )
    first.order(0, 1, replicas=[0, 1])
    first.order(1, 2, replicas=[0, 1])
    first.order(1, 3, replicas=[0, 1])
    assert told == [("leads", 1), ("resigns", 2)]


def stop_request(epoch: int, *, delete: bool) -> m.StopReplicaRequest:
    request = m.StopReplicaRequest
    return request(
        controller_epoch=1,
        broker_epoch=-1,
        topic_states=[
            request.StopReplicaTopicState(
                topic_name="t",
                partition_states=[
                    request.StopReplicaPartitionState(
                        partition_index=0, leader_epoch=epoch, delete_partition=delete
                    )
                ],
            )
        ],
    )


async def test_codes_of_stop_replica(brokers: MakeBrokers, store: EmbeddedStore) -> None:
    (broker,) = await brokers(1)
    broker.services.stale_logs = StaleLogs(store, broker.manager)
    broker.order(0, 3, replicas=[0])

    async def stop(epoch: int, *, delete: bool) -> int:
        request = stop_request(epoch, delete=delete)
        response = await stop_replica.handle(broker.context(3), request)
        return response.partition_errors[0].error_code

    for epoch in (2, 3):
        assert await stop(epoch, delete=True) == ErrorCode.FENCED_LEADER_EPOCH
    assert await stop(4, delete=False) == ErrorCode.NONE
    assert broker.manager.partitions.log(TP) is not None
    folder = broker.log.folder
    assert await stop(-2, delete=True) == ErrorCode.NONE
    assert broker.manager.partitions.get(TP) is None and not folder.exists()
    assert len(list(folder.parent.glob("t-0.*-delete"))) == 1
    assert await stop(-2, delete=True) == ErrorCode.NONE


async def test_a_left_over_log_is_deleted_without_its_partition(
    brokers: MakeBrokers, store: EmbeddedStore
) -> None:
    (broker,) = await brokers(1)
    broker.services.stale_logs = StaleLogs(store, broker.manager)
    log = broker.log_manager.get_or_create(TP)
    await stop_replica.handle(broker.context(3), stop_request(-2, delete=True))
    assert broker.log_manager.get(TP) is None and not (log.data_dir / "t-0").exists()


@pytest.mark.parametrize("is_hosted", [True, False])
async def test_the_end_of_a_topic_is_not_the_end_of_another_of_its_name(
    brokers: MakeBrokers, store: EmbeddedStore, is_hosted: bool
) -> None:
    """StopReplica names no ids: the store says whose the name is."""
    (broker,) = await brokers(1)
    broker.services.stale_logs = StaleLogs(store, broker.manager)
    for path in ("/brokers", "/brokers/topics"):
        await store.create(path)
    value = TopicZnode.encode({0: ReplicaAssignment((0,))}, b"n" * 16)
    await store.create(TopicZnode.path("t"), value)
    if is_hosted:
        broker.order(0, 1, replicas=[0])
    log = broker.log_manager.get_or_create(TP, topic_id=TOPIC_ID)
    response = await stop_replica.handle(broker.context(3), stop_request(-2, delete=True))
    assert response.partition_errors[0].error_code == ErrorCode.NONE
    assert broker.log_manager.get(TP) is None and broker.manager.partitions.get(TP) is None
    assert broker.log_manager.strays.folders == [log.folder] and log.folder.exists()


async def test_nothing_is_deleted_while_the_store_cannot_be_asked(
    brokers: MakeBrokers, store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (broker,) = await brokers(1)
    broker.services.stale_logs = StaleLogs(store, broker.manager)
    broker.order(0, 1, replicas=[0])

    async def lost(*_arguments: object) -> None:
        raise ConnectionLossError

    monkeypatch.setattr(store, "get", lost)
    monkeypatch.setattr(stale_logs, "_SPARE_PAUSE_S", 0)
    response = await stop_replica.handle(broker.context(3), stop_request(-2, delete=True))
    assert response.partition_errors[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.log.folder.exists() and broker.manager.partitions.get(TP) is not None


async def test_stale_epochs_of_broker_and_controller(brokers: MakeBrokers) -> None:
    (broker,) = await brokers(1)
    broker.orders.epochs.broker_epoch = 50
    broker.orders.epochs.controller_epoch = 7
    state = m.LeaderAndIsrRequest.LeaderAndIsrTopicState(
        topic_name="t",
        topic_id=TOPIC_ID,
        partition_states=[
            m.LeaderAndIsrRequest.LeaderAndIsrPartitionState(
                partition_index=0, leader=0, replicas=[0], isr=[0]
            )
        ],
    )
    for broker_epoch, controller_epoch, code in (
        (49, 8, ErrorCode.STALE_BROKER_EPOCH),
        (-1, 6, ErrorCode.STALE_CONTROLLER_EPOCH),
    ):
        request = m.LeaderAndIsrRequest(
            broker_epoch=broker_epoch, controller_epoch=controller_epoch, topic_states=[state]
        )
        answer = await leader_and_isr.handle(broker.context(5), request)
        assert answer.error_code == code
        assert answer.topics[0].partition_errors[0].error_code == code
        stop = stop_request(9, delete=True)
        stop.broker_epoch, stop.controller_epoch = broker_epoch, controller_epoch
        stopped = await stop_replica.handle(broker.context(3), stop)
        assert (stopped.error_code, stopped.partition_errors) == (code, [])
    assert broker.manager.partitions.get(TP) is None
    request = m.LeaderAndIsrRequest(broker_epoch=51, controller_epoch=9, topic_states=[state])
    answer = await leader_and_isr.handle(broker.context(5), request)
    assert answer.error_code == ErrorCode.NONE
    assert broker.orders.epochs.controller_epoch == 9


def large_order(count: int) -> m.LeaderAndIsrRequest:
    """About some partitions, the first of them twice: with a higher epoch at the end."""
    request = m.LeaderAndIsrRequest
    states = [
        request.LeaderAndIsrPartitionState(
            partition_index=index % count,
            leader=0,
            replicas=[0],
            isr=[0],
            is_new=True,
            leader_epoch=index // count,
        )
        for index in range(count + 1)
    ]
    topic = request.LeaderAndIsrTopicState(
        topic_name="t", topic_id=TOPIC_ID, partition_states=states
    )
    return request(broker_epoch=-1, controller_epoch=1, topic_states=[topic])


async def test_a_large_order(brokers: MakeBrokers) -> None:
    (broker,) = await brokers(1)
    answer = await leader_and_isr.handle(broker.context(5), large_order(450))
    codes = {partition.error_code for partition in answer.topics[0].partition_errors}
    assert codes == {ErrorCode.NONE} and len(answer.topics[0].partition_errors) == 451
    assert len(list(broker.manager.partitions)) == 450
    assert all(partition.is_leader for partition in broker.manager.partitions)
    assert broker.partition.leader_epoch == 1, "the last order for a partition counts"
    assert (await broker.produce(acks=-1)).error is ErrorCode.NONE


async def test_a_newer_controller_ends_a_large_order(brokers: MakeBrokers) -> None:
    (broker,) = await brokers(1)
    ctx = broker.context(5)
    turns = []

    async def give() -> None:
        turns.append(len(list(broker.manager.partitions)))
        if turns[-1] == 400:
            broker.orders.epochs.controller_epoch = 2

    ctx.turns.give = give  # type: ignore[method-assign]
    answer = await leader_and_isr.handle(ctx, large_order(900))
    # On a busy machine there are turns while the order is read, before any partition is made.
    assert [made for made in turns if made] == [200, 400], "others had their turn"
    assert answer.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert len(list(broker.manager.partitions)) == 400


async def test_configs_are_read_before_logs_are_made(brokers: MakeBrokers) -> None:
    (broker,) = await brokers(1)
    broker.order(0, 1, replicas=[0])
    request = m.LeaderAndIsrRequest
    states = [request.LeaderAndIsrPartitionState(partition_index=0, leader_epoch=1, replicas=[0])]
    topics = [
        request.LeaderAndIsrTopicState(topic_name=name, topic_id=TOPIC_ID, partition_states=states)
        for name in ("t", "new")
    ]
    await leader_and_isr.handle(
        broker.context(5), request(controller_epoch=1, broker_epoch=-1, topic_states=topics)
    )
    # What is known of a topic without a log here may be of an earlier life.
    assert broker.services.topic_settings.loaded == [(["t", "new"], ["new"])]


async def test_an_order_that_waited_too_long_moves_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waited for the store, and the broker has registered again: a log that has another name by
    now would get its old one back."""
    done: list[str] = []
    stale = ErrorCode.STALE_BROKER_EPOCH
    answers = [ErrorCode.NONE, stale]

    def step(name: str) -> Any:
        async def make(*_: object) -> None:
            done.append(name)

        return make

    orders = SimpleNamespace(
        epochs=SimpleNamespace(refusal=lambda *_: answers.pop(0), is_newest=lambda _: True),
        take_over_renamed=step("renamed"),
        make_logs_ahead=step("made"),
    )
    monkeypatch.setattr(leader_and_isr, "_bring_back", step("brought back"))
    ctx = context(5, orders=orders)
    assert await leader_and_isr._prepare(ctx, m.LeaderAndIsrRequest(), []) is stale
    assert done == ["renamed"]
    answers[:] = [stale]
    assert await leader_and_isr._prepare(ctx, m.LeaderAndIsrRequest(), []) is stale
    assert done == ["renamed"]


async def test_the_collector_waits_while_logs_are_made(
    brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nearly all that is made stays: a sixth of the broker's part went to looking at it. It goes on
    while the store is asked, which may take long."""
    (broker,) = await brokers(1)
    make, load, seen = broker.log_manager.create_ahead, leader_and_isr._load_topic_configs, []

    async def making(wanted: dict[TopicPartition, bytes]) -> None:
        seen.append(gc.isenabled())
        await make(wanted)

    async def loading(*arguments: Any) -> None:
        seen.append(gc.isenabled())
        await load(*arguments)

    monkeypatch.setattr(broker.log_manager, "create_ahead", making)
    monkeypatch.setattr(leader_and_isr, "_load_topic_configs", loading)
    was_enabled = gc.isenabled()
    gc.enable()
    try:
        await leader_and_isr.handle(broker.context(5), large_order(300))
        assert seen == [True, False] and gc.isenabled()
    finally:
        gc.enable() if was_enabled else gc.disable()
