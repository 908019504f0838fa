"""Requests that are served where they were read: whatever a read brings, in one memory for all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from ottla.broker.network.connection import ClientConnection
from ottla.broker.network.server import BrokerServer
from ottla.types import Endpoint
from ottla.wire import framing
from ottla.wire import messages as m
from tests.support.broker.produce_requests import produce_frame
from tests.support.broker.replica_cluster import Broker, MakeBrokers, brokers, client_batch, until

__all__ = ["brokers"]


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.writes = 0
        self.closed = False
        self.reading = True
        self.protocol: ClientConnection | None = None
        self.is_slow = False

    def write(self, data: Any) -> None:
        self.written += data
        self.writes += 1
        if self.is_slow and self.protocol is not None:
            self.protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class Peer:
    def __init__(self, server: BrokerServer) -> None:
        self.transport = Transport()
        self.connection = ClientConnection(server)
        self.transport.protocol = self.connection
        self.connection.connection_made(self.transport)

    def read(self, data: bytes) -> None:
        """One read of the socket; then the memory belongs to somebody else."""
        buffer = self.connection.get_buffer(-1)
        assert len(data) <= len(buffer)
        buffer[: len(data)] = data
        self.connection.buffer_updated(len(data))
        buffer[:] = b"\xff" * len(buffer)


@pytest.fixture
async def leader(brokers: MakeBrokers) -> Broker:
    (broker,) = await brokers(1)
    broker.order(0, 1, replicas=[0])
    broker.services.authorizer = broker.services.request_metrics = None
    broker.services.client_quotas = None
    return broker


@pytest.fixture
async def server(leader: Broker) -> AsyncIterator[BrokerServer]:
    server = BrokerServer(leader.runtime, leader.config, Endpoint("PLAINTEXT", "127.0.0.1", 0))
    server.start_processing(leader.services)  # type: ignore[arg-type]
    yield server
    for peer in tuple(server._connections):
        peer.connection_lost(None)
    await server.close()


def framed(frame: memoryview) -> bytes:
    return len(frame).to_bytes(4, "big") + bytes(frame)


def ids(answers: bytes | bytearray) -> list[int]:
    found, position = [], 0
    while position < len(answers):
        size = int.from_bytes(answers[position : position + 4], "big")
        found.append(int.from_bytes(answers[position + 4 : position + 8], "big"))
        position += 4 + size
    assert position == len(answers)
    return found


def stream() -> tuple[bytes, list[int], list[bytes]]:
    """Requests of all kinds, the ids that are answered, and the values that the log then has."""
    values = [bytes([65 + n]) * (100 + n) for n in range(12)]

    def batch(n: int) -> memoryview:
        return client_batch(1, value=values[n])

    versions = m.ApiVersionsRequest(client_software_name="t", client_software_version="1")
    frames = [framed(produce_frame(batch(n), correlation_id=n)) for n in range(3)]
    frames.append(b"".join(framing.encode_request(versions, 3, 3, "client")))
    frames += [framed(produce_frame(batch(n), correlation_id=n + 1)) for n in range(3, 5)]
    frames.append(framed(produce_frame(batch(5), correlation_id=6, topic="elsewhere")))
    frames.append(framed(produce_frame(batch(6), correlation_id=7, acks=0)))
    frames.append(framed(produce_frame(bytes(batch(7)) + bytes(batch(8)), correlation_id=8)))
    frames.append(framed(produce_frame(batch(9), correlation_id=9, version=8)))
    frames += [framed(produce_frame(batch(n), correlation_id=n)) for n in range(10, 12)]
    refused = 5, 7, 8  # no such topic; more than one batch
    kept = [value for n, value in enumerate(values) if n not in refused]
    return b"".join(frames), [n for n in range(12) if n != 7], kept


@pytest.mark.parametrize("size", [1, 3, 61, 190, 450, 100_000])
async def test_a_stream_in_pieces(leader: Broker, server: BrokerServer, size: int) -> None:
    data, answered, values = stream()
    peer = Peer(server)
    for start in range(0, len(data), size):
        peer.read(data[start : start + size])
    await until(lambda: ids(peer.transport.written) == answered, 60)
    log = leader.log
    assert log.end_offset == len(values)
    stored = bytes(log.read(0, 1 << 20, log.end_offset, min_one_batch=True))
    places = [stored.find(value) for value in values]
    assert -1 not in places and places == sorted(places)


async def test_answers_to_what_came_together_leave_together(
    leader: Broker, server: BrokerServer
) -> None:
    peer = Peer(server)
    peer.read(b"".join(framed(produce_frame(client_batch(), correlation_id=n)) for n in range(100)))
    assert ids(peer.transport.written) == list(range(100))
    assert leader.log.end_offset == 100
    assert peer.transport.writes == 1


async def test_a_frame_that_is_too_large_ends_the_connection(
    leader: Broker, server: BrokerServer
) -> None:
    frame = framed(produce_frame(client_batch()))
    server.max_request_bytes = len(frame)
    peer = Peer(server)
    peer.read(frame + framed(produce_frame(client_batch(1, value=bytes(200)))) + frame)
    assert peer.transport.closed
    assert ids(peer.transport.written) == [7]
    assert leader.log.end_offset == 1


async def test_a_peer_that_takes_no_answers_is_not_served(
    leader: Broker, server: BrokerServer
) -> None:
    peer = Peer(server)
    peer.transport.is_slow = True
    other = framed(produce_frame(client_batch(), topic="elsewhere"))
    mine = framed(produce_frame(client_batch(1, value=bytes(60_000))))
    peer.read(framed(produce_frame(client_batch())) + other)
    peer.read(mine)
    assert leader.log.end_offset == 1
    for _ in range(5):
        peer.read(mine)
    assert not peer.transport.reading
    peer.transport.is_slow = False
    cast("ClientConnection", peer.transport.protocol).resume_writing()
    await until(lambda: leader.log.end_offset == 7, 60)
    assert peer.transport.reading
