"""The tree and the watches, without any IO."""

from __future__ import annotations

import pytest

from ottla.metadata.store import (
    OPEN_ACL,
    Acl,
    BadArgumentsError,
    EventType,
    InvalidAclError,
    NoAuthError,
)
from ottla.zk.server import acl as acls
from ottla.zk.server import transactions
from ottla.zk.server.acl import Identity
from ottla.zk.server.tree import (
    CloseSessionTxn,
    CreateSessionTxn,
    CreateTxn,
    DeleteTxn,
    SetDataTxn,
    Tree,
)
from ottla.zk.server.watches import ANY, CHILDREN, DATA, Watches

SECRET = (Acl(31, "digest", "somebody:else"),)


def fire(watches: Watches, events: list) -> None:
    watches.fire([(*event, OPEN_ACL)[:3] for event in events])


class Ear:
    def __init__(self) -> None:
        self.heard: list[tuple[EventType, str]] = []

    def notify(self, kind: EventType, path: str) -> None:
        self.heard.append((kind, path))

    def may_read(self, acl) -> bool:
        return acl != SECRET


def apply(tree: Tree, *txns) -> list:
    triggers: list = []
    for txn in txns:
        tree.apply(tree.last_zxid + 1, 1000 + tree.last_zxid, txn, triggers)
    return triggers


def created(path: str, creations: int = 1, owner: int = 0) -> CreateTxn:
    return CreateTxn(path, b"", OPEN_ACL, owner, creations)


def test_the_reserved_nodes_count_as_in_zookeeper():
    tree = Tree()
    assert sorted(tree.nodes) == ["/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"]
    # They were never created by a transaction, so the counts start below zero.
    assert tree.nodes["/"].stat().cversion == -1
    assert tree.nodes["/zookeeper"].stat().cversion == -2


def test_reserved_nodes_are_not_deleted():
    for path in ("/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"):
        with pytest.raises(BadArgumentsError):
            transactions.prepare_delete(Tree(), (), path, -1)


def test_closing_a_session_deletes_its_nodes_in_one_transaction():
    tree = Tree()
    apply(tree, CreateSessionTxn(7, 1000), created("/a", 1, 7), created("/b", 2, 7))
    triggers = apply(tree, CloseSessionTxn(7, ("/a", "/b")))
    assert triggers == [
        (EventType.DELETED, "/a", OPEN_ACL),
        (EventType.CHILDREN_CHANGED, "/", OPEN_ACL),
        (EventType.DELETED, "/b", OPEN_ACL),
        (EventType.CHILDREN_CHANGED, "/", OPEN_ACL),
    ]
    assert tree.ephemerals == {}
    assert tree.sessions == {}
    assert tree.nodes["/"].pzxid == tree.last_zxid == 4


def test_applying_again_changes_nothing():
    once, twice = Tree(), Tree()
    txns = [created("/a", 1), created("/a/b", 1), SetDataTxn("/a", b"x", 1), DeleteTxn("/a/b")]
    apply(once, *txns)
    for zxid, txn in enumerate(txns, start=1):
        twice.apply(zxid, 999 + zxid, txn, [])
    for zxid, txn in enumerate(txns, start=1):
        twice.apply(zxid, 999 + zxid, txn, [])
    assert {path: node.stat() for path, node in once.nodes.items()} == {
        path: node.stat() for path, node in twice.nodes.items()
    }


def test_cached_answers_follow_changes():
    tree = Tree()
    apply(tree, created("/a", 1))
    node = tree.nodes["/a"]
    data, children = node.packed_data(), node.packed_children()
    assert node.packed_data() is data
    apply(tree, created("/a/b", 1))
    assert node.packed_data() != data
    assert node.packed_children() != children
    apply(tree, SetDataTxn("/a", b"new", 1))
    assert b"new" in node.packed_data()


def test_versions_wrap_like_a_java_int():
    tree = Tree()
    apply(tree, created("/a", 1))
    tree.nodes["/a"].version = 0x7FFF_FFFF
    assert transactions.prepare_set_data(tree, (), "/a", b"", -1).version == -0x8000_0000


def test_an_unknown_create_mode_is_refused():
    with pytest.raises(BadArgumentsError):
        transactions.prepare_create(Tree(), 1, (), "/a", b"", OPEN_ACL, 9)


# --- watches ---


def test_data_and_child_watches_are_separate():
    watches, ear = Watches(), Ear()
    watches.add_data("/a", ear)
    fire(watches, [(EventType.CHILDREN_CHANGED, "/a")])
    assert ear.heard == []
    watches.add_children("/a", ear)
    fire(watches, [(EventType.DATA_CHANGED, "/a")])
    fire(watches, [(EventType.DATA_CHANGED, "/a")])
    assert ear.heard == [(EventType.DATA_CHANGED, "/a")]
    fire(watches, [(EventType.CHILDREN_CHANGED, "/a")])
    assert len(ear.heard) == 2
    assert len(watches) == 0


