"""Reads in one request: when, how many, and what happens where the server or the line fails."""

from __future__ import annotations

import asyncio

import pytest

from ottla.metadata.store import (
    ConnectionLossError,
    MarshallingError,
    NoNodeError,
    SessionState,
    Stat,
    UnimplementedError,
)
from ottla.runtime import system_runtime
from ottla.zk import jute
from ottla.zk.client import multi_read, replies
from ottla.zk.client.connection import Connection
from ottla.zk.client.multi_read import MultiReads
from ottla.zk.client.request import Request
from ottla.zk.client.store import ZooKeeperClient
from ottla.zk.jute import JuteError
from ottla.zk.server.requests import HANDLERS
from ottla.zk.server.server import ZooKeeperServer
from ottla.zk.server.sessions import SessionLimits

GET, CHILDREN = jute.OP_GET_DATA, jute.OP_GET_CHILDREN
SERVER = ("host", 1)


@pytest.fixture
async def server():
    made = ZooKeeperServer(system_runtime(), None, limits=SessionLimits.of(100, 100, 60_000))
    await made.start()
    yield made
    await made.stop()


async def connect(server: ZooKeeperServer) -> ZooKeeperClient:
    return await ZooKeeperClient.connect(
        system_runtime(), f"127.0.0.1:{server.port}", session_timeout_ms=30_000
    )


@pytest.fixture
async def client(server):
    made = await connect(server)
    await made.create("/a", b"a")
    yield made
    await made.close()


@pytest.fixture
def served(monkeypatch):
    """What the server was asked, in order: an operation, or how many reads were in a MultiRead."""
    asked = []

    def spy(kind, handler):
        def wrapped(peer, buffer, position, end):
            # The paths have one slash each.
            reads = buffer.count(b"/", position, end) if kind == jute.OP_MULTI_READ else 0
            asked.append(("reads", reads) if reads else kind)
            return handler(peer, buffer, position, end)

        return wrapped

    for kind, handler in list(HANDLERS.items()):
        monkeypatch.setitem(HANDLERS, kind, spy(kind, handler))
    return asked


def instead(monkeypatch, handler):
    """Another answer to every MultiRead."""
    monkeypatch.setitem(HANDLERS, jute.OP_MULTI_READ, handler)


async def outcomes(futures):
    answers = await asyncio.gather(*futures, return_exceptions=True)
    return [
        (type(answer), answer.path) if isinstance(answer, Exception) else answer[0]
        for answer in answers
    ]


async def test_a_single_read_stays_what_it_is(served, client):
    assert served == [jute.OP_MULTI_READ, jute.OP_CREATE2], "the question whether it is known"
    await client.get("/a")
    await client.children("/a")
    assert served[2:] == [GET, CHILDREN]


async def test_reads_of_one_turn_leave_in_requests_of_bounded_size(served, client):
    assert await outcomes(client.get("/a") for _ in range(70)) == [b"a"] * 70
    assert served[2:] == [("reads", 32), ("reads", 32), ("reads", 6)]
    assert client._session.connection.in_flight == 0


async def test_what_else_is_asked_keeps_its_place(served, client):
    async def get(watch=None):
        return await client.get("/a", watch)

    asks = [get(), get(), client.exists("/a"), get(), client.set("/a", b"b"), get(), get()]
    answers = await asyncio.gather(*asks, get(print), get(), get())
    assert [answers[i][0] for i in (0, 1, 3, 5, 6, 7, 8, 9)] == [b"a"] * 3 + [b"b"] * 5
    two = ("reads", 2)
    assert served[2:] == [two, jute.OP_EXISTS, GET, jute.OP_SET_DATA, two, GET, two]


async def test_a_long_path_goes_alone(served, client):
    long = "/" + "x" * 1100
    assert await outcomes([client.get("/a"), client.get(long), client.get("/a")]) == [
        b"a",
        (NoNodeError, long),
        b"a",
    ]
    assert served[2:] == [GET] * 3


async def test_reads_that_waited_for_a_connection_leave_together(served, client):
    client._session.connection.abort()
    assert client.state is SessionState.SUSPENDED
    assert await outcomes(client.get("/a") for _ in range(5)) == [b"a"] * 5
    assert served[-1] == ("reads", 5)


