"""The server's side of TLS on real sockets: bytes both ways, pauses, rude peers, a line of log."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ottla.errors import OttlaError
from ottla.runtime import SystemDisk
from ottla.security.tls.contexts import load_client_context, server_context
from ottla.security.tls.settings import TlsSettings
from ottla.security.tls.stores import StoreLoader
from ottla.security.tls.transport import HandshakeLog, TlsConnection, TlsServer
from ottla.testing.certificates import Certificates

HOST = "127.0.0.1"
LINE = "SSL handshake failed"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


class Echo(asyncio.Protocol):
    """Sends back what it gets; remembers what happened."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.got = 0
        self.transport: Any = None
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.events.append("made")

    def data_received(self, data: bytes) -> None:
        self.got += len(data)
        self.transport.writelines([data[:1], memoryview(data)[1:]])

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append("lost")
        self.lost.set()


class BufferedEcho(Echo, asyncio.BufferedProtocol):  # type: ignore[misc]  # one or the other
    """The same with a buffer that is smaller than a record of TLS."""

    def __init__(self) -> None:
        super().__init__()
        self._buffer = bytearray(1000)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self._buffer[:nbytes]))


class Endpoint:
    def __init__(self, authority: Certificates, **more: str) -> None:
        given = authority.broker_properties() | {k.replace("_", "."): v for k, v in more.items()}
        settings, loader = TlsSettings.from_properties(given), StoreLoader(SystemDisk())
        keys = loader.key_store(settings.key_store)
        assert keys is not None
        trusted = loader.trust_store(settings.trust_store)
        self.server_context = server_context(settings, keys, trusted)
        self.peers: list[bytes | None] = []
        self.refuses = False

    def peer_known(self, inner: asyncio.BaseProtocol, certificate: bytes | None) -> None:
        self.peers.append(certificate)
        if self.refuses:
            raise OttlaError("nobody is good enough")


class Running:
    def __init__(self, port: int, endpoint: Endpoint, tls: TlsServer) -> None:
        self.tls = tls
        self.port = port
        self.endpoint = endpoint
        self.protocols: list[Echo] = []
        self.came = asyncio.Event()


@asynccontextmanager
async def serving(
    endpoint: Endpoint, kind: Callable[[], Echo] = Echo, timeout_s: float = 10
) -> AsyncIterator[Running]:
    tls = TlsServer(endpoint, "CLIENTS", timeout_s)
    loop = asyncio.get_running_loop()

    def make() -> asyncio.BaseProtocol:
        inner = kind()
        running.protocols.append(inner)
        running.came.set()
        return tls.wrap(inner)

    server = await loop.create_server(make, HOST, 0)
    running = Running(server.sockets[0].getsockname()[1], endpoint, tls)
    try:
        yield running
    finally:
        server.close()
        for protocol in running.protocols:
            if protocol.transport is not None:
                protocol.transport.abort()


def client(authority: Certificates, **more: str) -> ssl.SSLContext:
    given = authority.client_properties() | {k.replace("_", "."): v for k, v in more.items()}
    return load_client_context(TlsSettings.from_properties(given), StoreLoader(SystemDisk()))


