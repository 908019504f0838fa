"""A multi is applied while it is read: whatever goes wrong on the way leaves nothing behind."""

from __future__ import annotations

import pytest

from ottla.metadata.store import OPEN_ACL, Acl, BadArgumentsError, CreateMode, EventType
from ottla.runtime import system_runtime
from ottla.zk import jute
from ottla.zk.jute import JuteError
from ottla.zk.server.acl import digest_identity
from ottla.zk.server.engine import Engine
from ottla.zk.server.multi import multi
from ottla.zk.server.peer import Peer
from ottla.zk.server.tree import Tree

MINE = (Acl(31, "auth", ""),)
NODE_EXISTS, BAD_VERSION, NOT_EMPTY = -110, -103, -111


class Caller(Peer):
    def __init__(self, engine: Engine) -> None:
        super().__init__(engine, "127.0.0.1")
        self.identities += (digest_identity(b"me:secret"),)
        self.session = engine.open_session(10_000)
        self.events: list[tuple[EventType, str]] = []

    def deliver(self, items: list[object]) -> None: ...

    def notify(self, kind: EventType, path: str) -> None:
        self.events.append((kind, path))

    def session_ended(self) -> None: ...

    def ask(self, *ops: bytes) -> bytes:
        body = b"".join(ops) + jute.END_OF_MULTI
        return multi(self, body, 0, len(body))


@pytest.fixture
async def caller(tmp_path):
    engine = Engine(system_runtime(), tmp_path)
    await engine.start()
    made = Caller(engine)
    made.ask(op_create("/a"), op_create("/a/b"))
    yield made
    await engine.stop()


def op(kind: int, body: bytes) -> bytes:
    return jute.MULTI_HEADER.pack(kind, False, -1) + body


def op_create(
    path: str,
    data: bytes | None = b"data",
    acl: tuple[Acl, ...] = OPEN_ACL,
    mode: int = 0,
    kind: int = jute.OP_CREATE,
) -> bytes:
    head = jute.write_string(path) + jute.write_buffer(data) + jute.write_acls(acl)
    return op(kind, head + jute.INT.pack(mode))


def op_set(path: str, data: bytes, version: int = -1) -> bytes:
    body = jute.write_string(path) + jute.write_buffer(data) + jute.INT.pack(version)
    return op(jute.OP_SET_DATA, body)


def op_versioned(kind: int, path: str, version: int = -1) -> bytes:
    return op(kind, jute.write_string(path) + jute.INT.pack(version))


def picture(tree: Tree) -> tuple[object, ...]:
    nodes = {
        path: (node.data, node.acl, node.owner, node.stat(), sorted(node.children or ()))
        for path, node in tree.nodes.items()
    }
    return nodes, tree.last_zxid, dict(tree.ephemerals), dict(tree.containers)


async def test_each_result_is_what_the_operation_alone_would_answer(caller):
    answer = caller.ask(
        op_create("/x"),
        op_create("/x/n-", mode=CreateMode.PERSISTENT_SEQUENTIAL),
        op_create("/y", kind=jute.OP_CREATE2),
        op_set("/x", b"new"),
        op_versioned(jute.OP_CHECK, "/x", 1),
        op_versioned(jute.OP_DELETE, "/y"),
    )
    # The stats right after each operation: /x has its child by then, /y is untouched.
    stat_of_y = caller.engine.tree.nodes["/x/n-0000000000"].stat()
    expected = [
        jute.MULTI_HEADER.pack(jute.OP_CREATE, False, 0) + jute.write_string("/x"),
        jute.MULTI_HEADER.pack(jute.OP_CREATE, False, 0) + jute.write_string("/x/n-0000000000"),
        jute.MULTI_HEADER.pack(jute.OP_CREATE2, False, 0) + jute.write_string("/y"),
        jute.STAT.pack(*stat_of_y),
        jute.MULTI_HEADER.pack(jute.OP_SET_DATA, False, 0),
        caller.engine.tree.nodes["/x"].packed_stat(),
        jute.MULTI_HEADER.pack(jute.OP_CHECK, False, 0),
        jute.MULTI_HEADER.pack(jute.OP_DELETE, False, 0),
        jute.END_OF_MULTI,
    ]
    assert answer == b"".join(expected)