async def test_each_read_counts_as_in_flight(client, monkeypatch):
    monkeypatch.setattr("ottla.zk.client.connection.MAX_IN_FLIGHT", 7)
    monkeypatch.setattr("ottla.zk.client.connection.REFILL_AT", 3)
    futures = [client.get("/a") for _ in range(100)]
    assert client._session.connection.in_flight == 7
    assert await outcomes(futures) == [b"a"] * 100
    assert client._session.connection.in_flight == 0


async def test_a_caller_that_gave_up_does_not_disturb_the_others(client):
    futures = [client.get(path) for path in ("/a", "/none", "/a", "/a")]
    futures.append(client.children("/a"))
    for index in (0, 1, 4):
        futures[index].cancel()
    assert [(await future)[0] for future in futures[2:4]] == [b"a", b"a"]
    assert await client.exists("/a")


@pytest.mark.parametrize("turns", [0, 1])
async def test_a_lost_connection_is_told_to_every_caller(client, turns):
    futures = [client.get(f"/{number}") for number in range(40)]
    for _ in range(turns):
        await asyncio.sleep(0)
    client._session.connection.abort()
    assert await outcomes(futures) == [(ConnectionLossError, f"/{i}") for i in range(40)]
    assert await outcomes(client.get("/a") for _ in range(3)) == [b"a"] * 3


async def test_an_error_of_the_whole_request_is_that_of_each_read(client, monkeypatch):
    def fail(peer, buffer, position, end):
        raise MarshallingError

    instead(monkeypatch, fail)
    assert await outcomes(client.get(path) for path in ("/a", "/b")) == [
        (MarshallingError, "/a"),
        (MarshallingError, "/b"),
    ]
    assert (await client.get("/a"))[0] == b"a"


async def test_an_answer_that_makes_no_sense_leaves_nobody_waiting(client, monkeypatch):
    instead(monkeypatch, lambda *_: b"\0" * 13)
    async with asyncio.timeout(60):
        assert await outcomes(client.get(path) for path in ("/a", "/b")) == [
            (ConnectionLossError, "/a"),
            (ConnectionLossError, "/b"),
        ]
        monkeypatch.setitem(HANDLERS, GET, lambda *_: b"short")
        assert await outcomes([client.get("/a")]) == [(ConnectionLossError, "/a")]


async def test_an_answer_that_is_too_large_is_not_asked_for_again(served, client, monkeypatch):
    await client.set("/a", bytes(700))
    monkeypatch.setattr("ottla.zk.client.connection.MAX_ANSWER_BYTES", 1000)
    lost = (ConnectionLossError, "/a")
    assert await outcomes(client.get("/a") for _ in range(2)) == [lost, lost]
    assert await outcomes(client.get("/a") for _ in range(2)) == [bytes(700)] * 2
    assert served[-2:] == [GET, GET]


def unimplemented(peer, buffer, position, end):
    raise UnimplementedError


def unimplemented_and_closed(peer, buffer, position, end):
    # As ZooKeeper's UnimplementedRequestProcessor.
    peer._closing = True
    raise UnimplementedError


@pytest.mark.parametrize("answer", [unimplemented, unimplemented_and_closed])
async def test_an_old_server_is_asked_once(server, served, monkeypatch, answer):
    spied = []
    instead(monkeypatch, lambda *request: spied.append(1) or answer(*request))
    client = await connect(server)
    states = []
    client.add_session_listener(states.append)
    await client.create("/a", b"a")
    for _ in range(2):
        assert await outcomes(client.get(path) for path in ("/a", "/none", "/a")) == [
            b"a",
            (NoNodeError, "/none"),
            b"a",
        ]
        assert served[-3:] == [GET] * 3
        client._session.connection.abort()
    assert await client.exists("/a")
    assert (len(spied), len(server.engine.sessions)) == (1, 1)
    assert states == [SessionState.SUSPENDED, SessionState.CONNECTED] * 2
    await client.close()


async def test_a_server_that_hangs_up_instead_of_an_answer(server, served, monkeypatch):
    def hang_up(peer, buffer, position, end):
        peer._transport.abort()
        raise UnimplementedError

    with monkeypatch.context() as patched:
        instead(patched, hang_up)
        client = await connect(server)
    await client.create("/a", b"a")
    assert await outcomes(client.get("/a") for _ in range(2)) == [b"a"] * 2
    assert served[-2:] == [GET, GET]
    # It may have been chance: the next connection finds out.
    client._session.connection.abort()
    assert await outcomes(client.get("/a") for _ in range(2)) == [b"a"] * 2
    assert served[-1] == ("reads", 2)
    await client.close()