async def echoed(port: int, context: ssl.SSLContext, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(HOST, port, ssl=context)
    writer.write(data)
    async with asyncio.timeout(20):
        answer = await reader.readexactly(len(data))
    writer.close()
    return answer


@pytest.mark.parametrize("kind", [Echo, BufferedEcho])
@pytest.mark.parametrize("size", [1, 16_384, 3_000_001])
async def test_bytes_arrive_whole_both_ways(
    authority: Certificates, kind: Callable[[], Echo], size: int
) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    async with serving(Endpoint(authority), kind) as running:
        assert await echoed(running.port, client(authority), data[:size]) == data[:size]
        async with asyncio.timeout(10):
            await running.protocols[0].lost.wait()
        assert running.protocols[0].events == ["made", "lost"]


async def test_who_pauses_gets_nothing_until_it_resumes(authority: Certificates) -> None:
    class Pausing(Echo):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.transport.pause_reading()
            assert not self.transport.is_reading()
            asyncio.get_running_loop().call_soon(self.transport.resume_reading)

    data = b"x" * 2_000_000
    async with serving(Endpoint(authority), Pausing) as running:
        assert await echoed(running.port, client(authority), data) == data


async def test_what_waits_in_openssl_is_delivered_without_new_bytes(
    authority: Certificates,
) -> None:
    held = asyncio.Event()

    class Holding(BufferedEcho):
        def buffer_updated(self, nbytes: int) -> None:
            super().buffer_updated(nbytes)
            if not held.is_set():
                self.transport.pause_reading()
                held.set()

    async with serving(Endpoint(authority), Holding) as running:
        answer = asyncio.create_task(echoed(running.port, client(authority), b"y" * 16_000))
        async with asyncio.timeout(10):
            await held.wait()
        assert running.protocols[0].got == 1000
        running.protocols[0].transport.resume_reading()
        assert await answer == b"y" * 16_000


async def test_plain_bytes_are_answered_by_the_end_and_one_line(
    authority: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with serving(Endpoint(authority)) as running:
        for hello in (b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x10\0\x12\0\0", b"\x15\x03\x01\0\x02"):
            for _ in range(20):
                reader, writer = await asyncio.open_connection(HOST, running.port)
                writer.write(hello)
                async with asyncio.timeout(10):
                    assert await reader.read() == b""
                writer.close()
    lines = [record.getMessage() for record in caplog.records if LINE in record.getMessage()]
    assert lines == [
        "Failed authentication with 127.0.0.1 on listener CLIENTS "
        "(SSL handshake failed: the client does not speak TLS)"
    ]
    assert not any(record.exc_info for record in caplog.records)


async def test_a_broken_handshake_gets_an_alert(
    authority: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with serving(Endpoint(authority)) as running:
        reader, writer = await asyncio.open_connection(HOST, running.port)
        writer.write(b"\x16\x03\x01\x00\x05hello")
        async with asyncio.timeout(10):
            assert (await reader.read())[:1] == b"\x15"  # an alert of TLS
        writer.close()
    assert [LINE in record.getMessage() for record in caplog.records].count(True) == 1


@pytest.mark.parametrize("half", [b"", b"\x16\x03\x01\x02\x00\x01\x00"])
async def test_a_handshake_that_does_not_end_is_ended(
    authority: Certificates, caplog: pytest.LogCaptureFixture, half: bytes
) -> None:
    caplog.set_level(logging.INFO)
    async with serving(Endpoint(authority), timeout_s=0.05) as running:
        reader, writer = await asyncio.open_connection(HOST, running.port)
        writer.write(half)
        async with asyncio.timeout(10):
            with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
        async with asyncio.timeout(10):
            await running.protocols[0].lost.wait()
        writer.close()
    assert "not done in 0.05 s" in caplog.text


async def test_no_deadline_runs_while_the_server_itself_does_not_read(
    authority: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Starting(Echo):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            self.transport.pause_reading()

    passed = asyncio.Semaphore(0)
    time_out = TlsConnection._time_out

    def noticed(connection: TlsConnection) -> None:
        time_out(connection)
        passed.release()

    monkeypatch.setattr(TlsConnection, "_time_out", noticed)
    async with serving(Endpoint(authority), Starting, timeout_s=0.01) as running:
        answer = asyncio.create_task(echoed(running.port, client(authority), b"z"))
        async with asyncio.timeout(10):
            for _ in range(3):
                await passed.acquire()
        assert not running.protocols[0].lost.is_set()
        running.tls.timeout_s = 10  # from now on the peer has what the others have
        running.protocols[0].transport.resume_reading()
        assert await answer == b"z"


async def test_the_certificate_of_a_client_is_told_before_its_bytes(
    authority: Certificates,
) -> None:
    endpoint = Endpoint(authority, ssl_client_auth="required")
    own = authority.issue("alice").properties()
    async with serving(endpoint) as running:
        context = client(authority, **{k.replace(".", "_"): v for k, v in own.items()})
        assert await echoed(running.port, context, b"hi") == b"hi"
        assert len(endpoint.peers) == 1 and endpoint.peers[0]


async def test_a_peer_that_is_refused_after_its_handshake_is_closed(
    authority: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    endpoint = Endpoint(authority)
    endpoint.refuses = True
    async with serving(endpoint) as running:
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError, ssl.SSLError)):
            await echoed(running.port, client(authority), b"hi")
        assert running.protocols[0].got == 0
    assert "nobody is good enough" in caplog.text


async def test_an_old_client_cannot_have_the_handshake_again(authority: Certificates) -> None:
    context = Endpoint(authority).server_context
    assert context.options & ssl.OP_NO_RENEGOTIATION


async def test_new_certificates_are_used_from_the_next_connection(
    authority: Certificates,
) -> None:
    endpoint = Endpoint(authority)
    async with serving(endpoint) as running:
        reader, writer = await asyncio.open_connection(HOST, running.port, ssl=client(authority))
        old = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        fresh = Certificates(authority.folder / "fresh")
        endpoint.server_context = Endpoint(fresh).server_context
        assert await echoed(running.port, client(fresh), b"new") == b"new"
        writer.write(b"old")
        assert await reader.readexactly(3) == b"old"
        assert old
        writer.close()


def test_failures_are_told_together(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    now = 0.0
    log = HandshakeLog("CLIENTS", lambda: now)
    for _ in range(1000):
        log.failed("10.0.0.1", "no")
    assert len(caplog.records) == 1
    now = 11.0
    log.failed("10.0.0.2", "no")
    assert caplog.records[-1].getMessage().endswith("; 999 more since the last line")
