"""Peers of a listener without sockets: their connections are handed bytes, answers are kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ottla.broker.network.connection import ClientConnection
from ottla.broker.network.server import BrokerServer
from ottla.types import Endpoint
from tests.support.broker.replica_cluster import Broker, MakeBrokers


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

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0

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
