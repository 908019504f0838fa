"""The session over lost connections, restarts and bad servers."""

from __future__ import annotations

import asyncio
import socket

import pytest

from ottla.metadata.store import (
    Acl,
    AuthFailedError,
    ConnectionLossError,
    CreateMode,
    EventType,
    NoAuthError,
    SessionState,
    Stat,
    StoreUnreachableError,
    WatchEvent,
)
from ottla.runtime import system_runtime
from ottla.zk.client.session import failure_in_words
from ottla.zk.client.store import ZooKeeperClient
from ottla.zk.server.server import ZooKeeperServer
from ottla.zk.server.sessions import SessionLimits
from tests.support.zk.polling import until

LIMITS = SessionLimits.of(100, 100, 60_000)


@pytest.fixture
async def server(tmp_path):
    made = ZooKeeperServer(system_runtime(), tmp_path, limits=LIMITS)
    await made.start()
    yield made
    await made.stop()


async def connect(server: ZooKeeperServer, **options) -> ZooKeeperClient:
    options.setdefault("session_timeout_ms", 5000)
    return await ZooKeeperClient.connect(system_runtime(), f"127.0.0.1:{server.port}", **options)


def cut(server: ZooKeeperServer) -> None:
    for connection in list(server.connections):
        connection._transport.abort()


async def test_a_cut_connection_keeps_session_nodes_and_watches(server):
    client, other = await connect(server), await connect(server)
    states, heard = [], []
    client.add_session_listener(states.append)
    session = client.session_id
    await client.create("/e", mode=CreateMode.EPHEMERAL)
    await client.get("/e", heard.append)
    await client.exists("/later", heard.append)
    await client.children("/", heard.append)
    cut(server)
    await until(lambda: states[-1:] == [SessionState.CONNECTED])
    assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]
    assert client.session_id == session
    await other.set("/e", b"1")
    await other.create("/later")
    await client.sync()
    assert sorted(heard) == [
        WatchEvent(EventType.CREATED, "/later"),
        WatchEvent(EventType.DATA_CHANGED, "/e"),
        WatchEvent(EventType.CHILDREN_CHANGED, "/"),
    ]
    await client.close()
    await other.close()


async def test_what_was_missed_meanwhile_is_heard_after(server):
    client, other = await connect(server), await connect(server)
    heard = []
    await client.create("/a")
    await client.get("/a", heard.append)
    connection = client._session.connection
    connection._transport.pause_reading()
    await other.set("/a", b"1")
    connection.abort()
    await until(lambda: heard)
    assert heard == [WatchEvent(EventType.DATA_CHANGED, "/a")]
    await client.close()
    await other.close()


async def test_requests_in_flight_are_lost_with_the_connection(server):
    client = await connect(server)
    asked = [asyncio.ensure_future(client.create(f"/{i}")) for i in range(10)]
    await asyncio.sleep(0)
    client._session.connection.abort()
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert all(isinstance(outcome, ConnectionLossError) for outcome in outcomes)
    assert outcomes[3].path == "/3"
    assert await client.exists("/none") is None, "later requests wait for the reconnection"
    await client.close()


async def test_the_session_survives_a_restart_of_the_server(server, tmp_path):
    client = await connect(server)
    states = []
    client.add_session_listener(states.append)
    _, stat = await client.create("/e", b"x", mode=CreateMode.EPHEMERAL)
    port = server.port
    await server.stop()
    await until(lambda: states == [SessionState.SUSPENDED])
    again = ZooKeeperServer(system_runtime(), tmp_path, port=port, limits=LIMITS)
    await again.start()
    assert await client.get("/e") == (b"x", stat)
    assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]
    await client.close()
    await again.stop()


async def test_a_time_out_passed_while_cut_off_expires_the_session(server, monkeypatch):
    client = await connect(server, session_timeout_ms=200)
    states = []
    client.add_session_listener(states.append)
    old = client.session_id
    await client.create("/e", mode=CreateMode.EPHEMERAL)
    hosts_before, client._session._hosts = client._session._hosts, [("127.0.0.1", 1)]
    cut(server)
    await until(lambda: "/e" not in server.engine.tree.nodes)
    client._session._hosts = hosts_before
    await until(lambda: states[-1] is SessionState.CONNECTED)
    assert states == [SessionState.SUSPENDED, SessionState.EXPIRED, SessionState.CONNECTED]
    assert client.session_id not in (0, old)
    await client.close()


async def test_a_silent_server_is_left(tmp_path):
    """One that takes connections and answers nothing after the handshake."""
    runtime = system_runtime()
    server = ZooKeeperServer(runtime, None, limits=LIMITS)
    await server.start()
    client = await connect(server, session_timeout_ms=300)
    states = []
    client.add_session_listener(states.append)
    for connection in server.connections:
        connection._transport.pause_reading()
    await until(lambda: SessionState.SUSPENDED in states)
    await until(lambda: states[-1] is SessionState.CONNECTED)
    await client.close()
    await server.stop()


