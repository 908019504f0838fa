"""The client connection against small servers on the loopback interface."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable

import pytest

from ottla.client.connection import Connection
from ottla.runtime import SystemNetwork
from ottla.wire import framing
from ottla.wire import messages as m

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def _connect(serve: Serve) -> tuple[asyncio.Server, Connection]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    return server, await Connection.open(SystemNetwork(), "127.0.0.1", port, client_id="t")


async def _read_request(reader: asyncio.StreamReader) -> framing.RequestHeader:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    header, _ = framing.decode_request_header(await reader.readexactly(size))
    return header


def _answer(correlation_id: int, cluster_id: str) -> bytes:
    response = m.MetadataResponse(cluster_id=cluster_id)
    return b"".join(framing.encode_response(response, 9, correlation_id))


async def test_requests_are_pipelined_and_answers_matched() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Both requests arrive before the first answer leaves.
        headers = [await _read_request(reader), await _read_request(reader)]
        for header in headers:
            writer.write(_answer(header.correlation_id, f"cluster-{header.correlation_id}"))
        writer.close()

    server, connection = await _connect(serve)
    first = connection.send_nowait(m.MetadataRequest(), 9)
    second = connection.send_nowait(m.MetadataRequest(), 9)
    assert (await first).cluster_id == "cluster-0"
    assert (await second).cluster_id == "cluster-1"
    server.close()


async def test_a_lost_connection_fails_what_is_pending_and_every_later_send() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _read_request(reader)
        writer.close()

    server, connection = await _connect(serve)
    with pytest.raises(ConnectionError, match="connection lost"):
        await connection.send(m.MetadataRequest(), 9)
    assert connection.closed
    with pytest.raises(ConnectionError):
        await connection.send(m.MetadataRequest(), 9)
    server.close()


async def test_a_wrong_correlation_id_ends_the_connection() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        header = await _read_request(reader)
        writer.write(_answer(header.correlation_id + 7, "x"))

    server, connection = await _connect(serve)
    with pytest.raises(ConnectionError, match="correlation id 7 where 0 was due"):
        await connection.send(m.MetadataRequest(), 9)
    server.close()


async def test_garbage_and_unasked_answers_end_the_connection() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")

    server, connection = await _connect(serve)
    with pytest.raises(ConnectionError, match="not a Kafka response"):
        await connection.send(m.MetadataRequest(), 9)
    server.close()


async def test_a_request_that_times_out_closes_the_connection() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _read_request(reader)
        await reader.read()
        writer.close()

    server, connection = await _connect(serve)
    with pytest.raises(TimeoutError):
        await connection.send(m.MetadataRequest(), 9, timeout_ms=30)
    assert connection.closed
    server.close()
