"""A real `ottla zookeeper`, attacked, with a good client beside each attack.

The builders are in `tests/support/store_attacks.py`. Bounds are on memory, on how many answers the
good client had while the attack went on, and on what is there after `kill -9`.
"""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.metadata.store import Acl, CreateMode, EventType
from ottla.zk import jute
from ottla.zk.paths import MAX_PATH_CHARS
from ottla.zk.server.acl import digest_identity
from tests.support.store_attacks import (
    GoodClient,
    RudeClient,
    StoreProcess,
    add_watch_body,
    auth_body,
    create_body,
    multi_read_body,
    path_body,
    request,
    set_watches_body,
    store_process,
    word,
)

MB = 1 << 20
BIG = bytes(1_000_000)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreProcess]:
    """One for all attacks that a store gets over, as every one here is."""
    folder = tmp_path_factory.mktemp("attacked")
    with store_process(folder / "store", "--max-client-memory-mb", "256") as made:
        with RudeClient(made.port).open_session() as client:
            client.ask(jute.OP_CREATE, create_body("/big", BIG))
        yield made
        assert made.is_alive
        assert "Traceback" not in made.said()
        assert made.said().count("\n") < 50, "attacks do not fill the log"
        assert made.stop() == 0


@pytest.fixture
def good(store: StoreProcess) -> Iterator[GoodClient]:
    with GoodClient(store.port) as client:
        yield client
    assert client.failure is None


def wait_for(condition: Callable[[], object], what: str, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def watches(store: StoreProcess) -> int:
    [line] = [x for x in word(store.port, b"mntr").splitlines() if x.startswith("zk_watch_count")]
    return int(line.split()[1])


def test_27_kilobytes_do_not_become_gigabytes(store: StoreProcess, good: GoodClient) -> None:
    before = store.peak_bytes()
    with RudeClient(store.port).open_session() as client:
        body = multi_read_body(["/big"] * 1000)
        assert len(body) < 27_000
        for _ in range(10):
            assert client.ask(jute.OP_MULTI_READ, body)[0] == -5
        error, answer = client.ask(jute.OP_MULTI_READ, multi_read_body(["/big"] * 32))
        assert (error, len(answer) > 32 * len(BIG)) == (0, True)
    assert store.peak_bytes() - before < 160 * MB


def test_answers_that_nobody_reads(store: StoreProcess, good: GoodClient) -> None:
    before = store.peak_bytes()
    asked = b"".join(request(n, jute.OP_GET_DATA, path_body("/big")) for n in range(1, 3001))
    many = b"".join(
        request(n, jute.OP_MULTI_READ, multi_read_body(["/big"] * 30)) for n in range(1, 4)
    )
    with contextlib.ExitStack() as stack:
        for number in range(10):
            client = stack.enter_context(RudeClient(store.port).open_session())
            client.socket.sendall(asked if number else many)
        seen = good.answers
        wait_for(lambda: good.answers >= seen + 50, "answers for the good client")
        # The bound of this store, what is on its way to ten sockets, and the answer under way.
        assert store.peak_bytes() - before < 400 * MB


def test_the_end_of_a_connection_with_many_watches(store: StoreProcess, good: GoodClient) -> None:
    client = RudeClient(store.port).open_session()
    for number in range(2):
        paths = [f"/{number}{path:05x}" for path in range(80_000)]
        assert client.ask(jute.OP_SET_WATCHES, set_watches_body(exist=paths))[0] == 0
    assert watches(store) == 160_000
    seen = good.answers
    client.close()
    wait_for(lambda: watches(store) == 0, "no watch is left")
    assert good.answers - seen >= 10, "the others have their turns meanwhile"


def test_long_requests_take_turns(store: StoreProcess, good: GoodClient) -> None:
    count = 40
    with RudeClient(store.port).open_session() as client:
        client.ask(jute.OP_CREATE, create_body("/many"))
        client.create_many([create_body(f"/many/{n:06}") for n in range(20_000)], 4000)
        asked = request(5, jute.OP_GET_ALL_CHILDREN_NUMBER, jute.write_string("/many"))
        seen = good.answers
        client.socket.sendall(asked * count)
        answers = [client.answer() for _ in range(count)]
        assert answers == [(5, 0, jute.INT.pack(20_000))] * count
        assert good.answers - seen >= 10, "40 counts of 20,000 are no single turn"


def test_a_session_with_many_nodes_ends_between_the_turns_of_others(
    store: StoreProcess, good: GoodClient
) -> None:
    """An end in one go would let out none, or the one that was asked before, every time. A read
    waits for the disk too, so that one end may happen to let out no more."""
    for _ in range(10):
        if _answers_during_an_end(store, good, 20_000) >= 2:
            break
    else:
        pytest.fail("ten ends of sessions, and no turn for others during any of them")
    with RudeClient(store.port).open_session() as client:
        assert client.ask(jute.OP_EXISTS, path_body("/e019999"))[0] == -101


def _answers_during_an_end(store: StoreProcess, good: GoodClient, nodes: int) -> int:
    with RudeClient(store.port).open_session() as client:
        creates = [create_body(f"/e{n:06}", b"", CreateMode.EPHEMERAL) for n in range(nodes)]
        client.create_many(creates, 4000)
        seen = good.answers
        assert client.ask(jute.OP_CLOSE_SESSION)[0] == 0
        return good.answers - seen


def test_frames_that_are_never_finished(store: StoreProcess, good: GoodClient) -> None:
    before = store.peak_bytes()
    with contextlib.ExitStack() as stack:
        for number in range(400):
            client = RudeClient(store.port, f"127.0.0.{20 + number % 10}").open_session()
            stack.enter_context(client)
            with contextlib.suppress(ConnectionError):
                client.socket.sendall(struct.pack(">i", MB - 1) + BIG)
        seen = good.answers
        wait_for(lambda: good.answers >= seen + 20, "answers for the good client")
    assert store.peak_bytes() - before < 400 * MB


def test_one_address_does_not_take_all_connections(store: StoreProcess, good: GoodClient) -> None:
    with contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(RudeClient(store.port, "127.0.0.3")) for _ in range(100)]
        served = 0
        for client in crowd:
            try:
                served += client.open_session().session_id != 0
            except ConnectionError:
                continue
        assert served == 60
        for _ in range(1000):
            RudeClient(store.port, "127.0.0.3").close()
        with RudeClient(store.port, "127.0.0.4").open_session() as other:
            assert other.ask(jute.OP_EXISTS, path_body("/"))[0] == 0
    assert "127.0.0.3 has 60 connections" in store.said()