async def test_dead_hosts_are_passed_over(server):
    address = f"127.0.0.1:1,127.0.0.1:{server.port},127.0.0.1:2"
    client = await ZooKeeperClient.connect(system_runtime(), address)
    assert await client.children("/") == ["zookeeper"]
    await client.close()


async def test_callers_wait_for_a_reconnection_but_not_for_ever(server):
    client = await connect(server, session_timeout_ms=200)
    await server.stop()
    await until(lambda: client.state is SessionState.SUSPENDED)
    asked = [asyncio.ensure_future(client.exists(f"/{i}")) for i in range(3)]
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ConnectionLossError] * 3
    await client.close()


async def test_a_host_name_that_cannot_be():
    with pytest.raises(ConnectionLossError):
        await ZooKeeperClient.connect(
            system_runtime(), f"{'x' * 80}.{'y' * 300}:1", connect_timeout_ms=200
        )


async def test_nobody_there():
    with pytest.raises(ConnectionLossError):
        await ZooKeeperClient.connect(system_runtime(), "127.0.0.1:1", connect_timeout_ms=300)


async def test_a_server_that_talks_nonsense():
    async def nonsense(reader, writer):
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    listener = await asyncio.start_server(nonsense, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    with pytest.raises(ConnectionLossError):
        await ZooKeeperClient.connect(system_runtime(), f"127.0.0.1:{port}", connect_timeout_ms=300)
    listener.close()


async def test_credentials_are_given_again_after_a_reconnection(server):
    client = await connect(server, credentials=[("digest", b"a:b")])
    await client.create("/mine", b"x", acl=(Acl(31, "auth", ""),))
    other = await connect(server)
    with pytest.raises(NoAuthError):
        await other.get("/mine")
    states = []
    client.add_session_listener(states.append)
    cut(server)
    await until(lambda: SessionState.CONNECTED in states)
    assert (await client.get("/mine"))[0] == b"x"
    await client.close()
    await other.close()


async def test_refused_credentials_are_told(server):
    with pytest.raises(AuthFailedError):
        await connect(server, credentials=[("magic", b"")])


async def test_the_requests_in_flight_are_bounded(server, monkeypatch):
    monkeypatch.setattr("ottla.zk.client.connection.MAX_IN_FLIGHT", 7)
    monkeypatch.setattr("ottla.zk.client.connection.REFILL_AT", 3)
    client = await connect(server)
    most = 0

    async def ask(number: int) -> int:
        nonlocal most
        stat = (await client.create(f"/{number}"))[1]
        most = max(most, client._session.connection.in_flight)
        return stat.czxid

    zxids = await asyncio.gather(*map(ask, range(200)))
    assert zxids == sorted(zxids)
    assert most <= 7
    assert not client._session.backlog
    await client.close()


async def test_a_waiting_caller_may_give_up(server, monkeypatch):
    monkeypatch.setattr("ottla.zk.client.connection.MAX_IN_FLIGHT", 1)
    monkeypatch.setattr("ottla.zk.client.connection.REFILL_AT", 0)
    client = await connect(server)
    asked = [asyncio.ensure_future(client.exists("/")) for _ in range(5)]
    await asyncio.sleep(0)
    asked[2].cancel()
    asked[0].cancel()
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    cancelled = asyncio.CancelledError
    assert list(map(type, outcomes)) == [cancelled, Stat, cancelled, Stat, Stat]
    assert await client.exists("/")
    assert not client._session.backlog
    await client.close()


async def test_many_watches_are_set_again_in_several_packets(server, monkeypatch):
    monkeypatch.setattr("ottla.zk.client.watches.SET_WATCHES_BYTES", 100)
    client, other = await connect(server), await connect(server)
    heard = []
    await asyncio.gather(*(client.exists(f"/node-{i:04}", heard.append) for i in range(50)))
    cut(server)
    await asyncio.gather(*(retried(other, f"/node-{i:04}") for i in range(50)))
    await until(lambda: len(heard) == 50)
    await client.close()
    await other.close()


async def retried(client: ZooKeeperClient, path: str) -> None:
    try:
        await client.create(path)
    except ConnectionLossError:
        await client.create(path)


async def test_where_nobody_answers_it_is_said_in_words():
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
    with pytest.raises(StoreUnreachableError) as caught:
        await ZooKeeperClient.connect(system_runtime(), address, connect_timeout_ms=300)
    # asyncio and uvloop word it alike: it is the system's own text.
    wanted = f"no ZooKeeper server answered at {address} within 0.3 s: Connection refused"
    assert str(caught.value) == wanted


def test_reasons_in_words():
    assert failure_in_words(socket.gaierror(-2, "?")) == "the name is not known"
    assert failure_in_words(TimeoutError()) == "no answer"
    assert failure_in_words(ConnectionLossError()) == "the connection was closed"
    assert failure_in_words(OSError(113, "?")) == "No route to host"
