from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.replication.alter_isr import AlterIsrManager, IsrAnswer, IsrChange
from ottla.broker.replication.partition import Partition
from ottla.broker.replication.purgatory import FetchWait, ProduceQueue, ProduceWait, Timeouts
from ottla.errors import ErrorCode, KafkaError
from ottla.storage.append.checks import Origin
from ottla.types import TopicPartition
from ottla.wire import messages as m
from tests.support.broker.replica_cluster import TP, Broker, RecordedIsr, State, client_batch


class Leader:
    """A leading partition with a clock that the test moves."""

    def __init__(self, folder: Path, isr: list[int], replicas: list[int], epoch: int = 1) -> None:
        self.now_ms = 1000.0
        self.isr = RecordedIsr()
        self.gone: set[int] = set()
        self.partition = Partition(
            TP,
            0,
            self.isr,
            lag_max_ms=30_000,
            monotonic_ms=lambda: self.now_ms,
            is_alive=lambda broker_id: broker_id not in self.gone,
        )
        broker = Broker(0, folder)
        self.log = broker.log_manager.get_or_create(TP)
        self.lead(isr, replicas, epoch)

    def lead(self, isr: list[int], replicas: list[int], epoch: int) -> None:
        state = State(
            partition_index=0,
            leader=0,
            leader_epoch=epoch,
            partition_epoch=epoch * 10,
            isr=isr,
            replicas=replicas,
        )
        self.partition.become_leader(state, self.log, self.now_ms)

    def append(self, count: int = 1) -> None:
        self.partition.append_as_leader(
            client_batch(count), acks=1, origin=Origin.CLIENT, now_ms=self.now_ms
        )

    def fetched(self, replica: int, offset: int) -> None:
        self.partition.follower_fetched(replica, offset, 0, self.now_ms)

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark


def test_the_high_watermark_is_the_lowest_end_in_the_isr(tmp_path: Path) -> None:
    leader = Leader(tmp_path, [0, 1, 2], [0, 1, 2])
    leader.append(10)
    assert leader.high_watermark == 0
    leader.fetched(1, 10)
    assert leader.high_watermark == 0, "replica 2 has not been heard of"
    leader.fetched(2, 4)
    assert leader.high_watermark == 4
    leader.fetched(2, 10)
    assert leader.high_watermark == 10


def test_the_high_watermark_never_goes_back(tmp_path: Path) -> None:
    leader = Leader(tmp_path, [0, 1], [0, 1])
    leader.append(10)
    leader.fetched(1, 10)
    leader.fetched(1, 3)
    assert leader.high_watermark == 10


def test_a_replica_outside_the_isr_counts_only_while_it_is_caught_up(tmp_path: Path) -> None:
    leader = Leader(tmp_path, [0], [0, 1])
    leader.now_ms = 100_000.0
    leader.append(5)
    assert leader.high_watermark == 5, "a replica never heard of does not hold it back"
    leader.fetched(1, 5)
    leader.isr.refuse(ErrorCode.OPERATION_NOT_ATTEMPTED)
    leader.append(5)
    assert leader.high_watermark == 5, "it was caught up a moment ago and is about to come in"
    leader.now_ms += 30_001
    leader.append(1)
    assert leader.high_watermark == 11


def test_nobody_waits_for_a_follower_whose_broker_is_gone(tmp_path: Path) -> None:
    leader = Leader(tmp_path, [0], [0, 1])
    leader.append(5)
    leader.fetched(1, 5)
    leader.isr.refuse(ErrorCode.OPERATION_NOT_ATTEMPTED)
    leader.append(5)
    assert leader.high_watermark == 5, "it was caught up a moment ago"
    leader.gone = {1}
    leader.partition.raise_high_watermark(leader.now_ms)
    assert leader.high_watermark == 10


