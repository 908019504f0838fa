"""One partition: high watermark, ISR, roles."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.replication.alter_isr import IsrAnswer
from ottla.broker.replication.partition import Partition
from ottla.errors import ErrorCode, KafkaError
from ottla.storage.append.checks import Origin
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
    assert leader.partition.in_sync.members == (0, 1)
    leader.append(5)
    leader.now_ms += 60_000
    leader.partition.maybe_shrink(leader.now_ms)
    assert leader.isr.changes[TP].isr == (0,)
    leader.append(1)
    assert leader.high_watermark == 10, "until the controller agrees it is still a member"
    leader.isr.accept()
    assert leader.partition.in_sync.members == (0,) and leader.high_watermark == 16


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
    assert not leader.isr.changes and leader.partition.in_sync.in_flight == (0, 1)
    leader.lead([0], [0, 1], 2)
    leader.fetched(1, 0)
    assert leader.isr.changes[TP].leader_epoch == 2


def test_other_refusals_are_sent_again(tmp_path: Path) -> None:
    leader = Leader(tmp_path, [0], [0, 1])
    leader.fetched(1, 0)
    leader.isr.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert leader.isr.changes[TP].isr == (0, 1)
    leader.isr.refuse(ErrorCode.OPERATION_NOT_ATTEMPTED)
    assert not leader.isr.changes and leader.partition.in_sync.in_flight is None


def test_an_answer_for_an_older_state_is_ignored(tmp_path: Path) -> None:
    leader = Leader(tmp_path, [0], [0, 1])
    leader.fetched(1, 0)
    change = leader.isr.changes[TP]
    change.answered(IsrAnswer(ErrorCode.NONE, 0, 0, (0, 1), 99))
    change.answered(IsrAnswer(ErrorCode.NONE, 0, 1, (0, 1), 9))
    assert (
        leader.partition.in_sync.members == (0,) and leader.partition.in_sync.partition_epoch == 10
    )
    change.answered(IsrAnswer(ErrorCode.NONE, 0, 1, (0, 1), 10))
    assert leader.partition.in_sync.members == (0, 1)


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


def test_a_leader_whose_answer_got_lost_goes_by_the_metadata(tmp_path: Path) -> None:
    """Found by the simulation: the controller wrote, died, and every later change was refused."""
    leader = Leader(tmp_path, [0], [0, 1])
    leader.fetched(1, 0)
    leader.isr.refuse(ErrorCode.INVALID_UPDATE_VERSION)
    partition = leader.partition
    assert partition.in_sync.in_flight == (0, 1)
    told = m.UpdateMetadataRequest.UpdateMetadataPartitionState
    version = partition.in_sync.partition_epoch
    epoch = partition.leader_epoch
    for useless in (
        told(leader=0, leader_epoch=epoch, zk_version=version, isr=[0, 1]),
        told(leader=0, leader_epoch=epoch + 1, zk_version=version + 1, isr=[0, 1]),
        told(leader=1, leader_epoch=epoch, zk_version=version + 1, isr=[0, 1]),
    ):
        partition.catch_up_with(useless)
        assert partition.in_sync.in_flight == (0, 1)
    partition.catch_up_with(told(leader=0, leader_epoch=epoch, zk_version=version + 1, isr=[0]))
    assert (partition.in_sync.in_flight, partition.in_sync.members) == (None, (0,))
    leader.fetched(1, 0)
    assert leader.isr.changes[TP].partition_epoch == version + 1
