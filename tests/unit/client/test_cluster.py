"""Bootstrap, version negotiation, controller and leaders, bounded retries."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from ottla.client import cluster as cluster_module
from ottla.client.cluster import Address, Channel, Cluster, parse_bootstrap, response_error
from ottla.config.definitions import ConfigError
from ottla.errors import ErrorCode, KafkaError
from ottla.runtime import system_runtime
from ottla.types import ZERO_TOPIC_ID, TopicPartition
from ottla.wire import messages as m
from tests.support.client.fake_kafka import FakeKafka, topic


@pytest.fixture
async def pair() -> AsyncIterator[tuple[FakeKafka, FakeKafka]]:
    first, second = await FakeKafka(1).start(), await FakeKafka(2).start()
    first.peers = second.peers = [first, second]
    yield first, second
    await first.stop()
    await second.stop()


def dead_address() -> str:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{unused.getsockname()[1]}"


def test_bootstrap_addresses() -> None:
    assert parse_bootstrap("a:1, b.c:65535 ,[::1]:9092") == [
        Address("a", 1),
        Address("b.c", 65535),
        Address("::1", 9092),
    ]
    assert str(Address("::1", 9092)) == "[::1]:9092"


@pytest.mark.parametrize("bad", ["", "a", "a:", ":1", "a:x", "a:0", "a:65536", "a:1,,b:2", "::1:1"])
def test_bad_bootstrap_addresses_are_named(bad: str) -> None:
    with pytest.raises(ConfigError, match=r"Invalid url in bootstrap\.servers: "):
        parse_bootstrap(bad)


async def test_a_dead_server_among_several_does_not_matter(
    pair: tuple[FakeKafka, FakeKafka],
) -> None:
    async with Cluster(system_runtime(), f"{dead_address()},{pair[1].address}") as cluster:
        assert [node.id for node in await cluster.nodes()] == [1, 2]


async def test_no_server_at_all_ends_soon_and_says_why() -> None:
    dead = dead_address()
    loop = asyncio.get_running_loop()
    begun = loop.time()
    async with Cluster(system_runtime(), dead, bootstrap_timeout_ms=300) as cluster:
        with pytest.raises(KafkaError) as caught:
            await cluster.send_to_any(m.MetadataRequest(), call="listTopics")
    assert loop.time() - begun < 2
    assert str(caught.value) == (
        f"Timed out waiting for a node assignment. Call: listTopics ({dead}: Connection refused)"
    )


async def test_a_server_that_never_answers_ends_in_time() -> None:
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(5)
        writer.close()  # held until then: from Python 3.13 on a lost writer closes its connection

    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with Cluster(system_runtime(), address, bootstrap_timeout_ms=200) as cluster:
        with pytest.raises(KafkaError, match="no answer in time"):
            await cluster.nodes()
    server.close()


async def test_many_calls_to_a_server_that_never_answers_do_not_wait_for_each_other() -> None:
    """One after the other they would take forty times as long as one."""
    release = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        writer.close()

    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with Cluster(system_runtime(), address, bootstrap_timeout_ms=500) as cluster:
        async with asyncio.timeout(10):
            answers = await asyncio.gather(
                *(cluster.nodes() for _ in range(40)), return_exceptions=True
            )
    assert all(
        isinstance(answer, KafkaError) and answer.code is ErrorCode.REQUEST_TIMED_OUT
        for answer in answers
    )
    release.set()
    server.close()


async def test_a_server_of_another_protocol_is_named() -> None:
    async def speak_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    server = await asyncio.start_server(speak_http, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with Cluster(system_runtime(), address, bootstrap_timeout_ms=200) as cluster:
        with pytest.raises(KafkaError, match=f"{address}: .*HTTP"):
            await cluster.nodes()
    server.close()


async def test_versions_are_the_highest_both_sides_know(pair: tuple[FakeKafka, FakeKafka]) -> None:
    channel = await Channel.open(
        system_runtime(), Address("127.0.0.1", pair[0].port), client_id="t", timeout_ms=1000
    )
    assert channel.version_for(m.MetadataRequest()) == 9
    assert channel.version_for(m.MetadataRequest(), max_version=4) == 4
    with pytest.raises(KafkaError) as caught:
        channel.version_for(m.MetadataRequest(), min_version=10)
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
    with pytest.raises(KafkaError, match="does not support a version of ProduceRequest"):
        channel.version_for(m.ProduceRequest())
    channel.close()
    assert channel.closed


async def test_a_request_finds_the_controller_that_moved(
    pair: tuple[FakeKafka, FakeKafka],
) -> None:
    first, second = pair
    first.controller_id = second.controller_id = 1

    def refuse(_: object) -> m.ListPartitionReassignmentsResponse:
        first.controller_id = second.controller_id = 2
        return m.ListPartitionReassignmentsResponse(error_code=41)

    first.on(m.ListPartitionReassignmentsRequest, refuse)
    second.on(m.ListPartitionReassignmentsRequest, lambda _: m.ListPartitionReassignmentsResponse())
    async with Cluster(system_runtime(), first.address) as cluster:
        answer = await cluster.send_to_controller(
            m.ListPartitionReassignmentsRequest(), is_misdirected=lambda a: a.error_code == 41
        )
    assert answer.error_code == 0


async def test_a_controller_that_says_nothing_leaves_time_for_its_successor(
    pair: tuple[FakeKafka, FakeKafka],
) -> None:
    first, second = pair
    first.controller_id = second.controller_id = 1

    def take_and_fail_over(_: object) -> None:
        first.controller_id = second.controller_id = 2

    first.on(m.ListPartitionReassignmentsRequest, take_and_fail_over)
    second.on(m.ListPartitionReassignmentsRequest, lambda _: m.ListPartitionReassignmentsResponse())
    async with Cluster(system_runtime(), first.address) as cluster:
        request = m.ListPartitionReassignmentsRequest()
        assert (await cluster.send_to_controller(request, answer_ms=50)).error_code == 0


async def test_a_controller_that_keeps_refusing_is_an_error(
    pair: tuple[FakeKafka, FakeKafka],
) -> None:
    pair[0].on(
        m.ListPartitionReassignmentsRequest,
        lambda _: m.ListPartitionReassignmentsResponse(error_code=41),
    )
    async with Cluster(system_runtime(), pair[0].address) as cluster:
        with pytest.raises(KafkaError) as caught:
            await cluster.send_to_controller(
                m.ListPartitionReassignmentsRequest(),
                is_misdirected=lambda a: a.error_code == 41,
                timeout_ms=300,
            )
    assert str(caught.value) == "This is not the correct controller for this cluster."


async def test_no_controller_is_waited_for_and_then_an_error(
    pair: tuple[FakeKafka, FakeKafka],
) -> None:
    pair[0].controller_id = -1
    async with Cluster(system_runtime(), pair[0].address) as cluster:
        with pytest.raises(KafkaError, match="there is no controller"):
            await cluster.send_to_controller(m.CreateTopicsRequest(), timeout_ms=300)


async def test_lost_connections_are_opened_again(pair: tuple[FakeKafka, FakeKafka]) -> None:
    async with Cluster(system_runtime(), pair[0].address) as cluster:
        await cluster.nodes()
        pair[0].drop_connections()
        await asyncio.sleep(0.05)
        assert len(await cluster.nodes()) == 2


async def test_another_broker_takes_over_where_the_bootstrap_server_died(
    pair: tuple[FakeKafka, FakeKafka],
) -> None:
    async with Cluster(system_runtime(), pair[0].address) as cluster:
        await cluster.nodes()
        await pair[0].stop()
        await asyncio.sleep(0.05)
        await cluster.nodes(timeout_ms=2000)
        assert any(isinstance(request, m.MetadataRequest) for request, _ in pair[1].seen)


async def test_a_broker_that_says_nothing_any_more_leaves_time_for_another(
    pair: tuple[FakeKafka, FakeKafka],
) -> None:
    async with Cluster(system_runtime(), pair[0].address) as cluster:
        await cluster.nodes()
        pair[0].on(m.MetadataRequest, lambda _: None)
        pair[0].refuse_connections()
        cluster.request_timeout_ms = 50
        assert len(await cluster.nodes()) == 2
        assert any(isinstance(request, m.MetadataRequest) for request, _ in pair[1].seen)


async def test_leaders_are_found_remembered_and_waited_for(
    pair: tuple[FakeKafka, FakeKafka],
) -> None:
    first = pair[0]
    first.topics = [topic("t", 2, -1)]
    async with Cluster(system_runtime(), first.address) as cluster:
        assert await cluster.leader_of(TopicPartition("t", 0)) == 2
        asked = len(first.seen)
        assert await cluster.leader_of(TopicPartition("t", 0)) == 2
        assert len(first.seen) == asked
        with pytest.raises(KafkaError, match="t-1 has no leader"):
            await cluster.leader_of(TopicPartition("t", 1), timeout_ms=50)
        waiting = asyncio.create_task(cluster.leader_of(TopicPartition("t", 1)))
        await asyncio.sleep(0.05)
        first.topics = [topic("t", 2, 1)]
        assert await waiting == 1
        with pytest.raises(KafkaError) as caught:
            await cluster.leader_of(TopicPartition("t", 9))
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_broker_that_was_left_behind_does_not_bring_the_old_leader_back(
    pair: tuple[FakeKafka, FakeKafka],
) -> None:
    """As Java's Metadata.updateLatestMetadata does it, but for topics without an id."""
    one, _ = pair
    one.ranges = one.ranges | {m.MetadataRequest.API_KEY: (0, 12)}
    async with Cluster(system_runtime(), one.address) as cluster:
        for leader, epoch, topic_id, expected in (
            (2, 5, b"o" * 16, 2),
            (1, 4, b"o" * 16, 2),
            (1, 6, b"o" * 16, 1),
            (2, 0, b"n" * 16, 2),
            # Without ids it may be another topic.
            (1, 3, ZERO_TOPIC_ID, 1),
            (2, 2, ZERO_TOPIC_ID, 2),
        ):
            told = topic("t", leader)
            told.topic_id = topic_id
            told.partitions[0].leader_epoch = epoch
            one.topics = [told]
            assert await cluster.leader_of(TopicPartition("t", 0), refresh=True) == expected


