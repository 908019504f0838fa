"""The broker's listener over real sockets: order, bounds, bad input, idle peers."""

from __future__ import annotations

import asyncio
import inspect
import logging
import struct
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.bounds.turns import Turns
from ottla.broker import handlers
from ottla.broker.context.listener_roles import ListenerRoles
from ottla.broker.context.request import CloseConnection
from ottla.broker.network.connection import ClientConnection
from ottla.broker.network.intake import READ_AHEAD_BYTES
from ottla.broker.network.limits import ConnectionQuotas
from ottla.broker.network.server import BrokerServer
from ottla.broker.quotas.connection_rates import ConnectionRates
from ottla.broker.quotas.entities import Entity
from ottla.client.connection import Connection
from ottla.config.broker import BrokerConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.runtime import system_runtime
from ottla.types import Endpoint
from ottla.wire import framing
from ottla.wire import messages as m

HOST = "127.0.0.1"
WRITELINES_NEVER_PAUSES = {
    *((3, 12, patch) for patch in range(9)),
    *((3, 13, patch) for patch in range(2)),
}


def _config(**overrides: str) -> BrokerConfig:
    properties = {"zookeeper.connect": "127.0.0.1:2181", "broker.id": "1"}
    return BrokerConfig.from_properties(
        properties | {name.replace("_", "."): value for name, value in overrides.items()}
    )


def _services() -> Any:
    """None but those that a connection itself looks at; the handlers here need no others."""
    return SimpleNamespace(
        authorizer=None,
        listener_roles=ListenerRoles(),
        request_metrics=None,
        client_quotas=None,
        turns=Turns(),
        replica_manager=SimpleNamespace(
            appends=SimpleNamespace(partitions=SimpleNamespace(get=lambda _: None))
        ),
        groups=SimpleNamespace(
            heartbeat=lambda *_: ErrorCode.UNKNOWN_MEMBER_ID,
            offsets=SimpleNamespace(max_metadata=4096),
        ),
    )


async def _open(server: BrokerServer) -> Connection:
    return await Connection.open(system_runtime().network, HOST, server.port, client_id="test")


StartServer = Callable[..., Awaitable[BrokerServer]]


@pytest.fixture
async def start() -> AsyncIterator[StartServer]:
    servers = []

    async def start_server(*, ready: bool = True, **overrides: str) -> BrokerServer:
        server = BrokerServer(
            system_runtime(), _config(**overrides), Endpoint("PLAINTEXT", HOST, 0)
        )
        await server.open()
        servers.append(server)
        if ready:
            server.start_processing(_services())
        return server

    yield start_server
    for server in servers:
        await server.close()


@pytest.fixture
def route(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Any], None]:
    """Puts another handler behind a route."""
    monkeypatch.setattr(handlers, "_loaded", {})

    def put(name: str, handle: Any) -> None:
        found = next(r for r in handlers.ROUTES if r.name == name)
        handlers._loaded[found.api_key] = handlers.LoadedRoute(
            found, handle, getattr(m, f"{name}Request"), getattr(m, f"{name}Response")
        )

    return put


async def test_api_versions_lists_every_route(start: StartServer) -> None:
    server = await start()
    connection = await _open(server)
    for version in range(5):
        answer = await connection.send(
            m.ApiVersionsRequest(client_software_name="t", client_software_version="1"), version
        )
        listed = [(key.api_key, key.min_version, key.max_version) for key in answer.api_keys]
        assert listed == [(r.api_key, r.min_version, r.max_version) for r in handlers.ROUTES]


async def test_unknown_api_versions_version_is_answered_in_v0_form(start: StartServer) -> None:
    server = await start()
    reader, writer = await asyncio.open_connection(HOST, server.port)
    body = struct.pack(">hhih", 18, 77, 5, -1) + b"\x00whatever this version holds"
    writer.write(struct.pack(">i", len(body)) + body)
    size = struct.unpack(">i", await reader.readexactly(4))[0]
    frame = await reader.readexactly(size)
    assert struct.unpack_from(">i", frame)[0] == 5
    answer, _ = m.ApiVersionsResponse.decode(frame, 0, 4)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(k.api_key, k.min_version, k.max_version) for k in answer.api_keys] == [(18, 0, 4)]
    writer.close()


