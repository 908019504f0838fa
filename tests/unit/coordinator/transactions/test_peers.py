"""Connections of the transaction coordinator to other brokers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.coordinator.transactions.peers import PeerChannels
from ottla.runtime import system_runtime
from ottla.types import Endpoint
from ottla.wire import framing
from ottla.wire import messages as m


class Broker(asyncio.Protocol):
    """Answers every request with an empty WriteTxnMarkers response of version 1."""

    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen
        self.frames = framing.FrameReader(1 << 20)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.seen.append(transport)

    def data_received(self, data: bytes) -> None:
        for frame in self.frames.feed(data):
            header, _ = framing.decode_request_header(frame)
            answer = m.WriteTxnMarkersResponse()
            self.transport.writelines(framing.encode_response(answer, 1, header.correlation_id))


async def test_one_connection_is_kept_and_made_again_when_it_breaks() -> None:
    network = system_runtime().network
    connections: list[Any] = []
    server = await network.listen(lambda: Broker(connections), "127.0.0.1", 0)
    endpoints = {1: Endpoint("PLAINTEXT", "127.0.0.1", server.port)}
    peers = PeerChannels(network, endpoints.get, 0)
    try:
        for _ in range(2):
            await peers.send(1, m.WriteTxnMarkersRequest(), 1, timeout_ms=5000)
        assert len(connections) == 1
        connections[0].abort()
        await asyncio.sleep(0.05)
        await peers.send(1, m.WriteTxnMarkersRequest(), 1, timeout_ms=5000)
        assert len(connections) == 2
        endpoints.clear()
        with pytest.raises(ConnectionError):
            await peers.send(1, m.WriteTxnMarkersRequest(), 1, timeout_ms=5000)
    finally:
        await peers.shutdown()
        await server.close()