async def test_a_broker_that_is_not_there_is_an_error(pair: tuple[FakeKafka, FakeKafka]) -> None:
    async with Cluster(system_runtime(), pair[0].address) as cluster:
        with pytest.raises(KafkaError, match="broker 9 is not available"):
            await cluster.send_to_broker(9, m.MetadataRequest(), timeout_ms=300)
        answer = await cluster.send_to_broker(2, m.MetadataRequest(topics=[]))
        assert answer.cluster_id == "fake"


async def test_looking_at_topics_never_creates_them(pair: tuple[FakeKafka, FakeKafka]) -> None:
    async with Cluster(system_runtime(), pair[0].address) as cluster:
        await cluster.metadata(["t"])
    asked = [request for request, _ in pair[0].seen if isinstance(request, m.MetadataRequest)]
    assert asked and not any(request.allow_auto_topic_creation for request in asked)


def test_unknown_codes_become_an_error_too() -> None:
    assert str(response_error(17, "text")) == "text"
    assert response_error(999).code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "999" in str(response_error(999))


def test_reasons_are_short() -> None:
    several = OSError("Multiple exceptions: [Errno 111] Connect call failed, [Errno 101] x")
    assert cluster_module._reason(several) == "Connection refused"
    assert cluster_module._reason(TimeoutError()) == "no answer in time"