def test_a_deletion_spends_both_and_is_told_once():
    watches, ear = Watches(), Ear()
    watches.add_data("/a", ear)
    watches.add_children("/a", ear)
    fire(watches, [(EventType.DELETED, "/a"), (EventType.CHILDREN_CHANGED, "/")])
    assert ear.heard == [(EventType.DELETED, "/a")]
    assert len(watches) == 0


def test_a_persistent_watch_stays():
    watches, ear = Watches(), Ear()
    watches.add_persistent("/a", ear, recursive=False)
    watches.add_data("/a", ear)
    triggers = [
        (EventType.CREATED, "/a"),
        (EventType.DATA_CHANGED, "/a"),
        (EventType.CHILDREN_CHANGED, "/a"),
        (EventType.DELETED, "/a"),
    ]
    fire(watches, triggers)
    fire(watches, [(EventType.CREATED, "/a"), (EventType.CREATED, "/a/b")])
    assert ear.heard == [*triggers, (EventType.CREATED, "/a")]


def test_a_recursive_watch_hears_everything_below_but_child_changes():
    watches, ear = Watches(), Ear()
    watches.add_persistent("/a", ear, recursive=True)
    fire(
        watches,
        [
            (EventType.CREATED, "/a/b/c"),
            (EventType.CHILDREN_CHANGED, "/a/b"),
            (EventType.DATA_CHANGED, "/a"),
            (EventType.CHILDREN_CHANGED, "/a"),
            (EventType.DELETED, "/a/b/c"),
            (EventType.CREATED, "/ab"),
        ],
    )
    assert ear.heard == [
        (EventType.CREATED, "/a/b/c"),
        (EventType.DATA_CHANGED, "/a"),
        (EventType.DELETED, "/a/b/c"),
    ]


def test_a_recursive_watch_of_the_root():
    watches, ear = Watches(), Ear()
    watches.add_persistent("/", ear, recursive=True)
    fire(watches, [(EventType.CREATED, "/x/y"), (EventType.CREATED, "/x")])
    assert len(ear.heard) == 2


def test_watches_are_removed_by_kind():
    watches, ear = Watches(), Ear()
    watches.add_data("/a", ear)
    watches.add_children("/a", ear)
    assert watches.contains("/a", ear, DATA)
    assert watches.remove("/a", ear, DATA)
    assert not watches.contains("/a", ear, DATA)
    assert watches.contains("/a", ear, ANY)
    assert not watches.remove("/a", ear, DATA)
    assert watches.remove("/a", ear, CHILDREN)
    assert not watches.remove("/a", ear, ANY)


def test_a_gone_watcher_leaves_nothing_behind():
    watches, ear, other = Watches(), Ear(), Ear()
    for number in range(10):
        watches.add_data(f"/{number}", ear)
    watches.add_persistent("/p", ear, recursive=True)
    watches.add_data("/1", other)
    watches.remove_watcher(ear)
    fire(watches, [(EventType.DATA_CHANGED, "/1"), (EventType.CREATED, "/p/x")])
    assert ear.heard == []
    assert other.heard == [(EventType.DATA_CHANGED, "/1")]
    assert len(watches) == 0
    assert watches._paths == {}
    assert watches._recursive == {}


# --- acls ---


def test_the_digest_is_zookeepers():
    # From Apache ZooKeeper's DigestAuthenticationProvider main: super:test.
    assert acls.digest_identity(b"super:test").id == "super:D/InIHSb7yEEbrWz8b9l71RjZJU="


def test_ip_entries_match_networks():
    acl = (Acl(1, "ip", "10.0.0.0/8"),)
    acls.check(acl, acls.READ, (Identity("ip", "10.1.2.3"),), "/a")
    for identity in (Identity("ip", "11.1.2.3"), Identity("ip", "nonsense")):
        with pytest.raises(NoAuthError):
            acls.check(acl, acls.READ, (identity,), "/a")
    with pytest.raises(NoAuthError):
        acls.check(acl, acls.WRITE, (Identity("ip", "10.1.2.3"),), "/a")


@pytest.mark.parametrize(
    ("scheme", "identity"),
    [("digest", "nocolon"), ("digest", ":x"), ("ip", "300.1.1.1"), ("sasl", "a")],
)
def test_impossible_entries(scheme, identity):
    with pytest.raises(InvalidAclError):
        acls.resolve((Acl(31, scheme, identity),), (), "/a")


def test_duplicates_are_stored_once():
    entry = Acl(31, "world", "anyone")
    assert acls.resolve((entry, entry), (), "/a") is OPEN_ACL
