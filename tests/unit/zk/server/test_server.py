"""The server on a real socket, spoken to byte by byte: bad input, sessions, words."""

from __future__ import annotations

import asyncio
import struct

import pytest

from ottla.metadata.store import OPEN_ACL, CreateMode
from ottla.runtime import DirInUse, system_runtime
from ottla.zk import jute
from ottla.zk.client import replies
from ottla.zk.server.options import StoreOptions
from ottla.zk.server.packets import MAX_UNSERVED_BYTES
from ottla.zk.server.records import DamagedFile
from ottla.zk.server.server import ZooKeeperServer, _Connection
from ottla.zk.server.sessions import SessionLimits
from ottla.zk.server.words import ALL_WORDS
from tests.support.zk.polling import until

AUTH_FAILED, MARSHALLING, UNIMPLEMENTED, NO_WATCHER = -115, -5, -6, -121


class Raw:
    """A client that says exactly what it is told to."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> Raw:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    def send(self, body: bytes) -> None:
        self.writer.write(jute.frame(body))

    def request(self, xid: int, operation: int, body: bytes = b"") -> None:
        self.send(jute.REQUEST_HEADER.pack(xid, operation) + body)

    async def packet(self) -> bytes:
        length = struct.unpack(">i", await self.reader.readexactly(4))[0]
        return await self.reader.readexactly(length)

    async def answer(self) -> tuple[int, int, bytes]:
        """xid, error, body."""
        packet = await self.packet()
        xid, _, error = jute.REPLY_HEADER.unpack_from(packet)
        return xid, error, packet[16:]

    async def connect(
        self,
        timeout_ms: int = 10_000,
        session_id: int = 0,
        password: bytes = bytes(16),
        zxid: int = 0,
    ) -> tuple[int, int, bytes]:
        """Negotiated time-out, session id, password."""
        self.send(
            jute.CONNECT_REQUEST.pack(0, zxid, timeout_ms, session_id)
            + jute.write_buffer(password)
            + b"\0"
        )
        packet = await self.packet()
        _, timeout, session = jute.CONNECT_RESPONSE.unpack_from(packet)
        return timeout, session, packet[20:36]

    async def is_closed(self) -> bool:
        async with asyncio.timeout(5):
            try:
                return await self.reader.read(1) == b""
            except ConnectionResetError:
                return True


@pytest.fixture
async def server(tmp_path):
    made = ZooKeeperServer(system_runtime(), tmp_path, limits=SessionLimits.of(100, 100, 60_000))
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def raw(server):
    async with Raw(server.port) as client:
        yield client


def path(text: str) -> bytes:
    return jute.write_string(text)


def create(name: str, mode: int = 0, data: bytes = b"") -> bytes:
    return path(name) + jute.write_buffer(data) + jute.write_acls(OPEN_ACL) + jute.INT.pack(mode)


@pytest.mark.parametrize(
    "garbage",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 0x100000) + b"x",
        struct.pack(">i", 0x7FFFFFFF),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        jute.frame(b""),
        jute.frame(b"short"),
        jute.frame(jute.CONNECT_REQUEST.pack(0, 0, 1000, 0) + jute.INT.pack(1000)),
        jute.frame(jute.CONNECT_REQUEST.pack(0, 1 << 40, 1000, 0) + jute.INT.pack(-1)),
        bytes(64),
        b"\xff" * 64,
    ],
)
async def test_garbage_closes_only_its_own_connection(server, raw, garbage):
    async with Raw(server.port) as healthy:
        await healthy.connect()
        raw.writer.write(garbage)
        assert await raw.is_closed()
        healthy.request(1, jute.OP_EXISTS, path("/") + b"\0")
        assert (await healthy.answer())[:2] == (1, 0)


async def test_an_oversize_packet_ends_a_session_connection_too(server, raw):
    await raw.connect()
    raw.writer.write(struct.pack(">i", jute.MAX_PACKET_BYTES + 1))
    assert await raw.is_closed()


async def test_the_largest_packet_is_served(raw):
    await raw.connect()
    head = len(jute.REQUEST_HEADER.pack(0, 0) + create("/big"))
    raw.request(1, jute.OP_CREATE, create("/big", data=bytes(jute.MAX_PACKET_BYTES - head)))
    assert (await raw.answer())[:2] == (1, 0)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        jute.INT.pack(100),
        jute.INT.pack(2) + b"\xff\xfe" + b"\0",
        path("/a") + jute.INT.pack(0x7FFFFFFF),
        path("/a") + jute.write_buffer(b"") + jute.INT.pack(0x7FFFFFFF) + bytes(20),
    ],
)
async def test_a_request_that_does_not_hold_together_is_answered_so(raw, body):
    await raw.connect()
    raw.request(7, jute.OP_CREATE, body)
    raw.request(8, jute.OP_EXISTS, path("/") + b"\0")
    assert (await raw.answer())[:2] == (7, MARSHALLING)
    assert (await raw.answer())[:2] == (8, 0)


@pytest.mark.parametrize("operation", [9999, jute.OP_RECONFIG])
async def test_what_is_not_served_is_said_to_be_unimplemented(raw, operation):
    await raw.connect()
    raw.request(1, operation, b"anything")
    assert (await raw.answer())[:2] == (1, UNIMPLEMENTED)


async def test_nodes_with_a_ttl_are_made_only_where_the_store_is_told_so(raw):
    await raw.connect()
    body = replies.encode_create("/t", b"", OPEN_ACL, CreateMode.PERSISTENT_WITH_TTL, 1000)
    raw.request(1, jute.OP_CREATE_TTL, body)
    assert (await raw.answer())[:2] == (1, UNIMPLEMENTED)
    # Asked for by the flag of a plain create, as a client that knows no better would.
    raw.request(2, jute.OP_CREATE, body[:-8])
    assert (await raw.answer())[:2] == (2, UNIMPLEMENTED)
    raw.request(3, jute.OP_CREATE_TTL, body[:-1])
    assert (await raw.answer())[:2] == (3, MARSHALLING)


async def test_a_packet_in_single_bytes(raw):
    packet = jute.frame(
        jute.CONNECT_REQUEST.pack(0, 0, 5000, 0) + jute.write_buffer(bytes(16)) + b"\0"
    )
    for byte in packet:
        raw.writer.write(bytes([byte]))
        await raw.writer.drain()
        await asyncio.sleep(0)
    assert jute.CONNECT_RESPONSE.unpack_from(await raw.packet())[1] == 5000


async def test_an_old_client_without_the_read_only_flag(raw):
    raw.send(jute.CONNECT_REQUEST.pack(0, 0, 5000, 0) + jute.write_buffer(bytes(16)))
    assert len(await raw.packet()) == 36


async def test_answers_come_in_order_and_events_before_what_shows_them(raw):
    await raw.connect()
    raw.request(1, jute.OP_CREATE, create("/w"))
    raw.request(2, jute.OP_GET_DATA, path("/w") + b"\1")
    raw.request(3, jute.OP_SET_DATA, path("/w") + jute.write_buffer(b"x") + jute.INT.pack(-1))
    raw.request(jute.XID_PING, jute.OP_PING)
    raw.request(4, jute.OP_GET_DATA, path("/w") + b"\0")
    xids = [(await raw.answer())[0] for _ in range(6)]
    assert xids == [1, 2, jute.XID_EVENT, 3, jute.XID_PING, 4]


async def test_a_wrong_password_is_told_that_the_session_expired(server, raw):
    _, session, password = await raw.connect()
    async with Raw(server.port) as thief:
        assert (await thief.connect(session_id=session, password=b"x" * 16))[:2] == (0, 0)
        assert await thief.is_closed()
    async with Raw(server.port) as thief:
        assert (await thief.connect(session_id=session + 1, password=password))[:2] == (0, 0)
        assert await thief.is_closed()
    raw.request(1, jute.OP_EXISTS, path("/") + b"\0")
    assert (await raw.answer())[1] == 0


async def test_a_session_moves_to_the_newer_connection(server, raw):
    _, session, password = await raw.connect()
    async with Raw(server.port) as newer:
        assert (await newer.connect(session_id=session, password=password))[1] == session
        assert await raw.is_closed()
        newer.request(1, jute.OP_EXISTS, path("/") + b"\0")
        assert (await newer.answer())[1] == 0


async def test_silence_expires_a_session_and_its_nodes(server, raw):
    timeout, session, password = await raw.connect(timeout_ms=1)
    assert timeout == 100
    raw.request(1, jute.OP_CREATE, create("/e", CreateMode.EPHEMERAL))
    await raw.answer()
    assert await raw.is_closed()
    assert "/e" not in server.engine.tree.nodes
    async with Raw(server.port) as late:
        assert (await late.connect(session_id=session, password=password))[:2] == (0, 0)


async def test_pings_keep_a_session(server, raw):
    await raw.connect(timeout_ms=150)
    for _ in range(10):
        raw.request(jute.XID_PING, jute.OP_PING)
        assert (await raw.answer())[:2] == (jute.XID_PING, 0)
        await asyncio.sleep(0.03)


async def test_a_lost_connection_keeps_the_session_for_its_timeout(server):
    async with Raw(server.port) as first:
        _, session, password = await first.connect()
        first.request(1, jute.OP_CREATE, create("/e", CreateMode.EPHEMERAL))
        await first.answer()
    async with Raw(server.port) as second:
        assert (await second.connect(session_id=session, password=password))[1] == session
        assert "/e" in server.engine.tree.nodes
        second.request(2, jute.OP_CLOSE_SESSION)
        assert (await second.answer())[:2] == (2, 0)
        assert await second.is_closed()
    assert "/e" not in server.engine.tree.nodes


async def test_missed_changes_are_told_when_watches_are_set_again(server, raw):
    await raw.connect()
    for number, name in enumerate(("/same", "/changed", "/gone", "/kids")):
        raw.request(number, jute.OP_CREATE, create(name))
        await raw.answer()
    seen = server.engine.tree.last_zxid
    raw.request(
        10, jute.OP_SET_DATA, path("/changed") + jute.write_buffer(b"x") + jute.INT.pack(-1)
    )
    raw.request(11, jute.OP_DELETE, path("/gone") + jute.INT.pack(-1))
    raw.request(12, jute.OP_CREATE, create("/kids/a"))
    raw.request(13, jute.OP_CREATE, create("/born"))
    for _ in range(4):
        await raw.answer()
    raw.request(
        jute.XID_SET_WATCHES,
        jute.OP_SET_WATCHES,
        jute.LONG.pack(seen)
        + jute.write_strings(["/same", "/changed", "/gone"])
        + jute.write_strings(["/born", "/unborn"])
        + jute.write_strings(["/kids", "/same"]),
    )
    events = []
    while True:
        xid, _, body = await raw.answer()
        if xid != jute.XID_EVENT:
            break
        events.append((struct.unpack_from(">i", body)[0], body[12:].decode()))
    assert xid == jute.XID_SET_WATCHES
    assert events == [(3, "/changed"), (2, "/gone"), (1, "/born"), (4, "/kids")]
    assert len(server.engine.watches) == 3


async def test_watches_are_added_checked_and_removed(raw):
    await raw.connect()
    raw.request(1, jute.OP_ADD_WATCH, path("/a") + jute.INT.pack(1))
    assert await raw.answer() == (1, 0, jute.INT.pack(0))
    raw.request(2, jute.OP_CREATE, create("/a"))
    raw.request(3, jute.OP_CREATE, create("/a/b"))
    assert [(await raw.answer())[0] for _ in range(4)] == [-1, 2, -1, 3]
    raw.request(4, jute.OP_CHECK_WATCHES, path("/a") + jute.INT.pack(3))
    raw.request(5, jute.OP_REMOVE_WATCHES, path("/a") + jute.INT.pack(3))
    raw.request(6, jute.OP_REMOVE_WATCHES, path("/a") + jute.INT.pack(3))
    raw.request(7, jute.OP_CHECK_WATCHES, path("/a") + jute.INT.pack(2))
    raw.request(8, jute.OP_ADD_WATCH, path("/a") + jute.INT.pack(5))
    errors = [(await raw.answer())[1] for _ in range(5)]
    assert errors == [0, 0, NO_WATCHER, NO_WATCHER, MARSHALLING]


async def test_the_smaller_questions(raw):
    await raw.connect()
    raw.request(1, jute.OP_CREATE, create("/e", CreateMode.EPHEMERAL))
    raw.request(2, jute.OP_GET_EPHEMERALS, path("/"))
    raw.request(3, jute.OP_GET_ALL_CHILDREN_NUMBER, path("/"))
    raw.request(4, jute.OP_WHO_AM_I)
    raw.request(5, jute.OP_CHECK, path("/e") + jute.INT.pack(3))
    multi_read = (
        jute.MULTI_HEADER.pack(jute.OP_GET_DATA, False, -1) + path("/e") + b"\0"
        + jute.MULTI_HEADER.pack(jute.OP_GET_CHILDREN, False, -1) + path("/none") + b"\0"
        + jute.END_OF_MULTI
    )  # fmt: skip
    raw.request(6, jute.OP_MULTI_READ, multi_read)
    answers = [await raw.answer() for _ in range(6)]
    assert answers[1][2] == jute.write_strings(["/e"])
    assert answers[2][2] == jute.INT.pack(4)
    assert answers[3][2] == jute.INT.pack(1) + path("ip") + path("127.0.0.1")
    assert answers[4][1] == -103
    body = answers[5][2]
    assert jute.MULTI_HEADER.unpack_from(body)[0] == jute.OP_GET_DATA
    assert body.endswith(
        jute.MULTI_HEADER.pack(-1, False, -101) + jute.INT.pack(-101) + jute.END_OF_MULTI
    )


async def test_an_unknown_scheme_fails_and_closes(raw):
    await raw.connect()
    raw.request(jute.XID_AUTH, jute.OP_AUTH, jute.INT.pack(0) + path("magic") + jute.NULL)
    assert (await raw.answer())[:2] == (jute.XID_AUTH, AUTH_FAILED)
    assert await raw.is_closed()


async def ask(port: int, word: bytes) -> str:
    async with Raw(port) as client:
        client.writer.write(word)
        return (await client.reader.read()).decode()


async def test_four_letter_words_that_tell_of_others_are_for_those_who_allow_them(server):
    for word in ("stat", "conf", "cons", "wchs"):
        refusal = f"{word} is not executed because it is not in the whitelist.\n"
        assert await ask(server.port, word.encode()) == refusal


async def test_four_letter_words():
    options = StoreOptions(words=ALL_WORDS)
    server = ZooKeeperServer(system_runtime(), None, options=options)
    await server.start()
    async with Raw(server.port) as client:
        await client.connect()
        await _ask_all_words(server)
    await server.stop()


async def _ask_all_words(server):
    assert await ask(server.port, b"ruok") == "imok"
    assert await ask(server.port, b"isro") == "rw"
    assert "Mode: standalone\nNode count: 4\n" in await ask(server.port, b"srvr")
    assert "Clients:\n /127.0.0.1:" in await ask(server.port, b"stat")
    assert "zk_znode_count\t4\n" in await ask(server.port, b"mntr")
    assert f"clientPort={server.port}\n" in await ask(server.port, b"conf")
    assert "zookeeper.version=3." in await ask(server.port, b"envi")
    assert "Total watches:0" in await ask(server.port, b"wchs")
    assert "/127.0.0.1:" in await ask(server.port, b"cons")
    assert await ask(server.port, b"nope") == ""


async def test_connections_are_limited_and_idle_ones_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr("ottla.zk.server.server.SESSIONLESS_MS", 50)
    monkeypatch.setattr("ottla.zk.server.server.HOUSEKEEPING_S", 0.02)
    server = ZooKeeperServer(system_runtime(), None, max_connections=2)
    await server.start()
    async with Raw(server.port) as one, Raw(server.port) as two:
        one.writer.write(b"\0\0")
        await until(lambda: len(server.connections) == 2)
        async with Raw(server.port) as three:
            assert await three.is_closed()
        assert await one.is_closed()
        assert await two.is_closed()
    await server.stop()


async def test_many_idle_connections():
    server = ZooKeeperServer(system_runtime(), None, max_client_connections=0)
    await server.start()
    clients = [Raw(server.port) for _ in range(300)]
    for client in clients:
        await client.__aenter__()
        client.writer.write(b"\0")
    async with Raw(server.port) as healthy:
        assert (await healthy.connect())[0] == 10_000
    for client in clients:
        client.writer.close()
    await until(lambda: not server.connections)
    await server.stop()


async def test_empty_containers_go(server, raw):
    await raw.connect()
    for xid, (name, mode) in enumerate((("/box", 4), ("/box/in", 0), ("/fresh", 4)), start=1):
        raw.request(xid, jute.OP_CREATE_CONTAINER, create(name, mode))
        assert (await raw.answer())[1] == 0
    await server.engine.remove_idle()
    assert "/box" in server.engine.tree.nodes
    raw.request(5, jute.OP_DELETE, path("/box/in") + jute.INT.pack(-1))
    await raw.answer()
    await server.engine.remove_idle()
    assert "/box" not in server.engine.tree.nodes
    assert "/fresh" in server.engine.tree.nodes


async def test_a_watch_that_fires_after_the_goodbye_is_not_told(server, raw):
    """Both sessions end in the same turn of the loop, the watcher's first."""
    await raw.connect()
    async with Raw(server.port) as owner:
        await owner.connect()
        owner.request(1, jute.OP_CREATE, create("/e", mode=CreateMode.EPHEMERAL))
        await owner.answer()
        raw.request(1, jute.OP_GET_DATA, path("/e") + b"\1")
        await raw.answer()
        raw.request(2, jute.OP_CLOSE_SESSION)
        owner.request(2, jute.OP_CLOSE_SESSION)
        async with asyncio.timeout(60):
            assert (await raw.answer())[:2] == (2, 0)
            assert (await owner.answer())[:2] == (2, 0)
        assert await raw.is_closed()


