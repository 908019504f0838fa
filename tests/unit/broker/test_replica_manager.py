from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from replica_cluster import TOPIC_ID, TP, Broker, DirectConnection, client_batch

from ottla.broker import fetcher
from ottla.broker.handlers import leader_and_isr, stop_replica
from ottla.broker.replica_fetch_requests import FetchLimits
from ottla.broker.replica_types import FetchParams, FetchPartition
from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicPartition
from ottla.wire import messages as m
from ottla.wire import records

MakeBrokers = Callable[..., Awaitable[list[Broker]]]
EVERYTHING = 1 << 20


@pytest.fixture
async def brokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[MakeBrokers]:
    """`await brokers(3, **topic configs)` starts that many, numbered from 0."""
    made: list[Broker] = []
    monkeypatch.setattr(fetcher, "Connection", DirectConnection)

    async def make(count: int = 1, **topic: Any) -> list[Broker]:
        for number in range(count):
            made.append(Broker(number, tmp_path, **topic))
        DirectConnection.brokers = {broker.id: broker for broker in made}
        for broker in made:
            await broker.start()
            broker.know(range(count))
        return made

    yield make
    for broker in made:
        await broker.stop()


async def until(condition: Callable[[], bool], timeout_s: float = 3.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.005)


def offsets(log: Any) -> list[int]:
    data = log.read(log.start_offset, EVERYTHING, log.end_offset, min_one_batch=True)
    return [
        record.offset for _, v in records.iter_batches(data) for record in records.iter_records(v)
    ]


# --- orders ---------------------------------------------------------------------------------------


