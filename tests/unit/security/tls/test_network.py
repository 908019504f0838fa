"""What a client is told where TLS does not come about, and that it is told at once."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.client.admin.client import Admin
from ottla.client.settings import AdminConfig
from ottla.errors import HandshakeRefused, KafkaError
from ottla.runtime import system_runtime
from ottla.testing.certificates import Certificates

HOST = "127.0.0.1"
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]


def closes(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


def speaks_plainly(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\0\0\0\x04\0\0\0\1")


@pytest.mark.parametrize(
    ("handler", "refused", "text"),
    # Whether the end of a connection is an error of TLS differs between event loops.
    [(closes, False, ""), (speaks_plainly, True, "wrong version number")],
)
async def test_servers_that_do_not_speak_tls(
    tmp_path: Path, handler: Handler, refused: bool, text: str
) -> None:
    given = Certificates(tmp_path).client_properties()
    network = AdminConfig.from_properties(given).connected(system_runtime()).network
    server = await asyncio.start_server(handler, HOST, 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(ConnectionError, match=text) as failure:
        await network.connect(asyncio.Protocol, HOST, port)
    assert isinstance(failure.value, HandshakeRefused) == refused
    server.close()


async def test_a_certificate_that_is_refused_ends_all_attempts(tmp_path: Path) -> None:
    given = Certificates(tmp_path / "one").client_properties()
    foreign = Certificates(tmp_path / "other")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(foreign.broker.pem)
    attempts = 0

    def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal attempts
        attempts += 1

    server = await asyncio.start_server(count, HOST, 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    runtime = AdminConfig.from_properties(given).connected(system_runtime())
    with pytest.raises(KafkaError, match=r"certificate of .* is refused: "):
        async with Admin.connect(runtime, f"{HOST}:{port}", timeout_ms=60_000) as admin:
            await admin.list_topics()
    assert attempts == 0  # no handshake was completed
    server.close()