async def test_a_stream_of_single_packets_is_answered_in_order_and_whole(server, raw):
    await raw.connect()
    count = 500

    async def send() -> None:
        for xid in range(1, count + 1):
            raw.request(xid, jute.OP_CREATE, create(f"/{xid}"))
            await asyncio.sleep(0)

    sending = asyncio.create_task(send())
    async with asyncio.timeout(60):
        for xid in range(1, count + 1):
            assert await raw.answer() == (xid, 0, path(f"/{xid}"))
    await sending


class Transport:
    """Of a connection that nobody is at the other end of: whether it reads."""

    def __init__(self) -> None:
        self.reads = True
        self.closing = False

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return "127.0.0.1", 1

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None:
        assert not self.closing
        self.reads = False

    def resume_reading(self) -> None:
        assert not self.closing
        self.reads = True


async def test_a_connection_reads_again_when_no_reason_not_to_is_left(server):
    connection, transport = _Connection(server), Transport()
    connection.connection_made(transport)
    seen = []
    for step in (
        connection.pause,
        connection.pause_writing,
        connection.resume,
        connection.resume_writing,
        connection.pause_writing,
        connection.pause,
        connection.resume_writing,
        connection.resume,
    ):
        step()
        seen.append(transport.reads)
    assert seen == [False, False, False, True, False, False, False, True]
    connection.pause()
    transport.closing = True
    connection.resume()
    connection.connection_lost(None)


