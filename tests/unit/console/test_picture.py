"""One picture for all who look: what is in it, and how long it is used."""

from __future__ import annotations

import asyncio

from ottla.console.picture import COST_FACTOR, MAX_AGE_S, Pictures, picture_of
from ottla.errors import ErrorCode
from ottla.types import TopicPartition
from ottla.wire import messages as m

_TOPIC_ID = bytes(15) + b"\x01"


def metadata(*topics: m.MetadataResponse.MetadataResponseTopic) -> m.MetadataResponse:
    broker = m.MetadataResponse.MetadataResponseBroker
    return m.MetadataResponse(
        brokers=[broker(node_id=2, host="b", port=1), broker(node_id=0, host="a", port=1)],
        controller_id=-1,
        topics=list(topics),
    )


def topic(
    name: str, *partitions: int, error: ErrorCode = ErrorCode.NONE
) -> m.MetadataResponse.MetadataResponseTopic:
    response = m.MetadataResponse
    return response.MetadataResponseTopic(
        name=name,
        topic_id=_TOPIC_ID,
        error_code=error,
        partitions=[
            response.MetadataResponsePartition(
                partition_index=number,
                leader_id=number,
                leader_epoch=7,
                replica_nodes=[0, 2],
                isr_nodes=[0],
                offline_replicas=[2],
            )
            for number in partitions
        ],
    )


def test_topics_and_partitions_are_in_order_whatever_the_answers() -> None:
    picture = picture_of(metadata(topic("b", 1, 0), topic("a", 0)))
    assert [t.name for t in picture.topics] == ["a", "b"]
    found = [(t.name, picture.partitions[i], picture.leaders[i]) for t, i in picture.each()]
    assert found == [("a", 0, 0), ("b", 0, 0), ("b", 1, 1)]
    assert [broker.id for broker in picture.brokers] == [0, 2]
    assert picture.controller is None
    assert picture.replicas[0] is picture.replicas[2]
    assert (picture.replicas[0], picture.in_sync[0], picture.offline[0]) == ((0, 2), (0,), (2,))


def test_a_partition_is_found_by_name_and_number() -> None:
    picture = picture_of(metadata(topic("a", 0), topic("c", 0, 1)))
    assert picture.entry(TopicPartition("c", 1)) == 2
    assert picture.entry(TopicPartition("c", 2)) is None
    assert picture.entry(TopicPartition("b", 0)) is None
    assert picture.topic("zz") is None


def test_topics_that_are_not_there_to_see_are_left_out() -> None:
    refused = topic("x", 0, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    electing = topic("y", 0, error=ErrorCode.LEADER_NOT_AVAILABLE)
    assert [t.name for t in picture_of(metadata(refused, electing)).topics] == ["y"]


class _Cluster:
    """Answers when it is told to, and counts how often it is asked."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.cost_s = 0.0
        self.asked = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.failure: Exception | None = None

    async def ask(self) -> m.MetadataResponse:
        self.asked += 1
        await self.may_answer.wait()
        self.now_s += self.cost_s
        if self.failure is not None:
            raise self.failure
        return metadata(topic("t", self.asked))

    def pictures(self) -> Pictures:
        return Pictures(self.ask, lambda: self.now_s)


async def test_it_is_shared_until_it_is_old() -> None:
    cluster = _Cluster()
    pictures = cluster.pictures()
    first = await pictures.at_most(2.0)
    cluster.now_s = 2.0
    assert await pictures.at_most(2.0) is first
    cluster.now_s = 2.1
    assert await pictures.at_most(2.0) is not first
    assert cluster.asked == 2


async def test_a_costly_one_is_used_for_longer_but_not_for_ever() -> None:
    cluster = _Cluster()
    cluster.cost_s = 0.1
    pictures = cluster.pictures()
    first = await pictures.at_most(2.0)
    cluster.now_s = COST_FACTOR * 0.1 - 0.01
    assert await pictures.at_most(2.0) is first
    cluster.cost_s = 1_000.0
    cluster.now_s += 1
    slow = await pictures.at_most(2.0)
    assert slow is not first
    cluster.now_s = slow.taken_at_s + MAX_AGE_S + 0.1
    assert await pictures.at_most(2.0) is not slow


async def test_many_who_ask_at_once_are_one_request_even_if_the_first_one_leaves() -> None:
    cluster = _Cluster()
    cluster.may_answer.clear()
    pictures = cluster.pictures()
    first = asyncio.ensure_future(pictures.at_most(2.0))
    others = [asyncio.ensure_future(pictures.at_most(2.0)) for _ in range(3)]
    await asyncio.sleep(0)
    first.cancel()
    cluster.may_answer.set()
    found = await asyncio.gather(*others)
    assert cluster.asked == 1
    assert found[0] is found[1] is found[2]


async def test_a_fresh_one_is_asked_for_after_the_call() -> None:
    cluster = _Cluster()
    cluster.may_answer.clear()
    pictures = cluster.pictures()
    before = asyncio.ensure_future(pictures.at_most(2.0))
    await asyncio.sleep(0)
    after = asyncio.ensure_future(pictures.fresh())
    await asyncio.sleep(0)
    cluster.may_answer.set()
    assert await before is not await after
    assert cluster.asked == 2


async def test_a_failure_is_told_to_those_who_wait_and_asked_again() -> None:
    cluster = _Cluster()
    pictures = cluster.pictures()
    cluster.failure = ConnectionError("gone")
    try:
        await pictures.at_most(2.0)
    except ConnectionError as error:
        assert str(error) == "gone"
    else:
        raise AssertionError("it did not fail")
    cluster.failure = None
    await pictures.at_most(2.0)
    assert cluster.asked == 2