async def test_bad_software_name_is_refused(start: StartServer) -> None:
    server = await start()
    connection = await _open(server)
    answer = await connection.send(
        m.ApiVersionsRequest(client_software_name="no spaces", client_software_version="1"), 3
    )
    assert answer.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        struct.pack(">i", -1),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">ihh", 4, 18, 0),  # too short for a header
        struct.pack(">ihhih", 10, 999, 0, 1, -1),  # no such API
        struct.pack(">ihhih", 10, 3, 99, 1, -1),  # no such version
        struct.pack(">ihhihi", 14, 3, 1, 1, -1, 2**31 - 1),  # an array longer than the frame
        struct.pack(">ihhih", 14, 3, 1, 1, 500) + b"abcd",  # a client id longer than the frame
        struct.pack(">ihhih", 12, 3, 1, 1, 2) + b"\xff\xfe",  # a client id that is not UTF-8
    ],
)
async def test_bad_bytes_close_the_connection_with_one_log_line(
    start: StartServer, caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    server = await start()
    reader, writer = await asyncio.open_connection(HOST, server.port)
    with caplog.at_level(logging.INFO):
        writer.write(sent)
        assert await asyncio.wait_for(reader.read(), 2) == b""
    lines = [r for r in caplog.records if r.name.startswith("ottla.broker")]
    assert len(lines) == 1
    assert "closing connection from 127.0.0.1" in lines[0].getMessage()
    assert lines[0].exc_info is None
    writer.close()


async def test_answers_before_a_bad_request_are_still_given(start: StartServer) -> None:
    """All in one packet: the answers wait to leave together, and the last frame ends it all."""
    server = await start()
    reader, writer = await asyncio.open_connection(HOST, server.port)
    good = [struct.pack(">hhih", 18, 0, number, -1) for number in (1, 2)]
    bad = struct.pack(">hhih", 999, 0, 3, -1)
    writer.write(b"".join(struct.pack(">i", len(body)) + body for body in (*good, bad)))
    async with asyncio.timeout(60):
        received = await reader.read(-1)
    for number in (1, 2):
        size, correlation_id = struct.unpack_from(">ii", received)
        assert correlation_id == number
        received = received[4 + size :]
    assert received == b""
    writer.close()


async def test_answers_keep_the_order_of_requests(start: StartServer, route: Any) -> None:
    running = 0
    most = 0

    async def slow_then_fast(ctx: Any, request: Any) -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.05 if request.generation_id == 0 else 0)
        running -= 1
        return m.HeartbeatResponse(error_code=request.generation_id)

    route("Heartbeat", slow_then_fast)
    connection = await _open(await start())
    futures = [
        connection.send_nowait(m.HeartbeatRequest(group_id="g", generation_id=i), 4)
        for i in range(20)
    ]
    answers = await asyncio.gather(*futures)
    assert [answer.error_code for answer in answers] == list(range(20))
    assert most == 1


async def test_eager_handler_may_wait_or_not(start: StartServer, route: Any) -> None:
    async def every_other_waits(ctx: Any, request: Any) -> Any:
        if request.max_wait_ms % 2:
            await asyncio.sleep(0.01)
            await asyncio.sleep(0)
        return m.FetchResponse(session_id=request.max_wait_ms)

    route("Fetch", every_other_waits)
    connection = await _open(await start())
    futures = [connection.send_nowait(m.FetchRequest(max_wait_ms=i), 12) for i in range(10)]
    assert [(await future).session_id for future in futures] == list(range(10))


async def test_handler_errors_become_the_apis_error_form(start: StartServer, route: Any) -> None:
    async def refuse(ctx: Any, request: Any) -> Any:
        raise KafkaError(ErrorCode.NOT_COORDINATOR)

    async def break_down(ctx: Any, request: Any) -> Any:
        raise RuntimeError("a bug")

    async def break_after_wait(ctx: Any, request: Any) -> Any:
        await asyncio.sleep(0)
        raise RuntimeError("a bug")

    route("Heartbeat", refuse)
    route("Metadata", break_down)
    route("Fetch", break_after_wait)
    connection = await _open(await start())
    beat = await connection.send(m.HeartbeatRequest(group_id="g"), 4)
    assert beat.error_code == ErrorCode.NOT_COORDINATOR
    topics = [m.MetadataRequest.MetadataRequestTopic(name="a")]
    metadata = await connection.send(m.MetadataRequest(topics=topics), 9)
    assert [(t.name, t.error_code) for t in metadata.topics] == [("a", -1)]
    fetched = await connection.send(m.FetchRequest(), 12)
    assert fetched.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