def test_identities_without_end(store: StoreProcess, good: GoodClient) -> None:
    with RudeClient(store.port).open_session() as client:
        proofs = [
            request(-4, jute.OP_AUTH, auth_body("digest", b"u%d:p" % n)) for n in range(20_000)
        ]
        with contextlib.suppress(ConnectionError):
            client.socket.sendall(b"".join(proofs))
        assert client.is_closed()


def test_events_of_nodes_that_may_not_be_read(store: StoreProcess) -> None:
    secret = [Acl(31, "digest", digest_identity(b"owner:secret").id)]
    with RudeClient(store.port).open_session() as owner:
        assert owner.ask(jute.OP_AUTH, auth_body("digest", b"owner:secret"))[0] == 0
        with RudeClient(store.port).open_session() as stranger:
            stranger.ask(jute.OP_ADD_WATCH, add_watch_body("/", recursive=True))
            owner.ask(jute.OP_CREATE, create_body("/safe", b"", 0, secret))
            owner.ask(jute.OP_CREATE, create_body("/safe/topic", b"", 0, secret))
            owner.ask(jute.OP_DELETE, jute.write_string("/safe/topic") + jute.INT.pack(-1))
            owner.ask(jute.OP_CREATE, create_body("/told"))
            xid, _, event = stranger.answer()
            path, _ = jute.read_string(event, 8, len(event))
            assert (xid, event[:4], path) == (-1, jute.INT.pack(EventType.CREATED), "/told")


def test_writes_faster_than_the_disk(store: StoreProcess, good: GoodClient) -> None:
    before = store.peak_bytes()
    body = jute.write_string("/w") + jute.write_buffer(BIG) + jute.INT.pack(-1)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(RudeClient(store.port).open_session()) for _ in range(4)]
        clients[0].ask(jute.OP_CREATE, create_body("/w"))
        for client in clients:
            client.socket.sendall(request(9, jute.OP_SET_DATA, body) * 10)
        for client in clients:
            assert {client.answer()[:2] for _ in range(10)} == {(9, 0)}
    assert store.peak_bytes() - before < 200 * MB


def test_a_store_reads_all_that_it_has_written(tmp_path: Path) -> None:
    """The end of a session with long paths was a record that no start could read."""
    with store_process(tmp_path / "store") as store:
        with RudeClient(store.port).open_session() as client:
            name = "é" * (MAX_PATH_CHARS - 10)
            creates = [create_body(f"/{n:04}{name}", b"", CreateMode.EPHEMERAL) for n in range(600)]
            client.create_many(creates, 20)
            assert client.ask(jute.OP_CLOSE_SESSION)[0] == 0
        with RudeClient(store.port).open_session() as client:
            assert client.ask(jute.OP_CREATE, create_body("/after"))[0] == 0
        store.kill()
    with store_process(tmp_path / "store") as store:
        with RudeClient(store.port).open_session() as client:
            assert client.ask(jute.OP_EXISTS, path_body("/after"))[0] == 0
            assert client.ask(jute.OP_EXISTS, path_body(f"/0007{name}"))[0] == -101
        assert store.stop() == 0
