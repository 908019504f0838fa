"""What a store says after a restart is held against what it wrote before."""

from __future__ import annotations

import pytest

from ottla.metadata.store import OPEN_ACL
from ottla.simulation.store_memory import MAX_DIFFERENCES, StoreMemory
from ottla.zk.server.tree import CreateSessionTxn, CreateTxn, Tree, Txn

WRITES: list[Txn] = [
    CreateSessionTxn(7, 5000),
    CreateTxn("/controller", b"1", OPEN_ACL, 7, 1),
    CreateTxn("/a", b"", OPEN_ACL, 0, 2),
    CreateTxn("/a/b", b"", OPEN_ACL, 0, 1),
]


def story(count: int = len(WRITES)) -> tuple[StoreMemory, Tree]:
    """All writes in memory, the first `count` of them in the tree."""
    memory, tree = StoreMemory(), Tree()
    for zxid, txn in enumerate(WRITES, start=1):
        memory.written(zxid, 1000 + zxid, [txn])
        if zxid <= count:
            tree.apply(zxid, 1000 + zxid, txn, [])
    return memory, tree


@pytest.mark.parametrize("count", range(len(WRITES) + 1))
def test_what_was_lost_at_the_end_has_never_been(count):
    memory, tree = story(count)
    assert memory.restarted(tree) == []
    memory.written(count + 1, 0, [])
    assert memory.restarted(tree) == []


def test_differences_are_told():
    memory, tree = story()
    tree.sessions.clear()
    tree.ephemerals.clear()
    tree.nodes["/a"].creations = 0
    del tree.nodes["/a/b"]
    told = memory.restarted(tree)
    assert [text.split(" with ")[1].split()[0] for text in told] == [
        "sessions",
        "ephemerals",
        "/a",
        "/a/b",
    ]
    tree.nodes.clear()
    assert len(memory.restarted(tree)) == MAX_DIFFERENCES