def test_large_nodes_are_asked_for_a_few_at_a_time():
    reads = MultiReads()
    assert reads.limit == multi_read.MAX_READS == 32
    for asked, size, limit in (
        (32, 32 * 200, 32),
        (32, 32 * 100_000, 10),
        (10, 10 * 1_000_000, 2),
        (2, 2 * 100_000, 10),
        (2, 26, 32),
    ):
        reads.answered(asked, size)
        assert reads.limit == limit


def test_the_largest_nodes_fit_into_one_answer():
    from ottla.zk.client.connection import MAX_ANSWER_BYTES

    assert multi_read.MAX_READS * (jute.MAX_PACKET_BYTES + 100) < MAX_ANSWER_BYTES
    assert multi_read.MAX_READS * (multi_read.MAX_BODY_BYTES + 9) < jute.MAX_PACKET_BYTES


STAT = Stat(*range(11))
DATA = jute.MULTI_HEADER.pack(GET, False, 0) + jute.write_buffer(b"xy") + jute.STAT.pack(*STAT)
NAMES = jute.MULTI_HEADER.pack(CHILDREN, False, 0) + jute.write_strings(["a", "b"])
NO_NODE = jute.MULTI_HEADER.pack(-1, False, -101) + jute.INT.pack(-101)
END = jute.END_OF_MULTI


def reads_of(*kinds):
    loop = asyncio.get_running_loop()
    return [Request(loop.create_future(), f"/{i}", kind, b"") for i, kind in enumerate(kinds)]


async def test_results_are_told_apart():
    reads = reads_of(GET, CHILDREN, GET)
    answer = DATA + NAMES + NO_NODE + END
    multi_read.settle(reads, b"before" + answer + b"after", 6, 6 + len(answer))
    assert reads[0].future.result() == (b"xy", STAT)
    assert reads[1].future.result() == ["a", "b"]
    assert outcome_path(reads[2].future.exception()) == (NoNodeError, "/2")


def outcome_path(error):
    return type(error), error.path


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        END,
        DATA + END,
        DATA + NAMES,
        DATA + NAMES + NO_NODE + END,
        DATA + NAMES + END + b"\0",
        DATA + DATA + END,
        NAMES + NAMES + END,
        DATA[:-1],
        DATA + NAMES[:-1],
        DATA + NAMES + END[:-1],
        DATA.replace(b"\0\0\0\2xy", b"\x7f\xff\xff\xffxy") + NAMES + END,
        jute.MULTI_HEADER.pack(GET, False, 0) + jute.NULL + bytes(60),
    ],
)
async def test_nonsense_is_refused(answer):
    with pytest.raises(JuteError):
        multi_read.settle(reads_of(GET, CHILDREN), answer, 0, len(answer))


class Nobody:
    def event_received(self, kind, path):
        raise AssertionError(path)

    def connection_closed(self, connection):
        return None

    def answers_taken(self):
        return None


@pytest.mark.parametrize("size", [1, 3, 7, 20, 1000])
async def test_answers_may_come_in_pieces(size):
    connection = Connection(Nobody(), system_runtime().clock)
    greeting = jute.CONNECT_RESPONSE.pack(0, 1000, 7) + jute.write_buffer(bytes(16)) + b"\0"
    connection.data_received(jute.frame(greeting))
    connection.multi_reads = MultiReads()
    reads = reads_of(GET, CHILDREN)
    loop = asyncio.get_running_loop()
    other = Request(loop.create_future(), "/c", CHILDREN, b"", replies.decode_children, print)
    for request in (*reads, other):
        connection.submit(request)
    answers = jute.reply(1, 5, 0, DATA + NAMES + END) + jute.reply(2, 6, 0, NAMES[9:])
    for start in range(0, len(answers), size):
        connection.data_received(answers[start : start + size])
    assert reads[0].future.result() == (b"xy", STAT)
    assert reads[1].future.result() == other.future.result() == ["a", "b"]
    assert (connection.last_zxid, connection.in_flight) == (6, 0)
