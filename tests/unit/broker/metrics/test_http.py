"""GET /metrics: what is answered to whom, and that rude peers do not keep others from it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator

import pytest

from ottla.broker.metrics.http import MAX_CONNECTIONS, MAX_HEAD_BYTES, MetricsServer
from ottla.runtime import system_runtime

HOST = "127.0.0.1"
WAIT_S = 60.0
STEPS = 20
GET = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


class Numbers:
    """What is served, made in steps."""

    def __init__(self) -> None:
        self.begun = self.steps = 0
        self.fails = False

    def render(self) -> Generator[None, None, bytes]:
        self.begun += 1
        for _ in range(STEPS):
            self.steps += 1
            if self.fails:
                raise ValueError("no number")
            yield
        return b"numbers"


@pytest.fixture
def numbers() -> Numbers:
    return Numbers()


@pytest.fixture
async def server(numbers: Numbers) -> AsyncIterator[MetricsServer]:
    server = MetricsServer(numbers.render, ["Broker-0.example", "10.0.0.1"])
    await server.start(system_runtime().network, HOST, 0)
    yield server
    await server.close()


Peer = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connected(server: MetricsServer, sent: bytes = b"") -> Peer:
    reader, writer = await asyncio.open_connection(HOST, server.port)
    writer.write(sent)
    await writer.drain()
    return reader, writer


async def rest_of(peer: Peer) -> bytes:
    try:
        return await asyncio.wait_for(peer[0].read(), WAIT_S)
    except ConnectionError:
        return b""
    finally:
        peer[1].close()


async def asked(server: MetricsServer, sent: bytes) -> tuple[bytes, bytes]:
    """Status line and body."""
    head, _, body = (await rest_of(await connected(server, sent))).partition(b"\r\n\r\n")
    return head.partition(b"\r\n")[0], body


@pytest.mark.parametrize(
    ("request_line", "status", "body"),
    [
        (b"GET /metrics HTTP/1.1", b"200 OK", b"numbers"),
        (b"GET /metrics?x=1 HTTP/1.1", b"200 OK", b"numbers"),
        (b"HEAD /metrics HTTP/1.1", b"200 OK", b""),
        (b"POST /metrics HTTP/1.1", b"405 Method Not Allowed", b"only GET\n"),
        (b"GET / HTTP/1.1", b"404 Not Found", b"try /metrics\n"),
        (b"\xff\xfe", b"404 Not Found", b"try /metrics\n"),
    ],
)
async def test_what_is_answered(
    server: MetricsServer, request_line: bytes, status: bytes, body: bytes
) -> None:
    peer = await connected(server, request_line + b"\r\nHost: localhost\r\n")
    peer[1].write(b"\r\n")
    head, _, rest = (await rest_of(peer)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 " + status) and rest == body


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (b"Host: localhost:8080", b"200 OK"),
        (b"host:LOCALHOST", b"200 OK"),
        (b"Host: 127.0.0.1:8080", b"200 OK"),
        (b"Host: [::1]:8080", b"200 OK"),
        (b"Host: 192.168.1.7", b"200 OK"),
        (b"Host: broker-0.EXAMPLE.:8080", b"200 OK"),
        (b"Host: rebound.example:8080", b"403 Forbidden"),
        (b"Host: 127.0.0.1.rebound.example", b"403 Forbidden"),
        (b"Host: localhost.rebound.example", b"403 Forbidden"),
        (b"Host:", b"403 Forbidden"),
        (b"Host: [::1", b"200 OK"),
        (b"Host: \xff\xfe", b"403 Forbidden"),
        (b"Host: localhost\r\nHost: rebound.example", b"400 Bad Request"),
        (b"Accept: text/plain", b"400 Bad Request"),
    ],
)
async def test_only_by_our_names(server: MetricsServer, lines: bytes, status: bytes) -> None:
    """A page whose name was made to point here sends that name."""
    found, body = await asked(server, b"GET /metrics HTTP/1.1\r\n" + lines + b"\r\n\r\n")
    assert found == b"HTTP/1.1 " + status
    assert (body == b"numbers") == (status == b"200 OK")


async def test_an_old_client_needs_no_host(server: MetricsServer) -> None:
    assert await asked(server, b"GET /metrics HTTP/1.0\r\n\r\n") == (b"HTTP/1.1 200 OK", b"numbers")


async def test_half_sent_requests_make_way(server: MetricsServer) -> None:
    rude = [await connected(server, b"GET /metrics HTTP/1.1\r\nX: ") for _ in range(40)]
    for _ in range(3):
        assert await asked(server, GET) == (b"HTTP/1.1 200 OK", b"numbers")
    ended = await asyncio.wait_for(rude[0][0].read(), WAIT_S)
    assert ended == b"", "the oldest went"
    for _, writer in rude:
        writer.close()


async def test_a_half_sent_request_ends_by_itself(
    server: MetricsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.broker.metrics.http._HEAD_TIMEOUT_S", 0.05)
    assert await rest_of(await connected(server, b"GET /metrics HTTP/1.1\r\n")) == b""


async def test_those_who_are_answered_keep_their_places(
    server: MetricsServer, numbers: Numbers
) -> None:
    peers = [await connected(server, GET) for _ in range(MAX_CONNECTIONS + 8)]
    answers = await asyncio.gather(*map(rest_of, peers))
    assert all(answer.endswith(b"numbers") for answer in answers[:1])
    assert all(answer == b"" or answer.endswith(b"numbers") for answer in answers)


async def test_one_text_for_all_who_ask_meanwhile(server: MetricsServer, numbers: Numbers) -> None:
    answers = await asyncio.gather(
        *(server.answer(GET.removesuffix(b"\r\n\r\n")) for _ in range(10))
    )
    assert all(answer.endswith(b"numbers") for answer in answers)
    assert (numbers.begun, numbers.steps) == (1, STEPS)


async def test_others_have_their_turn_between_steps(
    server: MetricsServer, numbers: Numbers
) -> None:
    answer = asyncio.ensure_future(server.answer(GET.removesuffix(b"\r\n\r\n")))
    seen = set()
    while not answer.done():
        await asyncio.sleep(0)
        seen.add(numbers.steps)
    assert len(seen) >= STEPS


async def test_a_head_without_an_end(server: MetricsServer) -> None:
    assert await rest_of(await connected(server, b"x" * (MAX_HEAD_BYTES + 1))) == b""


async def test_numbers_that_cannot_be_had(
    server: MetricsServer, numbers: Numbers, caplog: pytest.LogCaptureFixture
) -> None:
    numbers.fails = True
    assert (await asked(server, GET))[0] == b"HTTP/1.1 500 Internal Server Error"
    assert "the metrics could not be collected" in caplog.text
    numbers.fails = False
    assert (await asked(server, GET))[0] == b"HTTP/1.1 200 OK"
