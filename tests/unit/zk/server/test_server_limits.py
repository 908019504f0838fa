"""The server on a real socket, and clients that ask for more than their share."""

from __future__ import annotations

import asyncio
import struct

import pytest

from ottla.metadata.store import OPEN_ACL, Acl, CreateMode, EventType
from ottla.runtime import system_runtime
from ottla.zk import jute
from ottla.zk.paths import MAX_DEPTH, MAX_PATH_CHARS
from ottla.zk.server import pipeline as pipeline_module
from ottla.zk.server import requests as requests_module
from ottla.zk.server.acl import MAX_CREDENTIAL_BYTES, MAX_IDENTITIES, digest_identity
from ottla.zk.server.server import MAX_CONNECT_BYTES, ZooKeeperServer
from ottla.zk.server.sessions import SessionLimits
from tests.support.store_attacks import (
    add_watch_body,
    auth_body,
    connect_frame,
    create_body,
    multi_body,
    multi_read_body,
    path_body,
    request,
    set_watches_body,
)
from tests.support.zk.polling import until

BAD_ARGUMENTS, MARSHALLING, INVALID_ACL, AUTH_FAILED, NO_NODE = -8, -5, -114, -115, -101
MB = 1 << 20


class Raw:
    def __init__(self, port: int) -> None:
        self._port = port
        self._xid = 0

    async def __aenter__(self) -> Raw:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    async def connect(self, timeout_ms: int = 30_000) -> int:
        self.writer.write(connect_frame(timeout_ms))
        return jute.CONNECT_RESPONSE.unpack_from(await self.packet())[2]

    async def packet(self) -> bytes:
        length = struct.unpack(">i", await self.reader.readexactly(4))[0]
        return await self.reader.readexactly(length)

    async def answer(self) -> tuple[int, int, bytes]:
        packet = await self.packet()
        xid, _, error = jute.REPLY_HEADER.unpack_from(packet)
        return xid, error, packet[16:]

    async def ask(self, operation: int, body: bytes = b"") -> tuple[int, bytes]:
        """Error and body; events before the answer are passed over."""
        self._xid += 1
        self.writer.write(request(self._xid, operation, body))
        async with asyncio.timeout(30):
            while True:
                xid, error, answer = await self.answer()
                if xid == self._xid:
                    return error, answer

    async def error(self, operation: int, body: bytes = b"") -> int:
        return (await self.ask(operation, body))[0]

    async def is_closed(self) -> bool:
        async with asyncio.timeout(10):
            try:
                while await self.reader.read(1 << 16):
                    pass
            except ConnectionResetError:
                pass
        return True


def a_server(**more: object) -> ZooKeeperServer:
    limits = SessionLimits.of(100, 100, 60_000)
    return ZooKeeperServer(system_runtime(), None, limits=limits, **more)  # type: ignore[arg-type]


@pytest.fixture
async def server():
    made = a_server()
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def raw(server):
    async with Raw(server.port) as client:
        await client.connect()
        yield client


# --- answers ---


async def test_a_multi_read_is_measured_before_it_is_made(raw):
    await raw.ask(jute.OP_CREATE, create_body("/big", bytes(MB - 200)))
    error, body = await raw.ask(jute.OP_MULTI_READ, multi_read_body(["/big"] * 32))
    assert error == 0, "as many as our own client asks for"
    assert len(body) > 31 * MB
    assert await raw.error(jute.OP_MULTI_READ, multi_read_body(["/big"] * 40)) == MARSHALLING
    assert await raw.error(jute.OP_EXISTS, path_body("/big")) == 0, "the connection goes on"


async def test_a_multi_read_of_lists_counts_too(raw, monkeypatch):
    monkeypatch.setattr(requests_module, "MAX_ANSWER_BYTES", 1000)
    for number in range(20):
        await raw.ask(jute.OP_CREATE, create_body(f"/child-{number:02}"))
    reads = multi_read_body(["/"] * 3, jute.OP_GET_CHILDREN)
    assert await raw.error(jute.OP_MULTI_READ, reads) == 0
    reads = multi_read_body(["/"] * 5, jute.OP_GET_CHILDREN)
    assert await raw.error(jute.OP_MULTI_READ, reads) == MARSHALLING


