"""Reads that are asked together: each as if it were alone, whoever implements the store.

On the wire they are one MultiRead, which our server and Apache ZooKeeper answer alike.
"""

from __future__ import annotations

import asyncio

import pytest

from ottla.metadata.store import (
    Acl,
    BadArgumentsError,
    EventType,
    NoAuthError,
    NoNodeError,
    SessionState,
    StoreError,
)
from ottla.runtime import system_runtime
from ottla.testing.java import missing_reason
from ottla.zk import jute
from ottla.zk.client.store import ZooKeeperClient
from tests.support.judges import need

ON_THE_WIRE = pytest.mark.parametrize(
    "backend",
    ["server", "chroot", pytest.param("apache", marks=pytest.mark.peers)],
    indirect=True,
)


def outcome(answer):
    """As something that can be compared: an error is its kind and the path it names."""
    return (type(answer), answer.path) if isinstance(answer, StoreError) else answer


async def one_by_one(asks):
    answers = []
    for ask in asks:
        try:
            answers.append(await ask())
        except StoreError as error:
            answers.append(error)
    return list(map(outcome, answers))


async def together(asks):
    answers = await asyncio.gather(*(ask() for ask in asks), return_exceptions=True)
    return list(map(outcome, answers))


async def test_reads_asked_together_have_an_outcome_each(store):
    datas = [str(number).encode() if number % 3 else None for number in range(40)]
    await asyncio.gather(*(store.create(f"/n-{i}", data) for i, data in enumerate(datas)))
    await store.create("/n-1/below", b"")
    await store.create("/n-1/käfka-甲")
    asks = []
    for number in range(45):
        asks.append(lambda path=f"/n-{number}": store.get(path))
        asks.append(lambda path=f"/n-{number}": store.children(path))
    asks.append(lambda: store.get("bad"))
    answers = await together(asks)
    assert answers == await one_by_one(asks)
    assert [answers[0][0], answers[2][0]] == [None, b"1"]
    assert sorted(answers[3]) == ["below", "käfka-甲"]
    assert answers[80:90] == [(NoNodeError, f"/n-{40 + i // 2}") for i in range(10)]
    assert answers[90] == (BadArgumentsError, "bad")


async def test_reads_and_writes_asked_together_keep_their_order(store):
    await store.create("/a", b"0")

    async def read():
        return (await store.get("/a"))[0]

    async def children():
        return await store.children("/a")

    asks = [read(), read(), store.set("/a", b"1"), read(), children(), store.create("/a/b")]
    asks += [children(), read(), store.exists("/a"), store.set("/a", b"2"), read(), read()]
    answers = await asyncio.gather(*asks)
    assert [answers[i] for i in (0, 1, 3, 4, 6, 7, 10, 11)] == [
        b"0", b"0", b"1", [], ["b"], b"1", b"2", b"2",
    ]  # fmt: skip
    assert answers[8].version == 1


async def test_a_forbidden_read_does_not_harm_its_neighbours(store, other):
    await store.add_auth("digest", b"alice:secret")
    await store.create("/open", b"x")
    await store.create("/secret", b"y", acl=(Acl(31, "auth", ""),))
    asks = [lambda path=path: other.get(path) for path in ("/open", "/secret", "/none", "/open")]
    asks.append(lambda: other.children("/secret"))
    answers = await together(asks)
    assert [answers[0][0], answers[3][0]] == [b"x", b"x"]
    assert answers[1:3] == [(NoAuthError, "/secret"), (NoNodeError, "/none")]
    assert answers[4] == (NoAuthError, "/secret")


async def test_watched_and_plain_reads_mix(store, other):
    await store.create("/a", b"0")
    heard = []
    answers = await asyncio.gather(
        store.get("/a"), store.get("/a"), store.get("/a", heard.append), store.get("/a")
    )
    assert [data for data, _ in answers] == [b"0"] * 4
    await other.set("/a", b"1")
    await store.sync()
    assert [event.type for event in heard] == [EventType.DATA_CHANGED]