async def test_an_answer_that_cannot_be_encoded_is_an_error_response(
    start: StartServer, route: Any
) -> None:
    async def wrong_type(ctx: Any, request: Any) -> Any:
        return m.HeartbeatResponse(error_code="no number")  # type: ignore[arg-type]

    route("Heartbeat", wrong_type)
    connection = await _open(await start())
    answer = await connection.send(m.HeartbeatRequest(group_id="g"), 4)
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def _produce_response(code: int) -> m.ProduceResponse:
    partition = m.ProduceResponse.PartitionProduceResponse(index=0, error_code=code)
    topic = m.ProduceResponse.TopicProduceResponse(name="t", partition_responses=[partition])
    return m.ProduceResponse(responses=[topic])


@pytest.mark.parametrize("failure", ["response", "kafka error", "close"])
async def test_failed_produce_without_acks_closes(
    start: StartServer, route: Any, failure: str
) -> None:
    async def produce(ctx: Any, request: Any) -> Any:
        if failure == "response":
            return _produce_response(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if failure == "close":
            raise CloseConnection("not written")
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    route("Produce", produce)
    server = await start()
    reader, writer = await asyncio.open_connection(HOST, server.port)
    writer.writelines(framing.encode_request(m.ProduceRequest(acks=0), 9, 1, "t"))
    assert await asyncio.wait_for(reader.read(), 2) == b""
    writer.close()


async def test_produce_without_acks_gets_no_bytes(start: StartServer, route: Any) -> None:
    async def produce(ctx: Any, request: Any) -> Any:
        return _produce_response(0)

    route("Produce", produce)
    connection = await _open(await start())
    connection.send_without_answer(m.ProduceRequest(acks=0), 9)
    # Any byte sent for the first request would break the match of this answer.
    assert (await connection.send(m.ProduceRequest(acks=1), 9)).responses[0].name == "t"


@pytest.mark.skipif(
    sys.version_info[:3] in WRITELINES_NEVER_PAUSES,
    reason="CVE-2024-12254 in this Python's own event loop; brokers run on uvloop",
)
async def test_peer_that_does_not_read_is_not_served_further(
    start: StartServer, route: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = 0
    blocked = asyncio.Event()

    async def big_metadata(ctx: Any, request: Any) -> Any:
        nonlocal served
        served += 1
        return m.MetadataResponse(cluster_id="x" * 30_000)

    def note_blocked(connection: ClientConnection) -> None:
        pause_writing(connection)
        blocked.set()

    pause_writing = ClientConnection.pause_writing
    monkeypatch.setattr(ClientConnection, "pause_writing", note_blocked)

    route("Metadata", big_metadata)
    server = await start()
    _reader, writer = await asyncio.open_connection(HOST, server.port, limit=1024)
    request = b"".join(framing.encode_request(m.MetadataRequest(topics=[]), 9, 1, "t"))
    writer.write(request * 20_000)  # 600 MB of answers
    async with asyncio.timeout(60):
        await blocked.wait()
    before = served
    good = await _open(server)
    assert (await good.send(m.ApiVersionsRequest(), 0, timeout_ms=60_000)).error_code == 0
    assert served == before, "nothing more until it reads"
    # Bounded by the kernel's buffers and one high-water mark, far below what was asked for.
    assert served < 2_000
    assert len(request) * 20_000 > READ_AHEAD_BYTES
    writer.transport.abort()


async def test_connections_before_ready_wait(start: StartServer) -> None:
    server = await start(ready=False)
    connection = await _open(server)
    answer = connection.send_nowait(m.ApiVersionsRequest(), 0)
    await asyncio.sleep(0.05)
    assert not answer.done()
    server.start_processing(_services())
    assert (await asyncio.wait_for(answer, 2)).error_code == 0


async def test_half_a_frame_and_silence_is_closed(start: StartServer) -> None:
    server = await start(connections_max_idle_ms="120")
    reader, writer = await asyncio.open_connection(HOST, server.port)
    writer.write(struct.pack(">i", 100) + b"half")
    assert await asyncio.wait_for(reader.read(), 2) == b""
    await asyncio.sleep(0)
    assert server.connection_count == 0
    writer.close()


async def test_a_waiting_request_is_not_idle(start: StartServer, route: Any) -> None:
    async def long_poll(ctx: Any, request: Any) -> Any:
        await asyncio.sleep(0.4)
        return m.FetchResponse()

    route("Fetch", long_poll)
    connection = await _open(await start(connections_max_idle_ms="120"))
    assert (await connection.send(m.FetchRequest(), 12)).error_code == 0


async def test_connection_limits(start: StartServer) -> None:
    server = await start(max_connections_per_ip="2")
    kept = [await _open(server) for _ in range(2)]
    reader, writer = await asyncio.open_connection(HOST, server.port)
    assert await asyncio.wait_for(reader.read(), 2) == b""
    writer.close()
    kept[0].close()
    await asyncio.sleep(0.02)
    again = await _open(server)
    assert (await again.send(m.ApiVersionsRequest(), 0)).error_code == 0


async def test_a_lower_limit_ends_the_most_silent_connections(start: StartServer) -> None:
    server = await start()
    silent, lively = await _open(server), await _open(server)
    assert (await silent.send(m.ApiVersionsRequest(), 0)).error_code == 0
    assert (await lively.send(m.ApiVersionsRequest(), 0)).error_code == 0
    server.reconfigure(_config(max_connections="1"))
    with pytest.raises(ConnectionError):
        await silent.send(m.ApiVersionsRequest(), 0)
    assert (await lively.send(m.ApiVersionsRequest(), 0)).error_code == 0
    assert server.connection_count == 1


async def test_many_idle_connections_leave_the_broker_responsive(start: StartServer) -> None:
    server = await start()
    idle = await asyncio.gather(*(asyncio.open_connection(HOST, server.port) for _ in range(300)))
    connection = await _open(server)
    assert (await connection.send(m.ApiVersionsRequest(), 0)).error_code == 0
    assert server.connection_count == 301
    for _, writer in idle:
        writer.close()


async def _close_amid(server: BrokerServer, request: Any, version: int) -> None:
    """Stops it while a request is served."""
    connection = await _open(server)
    answer = connection.send_nowait(request, version)
    await asyncio.sleep(0.05)
    await server.close()
    with pytest.raises(ConnectionError):
        await asyncio.wait_for(answer, 2)


async def test_closing_the_server_ends_connections_and_handlers(
    start: StartServer, route: Any
) -> None:
    cancelled = asyncio.Event()

    async def for_ever(ctx: Any, request: Any) -> Any:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    route("Fetch", for_ever)
    server = await start()
    await _close_amid(server, m.FetchRequest(), 12)
    assert cancelled.is_set()
    assert server.connection_count == 0


@pytest.mark.filterwarnings("error")
async def test_a_request_that_comes_with_the_stop_leaves_nothing_behind(
    start: StartServer, route: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelled: list[Any] = []
    begin = ClientConnection._begin

    async def handle(ctx: Any, request: Any) -> Any:
        raise AssertionError("it had no turn")

    def begin_amid_the_stop(self: ClientConnection, frame: memoryview) -> None:
        begin(self, frame)
        # What the stop does, before the request's task has its first turn.
        cancelled.append(self._running)
        self.cancel()

    monkeypatch.setattr(ClientConnection, "_begin", begin_amid_the_stop)
    route("CreateTopics", handle)
    await _close_amid(await start(), m.CreateTopicsRequest(), 5)
    assert [inspect.getcoroutinestate(each) for each in cancelled] == [inspect.CORO_CLOSED]


async def test_above_the_rate_of_connections_one_waits_for_its_turn(start: StartServer) -> None:
    # One connection is free, the next has its turn a second later.
    server = await start(max_connection_creation_rate="1", quota_window_num="2")
    loop = asyncio.get_running_loop()
    first, second = await _open(server), await _open(server)
    begun = loop.time()
    waiting = asyncio.ensure_future(second.send(m.ApiVersionsRequest(), 0, timeout_ms=30_000))
    await first.send(m.ApiVersionsRequest(), 0, timeout_ms=30_000)
    assert not waiting.done() or loop.time() - begun > 0.5
    assert (await waiting).api_keys


async def test_above_the_rate_of_its_address_a_connection_is_closed_unread() -> None:
    config = _config()
    rates = ConnectionRates(config)
    rates.set(Entity(None, None, HOST), {"connection_creation_rate": "0"})
    quotas = ConnectionQuotas(config, None, rates)
    server = BrokerServer(system_runtime(), config, Endpoint("PLAINTEXT", HOST, 0), quotas)
    await server.open()
    server.start_processing(_services())
    reader, writer = await asyncio.open_connection(HOST, server.port)
    writer.write(struct.pack(">ihhih", 10, 18, 0, 1, -1))
    assert await asyncio.wait_for(reader.read(), 30) == b""
    writer.close()
    await server.close()
    assert server.connection_count == 0