def test_a_pending_expansion_counts_and_a_pending_shrink_does_not(tmp_path: Path) -> None:
    leader = Leader(tmp_path, [0], [0, 1])
    leader.append(5)
    leader.fetched(1, 5)
    assert leader.isr.changes[TP].isr == (0, 1)
    leader.now_ms += 60_000
    leader.append(5)
    assert leader.high_watermark == 5, "the maximal ISR has replica 1 in it"
    leader.fetched(1, 10)
    leader.isr.accept()
    assert leader.partition.isr == (0, 1)
    leader.append(5)
    leader.now_ms += 60_000
    leader.partition.maybe_shrink(leader.now_ms)
    assert leader.isr.changes[TP].isr == (0,)
    leader.append(1)
    assert leader.high_watermark == 10, "until the controller agrees it is still a member"
    leader.isr.accept()
    assert leader.partition.isr == (0,) and leader.high_watermark == 16


def test_a_follower_comes_in_only_past_the_start_of_the_epoch(tmp_path: Path) -> None:
    leader = Leader(tmp_path, [0], [0, 1])
    leader.append(5)
    leader.lead([0, 2], [0, 1, 2], 2)
    leader.append(5)
    leader.fetched(1, 4)
    assert not leader.isr.changes
    leader.fetched(1, 5)
    assert leader.isr.changes[TP].isr == (0, 2, 1)
    assert leader.isr.changes[TP].leader_epoch == 2


def test_who_is_slow(tmp_path: Path) -> None:
    leader = Leader(tmp_path, [0, 1], [0, 1])
    leader.append(5)
    leader.fetched(1, 5)
    leader.now_ms += 60_000
    leader.partition.maybe_shrink(leader.now_ms)
    assert not leader.isr.changes, "at the end: slow or not, it has everything"
    leader.append(5)
    leader.fetched(1, 5)  # it had reached the end as of its last fetch, 60 s ago
    leader.now_ms += 29_000
    leader.fetched(1, 10 - 1)
    leader.partition.maybe_shrink(leader.now_ms)
    assert leader.isr.changes[TP].isr == (0,)


def test_reaching_the_end_of_the_previous_fetch_is_caught_up(tmp_path: Path) -> None:
    leader = Leader(tmp_path, [0, 1], [0, 1])
    for _ in range(10):
        leader.append(1)
        leader.fetched(1, leader.log.end_offset - 1)  # always one behind, never far
        leader.now_ms += 20_000
    leader.partition.maybe_shrink(leader.now_ms - 20_000)
    assert not leader.isr.changes


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
    ],
)
def test_some_refusals_wait_for_leader_and_isr(tmp_path: Path, error: ErrorCode) -> None:
    leader = Leader(tmp_path, [0], [0, 1])
    leader.fetched(1, 0)
    leader.isr.refuse(error)
    leader.fetched(1, 0)
    assert not leader.isr.changes and leader.partition.in_flight_isr == (0, 1)
    leader.lead([0], [0, 1], 2)
    leader.fetched(1, 0)
    assert leader.isr.changes[TP].leader_epoch == 2


def test_other_refusals_are_sent_again(tmp_path: Path) -> None:
    leader = Leader(tmp_path, [0], [0, 1])
    leader.fetched(1, 0)
    leader.isr.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert leader.isr.changes[TP].isr == (0, 1)
    leader.isr.refuse(ErrorCode.OPERATION_NOT_ATTEMPTED)
    assert not leader.isr.changes and leader.partition.in_flight_isr is None


def test_an_answer_for_an_older_state_is_ignored(tmp_path: Path) -> None:
    leader = Leader(tmp_path, [0], [0, 1])
    leader.fetched(1, 0)
    change = leader.isr.changes[TP]
    change.answered(IsrAnswer(ErrorCode.NONE, 0, 0, (0, 1), 99))
    change.answered(IsrAnswer(ErrorCode.NONE, 0, 1, (0, 1), 9))
    assert leader.partition.isr == (0,) and leader.partition.partition_epoch == 10
    change.answered(IsrAnswer(ErrorCode.NONE, 0, 1, (0, 1), 10))
    assert leader.partition.isr == (0, 1)


