"""Produce requests that wait for followers without a task: their answers, and their order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ottla.broker.handlers import produce
from ottla.broker.network.server import BrokerServer
from ottla.broker.requests.direct_produce import DirectProduce
from ottla.broker.requests.parked import Parked
from ottla.client.connection import Connection
from ottla.errors import ErrorCode
from ottla.types import Endpoint
from ottla.wire import framing
from ottla.wire import messages as m
from tests.support.broker.produce_requests import produce_frame
from tests.support.broker.replica_cluster import (
    TP,
    Broker,
    MakeBrokers,
    brokers,
    client_batch,
    until,
)

__all__ = ["brokers"]
HOST = "127.0.0.1"


@pytest.fixture
async def leader(brokers: MakeBrokers) -> Broker:
    (broker,) = await brokers(1)
    broker.order(0, 1, replicas=[0, 1])
    broker.services.authorizer = broker.services.request_metrics = None
    broker.services.client_quotas = None
    return broker


def fetched(leader: Broker, offset: int) -> None:
    """The follower asks for an offset, so it has everything before."""
    leader.partition.follower_fetched(1, offset, 0, leader.clock.monotonic_ms())


def park(leader: Broker, **changes: Any) -> Parked:
    (parked,) = DirectProduce("PLAINTEXT").answers(
        leader.manager.appends, [produce_frame(client_batch(2), acks=-1, **changes)]
    )
    assert isinstance(parked, Parked)
    return parked


def decoded(parked: Parked, version: int = 11) -> m.ProduceResponse.PartitionProduceResponse:
    frame = b"".join(parked.chunks or [])
    response, end = m.ProduceResponse.decode(frame, version, 9)
    assert end == len(frame)
    return response.responses[0].partition_responses[0]


@pytest.mark.parametrize("version", [9, 11])
async def test_the_answer_comes_with_the_followers_fetch(leader: Broker, version: int) -> None:
    fetched(leader, 0)
    first, second = park(leader, version=version), park(leader, version=version)
    assert leader.log.end_offset == 4
    fetched(leader, 2)
    assert second.chunks is None
    request = m.ProduceRequest(acks=1)
    data = m.ProduceRequest.PartitionProduceData(index=0, records=client_batch(2))
    request.topic_data = [m.ProduceRequest.TopicProduceData(name="t", partition_data=[data])]
    response = await produce.handle(leader.context(version), request)
    assert response is not None
    response.responses[0].partition_responses[0].base_offset = 0
    assert b"".join(first.chunks or []) == b"".join(framing.encode_response(response, version, 7))
    fetched(leader, 4)
    assert decoded(second, version).base_offset == 2


async def test_followers_that_stay_away_are_a_timeout(leader: Broker) -> None:
    parked = park(leader, timeout_ms=1)
    await until(lambda: parked.chunks is not None, 60)
    assert decoded(parked).error_code == ErrorCode.REQUEST_TIMED_OUT
    assert len(leader.partition.produce_waits) == 0


async def test_a_leader_that_is_none_any_more_names_the_next(leader: Broker) -> None:
    parked = park(leader)
    leader.know([0, 1], leader=1)
    leader.order(1, 2, replicas=[0, 1])
    answer = decoded(parked)
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (1, 2)


async def test_an_isr_that_shrank_too_far_is_told(brokers: MakeBrokers) -> None:
    (leader,) = await brokers(1, min_insync_replicas=2)
    leader.order(0, 1, replicas=[0, 1])
    parked = park(leader)
    leader.clock.ahead_ms = 40_000
    leader.partition.maybe_shrink(leader.clock.monotonic_ms())
    leader.isr.accept()
    assert decoded(parked).error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


@pytest.fixture
async def connection(leader: Broker) -> AsyncIterator[Connection]:
    endpoint = Endpoint("PLAINTEXT", HOST, 0)
    server = BrokerServer(leader.runtime, leader.config, endpoint)
    await server.open()
    server.start_processing(leader.services)  # type: ignore[arg-type]
    client = await Connection.open(leader.runtime.network, HOST, server.port, client_id="test")
    yield client
    client.close()
    await server.close()


def send(connection: Connection, *, acks: int, topic: str = TP.topic) -> asyncio.Future[Any]:
    data = m.ProduceRequest.PartitionProduceData(index=0, records=client_batch())
    request = m.ProduceRequest(acks=acks, timeout_ms=60_000)
    request.topic_data = [m.ProduceRequest.TopicProduceData(name=topic, partition_data=[data])]
    return connection.send_nowait(request, 9)


async def test_batches_wait_together_and_are_answered_in_order(
    leader: Broker, connection: Connection
) -> None:
    """The client's connection fails where answers come in another order. The fourth request is one
    for the handler, which has to wait for those before it; acks=1 is ready at once, but not due."""
    sent = [send(connection, acks=-1), send(connection, acks=-1), send(connection, acks=1)]
    sent += [send(connection, acks=-1, topic="nowhere"), send(connection, acks=-1)]
    await until(lambda: leader.log.end_offset == 3, 60)
    await asyncio.sleep(0)
    assert not any(future.done() for future in sent)
    fetched(leader, 1)
    await asyncio.wait_for(sent[0], 60)
    assert not sent[2].done()
    fetched(leader, 2)
    answers = await asyncio.wait_for(asyncio.gather(*sent[1:4]), 60)
    codes = [a.responses[0].partition_responses[0].error_code for a in answers]
    assert codes == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    await until(lambda: leader.log.end_offset == 4, 60)
    fetched(leader, 4)
    last = await asyncio.wait_for(sent[4], 60)
    assert last.responses[0].partition_responses[0].base_offset == 3


async def test_so_many_wait_and_no_more(
    leader: Broker, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.broker.network.answers.MAX_PARKED", 2)
    sent = [send(connection, acks=-1) for _ in range(5)]
    for offset in (2, 4):
        await until(lambda at=offset: leader.log.end_offset == at, 60)  # type: ignore[misc]
        assert not sent[offset - 2].done()
        fetched(leader, offset)
        await asyncio.wait_for(sent[offset - 1], 60)
    await until(lambda: leader.log.end_offset == 5, 60)
    fetched(leader, 5)
    await asyncio.wait_for(sent[4], 60)


async def test_a_client_that_left_is_not_answered(leader: Broker, connection: Connection) -> None:
    send(connection, acks=-1)
    await until(lambda: leader.log.end_offset == 1, 60)
    connection.close()
    fetched(leader, 1)
    await until(lambda: len(leader.partition.produce_waits) == 0, 60)
