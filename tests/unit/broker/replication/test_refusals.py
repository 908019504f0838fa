"""What is refused behind a refused batch, and when that ends."""

from __future__ import annotations

from typing import cast

import pytest

from ottla.broker.handlers import produce
from ottla.broker.replication.partition import Partition as RealPartition
from ottla.broker.replication.refusals import GAP_MS, KEPT_MS, MOST_KEPT, Refusals
from ottla.broker.requests.direct_produce import DirectProduce
from ottla.errors import ErrorCode
from ottla.storage.producers.state import MAX_SEQUENCE, ProducerBatch, ProducerState
from ottla.types import TopicPartition
from ottla.wire import records
from tests.support.broker.produce_requests import produce_frame, produce_request
from tests.support.broker.replica_cluster import TP, Broker, MakeBrokers, brokers

__all__ = ["brokers"]
NOT_YET = ErrorCode.NOT_LEADER_OR_FOLLOWER


def batch(sequence: int, *, producer_id: int = 7, epoch: int = 0) -> memoryview:
    built = records.build_batch(
        [records.Record(b"k", b"v", 1_700_000_000_000)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    return memoryview(bytearray(built))


class Partition:
    """One partition's refusals beside what its log knows of producer 7."""

    tp = TP

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.refusals = Refusals(lambda: self.now_ms)
        self.producers = ProducerState()
        self.leader_epoch = 0
        self.epoch_start_offset = 0

    @property
    def log(self) -> Partition:
        return self

    def refuse(self, sequence: int, error: ErrorCode = NOT_YET) -> None:
        self.refusals.note(TP, batch(sequence), error)

    def answer(self, sequence: int, epoch: int = 0, producer_id: int = 7) -> ErrorCode | None:
        sent = batch(sequence, epoch=epoch, producer_id=producer_id)
        return self.refusals.of_an_earlier_batch(cast("RealPartition", self), sent)

    def append(self, sequence: int, offset: int = 0) -> None:
        appended = ProducerBatch(sequence, sequence, offset, offset, 0)
        self.producers.record(7, 0, appended, transactional=False)

    def begin_to_lead(self, leader_epoch: int, offset: int) -> None:
        self.leader_epoch = leader_epoch
        self.epoch_start_offset = offset


@pytest.fixture
def partition() -> Partition:
    return Partition()


@pytest.mark.parametrize("error", [NOT_YET, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_those_behind_get_the_same_answer_until_the_first_is_back(
    partition: Partition, error: ErrorCode
) -> None:
    partition.refuse(4, error)
    assert [partition.answer(5), partition.answer(9), partition.answer(5)] == [error] * 3
    assert partition.answer(4) is None
    assert partition.answer(5) is None
    assert TP not in partition.refusals


def test_the_first_of_several_refused_ones_counts(partition: Partition) -> None:
    for sequence in (4, 5, 6):
        partition.refuse(sequence)
    assert partition.answer(5) is NOT_YET
    partition.refuse(3)
    assert partition.answer(4) is NOT_YET


def test_what_another_leader_has_taken_meanwhile_is_not_waited_for(partition: Partition) -> None:
    partition.refuse(4)
    partition.append(3)
    assert partition.answer(6) is NOT_YET
    partition.append(4)
    partition.append(5)
    assert partition.answer(6) is None


def test_a_batch_that_is_in_the_log_is_a_duplicate_as_ever(partition: Partition) -> None:
    partition.refuse(4)
    for sequence in (4, 5):
        partition.append(sequence)
    assert partition.answer(5) is None


def test_a_new_epoch_gave_the_old_one_up(partition: Partition) -> None:
    partition.refuse(4)
    assert partition.answer(0, epoch=1) is None
    assert partition.answer(5) is None


def test_other_producers_and_partitions_are_not_concerned(partition: Partition) -> None:
    partition.refuse(4)
    elsewhere = TopicPartition("t", 1)
    assert partition.answer(5, producer_id=8) is None
    assert elsewhere not in partition.refusals
    assert partition.answer(5) is NOT_YET


def test_sequences_wrap(partition: Partition) -> None:
    partition.refuse(MAX_SEQUENCE)
    assert partition.answer(0) is NOT_YET
    assert partition.answer(MAX_SEQUENCE) is None


@pytest.mark.parametrize(
    ("sequence", "error"), [(-1, NOT_YET), (4, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)]
)
def test_what_is_not_kept(partition: Partition, sequence: int, error: ErrorCode) -> None:
    partition.refuse(sequence, error)
    assert len(partition.refusals) == 0


def test_a_batch_too_short_for_a_header_is_not_kept(partition: Partition) -> None:
    partition.refusals.note(TP, batch(4)[:20], NOT_YET)
    assert len(partition.refusals) == 0


def test_nobody_is_waited_for_forever(partition: Partition) -> None:
    partition.refuse(4)
    partition.now_ms = KEPT_MS
    assert partition.answer(5) is None
    assert TP not in partition.refusals


def test_what_is_too_old_goes_with_further_refusals(partition: Partition) -> None:
    partition.refuse(4)
    partition.now_ms = KEPT_MS
    partition.refusals.note(TopicPartition("t", 1), batch(4), NOT_YET)
    assert TP not in partition.refusals


def test_what_is_remembered_is_bounded(partition: Partition) -> None:
    for number in range(MOST_KEPT + 5):
        partition.refusals.note(TopicPartition("t", number), batch(4), NOT_YET)
        partition.refusals.note(TopicPartition("u", 0), batch(4, producer_id=number), NOT_YET)
    assert len(partition.refusals) <= 2 * MOST_KEPT


def test_a_new_leader_waits_for_what_the_one_before_may_have_refused(partition: Partition) -> None:
    partition.append(3, offset=3)
    partition.begin_to_lead(1, offset=4)
    assert partition.answer(6) is NOT_YET
    assert partition.answer(4) is None
    partition.append(4, offset=4)
    # The one before refused several, and they come back one by one.
    assert partition.answer(6) is NOT_YET
    partition.append(5, offset=5)
    assert partition.answer(6) is None


@pytest.mark.parametrize(("epoch", "sequence"), [(0, 4), (0, MAX_SEQUENCE), (1, 4)])
def test_a_first_batch_begins_with_sequence_0(
    partition: Partition, epoch: int, sequence: int
) -> None:
    partition.begin_to_lead(1, offset=0)
    if epoch:
        partition.append(3)
    assert partition.answer(sequence, epoch) is NOT_YET
    assert partition.answer(0, epoch) is None


def test_a_gap_that_is_not_filled_is_the_log_s_affair(partition: Partition) -> None:
    partition.begin_to_lead(1, offset=0)
    assert partition.answer(6) is NOT_YET
    partition.now_ms = GAP_MS - 1
    assert partition.answer(6) is NOT_YET
    assert partition.answer(8, producer_id=8) is NOT_YET
    partition.now_ms = GAP_MS
    assert partition.answer(6) is None
    assert partition.answer(7) is None, "it is the same gap"
    assert partition.answer(8, producer_id=8) is NOT_YET


@pytest.mark.parametrize("sequence", [9, 12])
def test_a_producer_that_was_heard_enough_leaves_gaps_of_its_own(
    partition: Partition, sequence: int
) -> None:
    partition.begin_to_lead(1, offset=3)
    for number in range(3, 7):
        partition.append(number, offset=number)
    assert partition.answer(9) is NOT_YET
    partition.append(7, offset=7)
    assert partition.answer(sequence) is None


def test_the_first_leader_waits_for_nobody(partition: Partition) -> None:
    assert partition.answer(4) is None
    partition.append(4)
    assert partition.answer(6) is None


def test_old_epochs_and_old_batches_are_the_log_s_affair(partition: Partition) -> None:
    partition.producers.record(7, 1, ProducerBatch(5, 5, 0, 0, 0), transactional=False)
    partition.begin_to_lead(1, offset=1)
    assert partition.answer(9, epoch=0) is None
    assert partition.answer(2, epoch=1) is None
    assert len(partition.refusals) == 0


def test_the_gaps_that_are_remembered_are_bounded(partition: Partition) -> None:
    partition.begin_to_lead(1, offset=0)
    for number in range(MOST_KEPT + 5):
        assert partition.answer(4, producer_id=number) is NOT_YET
    assert len(partition.refusals) == MOST_KEPT


async def test_a_leader_takes_nothing_before_the_batch_it_refused(brokers: MakeBrokers) -> None:
    broker = (await brokers(1))[0]
    broker.order(1, 1, replicas=[0, 1])
    assert await told(broker, 0) is NOT_YET
    broker.order(0, 2, replicas=[0, 1], isr=[0])
    assert DirectProduce().answers(broker.manager.appends, [produce_frame(batch(1))]) == []
    assert await told(broker, 1) is NOT_YET
    assert await told(broker, 0) is ErrorCode.NONE
    assert len(DirectProduce().answers(broker.manager.appends, [produce_frame(batch(1))])) == 1
    assert broker.log.end_offset == 2


async def test_a_new_leader_refuses_a_gap_on_both_ways(brokers: MakeBrokers) -> None:
    broker = (await brokers(1))[0]
    broker.order(0, 1, replicas=[0, 1], isr=[0])
    for sequence in (3, 1):
        assert (
            DirectProduce().answers(broker.manager.appends, [produce_frame(batch(sequence))]) == []
        )
        assert await told(broker, sequence) is NOT_YET
    for sequence in range(5):
        assert await told(broker, sequence) is ErrorCode.NONE
    assert await told(broker, 9) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert broker.log.end_offset == 5


async def told(broker: Broker, sequence: int, tp: TopicPartition = TP) -> ErrorCode:
    results = await broker.manager.appends.append({tp: batch(sequence)}, acks=1, timeout_ms=1000)
    return results[tp].error


async def test_what_a_broker_refused_before_it_knew_the_topic_comes_first(
    brokers: MakeBrokers,
) -> None:
    """As after a restart within a session: leader and epoch are those of before."""
    broker = (await brokers(1))[0]
    first = await produce.handle(broker.context(9), produce_request(batch(0), topic="new"))
    assert first is not None
    code = first.responses[0].partition_responses[0].error_code
    assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    new = TopicPartition("new", 0)
    broker.order(0, 0, replicas=[0], tp=new)
    assert await told(broker, 1, new) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await told(broker, 0, new) is ErrorCode.NONE
    assert await told(broker, 1, new) is ErrorCode.NONE
