"""The coordinator on a log in memory, with a cluster of leaders that a test moves."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.config.broker import BrokerConfig
from ottla.coordinator.shards import Shards
from ottla.coordinator.transactions import markers
from ottla.coordinator.transactions.coordinator import (
    InitResult,
    ProducerIdentity,
    TransactionCoordinator,
)
from ottla.coordinator.transactions.markers import MarkerSender, MarkerWrites
from ottla.coordinator.transactions.records import TransactionReplay
from ottla.coordinator.transactions.transaction import State, Transaction
from ottla.errors import ErrorCode, KafkaError
from ottla.runtime import Runtime
from ottla.topics.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.types import TopicPartition
from ottla.wire import messages as m
from ottla.wire import records
from tests.support.coordinator.coordinator_fakes import (
    MemoryLog,
    MemoryReplicas,
    VirtualClock,
    turns,
)

STATE_LOG = TopicPartition(TRANSACTIONS_TOPIC, 0)
LOCAL = TopicPartition("t", 0)
REMOTE = TopicPartition("t", 1)
OWN_ID, PEER_ID = 0, 1


class Cluster:
    """Who leads what; partitions that are not listed do not exist."""

    def __init__(self) -> None:
        self.leaders = {LOCAL: OWN_ID, REMOTE: PEER_ID}
        self.is_known = True
        self.lookups: Counter[TopicPartition] = Counter()

    def topic_partitions(self, topic: str) -> dict[int, object]:
        return {0: object()} if topic == TRANSACTIONS_TOPIC else {}

    def contains_topic(self, name: str) -> bool:
        return True

    def was_renamed(self, name: str) -> bool:
        return False

    def add_listener(self, listener: Any) -> None: ...

    def partition_state(self, tp: TopicPartition) -> Any | None:
        self.lookups[tp] += 1
        leader = self.leaders.get(tp)
        return None if leader is None else SimpleNamespace(leader=leader)

    def broker(self, broker_id: int) -> Any | None:
        return object() if self.is_known else None


class Peer:
    """Another broker: answers from a list of error codes, NONE when it is used up."""

    def __init__(self) -> None:
        self.requests: list[m.WriteTxnMarkersRequest] = []
        self.answers: list[ErrorCode | OSError] = []

    async def send(
        self, broker_id: int, message: m.WriteTxnMarkersRequest, version: int, *, timeout_ms: float
    ) -> m.WriteTxnMarkersResponse:
        assert (broker_id, version) == (PEER_ID, 1)
        self.requests.append(message)
        await asyncio.sleep(0)
        answer = self.answers.pop(0) if self.answers else ErrorCode.NONE
        if isinstance(answer, OSError):
            raise answer
        response = m.WriteTxnMarkersResponse
        return response(
            markers=[
                response.WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        response.WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                response.WritableTxnMarkerPartitionResult(
                                    partition_index=index, error_code=answer
                                )
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in message.markers
            ]
        )


class ProducerIds:
    def __init__(self) -> None:
        self.next = 100
        self.failure: KafkaError | None = None

    async def next_id(self) -> int:
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        self.next += 1
        return self.next - 1


class Rig:
    """A transaction coordinator with groups, a log in memory and a clock that only tests move."""

    def __init__(self) -> None:
        self.config = BrokerConfig.from_properties({"zookeeper.connect": "localhost:2181"})
        self.clock = VirtualClock()
        self.replicas = MemoryReplicas()
        self.cluster = Cluster()
        self.peer = Peer()
        self.ids = ProducerIds()
        self.ended_offsets: list[tuple[int, int, bool]] = []
        self.coordinator = self.new_coordinator()

    def new_coordinator(self) -> TransactionCoordinator:
        unused = cast("Any", None)  # a coordinator opens no files; its peer is a fake
        runtime = Runtime(self.clock, random.Random(7), unused, unused)
        writes = MarkerWrites(self.clock, self.replicas, self._end_offsets, 1000)
        sender = MarkerSender(OWN_ID, self.cluster, writes, self.peer, 1000)
        return TransactionCoordinator(
            runtime, self.config, self.replicas, self.cluster, self.ids, sender
        )

    def _end_offsets(self, partition: int, producer_id: int, *, committed: bool) -> None:
        self.ended_offsets.append((partition, producer_id, committed))

    async def start(self, leader_epoch: int = 0) -> Rig:
        await self.coordinator.start()
        self.replicas.listeners[-1][0](STATE_LOG, leader_epoch)
        await turns()
        return self

    async def fail_over(self) -> None:
        await self.coordinator.shutdown()
        self.coordinator = self.new_coordinator()
        await self.start(leader_epoch=1)

    def resign(self) -> None:
        self.replicas.listeners[-1][1](STATE_LOG, 9)

    async def init(self, expected: ProducerIdentity | None = None) -> InitResult:
        return await self.coordinator.init_producer_id("id", 60_000, expected)

    async def producer(self) -> ProducerIdentity:
        result = await self.init()
        assert result.error is ErrorCode.NONE
        return ProducerIdentity(result.producer_id, result.epoch)

    async def add(self, producer: ProducerIdentity, *tps: TopicPartition) -> ErrorCode:
        return await self.coordinator.add_partitions("id", producer, tps or (LOCAL, REMOTE))

    async def end(self, producer: ProducerIdentity, *, commit: bool = True) -> ErrorCode:
        return await self.coordinator.end("id", producer, commit=commit)

    @property
    def transaction(self) -> Transaction:
        found = self.coordinator.describe("id")
        assert isinstance(found, Transaction)
        return found

    def stored(self) -> Transaction:
        """What another coordinator would find."""
        replay = TransactionReplay()
        log = self.replicas.log(STATE_LOG)
        replay.absorb(log.read(0, 1 << 20, log.end_offset, min_one_batch=True))
        return replay.entries()["id"]

    def markers(self, tp: TopicPartition = LOCAL) -> list[tuple[int, bool, int]]:
        """(producer epoch, commit, coordinator epoch) of each marker in a partition's log."""
        log: MemoryLog = self.replicas.log(tp)
        return [
            (
                records.read_header(batch).producer_epoch,
                records.parse_marker(batch).is_commit,
                records.parse_marker(batch).coordinator_epoch,
            )
            for batch in log.batches
        ]


