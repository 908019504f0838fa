"""Large answers over real sockets: records go from their file to the socket without a copy."""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import ssl
import termios
from array import array
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
import uvloop

from ottla.broker.network.answers import SENT_FROM_BYTES, Answers
from ottla.broker.network.memory import ConnectionMemory
from ottla.runtime import SystemFile
from ottla.storage.segment.slices import RecordSlice
from ottla.testing.certificates import Certificates

HOST = "127.0.0.1"
RECORDS_BYTES = 20 * 1024 * 1024
WAIT_S = 30.0

pytestmark = pytest.mark.skipif(not hasattr(os, "sendfile"), reason="this system has no sendfile")


class Segment:
    """A file with records, and how its bytes left it."""

    def __init__(self, path: Path) -> None:
        self.data = os.urandom(1 << 20) * (RECORDS_BYTES >> 20)
        path.write_bytes(self.data)
        self._file = SystemFile(os.open(path, os.O_RDONLY))
        self.cuts = 0
        self.sent_bytes = self.read_bytes = 0
        # What is to happen before bytes leave without a copy.
        self.before_send: Callable[[], None] = lambda: None

    def records(self, position: int, size: int) -> Any:
        return self

    def read_at(self, size: int, position: int) -> bytes:
        self.read_bytes += size
        return self._file.read_at(size, position)

    def send_at(self, socket_fd: int, size: int, position: int) -> int:
        self.before_send()
        sent = self._file.send_at(socket_fd, size, position)
        self.sent_bytes += sent
        return sent

    def part(self, start: int, size: int) -> RecordSlice:
        return RecordSlice(self, start, size)


class Peer(asyncio.Protocol):
    """The broker's side of a connection, and answers in it."""

    made: asyncio.Future[Peer]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        loop = asyncio.get_running_loop()
        self.transport = cast("asyncio.Transport", transport)
        self.lost: asyncio.Future[None] = loop.create_future()
        self.answers = Answers(lambda: None, lambda: loop.time() * 1000, ConnectionMemory(1 << 30))
        self.answers.open(self.transport, loop)
        self.made.set_result(self)

    def pause_writing(self) -> None:
        self.answers.transport_is_full(asyncio.get_running_loop().time())

    def resume_writing(self) -> None:
        self.answers.transport_has_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self.answers.forget()
        self.lost.set_result(None)


def on_both_loops(test: Callable[[Segment, Path], Coroutine[Any, Any, None]]) -> Any:
    """Brokers run on uvloop, where it is installed."""

    @pytest.mark.parametrize("new_loop", [uvloop.new_event_loop, asyncio.new_event_loop])
    def run(new_loop: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path) -> None:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(test(Segment(tmp_path / "0.log"), tmp_path))

    run.__name__ = test.__name__
    return run