def test_leading_again_keeps_what_is_known_of_followers(tmp_path: Path) -> None:
    leader = Leader(tmp_path, [0, 1], [0, 1])
    leader.append(5)
    leader.fetched(1, 5)
    leader.lead([0, 1], [0, 1], 2)
    assert leader.partition.remotes[1].end_offset == 5
    follow = State(partition_index=0, leader=1, leader_epoch=3, replicas=[0, 1])
    leader.partition.become_follower(follow, leader.log)
    with pytest.raises(KafkaError) as raised:
        leader.append()
    assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader.lead([0, 1], [0, 1], 4)
    assert leader.partition.remotes[1].end_offset == -1
    assert leader.log.epochs.entries() == [(1, 0), (4, 5)]


# --- AlterIsrManager ------------------------------------------------------------------------------


class FakeController:
    """Answers with what `script` holds, one item per request."""

    def __init__(self, script: list[Any]) -> None:
        self.script = script
        self.requests: list[m.AlterPartitionRequest] = []

    async def send(self, message: object, version: int, *, timeout_ms: int) -> object:
        assert isinstance(message, m.AlterPartitionRequest) and version == 0
        self.requests.append(message)
        step = self.script.pop(0)
        await asyncio.sleep(0)
        if isinstance(step, Exception):
            raise step
        return step(message)


