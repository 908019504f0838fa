"""Who hears of an event: rights, depth, and watchers that are gone."""

from __future__ import annotations

from ottla.metadata.store import OPEN_ACL, Acl, EventType
from ottla.zk.server.acl import READ, Identity, allows, digest_identity
from ottla.zk.server.tree import CreateTxn, DeleteTxn, SetAclTxn, SetDataTxn, Tree, Trigger
from ottla.zk.server.watches import WATCH_BYTES, Watches

OWNER = digest_identity(b"owner:secret")
SECRET = (Acl(31, "digest", OWNER.id),)


class Ear:
    def __init__(self, *identities: Identity) -> None:
        self.heard: list[tuple[EventType, str]] = []
        self._identities = identities

    def notify(self, kind: EventType, path: str) -> None:
        self.heard.append((kind, path))

    def may_read(self, acl: tuple[Acl, ...]) -> bool:
        return allows(acl, READ, self._identities)


def told(watches: Watches, tree: Tree, *txns) -> None:
    for txn in txns:
        triggers: list[Trigger] = []
        tree.apply(tree.last_zxid + 1, 0, txn, triggers)
        watches.fire(triggers)


def test_a_recursive_watch_tells_only_of_nodes_that_may_be_read():
    """CVE-2024-23944, as WatchManager and NIOServerCnxn of ZooKeeper 3.9.2 do it."""
    tree, watches = Tree(), Watches()
    stranger, owner = Ear(), Ear(OWNER)
    for ear in (stranger, owner):
        watches.add_persistent("/", ear, recursive=True)
    told(
        watches,
        tree,
        CreateTxn("/open", b"", OPEN_ACL, 0, 1),
        CreateTxn("/safe", b"", SECRET, 0, 2),
        CreateTxn("/safe/in", b"", SECRET, 0, 1),
        SetDataTxn("/safe/in", b"1", 1),
        DeleteTxn("/safe/in"),
        DeleteTxn("/safe"),
    )
    assert stranger.heard == [(EventType.CREATED, "/open")]
    assert owner.heard == [
        (EventType.CREATED, "/open"),
        (EventType.CREATED, "/safe"),
        (EventType.CREATED, "/safe/in"),
        (EventType.DATA_CHANGED, "/safe/in"),
        (EventType.DELETED, "/safe/in"),
        (EventType.DELETED, "/safe"),
    ]


def test_a_plain_watch_on_a_path_that_somebody_else_takes_is_spent_in_silence():
    tree, watches, stranger = Tree(), Watches(), Ear()
    watches.add_data("/safe", stranger)
    told(watches, tree, CreateTxn("/safe", b"", SECRET, 0, 1))
    assert stranger.heard == []
    assert len(watches) == 0


def test_a_change_of_children_needs_the_right_to_read_the_parent():
    tree, watches = Tree(), Watches()
    stranger, owner = Ear(), Ear(OWNER)
    told(watches, tree, CreateTxn("/p", b"", OPEN_ACL, 0, 1))
    for ear in (stranger, owner):
        watches.add_children("/p", ear)
    told(watches, tree, SetAclTxn("/p", SECRET, 1), CreateTxn("/p/c", b"", OPEN_ACL, 0, 1))
    assert stranger.heard == []
    assert owner.heard == [(EventType.CHILDREN_CHANGED, "/p")]


def test_a_child_that_is_open_is_not_hidden_by_its_parent():
    """The node's own ACL decides, as in ZooKeeper."""
    tree, watches, stranger = Tree(), Watches(), Ear()
    watches.add_persistent("/", stranger, recursive=True)
    told(
        watches,
        tree,
        CreateTxn("/p", b"", SECRET, 0, 1),
        CreateTxn("/p/c", b"", OPEN_ACL, 0, 1),
    )
    assert stranger.heard == [(EventType.CREATED, "/p/c")]


def test_who_is_gone_hears_nothing_and_costs_little_at_a_time():
    watches, gone, other = Watches(), Ear(), Ear()
    for number in range(1000):
        watches.add_data(f"/n{number}", gone)
    watches.add_persistent("/n5", gone, recursive=True)
    watches.add_data("/n7", other)
    before = len(watches)
    watches.abandon(gone)
    assert len(watches) == before, "nothing was gone through yet"
    watches.fire([(EventType.DATA_CHANGED, f"/n{n}", OPEN_ACL) for n in range(10)])
    watches.fire([(EventType.CREATED, "/n5/x", OPEN_ACL)])
    assert gone.heard == []
    assert other.heard == [(EventType.DATA_CHANGED, "/n7")]
    turns = 1
    while watches.sweep(100):
        turns += 1
    assert turns == 10
    assert len(watches) == 0
    assert watches.watched_paths() == 0
    assert not watches._gone
    assert not watches._recursive


def test_what_watches_take_is_known():
    watches, ear = Watches(), Ear()
    watches.add_data("/a", ear)
    watches.add_children("/a", ear)
    watches.add_persistent("/abc", ear, recursive=True)
    assert watches.held[ear] == 2 * WATCH_BYTES + 6
    watches.fire([(EventType.DELETED, "/a", OPEN_ACL)])
    assert watches.held[ear] == WATCH_BYTES + 4
    watches.remove_watcher(ear)
    assert ear not in watches.held


def test_a_recursive_watch_at_any_depth_is_found():
    watches = Watches()
    ears = {path: Ear() for path in ("/", "/a", "/a/b", "/a/bc", "/a/b/c")}
    for path, ear in ears.items():
        watches.add_persistent(path, ear, recursive=True)
    watches.fire([(EventType.CREATED, "/a/b/c", OPEN_ACL)])
    heard = [path for path, ear in ears.items() if ear.heard]
    assert heard == ["/", "/a", "/a/b", "/a/b/c"]