@pytest.mark.parametrize(
    ("operation", "body"),
    [
        (jute.OP_GET_CHILDREN, path_body("/")),
        (jute.OP_GET_CHILDREN2, path_body("/")),
        (jute.OP_GET_EPHEMERALS, jute.write_string("/")),
    ],
)
async def test_a_list_that_is_too_long_for_an_answer(raw, monkeypatch, operation, body):
    for number in range(60):
        await raw.ask(jute.OP_CREATE, create_body(f"/node-{number:03}", b"", CreateMode.EPHEMERAL))
    assert await raw.error(operation, body) == 0
    monkeypatch.setattr(requests_module, "MAX_ANSWER_BYTES", 600)
    assert await raw.error(operation, body) == MARSHALLING


async def test_answers_are_made_as_they_are_taken(server, raw):
    await raw.ask(jute.OP_CREATE, create_body("/big", bytes(MB - 200)))
    [connection] = server.connections
    count = 200
    raw.writer.write(
        b"".join(request(n, jute.OP_GET_DATA, path_body("/big")) for n in range(1, count + 1))
    )
    async with Raw(server.port) as other:
        await other.connect()
        for _ in range(20):
            assert await other.error(jute.OP_EXISTS, path_body("/")) == 0
        unread = connection._unsent + connection._transport.get_write_buffer_size()
        assert unread < 4 * MB
        assert connection._rest, "the others wait"
    for number in range(1, count + 1):
        xid, error, body = await raw.answer()
        assert (xid, error, len(body)) == (number, 0, 4 + MB - 200 + 68)


async def test_who_reads_no_events_is_cut_off(server, raw, monkeypatch):
    monkeypatch.setattr("ottla.zk.server.packets.MAX_UNREAD_BYTES", 1 << 18)
    await raw.ask(jute.OP_ADD_WATCH, add_watch_body("/", recursive=True))
    async with Raw(server.port) as writer:
        await writer.connect()
        path = "/" + "n" * 8000
        await writer.ask(jute.OP_CREATE, create_body(path))
        set_data = jute.write_string(path) + jute.write_buffer(b"") + jute.INT.pack(-1)
        for _ in range(2000):
            await writer.ask(jute.OP_SET_DATA, set_data)
            if len(server.connections) == 1:
                break
    await until(lambda: not server.connections)


# --- what is asked for ---


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/" + "x" * (MAX_PATH_CHARS - 1), 0),
        ("/" + "x" * MAX_PATH_CHARS, BAD_ARGUMENTS),
        ("/" + "é" * (MAX_PATH_CHARS - 1), 0),
        ("/" + "x" * 900_000, BAD_ARGUMENTS),
        ("/" + "\U0001f600" * 20_000, BAD_ARGUMENTS),
    ],
)
async def test_paths_are_bounded(raw, path, error):
    assert await raw.error(jute.OP_CREATE, create_body(path)) == error
    assert await raw.error(jute.OP_EXISTS, path_body(path)) in (0, NO_NODE)


async def test_a_number_at_the_end_counts_too(raw):
    path = "/" + "x" * (MAX_PATH_CHARS - 5)
    sequential = create_body(path, b"", CreateMode.PERSISTENT_SEQUENTIAL)
    assert await raw.error(jute.OP_CREATE, sequential) == BAD_ARGUMENTS


async def test_depth_is_bounded(raw):
    path = ""
    for level in range(1, MAX_DEPTH + 2):
        path += "/abc"
        error = await raw.error(jute.OP_CREATE, create_body(path))
        assert error == (0 if level <= MAX_DEPTH else BAD_ARGUMENTS)


@pytest.mark.parametrize(
    ("operation", "body"),
    [
        (jute.OP_EXISTS, path_body("/" + "x" * MAX_PATH_CHARS, watch=True)),
        (jute.OP_ADD_WATCH, add_watch_body("/" + "x" * MAX_PATH_CHARS, recursive=True)),
        (jute.OP_ADD_WATCH, add_watch_body("/x" * (MAX_DEPTH + 1), recursive=False)),
        (jute.OP_SET_WATCHES, set_watches_body(exist=["/" + "x" * MAX_PATH_CHARS])),
    ],
)
async def test_watched_paths_are_bounded(server, raw, operation, body):
    assert await raw.error(operation, body) == BAD_ARGUMENTS
    assert len(server.engine.watches) == 0