async def test_the_journal_tells_the_same_as_the_tree(caller, tmp_path):
    """Plain creates go to the journal as they came; what had to be resolved is encoded anew."""
    engine = caller.engine
    caller.ask(
        op_create("/a/ä", b"1"),
        op_create("/a/null", None),
        op_create("/a/mine", b"2", MINE),
        op_create("/a/open-", b"3", OPEN_ACL * 2, CreateMode.PERSISTENT_SEQUENTIAL),
        op_create("/a/mortal", b"4", mode=CreateMode.EPHEMERAL),
        op_create("/a/box", b"5", mode=CreateMode.CONTAINER, kind=jute.OP_CREATE_CONTAINER),
        op_set("/a/b", b"6"),
        op_versioned(jute.OP_DELETE, "/a/null"),
    )
    before = picture(engine.tree)
    assert engine.tree.nodes["/a/mine"].acl[0].scheme == "digest"
    await engine.stop()
    again = Engine(system_runtime(), tmp_path)
    await again.start()
    assert picture(again.tree) == before
    await again.stop()


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (op_create("/a/b"), NODE_EXISTS),
        (op_set("/a", b"", 7), BAD_VERSION),
        (op_versioned(jute.OP_CHECK, "/a", 7), BAD_VERSION),
        (op_versioned(jute.OP_DELETE, "/a"), NOT_EMPTY),
    ],
)
async def test_one_refusal_takes_all_back(caller, wrong, code):
    before = picture(caller.engine.tree)
    caller.engine.watches.add_data("/a", caller)
    answer = caller.ask(
        op_create("/a/new", mode=CreateMode.EPHEMERAL),
        op_create("/a/new-", mode=CreateMode.PERSISTENT_SEQUENTIAL),
        op_set("/a", b"changed"),
        op_versioned(jute.OP_DELETE, "/a/b"),
        op_create("/a/b", b"another"),
        wrong,
        op_create("/later"),
    )
    errors = [0, 0, 0, 0, 0, code, -2]
    parts = [jute.MULTI_HEADER.pack(-1, False, e) + jute.INT.pack(e) for e in errors]
    assert answer == b"".join(parts) + jute.END_OF_MULTI
    assert picture(caller.engine.tree) == before
    assert caller.events == []


async def test_a_multi_that_is_cut_off_anywhere_changes_nothing(caller):
    body = op_create("/a/new") + op_set("/a", b"x") + op_versioned(jute.OP_DELETE, "/a/b")
    body += op_create("/acl", acl=MINE, mode=CreateMode.EPHEMERAL) + jute.END_OF_MULTI
    before = picture(caller.engine.tree)
    for length in range(len(body)):
        # What follows in the buffer belongs to the next packet and must not be read.
        with pytest.raises(JuteError):
            multi(caller, body, 0, length)
        assert picture(caller.engine.tree) == before


async def test_what_is_malformed_after_a_refusal_is_malformed(caller):
    before = picture(caller.engine.tree)
    for broken in (op(jute.OP_GET_DATA, jute.write_string("/a")), op_create("/c")[:-1]):
        with pytest.raises(JuteError):
            caller.ask(op_create("/a/b"), broken)
    not_text = op_create("/a/xx").replace(b"xx", b"\xff\xff")
    with pytest.raises(JuteError):
        caller.ask(not_text)
    assert picture(caller.engine.tree) == before


@pytest.mark.parametrize(
    "path", ["//a", "/a//b", "/a/", "/a/.", "/a/..", "/.", "/a/\0", "/a/\x7f", "a", "", "/a/\ue000"]
)
async def test_illegal_paths_are_refused_wherever_the_parent_is_known(caller, path):
    answer = caller.ask(op_create(path))
    code = jute.MULTI_HEADER.unpack_from(answer)[2]
    assert code in (BadArgumentsError.code, -101)
    assert path not in caller.engine.tree.nodes