def answer_all(error: ErrorCode) -> Callable[[m.AlterPartitionRequest], m.AlterPartitionResponse]:
    def build(request: m.AlterPartitionRequest) -> m.AlterPartitionResponse:
        response = m.AlterPartitionResponse
        return response(
            topics=[
                response.TopicData(
                    topic_name=topic.topic_name,
                    partitions=[
                        response.PartitionData(
                            partition_index=part.partition_index,
                            error_code=error,
                            leader_epoch=part.leader_epoch,
                            isr=part.new_isr,
                            partition_epoch=part.partition_epoch + 1,
                        )
                        for part in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return build


def top_level(error: ErrorCode) -> Callable[[m.AlterPartitionRequest], m.AlterPartitionResponse]:
    return lambda _: m.AlterPartitionResponse(error_code=error)


async def submit(script: list[Any], tps: list[TopicPartition]) -> tuple[FakeController, list[Any]]:
    controller = FakeController(script)
    manager = AlterIsrManager(controller, 0, lambda: 77)
    answers: list[Any] = []
    for tp in tps:
        change = IsrChange(tp, 3, (0, 1), 5, lambda answer, tp=tp: answers.append((tp, answer)))  # type: ignore[misc]
        assert manager.submit(change)
        assert not manager.submit(change)
    async with asyncio.timeout(2):
        while len(answers) < len(tps):  # noqa: ASYNC110 - the answers are what is waited for
            await asyncio.sleep(0.005)
    await manager.shutdown()
    return controller, answers


async def test_changes_made_together_travel_together() -> None:
    other = TopicPartition("u", 4)
    controller, answers = await submit([answer_all(ErrorCode.NONE)], [TP, other])
    assert len(controller.requests) == 1
    request = controller.requests[0]
    assert (request.broker_id, request.broker_epoch) == (0, 77)
    assert [topic.topic_name for topic in request.topics] == ["t", "u"]
    assert request.topics[1].partitions[0].new_isr == [0, 1]
    assert dict(answers)[TP] == IsrAnswer(ErrorCode.NONE, 0, 3, (0, 1), 6)


async def test_failures_as_a_whole_are_sent_again() -> None:
    script = [
        ConnectionError("no controller"),
        top_level(ErrorCode.NOT_CONTROLLER),
        top_level(ErrorCode.NONE),  # an answer that leaves the partition out
        answer_all(ErrorCode.FENCED_LEADER_EPOCH),
    ]
    controller, answers = await submit(script, [TP])
    assert len(controller.requests) == 4
    assert [answer.error for _, answer in answers] == [ErrorCode.FENCED_LEADER_EPOCH]


# --- purgatory ------------------------------------------------------------------------------------


async def test_many_deadlines_share_one_timer() -> None:
    timeouts = Timeouts()
    fired: list[int] = []
    for delay_ms in (30, 10, 20):
        timeouts.schedule(delay_ms, lambda delay_ms=delay_ms: fired.append(delay_ms))  # type: ignore[misc]
    cancelled = timeouts.schedule(15, lambda: fired.append(15))
    timeouts.cancel(cancelled)
    assert len(timeouts) == 3
    await asyncio.sleep(0.06)
    assert fired == [10, 20, 30] and len(timeouts) == 0


async def test_finished_entries_do_not_pile_up() -> None:
    timeouts = Timeouts()
    for _ in range(10_000):
        timeouts.cancel(timeouts.schedule(1_000_000, lambda: None))
    assert len(timeouts) == 0 and len(timeouts._heap) < 3000
    timeouts.close()


async def test_produce_waits_are_answered_in_order_and_once() -> None:
    timeouts = Timeouts()
    one, two = ProduceQueue(TP), ProduceQueue(TopicPartition("u", 0))
    wait = ProduceWait(timeouts, 20)
    one.add(5, wait)
    two.add(3, wait)
    one.reached(4, ErrorCode.NONE)
    assert len(one) == 1
    one.reached(5, ErrorCode.NONE)
    assert not wait.done
    await wait.future
    assert wait.errors == {
        TP: ErrorCode.NONE,
        TopicPartition("u", 0): ErrorCode.REQUEST_TIMED_OUT,
    }
    assert len(two) == 0
    two.fail_all(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert wait.errors[TP] is ErrorCode.NONE


async def test_a_fetch_wait_hangs_on_its_partitions_until_it_ends() -> None:
    class Ready:
        def __init__(self) -> None:
            self.fetch_waits: dict[FetchWait, None] = {}
            self.available = 0

        def bytes_available(self, offset: int, *, as_follower: bool, committed: bool) -> int:
            return self.available

    timeouts = Timeouts()
    first, second = Ready(), Ready()
    wait = FetchWait(timeouts, 5000, 100, {first: 0, second: 0}, as_follower=False)
    first.available = 60
    wait.check(first)
    assert not wait.future.done() and wait in first.fetch_waits
    second.available = 40
    wait.check(second)
    assert wait.future.done() and not first.fetch_waits and not second.fetch_waits
    assert len(timeouts) == 0
    timeouts.close()


def test_a_leader_whose_answer_got_lost_goes_by_the_metadata(tmp_path: Path) -> None:
    """Found by the simulation: the controller wrote, died, and every later change was refused."""
    leader = Leader(tmp_path, [0], [0, 1])
    leader.fetched(1, 0)
    leader.isr.refuse(ErrorCode.INVALID_UPDATE_VERSION)
    partition = leader.partition
    assert partition.in_flight_isr == (0, 1)
    told = m.UpdateMetadataRequest.UpdateMetadataPartitionState
    version = partition.partition_epoch
    epoch = partition.leader_epoch
    for useless in (
        told(leader=0, leader_epoch=epoch, zk_version=version, isr=[0, 1]),
        told(leader=0, leader_epoch=epoch + 1, zk_version=version + 1, isr=[0, 1]),
        told(leader=1, leader_epoch=epoch, zk_version=version + 1, isr=[0, 1]),
    ):
        partition.catch_up_with(useless)
        assert partition.in_flight_isr == (0, 1)
    partition.catch_up_with(told(leader=0, leader_epoch=epoch, zk_version=version + 1, isr=[0]))
    assert (partition.in_flight_isr, partition.isr) == (None, (0,))
    leader.fetched(1, 0)
    assert leader.isr.changes[TP].partition_epoch == version + 1