async def test_an_acl_has_so_many_entries(raw):
    entries = [Acl(31, "ip", f"10.0.{n >> 8}.{n & 255}") for n in range(101)]
    assert await raw.error(jute.OP_CREATE, create_body("/a", b"", 0, entries[:100])) == 0
    assert await raw.error(jute.OP_CREATE, create_body("/b", b"", 0, entries)) == INVALID_ACL
    set_acl = jute.write_string("/") + jute.write_acls(tuple(entries)) + jute.INT.pack(-1)
    assert await raw.error(jute.OP_SET_ACL, set_acl) == INVALID_ACL
    multi = multi_body([(jute.OP_CREATE, create_body("/c", b"", 0, entries))])
    assert await raw.error(jute.OP_MULTI, multi) == INVALID_ACL


async def test_an_address_of_an_acl_is_an_address(raw):
    long = Acl(31, "ip", "fe80::1%" + "a" * 100)
    assert await raw.error(jute.OP_CREATE, create_body("/a", b"", 0, [long])) == INVALID_ACL


async def test_a_connection_proves_few_identities(server, raw):
    for _ in range(3):
        for number in range(MAX_IDENTITIES - 1):  # its address is one already
            assert await raw.error(jute.OP_AUTH, auth_body("digest", b"u%d:p" % number)) == 0
    [connection] = server.connections
    assert len(connection.identities) == MAX_IDENTITIES
    assert await raw.error(jute.OP_AUTH, auth_body("digest", b"one-more:p")) == AUTH_FAILED
    assert await raw.is_closed()


@pytest.mark.parametrize("credential", [b"u:" + b"p" * MAX_CREDENTIAL_BYTES, b"nobody", b""])
async def test_a_credential_is_short_and_has_a_colon(raw, credential):
    assert await raw.error(jute.OP_AUTH, auth_body("digest", credential)) == AUTH_FAILED
    assert await raw.is_closed()


async def test_auth_in_a_multi_does_not_grow_beyond_measure(server, raw):
    for number in range(MAX_IDENTITIES - 1):
        credential = b"u%d" % number + b"u" * 900 + b":p"
        assert await raw.error(jute.OP_AUTH, auth_body("digest", credential)) == 0
    auth = [Acl(31, "auth", "")]
    creates = [(jute.OP_CREATE, create_body(f"/n{n}", b"", 0, auth)) for n in range(5000)]
    nodes = len(server.engine.tree.nodes)
    error, body = await raw.ask(jute.OP_MULTI, multi_body(creates))
    assert error == 0
    assert jute.INT.pack(BAD_ARGUMENTS) in body
    assert len(server.engine.tree.nodes) == nodes, "nothing of it was done"
    assert await raw.error(jute.OP_MULTI, multi_body(creates[:100])) == 0


async def test_a_stat_whose_count_of_children_has_wrapped(server, raw):
    server.engine.tree.nodes["/"].creations = (1 << 31) - 2
    name = create_body("/n", b"", CreateMode.PERSISTENT_SEQUENTIAL)
    assert await raw.ask(jute.OP_CREATE, name) == (0, jute.write_string("/n2147483646"))
    assert await raw.ask(jute.OP_CREATE, name) == (0, jute.write_string("/n2147483647"))
    assert await raw.ask(jute.OP_CREATE, name) == (0, jute.write_string("/n-2147483648"))
    assert await raw.error(jute.OP_EXISTS, path_body("/")) == 0


# --- long work ---


async def test_watches_set_again_are_set_once_and_in_steps(server, raw):
    paths = [f"/n{n}" for n in range(5000)] * 3
    assert await raw.error(jute.OP_SET_WATCHES, set_watches_body(exist=paths, zxid=1)) == 0
    assert len(server.engine.watches) == 5000
    await raw.ask(jute.OP_CREATE, create_body("/n7"))
    # Missing ones are told to be deleted, each once, and before the answer.
    raw.writer.write(request(-8, jute.OP_SET_WATCHES, set_watches_body(data=["/a", "/b"] * 50)))
    raw.writer.write(request(77, jute.OP_EXISTS, path_body("/")))
    seen = []
    while not seen or seen[-1] != 77:
        seen.append((await raw.answer())[0])
    assert seen == [-1, -1, -8, 77]


async def test_watches_set_again_tell_nothing_of_nodes_that_may_not_be_read(server, raw):
    secret = (Acl(31, "digest", digest_identity(b"a:b").id),)
    session = server.engine.open_session(1000)
    server.engine.create(session, (), "/safe", b"", secret, 0)
    paths = ["/safe"]
    body = set_watches_body(data=paths, exist=paths, child=paths, zxid=0)
    raw.writer.write(request(-8, jute.OP_SET_WATCHES, body))
    assert (await raw.answer())[:2] == (-8, 0), "no event came before it"