async def test_large_nodes_are_read_together(store):
    for number in range(6):
        await store.create(f"/{number}", bytes([number]) * 900_000)
    for _ in range(2):
        answers = await asyncio.gather(*(store.get(f"/{number}") for number in range(6)))
        for number, (data, stat) in enumerate(answers):
            assert data == bytes([number]) * 900_000
            assert stat.data_length == 900_000


def read(kind: int, path: str, watch: bytes = b"\0") -> bytes:
    return jute.MULTI_HEADER.pack(kind, False, -1) + jute.write_string(path) + watch


def failed(code: int) -> bytes:
    return jute.MULTI_HEADER.pack(jute.OP_ERROR, False, code) + jute.INT.pack(code)


@ON_THE_WIRE
async def test_multi_read_byte_by_byte(store):
    async def ask(body: bytes) -> bytes:
        return await store._session.send(
            "", jute.OP_MULTI_READ, body, lambda buffer, position, end: buffer[position:end]
        )

    async def refused(body: bytes) -> int:
        with pytest.raises(StoreError) as caught:
            await ask(body)
        return caught.value.code

    await store.create("/a", b"data")
    await store.create("/a/b")
    a, b = store._chroot.full("/a"), store._chroot.full("/a/b")
    stats = [jute.STAT.pack(*(await store.get(path))[1]) for path in ("/a", "/a/b")]
    get, children = jute.OP_GET_DATA, jute.OP_GET_CHILDREN
    assert await ask(jute.END_OF_MULTI) == jute.END_OF_MULTI
    asked = read(get, a) + read(children, a) + read(get, "x") + read(get, b) + read(children, b)
    assert await ask(asked + read(children, a + "/c") + jute.END_OF_MULTI) == (
        jute.MULTI_HEADER.pack(get, False, 0) + jute.write_buffer(b"data") + stats[0]
        + jute.MULTI_HEADER.pack(children, False, 0) + jute.write_strings(["b"])
        + failed(-101)
        + jute.MULTI_HEADER.pack(get, False, 0) + jute.NULL + stats[1]
        + jute.MULTI_HEADER.pack(children, False, 0) + jute.write_strings([])
        + failed(-101)
        + jute.END_OF_MULTI
    )  # fmt: skip
    # What may not be in it, and what ends too early.
    check = jute.MULTI_HEADER.pack(jute.OP_CHECK, False, -1) + jute.write_string(a) + jute.NULL
    for body in (
        check + jute.END_OF_MULTI,
        read(get, a) + check + jute.END_OF_MULTI,
        read(jute.OP_EXISTS, a) + jute.END_OF_MULTI,
        read(get, a),
        read(get, a)[:-3],
        b"",
    ):
        assert await refused(body) == -5
    assert (await store.get("/a"))[0] == b"data", "the connection lives on"


@ON_THE_WIRE
async def test_a_watch_flag_in_a_multi_read_is_ignored(store, other):
    await store.create("/a")
    events = []
    store.event_received = lambda *event: events.append(event)
    await store._session.send(
        "",
        jute.OP_MULTI_READ,
        read(jute.OP_GET_DATA, store._chroot.full("/a"), b"\1")
        + read(jute.OP_GET_CHILDREN, store._chroot.full("/a"), b"\1")
        + jute.END_OF_MULTI,
    )
    await other.create("/a/b")
    await other.set("/a", b"1")
    await store.sync()
    assert events == []


@pytest.mark.peers
async def test_a_server_that_does_not_know_multi_read(apache):
    """ZooKeeper 3.5.9 answers Unimplemented and hangs up: asked once, and nobody loses a read."""
    need(missing_reason("kafka-2.8.2"))
    store = await ZooKeeperClient.connect(system_runtime(), apache("kafka-2.8.2").address)
    states: list[SessionState] = []
    store.add_session_listener(states.append)
    await store.create("/a", b"x")
    asks = [lambda path=path: store.get(path) for path in ("/a", "/none", "/a")]
    asks.append(lambda: store.children("/a"))
    for _ in range(2):
        answers = await together(asks)
        assert [answers[0][0], answers[2][0], answers[3]] == [b"x", b"x", []]
        assert answers[1] == (NoNodeError, "/none")
    assert states == []
    store._session.connection.abort()  # type: ignore[union-attr]
    assert (await store.get("/a"))[0] == b"x"
    assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]
    await store.close()
