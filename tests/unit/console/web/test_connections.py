"""Over sockets, with uvicorn: what a connection may cost."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator

import pytest

from ottla.console import server
from ottla.console.settings import ConsoleSettings
from ottla.console.web import connections
from ottla.runtime import system_runtime

SETTINGS = ConsoleSettings(bootstrap="127.0.0.1:1", port=0)
PATIENCE_S = 30.0


@contextlib.asynccontextmanager
async def console() -> AsyncIterator[int]:
    """Its port."""
    listener = server.listen(SETTINGS)
    loop = asyncio.get_running_loop()
    stop, ready = loop.create_future(), asyncio.Event()
    serving = asyncio.ensure_future(
        server.serve(SETTINGS, system_runtime(), listener, stop, ready.set)
    )
    try:
        async with asyncio.timeout(PATIENCE_S):
            await ready.wait()
        yield listener.getsockname()[1]
    finally:
        stop.set_result(None)
        await serving


async def ended(reader: asyncio.StreamReader) -> None:
    """Waits until the console has closed the connection."""
    async with asyncio.timeout(PATIENCE_S):
        with contextlib.suppress(ConnectionError):
            while await reader.read(64 * 1024):
                pass


async def answer(port: int, text: str) -> tuple[str, str]:
    """Status line and the rest, of a console that closes afterwards."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(text.replace("\n", "\r\n").encode())
    async with asyncio.timeout(PATIENCE_S):
        raw = (await reader.read()).decode()
    writer.close()
    status, _, rest = raw.partition("\r\n")
    return status, rest


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HT",
        b"POST /api/v1/topics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
    ],
)
async def test_a_request_that_does_not_come_is_not_waited_for(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "REQUEST_S", 0.2)
    async with console() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        await ended(reader)
        writer.close()


async def test_the_second_request_has_to_come_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "REQUEST_S", 0.5)
    async with console() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /static/icon.svg HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(PATIENCE_S):
            await reader.readuntil(b"</svg>")
        writer.write(b"GET /")
        await ended(reader)
        writer.close()


async def test_an_answer_that_nobody_takes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "TAKEN_S", 0.2)
    lost = asyncio.Event()

    class Seen(connections.Connection):
        def connection_lost(self, exc: Exception | None) -> None:
            lost.set()
            super().connection_lost(exc)

    monkeypatch.setattr(server, "Connection", Seen)
    async with console() as port:
        with socket.socket() as rude:
            rude.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            rude.setblocking(False)
            await asyncio.get_running_loop().sock_connect(rude, ("127.0.0.1", port))
            one = b"GET /static/style.css HTTP/1.1\r\nHost: localhost\r\n\r\n"
            with contextlib.suppress(ConnectionError):
                await asyncio.get_running_loop().sock_sendall(rude, one * 2000)
            async with asyncio.timeout(PATIENCE_S):
                await lost.wait()


async def test_who_holds_many_connections_makes_room_for_who_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "_MAX_CONNECTIONS", 4)
    async with console() as port:
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(10)]
        for reader, _ in idle[:6]:
            await ended(reader)
        head = "GET /api/v1/openapi.json HTTP/1.1\nHost: localhost\nConnection: close\n\n"
        status, _ = await answer(port, head)
        assert status == "HTTP/1.1 200 OK"
        for _, writer in idle:
            writer.close()


async def test_a_browser_that_goes_within_its_body_is_no_mistake_of_ours(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = asyncio.Event()

    class Seen(connections.Connection):
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            lost.set()

    monkeypatch.setattr(server, "Connection", Seen)
    async with console() as port:
        head = "GET /api/v1/session HTTP/1.1\nHost: localhost\nConnection: close\n\n"
        _, rest = await answer(port, head)
        cookie = next(line for line in rest.split("\r\n") if line.startswith("set-cookie: "))
        cookie = cookie.removeprefix("set-cookie: ").partition(";")[0]
        # Each console has its own cookie, though browsers keep them by host without the port.
        assert cookie.startswith("ottla_console=")
        token = rest.partition('"token":"')[2].partition('"')[0]
        lost.clear()
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            f"POST /api/v1/topics HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n"
            f"X-Ottla-Token: {token}\r\nContent-Length: 100\r\n\r\n{{".encode()
        )
        await writer.drain()
        writer.close()
        async with asyncio.timeout(PATIENCE_S):
            await lost.wait()
    assert [line for line in caplog.records if line.levelno >= logging.ERROR] == []


async def test_consoles_of_one_machine_have_cookies_of_their_own() -> None:
    async with console() as port:
        head = f"GET /api/v1/session HTTP/1.1\nHost: 127.0.0.1:{port}\nConnection: close\n\n"
        status, rest = await answer(port, head)
    assert status == "HTTP/1.1 200 OK"
    assert f"set-cookie: ottla_console_{port}=" in rest