async def test_a_count_of_all_below_is_right_and_gives_turns(server, raw):
    for path in ("/p", "/p/a", "/p/a/b", "/p/c", "/pp"):
        await raw.ask(jute.OP_CREATE, create_body(path))
    for path, count in (("/p", 3), ("/p/c", 0), ("/", 8)):
        body = jute.write_string(path)
        assert await raw.ask(jute.OP_GET_ALL_CHILDREN_NUMBER, body) == (0, jute.INT.pack(count))
    missing = jute.write_string("/none")
    assert await raw.error(jute.OP_GET_ALL_CHILDREN_NUMBER, missing) == NO_NODE


async def test_a_client_that_goes_in_the_middle_of_a_long_request(server):
    session = server.engine.open_session(60_000)
    for number in range(20_000):
        server.engine.create(session, (), f"/n{number}", b"", OPEN_ACL, 0)
    async with Raw(server.port) as client:
        await client.connect()
        for xid in range(5):
            body = set_watches_body(exist=[f"/m{xid}{n}" for n in range(10_000)])
            client.writer.write(request(xid, jute.OP_SET_WATCHES, body))
        await until(lambda: len(server.engine.watches) > 0)
    await until(lambda: not server.connections and not len(server.engine.turns))
    assert len(server.engine.watches) == 0


async def test_requests_of_one_client_keep_their_order_across_turns(server, raw):
    body = set_watches_body(exist=[f"/m{n}" for n in range(3000)])
    packets, expected = [], []
    for xid in range(1, 61):
        operation = jute.OP_SET_WATCHES if xid % 3 == 0 else jute.OP_EXISTS
        packets.append(
            request(xid, operation, body if xid % 3 == 0 else path_body("/none", watch=True))
        )
        expected.append(xid)
    raw.writer.write(b"".join(packets))
    assert [(await raw.answer())[0] for _ in expected] == expected


# --- memory ---


async def test_who_holds_most_goes_when_all_hold_too_much():
    server = a_server(max_held_bytes=2_500_000)
    await server.start()
    async with Raw(server.port) as one, Raw(server.port) as two, Raw(server.port) as three:
        for client in (one, two, three):
            await client.connect()
        first = next(iter(server.connections))
        for client, size in ((one, 900_000), (two, 1_000_000)):
            client.writer.write(struct.pack(">i", jute.MAX_PACKET_BYTES) + bytes(size))
        await until(lambda: server.holdings.total > 1_890_000)
        paths = [f"/{n:05}" for n in range(2000)]
        assert await three.error(jute.OP_SET_WATCHES, set_watches_body(exist=paths)) == 0
        assert await two.is_closed()
        assert first in server.connections
        assert server.holdings.total <= 2_500_000
        assert await three.error(jute.OP_EXISTS, path_body("/")) == 0
    await until(lambda: not server.connections)
    assert server.holdings.total == 0
    await server.stop()


async def test_a_request_for_a_session_is_short(server):
    async with Raw(server.port) as client:
        client.writer.write(struct.pack(">i", MAX_CONNECT_BYTES + 1))
        assert await client.is_closed()


async def test_writes_wait_while_the_disk_catches_up(tmp_path, monkeypatch):
    monkeypatch.setattr(pipeline_module, "MAX_UNWRITTEN_BYTES", 1 << 18)
    server = ZooKeeperServer(system_runtime(), tmp_path)
    await server.start()
    most = 0

    def log(*arguments, logged=server.engine.pipeline.log):
        nonlocal most
        logged(*arguments)
        journal = server.engine.pipeline._journal
        most = max(most, journal.pending_bytes + server.engine.pipeline._writing_bytes)

    monkeypatch.setattr(server.engine.pipeline, "log", log)
    async with Raw(server.port) as client:
        await client.connect()
        await client.ask(jute.OP_CREATE, create_body("/w"))
        body = jute.write_string("/w") + jute.write_buffer(bytes(100_000)) + jute.INT.pack(-1)
        client.writer.write(b"".join(request(n, jute.OP_SET_DATA, body) for n in range(100, 200)))
        assert [(await client.answer())[0] for _ in range(100)] == list(range(100, 200))
    assert (1 << 17) < most < (1 << 18) + 200_000
    await server.stop()


# --- connections and sessions ---