class Connected:
    """Both ends."""

    def __init__(
        self, peer: Peer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.peer = peer
        self.reader = reader
        self.writer = writer

    def answer(self, chunks: list[object]) -> None:
        self.peer.answers.write(cast("list[bytes | memoryview]", chunks))


@asynccontextmanager
async def connect(
    server_context: ssl.SSLContext | None = None, client_context: ssl.SSLContext | None = None
) -> AsyncIterator[Connected]:
    loop = asyncio.get_running_loop()
    peer = Peer()
    peer.made = loop.create_future()
    server = await loop.create_server(lambda: peer, HOST, 0, ssl=server_context)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection(HOST, port, ssl=client_context, limit=1 << 16)
    try:
        yield Connected(await peer.made, reader, writer)
    finally:
        writer.transport.abort()
        peer.transport.abort()
        await asyncio.wait_for(peer.lost, WAIT_S)
        server.close()


@on_both_loops
async def test_the_peer_gets_every_byte_in_order(segment: Segment, _: Path) -> None:
    size = RECORDS_BYTES - 1000
    async with connect() as plain:
        plain.answer([b"head", segment.part(7, size), b"middle", segment.part(0, 90_000), b"end"])
        plain.answer([b"next"])
        records, few = segment.data[7 : size + 7], segment.data[:90_000]
        whole = b"".join((b"head", records, b"middle", few, b"end", b"next"))
        received = await asyncio.wait_for(plain.reader.readexactly(len(whole)), WAIT_S)
        assert received == whole
        assert not plain.peer.answers.is_blocked
    assert segment.sent_bytes > SENT_FROM_BYTES, "some went without a copy"
    assert segment.sent_bytes + segment.read_bytes == size + 90_000, "and nothing twice"


@pytest.mark.skipif(not hasattr(socket, "TCP_CORK"), reason="this system has no TCP_CORK")
@on_both_loops
async def test_what_is_around_records_leaves_together_with_them(segment: Segment, _: Path) -> None:
    size = 2 * SENT_FROM_BYTES
    arrived: list[int] = []

    def look() -> None:
        unread = array("i", [0])
        fcntl.ioctl(own_end.fileno(), termios.FIONREAD, unread)
        arrived.append(unread[0])

    async with connect() as plain:
        own_end = plain.writer.get_extra_info("socket")
        segment.before_send = look
        plain.answer([b"head", segment.part(0, size), b"end"])
        received = await asyncio.wait_for(plain.reader.readexactly(size + 7), WAIT_S)
        corked = plain.peer.transport.get_extra_info("socket").getsockopt(
            socket.IPPROTO_TCP, socket.TCP_CORK
        )
    assert arrived[0] == 0, "a head by itself is a packet more, and wakes the peer up for nothing"
    assert received.startswith(b"head")
    assert received.endswith(b"end")
    assert not corked, "what comes later waits for nothing"


@on_both_loops
async def test_few_records_leave_with_one_write(segment: Segment, _: Path) -> None:
    async with connect() as plain:
        plain.answer([b"head", segment.part(0, SENT_FROM_BYTES - 1), b"end"])
        received = await asyncio.wait_for(plain.reader.readexactly(SENT_FROM_BYTES + 6), WAIT_S)
    assert received.endswith(b"end")
    assert segment.sent_bytes == 0


@on_both_loops
async def test_records_that_are_cut_away_meanwhile_end_the_connection(
    segment: Segment, _: Path
) -> None:
    async with connect() as plain:
        plain.answer([b"head", segment.part(0, RECORDS_BYTES)])
        assert plain.peer.answers.is_blocked, "the peer has not read anything yet"
        segment.cuts += 1
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await asyncio.wait_for(plain.reader.readexactly(RECORDS_BYTES + 4), WAIT_S)
        await asyncio.wait_for(asyncio.shield(plain.peer.lost), WAIT_S)


@on_both_loops
async def test_a_peer_that_goes_away_harms_nobody_else(segment: Segment, _: Path) -> None:
    async with connect() as gone, connect() as other:
        gone.answer([b"head", segment.part(0, RECORDS_BYTES)])
        gone.writer.transport.abort()
        await asyncio.wait_for(asyncio.shield(gone.peer.lost), WAIT_S)
        other.answer([b"head", segment.part(0, 1_000_000)])
        received = await asyncio.wait_for(other.reader.readexactly(1_000_004), WAIT_S)
        assert received[4:] == segment.data[:1_000_000]


@on_both_loops
async def test_over_tls_they_are_encrypted(segment: Segment, folder: Path) -> None:
    certificates = Certificates(folder / "tls")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.broker.pem)
    trusting = ssl.create_default_context(cafile=certificates.ca_pem)
    async with connect(context, trusting) as encrypted:
        encrypted.answer([b"head", segment.part(0, 3_000_000)])
        received = await asyncio.wait_for(encrypted.reader.readexactly(3_000_004), WAIT_S)
    assert received[4:] == segment.data[:3_000_000]
    assert (segment.sent_bytes, segment.read_bytes) == (0, 3_000_000)
