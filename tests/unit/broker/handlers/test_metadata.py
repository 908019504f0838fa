"""Metadata, UpdateMetadata and DescribeCluster as handlers."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.handlers import describe_cluster, metadata, update_metadata
from ottla.broker.membership.metadata_cache import MetadataCache
from ottla.broker.replication.order_epochs import OrderEpochs
from ottla.broker.replication.order_log import OrderLog
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.znodes import BrokerIdZnode, BrokerInfo
from ottla.types import Endpoint
from ottla.wire import messages as m
from ottla.zk.embedded import EmbeddedStore
from tests.support.broker.cluster_messages import broker, context, partition, update

ID = b"i" * 16
Topic = m.MetadataRequest.MetadataRequestTopic


class FakeTopicAdmin:
    def __init__(self) -> None:
        self.asked: list[tuple[list[str], bool]] = []

    async def missing_topics(self, names: Sequence[str], *, create: bool) -> dict[str, ErrorCode]:
        self.asked.append((list(names), create))
        return dict.fromkeys(names, ErrorCode.LEADER_NOT_AVAILABLE)


def _cache() -> MetadataCache:
    cache = MetadataCache()
    cache.update(
        update(
            {"t": [partition(0), partition(1, leader=3, replicas=(3, 1), offline=(3,))]},
            ids={"t": ID},
        )
    )
    return cache


async def _ask(
    version: int, topics: list[Topic] | None, cache: MetadataCache | None = None, **fields: Any
) -> m.MetadataResponse:
    ctx = context(version, cache=cache or _cache(), topic_admin=FakeTopicAdmin())
    return await metadata.handle(ctx, m.MetadataRequest(topics=topics, **fields))


async def test_a_broker_that_was_told_nothing_names_those_of_the_store(
    store: EmbeddedStore,
) -> None:
    """Topics without any broker make librdkafka leave all that it knows."""
    for path in ("/brokers", "/brokers/ids"):
        if await store.exists(path) is None:
            await store.create(path)
    for broker_id, port in ((10, 9010), (2, 9002)):
        endpoint = Endpoint("PLAINTEXT", f"host{broker_id}", port)
        data = BrokerIdZnode.encode(BrokerInfo(broker_id, (endpoint,), rack="r"))
        await store.create(BrokerIdZnode.path(broker_id), data)
    await store.create(BrokerIdZnode.path(3), b"no broker")

    async def ask(topics: list[Topic] | None) -> list[tuple[int, str, int, str | None]]:
        ctx = context(12, topic_admin=FakeTopicAdmin(), store=store)
        answer = await metadata.handle(ctx, m.MetadataRequest(topics=topics))
        return [(b.node_id, b.host, b.port, b.rack) for b in answer.brokers]

    registered = [(2, "host2", 9002, "r"), (10, "host10", 9010, "r")]
    assert await ask([Topic(name="t")]) == registered
    # Nothing at all is what clients ask again for.
    assert await ask(None) == await ask([]) == []
    await store.close()
    assert await ask([Topic(name="t")]) == [], "the store does not answer"


async def test_known_topic() -> None:
    answer = await _ask(12, [Topic(name="t")])
    assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [
        (1, "host1", 9001),
        (2, "host2", 9002),
    ]
    assert (answer.controller_id, answer.cluster_id) == (1, "cluster")
    topic = answer.topics[0]
    assert (topic.name, topic.topic_id, topic.error_code, topic.is_internal) == ("t", ID, 0, False)
    first, second = topic.partitions
    assert (first.error_code, first.leader_id, first.leader_epoch) == (0, 1, 5)
    # Broker 3 is not alive: no leader, but its replicas are still listed.
    assert (second.error_code, second.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert (second.replica_nodes, second.offline_replicas) == ([3, 1], [3])


async def test_version_0_hides_replicas_that_are_down() -> None:
    cache = MetadataCache()
    cache.update(update({"t": [partition(0, leader=1, replicas=(1, 3))]}))
    answer = await _ask(0, [], cache)
    only = answer.topics[0].partitions[0]
    assert only.error_code == ErrorCode.REPLICA_NOT_AVAILABLE
    assert (only.replica_nodes, only.isr_nodes) == ([1], [1])


@pytest.mark.parametrize(
    ("version", "topics", "count"), [(0, [], 1), (1, [], 0), (1, None, 1), (12, None, 1)]
)
async def test_what_no_names_mean(version: int, topics: list[Topic] | None, count: int) -> None:
    assert len((await _ask(version, topics)).topics) == count


@pytest.mark.parametrize(
    ("version", "code"), [(5, ErrorCode.LEADER_NOT_AVAILABLE), (6, ErrorCode.LISTENER_NOT_FOUND)]
)
async def test_leader_without_the_listener(version: int, code: ErrorCode) -> None:
    cache = MetadataCache()
    cache.update(update({"t": [partition(0)]}, brokers=[broker(1, listener="INTERNAL"), broker(2)]))
    answer = await _ask(version, [Topic(name="t")], cache)
    assert answer.topics[0].partitions[0].error_code == code
    assert answer.controller_id == -1, "the controller cannot be reached on this listener"
    assert [b.node_id for b in answer.brokers] == [2]


async def test_missing_topics_are_asked_for_once_and_carry_their_code() -> None:
    admin = FakeTopicAdmin()
    ctx = context(9, cache=_cache(), topic_admin=admin)
    names = [Topic(name="new"), Topic(name="t"), Topic(name="new")]
    answer = await metadata.handle(ctx, m.MetadataRequest(topics=names))
    assert [(t.name, t.error_code) for t in answer.topics] == [("new", 5), ("t", 0)]
    assert admin.asked == [(["new"], True)]


@pytest.mark.parametrize(("version", "create"), [(3, True), (4, False)])
async def test_auto_creation_can_be_declined_from_version_4(version: int, create: bool) -> None:
    admin = FakeTopicAdmin()
    ctx = context(version, cache=_cache(), topic_admin=admin)
    request = m.MetadataRequest(topics=[Topic(name="new")], allow_auto_topic_creation=False)
    await metadata.handle(ctx, request)
    assert admin.asked == [(["new"], create)]


async def test_topics_by_id() -> None:
    answer = await _ask(12, [Topic(topic_id=ID, name=None), Topic(topic_id=b"x" * 16, name=None)])
    assert [(t.name, t.error_code) for t in answer.topics] == [
        ("t", 0),
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    assert answer.topics[1].topic_id == b"x" * 16


@pytest.mark.parametrize(
    ("topic", "message"),
    [
        (Topic(topic_id=ID, name="t"), "Topic IDs are not supported in requests for version 10"),
        (Topic(name=None), "Topic name can not be null for version 10"),
    ],
)
async def test_version_10_must_name_topics(topic: Topic, message: str) -> None:
    with pytest.raises(KafkaError, match=message) as caught:
        await _ask(10, [topic])
    assert caught.value.code == ErrorCode.INVALID_REQUEST


async def test_authorized_operations_only_when_asked() -> None:
    plain = await _ask(8, [Topic(name="t")])
    assert plain.cluster_authorized_operations == -(2**31)
    assert plain.topics[0].topic_authorized_operations == -(2**31)
    full = await _ask(
        8,
        [Topic(name="t")],
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    assert full.cluster_authorized_operations == 8096
    assert full.topics[0].topic_authorized_operations == 3576


async def test_update_metadata_is_fenced_by_both_epochs() -> None:
    epochs = OrderEpochs(broker_epoch=10, controller_epoch=4)
    ctx = context(7, orders=SimpleNamespace(epochs=epochs, log=OrderLog(1)))
    cache = ctx.services.metadata_cache

    async def send(**epochs: int) -> int:
        request = update({"t": [partition(0)]}, **epochs)  # type: ignore[arg-type]
        return (await update_metadata.handle(ctx, request)).error_code

    assert await send(broker_epoch=9, controller_epoch=4) == ErrorCode.STALE_BROKER_EPOCH
    assert await send(broker_epoch=10, controller_epoch=3) == ErrorCode.STALE_CONTROLLER_EPOCH
    assert not cache.contains_topic("t")
    assert await send(broker_epoch=-1, controller_epoch=4) == 0
    assert await send(broker_epoch=11, controller_epoch=6) == 0
    assert epochs.controller_epoch == 6
    assert await send(broker_epoch=10, controller_epoch=5) == ErrorCode.STALE_CONTROLLER_EPOCH


@pytest.mark.parametrize(
    ("version", "endpoint_type", "code"),
    [
        (0, 1, 0),
        (1, 1, 0),
        (1, 2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (1, 9, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (0, 2, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_describe_cluster(version: int, endpoint_type: int, code: int) -> None:
    answer = await describe_cluster.handle(
        context(version, cache=_cache()), m.DescribeClusterRequest(endpoint_type=endpoint_type)
    )
    assert answer.error_code == code
    if not code:
        assert [b.broker_id for b in answer.brokers] == [1, 2]
        assert (answer.cluster_id, answer.controller_id) == ("cluster", 1)


async def test_an_id_or_a_name_that_is_asked_for_twice_is_answered_once() -> None:
    by_id = await _ask(12, [Topic(name=None, topic_id=ID)] * 1000)
    assert [(topic.name, len(topic.partitions)) for topic in by_id.topics] == [("t", 2)]
    by_name = await _ask(12, [Topic(name="t")] * 1000)
    assert [(topic.name, len(topic.partitions)) for topic in by_name.topics] == [("t", 2)]