async def test_a_folder_or_a_port_in_use_leaves_the_files_alone(tmp_path):
    """Locked, then bound, then read: who comes second has changed nothing."""
    first = ZooKeeperServer(system_runtime(), tmp_path / "a")
    await first.start()
    journal = tmp_path / "a" / f"journal.{1:016x}"
    before = journal.read_bytes()
    with pytest.raises(DirInUse, match="uses this folder already"):
        await ZooKeeperServer(system_runtime(), tmp_path / "a").start()
    with pytest.raises(OSError, match="in use"):
        await ZooKeeperServer(system_runtime(), tmp_path / "b", port=first.port).start()
    assert journal.read_bytes() == before
    assert [path.name for path in (tmp_path / "b").iterdir()] == [".lock"]
    await first.stop()
    again = ZooKeeperServer(system_runtime(), tmp_path / "a")
    await again.start()
    await again.stop()


async def test_a_damaged_folder_is_given_up_again(tmp_path):
    journal = tmp_path / f"journal.{1:016x}"
    journal.write_bytes(b"something else")
    server = ZooKeeperServer(system_runtime(), tmp_path)
    with pytest.raises(DamagedFile):
        await server.start()
    journal.unlink()
    again = ZooKeeperServer(system_runtime(), tmp_path)
    await again.start()
    await again.stop()


async def test_a_client_that_comes_before_the_tree_is_there_waits(tmp_path):
    server = ZooKeeperServer(system_runtime(), tmp_path)
    load, go_on = server.engine.start, asyncio.Event()

    async def slow_start() -> None:
        await go_on.wait()
        await load()

    server.engine.start = slow_start  # type: ignore[method-assign]
    starting = asyncio.ensure_future(server.start())
    await until(lambda: server._server is not None)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"ruok")
    flood = await asyncio.open_connection("127.0.0.1", server.port)
    flood[1].write(bytes(MAX_UNSERVED_BYTES + 1))
    assert await flood[0].read() == b""
    await until(lambda: any(connection._rest == b"ruok" for connection in server.connections))
    assert not server.received
    go_on.set()
    await starting
    assert await reader.read(4) == b"imok"
    writer.close()
    flood[1].close()
    await server.stop()
