"""Requests to the controller do not wait for one that was replaced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from ottla.broker.membership.controller_channel import ControllerChannel
from ottla.broker.membership.metadata_cache import MetadataCache
from ottla.runtime import SystemNetwork
from ottla.security.sasl.plain import PlainCredentials
from ottla.wire import messages as m
from tests.support.broker.cluster_messages import Update, update

LONG_MS = 60_000


@pytest.fixture
async def silent_brokers() -> AsyncIterator[list[tuple[int, asyncio.Event]]]:
    """Ports of brokers that take bytes and never answer, with an event for the first bytes."""
    servers, brokers = [], []
    for _ in range(2):
        heard = asyncio.Event()

        async def serve(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter, heard: asyncio.Event = heard
        ) -> None:
            while await reader.read(1000):
                heard.set()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        servers.append(server)
        brokers.append((server.sockets[0].getsockname()[1], heard))
    yield brokers
    for server in servers:
        server.close()


def told(cache: MetadataCache, controller_id: int, ports: Sequence[int]) -> None:
    brokers = [
        Update.UpdateMetadataBroker(
            id=broker_id,
            endpoints=[
                Update.UpdateMetadataEndpoint(port=port, host="127.0.0.1", listener="PLAINTEXT")
            ],
        )
        for broker_id, port in enumerate(ports)
    ]
    cache.update(update(brokers=brokers, controller_id=controller_id))


@pytest.mark.parametrize(
    "credentials", [None, PlainCredentials("user", "password")], ids=["plain", "while it logs in"]
)
async def test_a_request_ends_with_the_reign_of_its_controller(
    silent_brokers: list[tuple[int, asyncio.Event]], credentials: PlainCredentials | None
) -> None:
    ports = [port for port, _ in silent_brokers]
    cache = MetadataCache()
    channel = ControllerChannel(SystemNetwork(), cache, "PLAINTEXT", 7, credentials)
    told(cache, 0, ports)
    request = asyncio.create_task(
        channel.send(m.CreateTopicsRequest(), 5, timeout_ms=LONG_MS), name="request"
    )
    await silent_brokers[0][1].wait()
    told(cache, 0, ports)
    await asyncio.sleep(0)
    assert not request.done(), "the same controller: the answer may still come"
    told(cache, 1, ports)
    with pytest.raises((ConnectionError, TimeoutError)):
        await asyncio.wait_for(request, 20)
    following = asyncio.create_task(channel.send(m.CreateTopicsRequest(), 5, timeout_ms=LONG_MS))
    await asyncio.wait_for(silent_brokers[1][1].wait(), 20)
    channel.close()
    following.cancel()


async def test_without_a_controller() -> None:
    channel = ControllerChannel(SystemNetwork(), MetadataCache(), "PLAINTEXT", 7)
    with pytest.raises(ConnectionError, match="no controller is known"):
        await channel.send(m.CreateTopicsRequest(), 5, timeout_ms=LONG_MS)