@pytest.fixture
async def rig() -> Any:
    made = await Rig().start()
    yield made
    await made.coordinator.shutdown()


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tried again is tried at the next turn of the loop: whatever `turns` does not bring
    about never comes."""
    monkeypatch.setattr(markers, "_RETRY_S", 0.0)
    monkeypatch.setattr(markers, "_UNEXPECTED_RETRY_S", 0.0)


async def settled(rig: Rig, state: State) -> None:
    for _ in range(300):
        if rig.transaction.state is state and rig.transaction.pending is None:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(rig.transaction)


async def test_each_init_gives_the_next_epoch(rig: Rig) -> None:
    assert await rig.init() == InitResult(ErrorCode.NONE, 100, 0)
    assert await rig.init() == InitResult(ErrorCode.NONE, 100, 1)
    assert await rig.init(ProducerIdentity(100, 1)) == InitResult(ErrorCode.NONE, 100, 2)
    assert await rig.init(ProducerIdentity(100, 1)) == InitResult(ErrorCode.NONE, 100, 2)
    assert (await rig.init(ProducerIdentity(100, 0))).error is ErrorCode.PRODUCER_FENCED
    assert (await rig.init(ProducerIdentity(99, 2))).error is ErrorCode.PRODUCER_FENCED
    assert rig.stored().producer_epoch == 2
    assert rig.replicas.append_options[0]["acks"] == -1


async def test_bad_inits_are_refused(rig: Rig) -> None:
    coordinator = rig.coordinator
    assert (await coordinator.init_producer_id("", 1, None)).error is ErrorCode.INVALID_REQUEST
    for timeout_ms in (0, -1, 900_001):
        answer = await coordinator.init_producer_id("id", timeout_ms, None)
        assert answer.error is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    rig.ids.failure = KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert (await rig.init()).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_two_inits_at_once_make_one_producer(rig: Rig) -> None:
    first, second = await asyncio.gather(rig.init(), rig.init())
    assert sorted([first.error, second.error]) in (
        [ErrorCode.NONE, ErrorCode.NONE],
        [ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS],
    )
    given = {result.producer_id for result in (first, second) if not result.error}
    assert given == {rig.transaction.producer_id}


async def test_used_up_epochs_bring_another_producer_id(rig: Rig) -> None:
    await rig.producer()
    rig.transaction.producer_epoch = 32766
    assert await rig.init() == InitResult(ErrorCode.NONE, 101, 0)


async def test_a_commit_reaches_own_and_foreign_partitions(rig: Rig) -> None:
    producer = await rig.producer()
    assert await rig.add(producer) is ErrorCode.NONE
    assert await rig.end(producer) is ErrorCode.NONE
    await settled(rig, State.COMPLETE_COMMIT)
    assert rig.markers() == [(0, True, 0)]
    (request,) = rig.peer.requests
    (marker,) = request.markers
    assert (marker.producer_id, marker.transaction_result) == (100, True)
    assert [(topic.name, topic.partition_indexes) for topic in marker.topics] == [("t", [1])]
    assert rig.stored().state is State.COMPLETE_COMMIT
    assert await rig.end(producer) is ErrorCode.NONE
    assert await rig.end(producer, commit=False) is ErrorCode.INVALID_TXN_STATE


async def test_a_marker_in_the_offsets_topic_ends_its_offsets(rig: Rig) -> None:
    producer = await rig.producer()
    offsets = TopicPartition(OFFSETS_TOPIC, 4)
    rig.cluster.leaders[offsets] = OWN_ID
    await rig.add(producer, offsets)
    await rig.end(producer, commit=False)
    await settled(rig, State.COMPLETE_ABORT)
    assert rig.ended_offsets == [(4, 100, False)]


async def test_only_the_current_producer_may_do_anything(rig: Rig) -> None:
    producer = await rig.producer()
    stranger = ProducerIdentity(5, 0)
    old = await rig.producer() and producer
    for call in (rig.add, rig.end):
        assert await call(stranger) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert await call(old) is ErrorCode.PRODUCER_FENCED
    unknown = await rig.coordinator.add_partitions("nobody", producer, [LOCAL])
    assert unknown is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await rig.coordinator.end("", producer, commit=True) is ErrorCode.INVALID_REQUEST


async def test_known_partitions_are_not_written_again(rig: Rig) -> None:
    producer = await rig.producer()
    await rig.add(producer)
    before = len(rig.replicas.log(STATE_LOG).batches)
    assert await rig.add(producer, LOCAL) is ErrorCode.NONE
    assert len(rig.replicas.log(STATE_LOG).batches) == before


async def test_while_a_step_is_being_written_the_answer_is_concurrent(rig: Rig) -> None:
    producer = await rig.producer()
    rig.replicas.replicated.clear()
    adding = asyncio.create_task(rig.add(producer))
    await turns()
    assert await rig.add(producer, LOCAL) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert await rig.end(producer) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert (await rig.init()).error is ErrorCode.CONCURRENT_TRANSACTIONS
    rig.replicas.replicated.set()
    assert await adding is ErrorCode.NONE


async def test_until_the_markers_are_out_the_answer_is_concurrent(rig: Rig) -> None:
    producer = await rig.producer()
    await rig.add(producer)
    rig.peer.answers = [ErrorCode.NOT_LEADER_OR_FOLLOWER, OSError("gone"), ErrorCode.NONE]
    assert await rig.end(producer) is ErrorCode.NONE
    assert await rig.end(producer) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert await rig.add(producer) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert (await rig.init()).error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert rig.stored().state is State.PREPARE_COMMIT
    await settled(rig, State.COMPLETE_COMMIT)
    assert len(rig.peer.requests) == 3
    assert rig.markers() == [(0, True, 0)], "what was written is not written again"
    assert await rig.add(producer) is ErrorCode.NONE


async def test_another_init_aborts_what_is_open_and_fences(rig: Rig) -> None:
    producer = await rig.producer()
    await rig.add(producer, LOCAL)
    assert (await rig.init()).error is ErrorCode.CONCURRENT_TRANSACTIONS
    await settled(rig, State.COMPLETE_ABORT)
    assert rig.markers() == [(1, False, 0)], "with the raised epoch"
    assert await rig.init() == InitResult(ErrorCode.NONE, 100, 2)
    assert await rig.end(producer) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize(
    ("raw", "answer"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_what_the_log_refuses_did_not_happen(
    rig: Rig, raw: ErrorCode, answer: ErrorCode
) -> None:
    producer = await rig.producer()
    rig.replicas.fail_with = raw
    assert await rig.add(producer) is answer
    assert (rig.transaction.state, rig.transaction.pending) == (State.EMPTY, None)
    rig.replicas.fail_with = None
    assert await rig.add(producer) is ErrorCode.NONE


async def test_a_refused_fence_uses_its_epoch_again(rig: Rig) -> None:
    producer = await rig.producer()
    await rig.add(producer, LOCAL)
    rig.replicas.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert (await rig.init()).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    rig.replicas.fail_with = None
    assert (await rig.init()).error is ErrorCode.CONCURRENT_TRANSACTIONS
    await settled(rig, State.COMPLETE_ABORT)
    assert rig.transaction.producer_epoch == 1


async def test_late_transactions_are_aborted(rig: Rig) -> None:
    producer = await rig.producer()
    await rig.add(producer, LOCAL)
    rig.clock.elapsed_ms += 60_000
    assert rig.coordinator.abort_timed_out() == 0
    rig.clock.elapsed_ms += 1
    assert rig.coordinator.abort_timed_out() == 1
    await settled(rig, State.COMPLETE_ABORT)
    assert rig.markers() == [(1, False, 0)]
    assert await rig.end(producer) is ErrorCode.PRODUCER_FENCED


async def test_unused_ids_are_forgotten(rig: Rig) -> None:
    await rig.producer()
    rig.clock.elapsed_ms += 604_800_000 - 1
    assert await rig.coordinator.expire() == 0
    rig.clock.elapsed_ms += 1
    rig.replicas.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert await rig.coordinator.expire() == 0
    rig.replicas.fail_with = None
    assert await rig.coordinator.expire() == 1
    assert rig.coordinator.describe("id") is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert rig.replicas.log(STATE_LOG).entries()[-1][1] is None
    assert (await rig.init()).producer_id == 101


async def test_a_decided_transaction_is_finished_by_the_next_coordinator(rig: Rig) -> None:
    producer = await rig.producer()
    await rig.add(producer)
    rig.peer.answers = [OSError("gone")] * 3
    await rig.end(producer)
    await rig.fail_over()
    await settled(rig, State.COMPLETE_COMMIT)
    assert rig.markers()[-1] == (0, True, 1), "with the new coordinator's epoch"
    assert rig.stored().state is State.COMPLETE_COMMIT
    assert await rig.end(producer) is ErrorCode.NONE


async def test_an_open_transaction_goes_on_with_the_next_coordinator(rig: Rig) -> None:
    producer = await rig.producer()
    await rig.add(producer, LOCAL)
    await rig.fail_over()
    assert rig.transaction.state is State.ONGOING
    assert await rig.add(producer, REMOTE) is ErrorCode.NONE
    assert await rig.end(producer) is ErrorCode.NONE
    await settled(rig, State.COMPLETE_COMMIT)


@pytest.mark.usefixtures("at_once")
async def test_after_a_resignation_nothing_is_sent(rig: Rig) -> None:
    producer = await rig.producer()
    await rig.add(producer, REMOTE)
    rig.peer.answers = [OSError("gone")] * 1000
    await rig.end(producer)
    await turns()
    assert len(rig.peer.requests) > 1, "it is tried again"
    rig.resign()
    await turns()
    sent = len(rig.peer.requests)
    await turns()
    assert len(rig.peer.requests) == sent < 1000
    assert await rig.end(producer) is ErrorCode.NOT_COORDINATOR
    assert rig.coordinator.describe("id") is ErrorCode.NOT_COORDINATOR


async def test_a_resignation_while_a_step_is_written(rig: Rig) -> None:
    producer = await rig.producer()
    rig.replicas.replicated.clear()
    adding = asyncio.create_task(rig.add(producer))
    await turns()
    rig.resign()
    rig.replicas.replicated.set()
    assert await adding is ErrorCode.NOT_COORDINATOR


async def test_partitions_of_deleted_topics_need_no_marker(rig: Rig) -> None:
    producer = await rig.producer()
    await rig.add(producer)
    del rig.cluster.leaders[REMOTE]
    await rig.end(producer)
    await settled(rig, State.COMPLETE_COMMIT)
    assert rig.peer.requests == []


@pytest.mark.usefixtures("at_once")
async def test_partitions_without_a_leader_are_waited_for(rig: Rig) -> None:
    producer = await rig.producer()
    await rig.add(producer)
    rig.cluster.leaders[REMOTE] = -1
    await rig.end(producer)
    await turns()
    assert rig.cluster.lookups[REMOTE] > 2
    assert rig.transaction.state is State.PREPARE_COMMIT
    assert rig.transaction.partitions == {REMOTE}, "the others have their markers"
    rig.cluster.leaders[REMOTE] = PEER_ID
    await settled(rig, State.COMPLETE_COMMIT)


@pytest.mark.usefixtures("at_once")
async def test_nothing_counts_as_deleted_before_the_cluster_is_known(rig: Rig) -> None:
    producer = await rig.producer()
    await rig.add(producer)
    leaders, rig.cluster.leaders = rig.cluster.leaders, {}
    rig.cluster.is_known = False
    await rig.end(producer)
    await turns()
    assert rig.cluster.lookups[REMOTE] > 2
    assert rig.transaction.state is State.PREPARE_COMMIT
    rig.cluster.leaders, rig.cluster.is_known = leaders, True
    await settled(rig, State.COMPLETE_COMMIT)
    assert rig.markers() == [(0, True, 0)]


@pytest.mark.usefixtures("at_once")
async def test_a_fenced_coordinator_stops(rig: Rig) -> None:
    producer = await rig.producer()
    await rig.add(producer)
    rig.peer.answers = [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
    await rig.end(producer)
    await turns()
    assert len(rig.peer.requests) == 1
    assert rig.stored().state is State.PREPARE_COMMIT


async def test_markers_of_many_transactions_share_a_request(rig: Rig) -> None:
    coordinator = rig.coordinator
    producers = {}
    for name in ("a", "b", "c"):
        result = await coordinator.init_producer_id(name, 1000, None)
        producers[name] = ProducerIdentity(result.producer_id, result.epoch)
        await coordinator.add_partitions(name, producers[name], [REMOTE])
    for name, producer in producers.items():
        await coordinator.end(name, producer, commit=name != "b")
    await turns(60)
    assert sum(len(request.markers) for request in rig.peer.requests) == 3
    assert len(rig.peer.requests) < 3
    listed = coordinator.list_all()
    assert isinstance(listed, list)
    assert {each.transactional_id: each.state for each in listed} == {
        "a": State.COMPLETE_COMMIT,
        "b": State.COMPLETE_ABORT,
        "c": State.COMPLETE_COMMIT,
    }


async def test_what_is_said_while_loading_and_after_the_end(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Shards, "is_loading", property(lambda _: True))
    assert rig.coordinator.list_all() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await rig.coordinator.shutdown()
    assert rig.coordinator.list_all() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (await rig.init()).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