async def test_a_partition_alone_is_committed_at_once(brokers: MakeBrokers) -> None:
    (broker,) = await brokers(1)
    assert broker.order(0, 1, replicas=[0]) is ErrorCode.NONE
    result = await broker.produce(3, acks=-1)
    assert (result.error, result.base_offset, result.log_start_offset) == (ErrorCode.NONE, 0, 0)
    assert broker.log.high_watermark == 3
    metadata = broker.log.folder / "partition.metadata"
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
    first.manager.add_leadership_listener(
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


async def test_codes_of_stop_replica(brokers: MakeBrokers) -> None:
    (broker,) = await brokers(1)
    broker.order(0, 3, replicas=[0])

    def stop(epoch: int, *, delete: bool) -> int:
        response = broker.manager.stop_replicas(stop_request(epoch, delete=delete), 3)
        return response.partition_errors[0].error_code

    for epoch in (2, 3):
        assert stop(epoch, delete=True) == ErrorCode.FENCED_LEADER_EPOCH
    assert stop(4, delete=False) == ErrorCode.NONE
    assert broker.manager.log(TP) is not None
    folder = broker.log.folder
    assert stop(-2, delete=True) == ErrorCode.NONE
    assert broker.manager.hosted(TP) is None and not folder.exists()
    assert len(list(folder.parent.glob("t-0.*-delete"))) == 1
    assert stop(-2, delete=True) == ErrorCode.NONE


async def test_a_left_over_log_is_deleted_without_its_partition(brokers: MakeBrokers) -> None:
    (broker,) = await brokers(1)
    log = broker.log_manager.get_or_create(TP)
    broker.manager.stop_replicas(stop_request(-2, delete=True), 3)
    assert broker.log_manager.get(TP) is None and not (log.data_dir / "t-0").exists()


async def test_stale_epochs_of_broker_and_controller(brokers: MakeBrokers) -> None:
    (broker,) = await brokers(1)
    broker.services.broker_epoch = 50
    broker.services.controller_epoch = 7
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
    assert broker.manager.hosted(TP) is None
    request = m.LeaderAndIsrRequest(broker_epoch=51, controller_epoch=9, topic_states=[state])
    answer = await leader_and_isr.handle(broker.context(5), request)
    assert answer.error_code == ErrorCode.NONE
    assert broker.services.controller_epoch == 9


# --- replication ----------------------------------------------------------------------------------


def lead(members: list[Broker], leader: int, epoch: int, isr: list[int] | None = None) -> None:
    ids = [broker.id for broker in members]
    for broker in sorted(members, key=lambda one: one.id != leader):
        assert broker.order(leader, epoch, replicas=ids, isr=isr) is ErrorCode.NONE


async def test_acks_all_waits_for_the_followers(brokers: MakeBrokers) -> None:
    members = await brokers(3)
    lead(members, 0, 1)
    result = await members[0].produce(5, acks=-1)
    assert result.error is ErrorCode.NONE
    for broker in members:
        assert broker.log.end_offset == 5
    assert members[0].log.high_watermark == 5
    await until(lambda: all(broker.log.high_watermark == 5 for broker in members))
    assert offsets(members[2].log) == offsets(members[0].log) == [0, 1, 2, 3, 4]
    assert members[1].log.epochs.entries() == [(1, 0)]


async def test_acks_all_times_out_and_the_wait_is_gone(brokers: MakeBrokers) -> None:
    members = await brokers(2)
    del DirectConnection.brokers[0]
    lead(members, 0, 1)
    result = await members[0].produce(acks=-1, timeout_ms=40)
    assert result.error is ErrorCode.REQUEST_TIMED_OUT
    assert len(members[0].partition.produce_waits) == 0
    assert members[0].log.end_offset == 1 and members[0].log.high_watermark == 0


async def test_a_resigning_leader_answers_whoever_waits(brokers: MakeBrokers) -> None:
    members = await brokers(2)
    del DirectConnection.brokers[0]
    lead(members, 0, 1)
    waiting = asyncio.ensure_future(members[0].produce(acks=-1))
    await asyncio.sleep(0.01)
    members[0].order(1, 2, replicas=[0, 1])
    assert (await waiting).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_min_insync_replicas_before_and_after_the_append(brokers: MakeBrokers) -> None:
    members = await brokers(2, min_insync_replicas=2)
    leader = members[0]
    lead(members, 0, 1, isr=[0])
    refused = await leader.produce(acks=-1)
    assert refused.error is ErrorCode.NOT_ENOUGH_REPLICAS and leader.log.end_offset == 0
    assert (await leader.produce(acks=1)).error is ErrorCode.NONE
    del DirectConnection.brokers[0]
    lead(members, 0, 2, isr=[0, 1])
    waiting = asyncio.ensure_future(leader.produce(acks=-1))
    await asyncio.sleep(0.01)
    leader.clock.ahead_ms += 30_001
    leader.partition.maybe_shrink(leader.clock.monotonic_ms())
    assert leader.isr.accept() == (0,)
    assert (await waiting).error is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


async def test_a_follower_outside_the_isr_catches_up_and_comes_in(brokers: MakeBrokers) -> None:
    members = await brokers(2)
    leader = members[0]
    lead([leader], 0, 1, isr=[0])
    leader.order(0, 2, replicas=[0, 1], isr=[0])
    for _ in range(30):
        await leader.produce(10)
    members[1].order(0, 2, replicas=[0, 1], isr=[0])
    await until(lambda: TP in leader.isr.changes)
    assert leader.isr.changes[TP].isr == (0, 1)
    assert leader.isr.changes[TP].partition_epoch == 2
    assert leader.partition.isr == (0,) and leader.partition.maximal_isr == {0, 1}
    assert leader.isr.accept() == (0, 1)
    assert leader.partition.isr == (0, 1) and leader.partition.partition_epoch == 3
    assert members[1].log.end_offset == 300


async def test_a_former_leader_truncates_what_was_not_replicated(brokers: MakeBrokers) -> None:
    members = await brokers(2)
    old, new = members
    lead(members, 0, 1)
    assert (await old.produce(3, acks=-1)).error is ErrorCode.NONE
    del DirectConnection.brokers[0]  # the old leader is cut off and goes on alone
    for _ in range(4):
        await old.produce(2)
    assert old.log.end_offset == 11
    new.order(1, 2, replicas=[0, 1], isr=[1])
    for broker in members:
        broker.know([0, 1], leader=1)
    await new.produce(5)
    DirectConnection.brokers[0] = old
    old.order(1, 2, replicas=[0, 1], isr=[1])
    await until(lambda: old.log.end_offset == new.log.end_offset == 8)
    assert offsets(old.log) == offsets(new.log) == list(range(8))
    assert old.log.epochs.entries() == new.log.epochs.entries() == [(1, 0), (2, 3)]
    for log in (old.log, new.log):
        log.release()
    stored = [broker.log.active.path(".log").read_bytes() for broker in members]
    assert stored[0] == stored[1]


async def test_truncation_over_several_epochs(brokers: MakeBrokers) -> None:
    """Both logs hold epochs the other has never seen (KIP-279)."""
    members = await brokers(2)
    first, second = members
    DirectConnection.brokers = {}
    first.order(0, 1, replicas=[0, 1])
    second.order(1, 2, replicas=[0, 1])
    await first.produce(4)
    first.order(0, 3, replicas=[0, 1])
    await first.produce(4)
    await second.produce(2)
    second.order(1, 4, replicas=[0, 1])
    await second.produce(3)
    second.order(1, 5, replicas=[0, 1])
    await second.produce()
    DirectConnection.brokers = {broker.id: broker for broker in members}
    first.know([0, 1], leader=1)
    first.order(1, 5, replicas=[0, 1])
    await until(lambda: first.log.epochs.entries() == second.log.epochs.entries())
    await until(lambda: first.log.end_offset == second.log.end_offset == 6)
    assert first.log.epochs.entries() == [(2, 0), (4, 2), (5, 5)]
    for broker in members:
        broker.log.release()
    stored = [broker.log.active.path(".log").read_bytes() for broker in members]
    assert stored[0] == stored[1]


async def test_a_follower_before_the_leaders_start_begins_there(brokers: MakeBrokers) -> None:
    members = await brokers(2, segment_bytes=300, retention_ms=-1)
    leader, follower = members
    lead([leader], 0, 1, isr=[0])
    for _ in range(10):
        await leader.produce(2)
    leader.log.advance_start_offset(13)
    leader.log_manager.delete_old_segments()
    leader.order(0, 2, replicas=[0, 1], isr=[0])
    follower.order(0, 2, replicas=[0, 1], isr=[0])
    await until(lambda: follower.log.end_offset == 20)
    await until(lambda: follower.log.start_offset == 13)
    # 13 is inside a batch, which is stored whole.
    assert follower.log.segments[0].base_offset == 12
    assert offsets(follower.log)[:2] == [12, 13]


async def test_a_lost_connection_is_tried_again(brokers: MakeBrokers) -> None:
    members = await brokers(2)
    leader = members[0]
    del DirectConnection.brokers[0]
    lead(members, 0, 1)
    waiting = asyncio.ensure_future(leader.produce(acks=-1, timeout_ms=3000))
    await asyncio.sleep(0.05)
    DirectConnection.brokers[0] = leader
    assert (await waiting).error is ErrorCode.NONE


async def test_a_lost_session_is_made_anew(brokers: MakeBrokers) -> None:
    members = await brokers(2)
    leader = members[0]
    lead(members, 0, 1)
    assert (await leader.produce(acks=-1)).error is ErrorCode.NONE
    assert len(leader.manager.fetch_sessions) == 1
    (session_id,) = leader.manager.fetch_sessions._sessions
    leader.manager.fetch_sessions.close(session_id)
    assert (await leader.produce(acks=-1, timeout_ms=2000)).error is ErrorCode.NONE


# --- append and fetch -----------------------------------------------------------------------------


async def test_codes_of_append(brokers: MakeBrokers) -> None:
    (broker,) = await brokers(1)
    manager = broker.manager
    broker.order(0, 1, replicas=[0])
    known_elsewhere, nowhere = TopicPartition("t2", 0), TopicPartition("nowhere", 0)
    broker.know([0], topics=["t", "t2"])
    internal = TopicPartition("__consumer_offsets", 0)
    entries = {tp: client_batch() for tp in (known_elsewhere, nowhere, internal)}
    results = await manager.append(entries, acks=1, timeout_ms=100)
    assert results[known_elsewhere].error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert results[nowhere].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert results[internal].error is ErrorCode.INVALID_TOPIC_EXCEPTION
    bad_acks = await manager.append({TP: client_batch()}, acks=5, timeout_ms=100)
    assert bad_acks[TP].error is ErrorCode.INVALID_REQUIRED_ACKS
    broker.order(0, 1, replicas=[0], tp=internal)
    for allowed in ({"from_coordinator": True}, {"client_id": "__admin_client"}):
        done = await manager.append({internal: client_batch()}, acks=-1, timeout_ms=1, **allowed)  # type: ignore[arg-type]
        assert done[internal].error is ErrorCode.NONE


async def test_flush_messages_makes_every_append_durable(brokers: MakeBrokers) -> None:
    (broker,) = await brokers(1, flush_messages=1)
    broker.order(0, 1, replicas=[0])
    await broker.produce(3)
    assert broker.log.recovery_point == 3


async def read(broker: Broker, offset: int, **params: Any) -> Any:
    want = FetchPartition(offset, EVERYTHING)
    ((_, result),) = await broker.manager.fetch(FetchParams(**params), [(TP, want)])
    return result


async def test_consumers_see_up_to_the_high_watermark(brokers: MakeBrokers) -> None:
    members = await brokers(2)
    del DirectConnection.brokers[0]
    lead(members, 0, 1)
    leader = members[0]
    await leader.produce(4)
    result = await read(leader, 0)
    assert (result.error, result.size, result.high_watermark) == (ErrorCode.NONE, 0, 0)
    follower = FetchParams(replica_id=1)
    ((_, result),) = await leader.manager.fetch(follower, [(TP, FetchPartition(0, EVERYTHING))])
    assert result.size > 0 and leader.log.high_watermark == 0
    await leader.manager.fetch(follower, [(TP, FetchPartition(4, EVERYTHING))])
    assert leader.log.high_watermark == 4
    assert (await read(leader, 0)).size > 0
    stranger = FetchParams(replica_id=77)
    ((_, result),) = await leader.manager.fetch(stranger, [(TP, FetchPartition(0, EVERYTHING))])
    assert (result.error, result.size) == (ErrorCode.NONE, 0)


async def test_a_long_poll_ends_with_data_or_in_time(brokers: MakeBrokers) -> None:
    (broker,) = await brokers(1)
    broker.order(0, 1, replicas=[0])
    loop = asyncio.get_running_loop()
    start = loop.time()
    assert (await read(broker, 0, max_wait_ms=40)).size == 0
    assert 0.03 < loop.time() - start < 0.3
    waiting = asyncio.ensure_future(read(broker, 0, max_wait_ms=5000))
    await asyncio.sleep(0.01)
    await broker.produce()
    assert (await asyncio.wait_for(waiting, 1)).size > 0
    assert not broker.partition.fetch_waits and len(broker.manager._timeouts) == 0


async def test_a_long_poll_waits_for_min_bytes(brokers: MakeBrokers) -> None:
    (broker,) = await brokers(1)
    broker.order(0, 1, replicas=[0])
    waiting = asyncio.ensure_future(read(broker, 0, max_wait_ms=5000, min_bytes=250))
    for _ in range(2):
        await asyncio.sleep(0.005)
        await broker.produce()
        assert not waiting.done()
    await broker.produce()
    assert (await asyncio.wait_for(waiting, 1)).size >= 250


async def test_a_cancelled_long_poll_leaves_nothing_behind(brokers: MakeBrokers) -> None:
    (broker,) = await brokers(1)
    broker.order(0, 1, replicas=[0])
    waiting = asyncio.ensure_future(read(broker, 0, max_wait_ms=5000))
    await asyncio.sleep(0.01)
    assert len(broker.partition.fetch_waits) == 1
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert not broker.partition.fetch_waits and len(broker.manager._timeouts) == 0


async def test_fetch_epochs_and_ranges(brokers: MakeBrokers) -> None:
    members = await brokers(2)
    lead(members, 0, 3, isr=[0])
    leader = members[0]
    await leader.produce(3)
    for want, code in (
        (FetchPartition(0, 100, current_leader_epoch=2), ErrorCode.FENCED_LEADER_EPOCH),
        (FetchPartition(0, 100, current_leader_epoch=4), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (FetchPartition(9, 100), ErrorCode.OFFSET_OUT_OF_RANGE),
        (FetchPartition(0, 100, last_fetched_epoch=9), ErrorCode.OFFSET_OUT_OF_RANGE),
        (FetchPartition(0, 100, topic_id=bytes(15) + b"\1"), ErrorCode.INCONSISTENT_TOPIC_ID),
    ):
        ((_, result),) = await leader.manager.fetch(FetchParams(), [(TP, want)])
        assert result.error is code
    want = FetchPartition(0, EVERYTHING)
    ((_, result),) = await members[1].manager.fetch(FetchParams(), [(TP, want)])
    assert result.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    ((_, result),) = await members[1].manager.fetch(FetchParams(any_replica=True), [(TP, want)])
    assert result.error is ErrorCode.NONE


async def test_a_failing_disk_takes_the_partition_offline(
    brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    (broker,) = await brokers(1)
    broker.order(0, 1, replicas=[0])

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(broker.log.active.__class__, "append", fails)
    assert (await broker.produce()).error is ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(KafkaError) as raised:
        broker.manager.partition(TP)
    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.order(0, 2, replicas=[0]) is ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_new_partition_need_not_wait_for_the_request_under_way(
    brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = await brokers(2)
    for broker in members:
        monkeypatch.setattr(
            fetcher, "FetchLimits", lambda *_: FetchLimits(3000, 1, EVERYTHING, EVERYTHING)
        )
    leader, follower = members
    lead(members, 0, 1)
    await leader.produce(acks=-1)
    for number in (1, 2):  # the second comes while the first still has its own connection
        tp = TopicPartition("t", number)
        for broker in members:
            broker.order(0, 1, replicas=[0, 1], tp=tp)
        for _ in range(2):
            result = await leader.produce(acks=-1, tp=tp, timeout_ms=1000)
            assert result.error is ErrorCode.NONE
    log = follower.manager.log(TopicPartition("t", 2))
    assert log is not None and log.end_offset == 2
    assert (await leader.produce(acks=-1)).error is ErrorCode.NONE
