"""Several batches of a partition under way: their order, their number, what happens to failures."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.batch_pipeline import IN_FLIGHT_PER_PARTITION, BatchPipeline
from ottla.client.sender import NOBODY, Batches, NotStored, ProducerIdentity
from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicPartition

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
SOMEBODY = ProducerIdentity(7, 0)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.client.batch_pipeline.RETRY_PAUSE_MS", 0.1)


class Leaders:
    """What leaders do with the batches of one producer, and how a client sees them.

    A batch is its number within the partition. Stands for both the cluster and the sender.
    """

    def __init__(self, seed: int | None = None, identity: ProducerIdentity = SOMEBODY) -> None:
        self.identity = identity
        self.timeout_ms = 60_000.0
        self.base_offsets: dict[TopicPartition, int] = {}
        self.stored: dict[TopicPartition, list[int]] = {FIRST: [], SECOND: []}
        self.recent: dict[TopicPartition, deque[int]] = {}
        self.errors: list[ErrorCode] = []
        self.leaders = {FIRST: 1, SECOND: 2}
        self.known = dict(self.leaders)
        self.requests: list[dict[TopicPartition, int]] = []
        self.in_flight = self.most_in_flight = 0
        self.held: asyncio.Event | None = None
        self._random = None if seed is None else random.Random(seed)

    def known_leader(self, partition: TopicPartition) -> int:
        return self.known.get(partition, -1)

    async def metadata(self, topics: list[str], timeout_ms: float) -> None:
        assert topics == ["t"]
        self.known = dict(self.leaders)

    async def send_to(
        self, leader: int, batches: Batches, timeout_ms: float
    ) -> dict[TopicPartition, KafkaError]:
        self.requests.append({p: int(bytes(batch)) for p, batch in batches.items()})
        codes = {p: self._take(leader, p, int(bytes(batch))) for p, batch in batches.items()}
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        if self.held is not None:
            await self.held.wait()
        for _ in range(self._random.randrange(8) if self._random else 1):
            await asyncio.sleep(0)
        self.in_flight -= 1
        if self._random and self._random.random() < 0.1:  # the connection is lost, answers with it
            return dict.fromkeys(batches, KafkaError(ErrorCode.NETWORK_EXCEPTION))
        return {p: KafkaError(code) for p, code in codes.items() if code}

    def _take(self, leader: int, partition: TopicPartition, number: int) -> ErrorCode:
        if self._random and self._random.random() < 0.05:
            self.leaders[partition] = 3 - self.leaders[partition]
        if self._random and self._random.random() < 0.1:
            return ErrorCode.NETWORK_EXCEPTION  # never arrived
        if self.errors and (code := self.errors.pop(0)):
            return code
        if leader != self.leaders[partition]:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        stored, recent = self.stored[partition], self.recent.setdefault(partition, deque(maxlen=5))
        if self.identity != NOBODY:
            if number in recent:
                return ErrorCode.NONE
            if number != len(stored):
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        stored.append(number)
        recent.append(number)
        return ErrorCode.NONE


def pipeline_to(leaders: Any, **options: int) -> BatchPipeline:
    return BatchPipeline(leaders, leaders, **options)


def batches(partition: TopicPartition, *numbers: int) -> list[tuple[TopicPartition, memoryview]]:
    return [(partition, memoryview(b"%d" % number)) for number in numbers]


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 60))
@settings(deadline=None)
def test_whatever_fails_all_are_stored_once_and_in_order(seed: int, count: int, room: int) -> None:
    leaders = Leaders(seed)

    async def story() -> None:
        pipeline = pipeline_to(leaders, room_bytes=room)
        for number in range(0, count, 2):
            two = (number, number + 1)
            await pipeline.put(batches(FIRST, *two) + batches(SECOND, *two))
        await pipeline.drain()

    asyncio.run(story())
    wanted = list(range(count + count % 2))
    assert leaders.stored == {FIRST: wanted, SECOND: wanted}
    assert leaders.in_flight == 0


async def test_five_of_each_partition_go_before_an_answer() -> None:
    leaders = Leaders()
    leaders.held = asyncio.Event()
    pipeline = pipeline_to(leaders)
    await pipeline.put(batches(FIRST, *range(9)) + batches(SECOND, 0, 1))
    await turns()
    assert leaders.most_in_flight == IN_FLIGHT_PER_PARTITION + 2
    leaders.held.set()
    await pipeline.drain()
    assert leaders.stored == {FIRST: list(range(9)), SECOND: [0, 1]}


async def test_partitions_of_one_leader_share_a_request() -> None:
    leaders = Leaders()
    leaders.leaders[SECOND] = leaders.known[SECOND] = 1
    pipeline = pipeline_to(leaders)
    await pipeline.put(batches(FIRST, 0, 1) + batches(SECOND, 0))
    await pipeline.drain()
    assert leaders.requests == [{FIRST: 0, SECOND: 0}, {FIRST: 1}]


async def test_without_sequence_numbers_one_goes_after_the_other() -> None:
    leaders = Leaders(identity=NOBODY)
    leaders.errors = [ErrorCode.NOT_ENOUGH_REPLICAS]
    pipeline = pipeline_to(leaders)
    await pipeline.put(batches(FIRST, *range(6)))
    await pipeline.drain()
    assert leaders.stored[FIRST] == list(range(6))
    assert leaders.most_in_flight == 1


async def test_what_is_not_stored_is_bounded() -> None:
    leaders = Leaders()
    leaders.held = asyncio.Event()
    pipeline = pipeline_to(leaders, room_bytes=3)
    await pipeline.put(batches(FIRST, 0, 1, 2))
    put = asyncio.create_task(pipeline.put(batches(FIRST, 3)))
    await turns()
    assert not put.done()
    leaders.held.set()
    await put
    await pipeline.drain()


async def test_a_batch_that_is_refused_for_good() -> None:
    leaders = Leaders()
    leaders.errors = [ErrorCode.NONE, ErrorCode.MESSAGE_TOO_LARGE]
    pipeline = pipeline_to(leaders)
    await pipeline.put(batches(FIRST, 0, 1, 2))
    for _ in range(2):
        with pytest.raises(NotStored) as told:
            await pipeline.drain()
    assert (told.value.code, told.value.partition) == (ErrorCode.MESSAGE_TOO_LARGE, FIRST)
    assert told.value.batch_bytes == 1
    with pytest.raises(NotStored):
        await pipeline.put(batches(FIRST, 3))
    assert leaders.stored[FIRST] == [0]


async def test_a_sequence_that_is_wrong_with_nothing_before_it_is_final() -> None:
    """As where a leader has forgotten the producer: sending it again would not help."""
    leaders = Leaders()
    pipeline = pipeline_to(leaders)
    await pipeline.put(batches(FIRST, 4))
    with pytest.raises(NotStored) as told:
        await pipeline.drain()
    assert told.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_it_does_not_try_for_ever() -> None:
    leaders = Leaders()
    leaders.timeout_ms = 5
    leaders.errors = [ErrorCode.NOT_ENOUGH_REPLICAS] * 1_000_000
    pipeline = pipeline_to(leaders)
    await pipeline.put(batches(FIRST, 0))
    with pytest.raises(NotStored) as told:
        await pipeline.drain()
    assert told.value.code is ErrorCode.NOT_ENOUGH_REPLICAS


async def test_a_partition_without_a_leader_waits_for_one() -> None:
    leaders = Leaders()
    leaders.known = leaders.leaders | {FIRST: -1}
    leaders.leaders[FIRST] = -1
    pipeline = pipeline_to(leaders)
    await pipeline.put(batches(FIRST, 0, 1) + batches(SECOND, 0))
    await turns()
    assert leaders.stored == {FIRST: [], SECOND: [0]}
    leaders.leaders[FIRST] = 2
    await pipeline.drain()
    assert leaders.stored[FIRST] == [0, 1]


async def test_giving_up_waits_for_what_is_under_way_and_sends_nothing_more() -> None:
    leaders = Leaders()
    leaders.held = asyncio.Event()
    pipeline = pipeline_to(leaders)
    await pipeline.put(batches(FIRST, *range(9)))
    await turns()
    gone = asyncio.create_task(pipeline.give_up())
    await turns()
    assert not gone.done()
    leaders.held.set()
    await gone
    assert leaders.stored[FIRST] == list(range(IN_FLIGHT_PER_PARTITION))
    with pytest.raises(KafkaError):
        await pipeline.drain()