async def test_an_address_has_so_many_connections_and_the_log_says_so_once(caplog):
    server = a_server(max_client_connections=3)
    await server.start()
    async with Raw(server.port) as one, Raw(server.port), Raw(server.port):
        await one.connect()
        await until(lambda: len(server.connections) == 3)
        for _ in range(20):
            async with Raw(server.port) as refused:
                assert await refused.is_closed()
        assert await one.error(jute.OP_EXISTS, path_body("/")) == 0
    await until(lambda: not server.connections)
    async with Raw(server.port) as again:
        assert await again.connect()
    lines = [line for line in caplog.messages if "refused" in line]
    assert lines == [
        "a connection was refused: 127.0.0.1 has 3 connections, which is the limit (maxClientCnxns)"
    ]
    await server.stop()


async def test_sessions_that_nobody_uses_make_room_for_new_ones():
    limits = SessionLimits(tick_ms=60_000, max_timeout_ms=60_000, max_sessions=20)
    server = ZooKeeperServer(system_runtime(), None, limits=limits)
    await server.start()
    async with Raw(server.port) as owner:
        owned = await owner.connect(60_000)
        await owner.ask(jute.OP_CREATE, create_body("/mine", b"", CreateMode.EPHEMERAL))
    await until(lambda: not server.connections)
    async with Raw(server.port) as user:
        used = await user.connect(60_000)
        for _ in range(100):
            async with Raw(server.port) as client:
                assert await client.connect(60_000)
        await until(lambda: len(server.connections) == 1)
        assert len(server.engine.sessions) <= 20
        assert server.engine.sessions.get(owned) is not None, "it owns a node"
        assert server.engine.sessions.get(used) is not None, "it has a connection"
        assert set(server.engine.tree.sessions) == {s.id for s in server.engine.sessions}
    await server.stop()


async def test_a_session_too_many_is_refused():
    server = ZooKeeperServer(system_runtime(), None, limits=SessionLimits(max_sessions=2))
    await server.start()
    async with Raw(server.port) as one, Raw(server.port) as two, Raw(server.port) as three:
        await one.connect()
        await two.connect()
        three.writer.write(connect_frame())
        assert await three.is_closed()
        assert await one.error(jute.OP_EXISTS, path_body("/")) == 0
    await server.stop()


@pytest.mark.parametrize("asked", [-(1 << 31), -1, 0, (1 << 31) - 1])
async def test_a_session_has_the_time_out_that_the_server_allows(server, asked):
    async with Raw(server.port) as client:
        session_id = await client.connect(asked)
        session = server.engine.sessions.get(session_id)
        assert session.timeout_ms == (60_000 if asked > 0 else 100)


async def test_a_client_that_is_to_go_and_does_not_read_is_gone_all_the_same(
    server, raw, monkeypatch
):
    monkeypatch.setattr("ottla.zk.server.server.SESSIONLESS_MS", 50)
    monkeypatch.setattr("ottla.zk.server.server.HOUSEKEEPING_S", 0.02)
    await raw.ask(jute.OP_CREATE, create_body("/big", bytes(MB - 200)))
    for xid in range(1, 30):
        raw.writer.write(request(xid, jute.OP_GET_DATA, path_body("/big")))
    [connection] = server.connections
    await until(lambda: connection._choked)
    connection.session_ended()
    await until(lambda: not server.connections, 20)


async def test_a_frame_in_many_pieces_is_not_copied_for_each(server, raw):
    """A megabyte in pieces of one byte would otherwise be a million megabytes."""
    [connection] = server.connections
    body = request(1, jute.OP_CREATE, create_body("/slow", bytes(300_000)))
    raw.writer.write(body[:-200])
    await until(lambda: len(connection._rest) == len(body) - 200)
    kept = connection._rest
    for position in range(len(body) - 200, len(body)):
        raw.writer.write(body[position : position + 1])
        await asyncio.sleep(0)
        if connection._rest:
            assert connection._rest is kept
    assert (await raw.answer())[:2] == (1, 0)


async def test_an_event_of_a_node_that_may_not_be_read_does_not_leave_the_server(server, raw):
    await raw.ask(jute.OP_ADD_WATCH, add_watch_body("/", recursive=True))
    session = server.engine.open_session(1000)
    secret = (Acl(31, "digest", digest_identity(b"a:b").id),)
    server.engine.create(session, (), "/safe", b"", secret, 0)
    server.engine.create(session, (), "/open", b"", OPEN_ACL, 0)
    xid, _, body = await raw.answer()
    assert xid == -1
    kind, _ = jute.EVENT_HEADER.unpack_from(body)
    path, _ = jute.read_string(body, 8, len(body))
    assert (kind, path) == (EventType.CREATED, "/open")
