"""The znode tree: transactions that are already decided go in, watch events come out. Pure.

A transaction says what the result is (absolute versions and counters), never what to add, so
applying one twice changes nothing: a snapshot may be taken while writes go on, and replaying
the journal over it still gives the right tree (ZooKeeper's "fuzzy" snapshots).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ottla.errors import InvariantViolated
from ottla.metadata.store import OPEN_ACL, Acl, EventType, Stat
from ottla.zk import jute
from ottla.zk.paths import parent_of

# What a node's owner says (EphemeralType): 0 nothing, above it a session, whose ids are never
# negative here, below it that the node goes when it is idle. A container has the lowest number;
# one with a time to live has 0xff in the top byte and milliseconds in the lower five.
CONTAINER_OWNER = -(1 << 63)
_TTL_OWNER = -(1 << 56)
MAX_TTL_MS = (1 << 40) - 1
_MAX_INT = (1 << 31) - 1
# Answers to getData that are kept encoded.
MAX_KEPT_REPLY_BYTES = 1 << 14

_READ_ONLY_ACL = (Acl(1, "world", "anyone"),)

# Looked up once: reading an attribute of an enum class costs as much as making a tuple.
_CREATED = EventType.CREATED
_CHILDREN_CHANGED = EventType.CHILDREN_CHANGED


def ttl_owner(ttl_ms: int) -> int:
    return _TTL_OWNER | ttl_ms


def ttl_of(owner: int) -> int:
    """The time to live that `ttl_owner` put there."""
    return owner & MAX_TTL_MS


class CreateTxn(NamedTuple):
    path: str
    data: bytes | None
    acl: tuple[Acl, ...]
    owner: int  # 0 persistent, a session, CONTAINER_OWNER, or what `ttl_owner` says
    parent_creations: int  # the parent's count of children ever made, this one included


class DeleteTxn(NamedTuple):
    path: str


class SetDataTxn(NamedTuple):
    path: str
    data: bytes | None
    version: int


class SetAclTxn(NamedTuple):
    path: str
    acl: tuple[Acl, ...]
    version: int


class CreateSessionTxn(NamedTuple):
    session_id: int
    timeout_ms: int


class CloseSessionTxn(NamedTuple):
    session_id: int
    # Named, because a snapshot taken meanwhile may know some of them no more (ZOOKEEPER-3145).
    paths: tuple[str, ...]


Txn = CreateTxn | DeleteTxn | SetDataTxn | SetAclTxn | CreateSessionTxn | CloseSessionTxn

# What happened where, and the ACL that says who may know: the node's own, of a change of children
# the parent's (CVE-2024-23944). The watches decide who hears of it.
Trigger = tuple[EventType, str, tuple[Acl, ...]]
# How to take one change back again: a function and what to call it with.
Undo = tuple[Callable[..., None], tuple[object, ...]]


class Node:
    """One znode. `data_reply` and `children_reply` keep encoded answers until a change."""

    __slots__ = (
        "acl",
        "aversion",
        "children",
        "children_reply",
        "creations",
        "ctime",
        "czxid",
        "data",
        "data_reply",
        "mtime",
        "mzxid",
        "owner",
        "pzxid",
        "version",
    )

    def __init__(
        self, data: bytes | None, acl: tuple[Acl, ...], owner: int, zxid: int, time_ms: int
    ) -> None:
        self.data = data
        self.acl = acl
        self.owner = owner
        self.czxid = self.mzxid = self.pzxid = zxid
        self.ctime = self.mtime = time_ms
        self.version = self.aversion = 0
        # Children ever made. ZooKeeper numbers sequential nodes with this count and shows
        # cversion as creations plus deletions (DataNode.copyStat).
        self.creations = 0
        # Each with its name as answers have it: a list of a million is then made in one go. A dict
        # and not a set: its order is the same in every run of the simulator.
        self.children: dict[str, bytes] | None = None
        self.data_reply: bytes | None = None
        self.children_reply: bytes | None = None

    def stat(self) -> Stat:
        return Stat._make(jute.STAT.unpack(self.packed_stat()))

    def packed_stat(self) -> bytes:
        children = len(self.children) if self.children else 0
        data = self.data
        cversion = self.creations * 2 - children
        if cversion > _MAX_INT:
            # An int in Java, which wraps.
            cversion = (cversion + _MAX_INT + 1) % (2 * _MAX_INT + 2) - _MAX_INT - 1
        return jute.STAT.pack(
            self.czxid,
            self.mzxid,
            self.ctime,
            self.mtime,
            self.version,
            cversion,
            self.aversion,
            max(self.owner, 0),
            len(data) if data else 0,
            children,
            self.pzxid,
        )

    def packed_data(self) -> bytes:
        """The body of a getData answer."""
        body = self.data_reply
        if body is None:
            data = self.data
            if data is None:
                body = jute.NULL + self.packed_stat()
            else:
                body = jute.INT.pack(len(data)) + data + self.packed_stat()
                if len(data) > MAX_KEPT_REPLY_BYTES:
                    # Quick to make, and kept it would double what the node takes.
                    return body
            self.data_reply = body
        return body

    def data_parts(self) -> tuple[bytes, ...]:
        """As `packed_data`, in pieces where it is large: nothing large is copied."""
        data = self.data
        if data is None or len(data) <= MAX_KEPT_REPLY_BYTES:
            return (self.packed_data(),)
        return jute.INT.pack(len(data)), data, self.packed_stat()

    def packed_children(self) -> bytes:
        """The body of a getChildren answer."""
        body = self.children_reply
        if body is None:
            children = self.children or {}
            body = jute.INT.pack(len(children)) + b"".join(children.values())
            self.children_reply = body
        return body


class Tree:
    """All nodes by full path, plus the sessions and what they own."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.sessions: dict[int, int] = {}
        self.ephemerals: dict[int, dict[str, None]] = {}
        self.containers: dict[str, None] = {}
        self.ttls: dict[str, None] = {}
        self.last_zxid = 0
        self._add_reserved_nodes()

    def apply(
        self,
        zxid: int,
        time_ms: int,
        txn: Txn,
        triggers: list[Trigger],
        undos: list[Undo] | None = None,
    ) -> None:
        """Changes the tree; what happened is appended to `triggers`.

        A multi may have to be taken back: `undos` gets what it takes, for the three kinds of
        transaction that can be part of one.
        """
        self.last_zxid = zxid
        if type(txn) is CreateTxn:
            self.create(zxid, time_ms, txn, triggers, undos)
        elif type(txn) is SetDataTxn:
            self._set_data(zxid, time_ms, txn, triggers, undos)
        elif type(txn) is DeleteTxn:
            self._delete(zxid, txn.path, triggers, undos)
        elif type(txn) is SetAclTxn:
            node = self.nodes.get(txn.path)
            if node is not None:
                node.acl = txn.acl
                node.aversion = txn.version
                node.data_reply = None
        elif type(txn) is CreateSessionTxn:
            self.sessions[txn.session_id] = txn.timeout_ms
        elif type(txn) is CloseSessionTxn:
            self.sessions.pop(txn.session_id, None)
            for path in txn.paths:
                self._delete(zxid, path, triggers)
        else:
            raise InvariantViolated(f"not a transaction: {txn!r}")

    def create(
        self,
        zxid: int,
        time_ms: int,
        txn: CreateTxn,
        triggers: list[Trigger],
        undos: list[Undo] | None = None,
    ) -> None:
        """`apply` for a create; whoever calls it moves `last_zxid`."""
        path, data, acl, owner, parent_creations = txn
        slash = path.rfind("/")
        parent_path = path[:slash] or "/"
        nodes = self.nodes
        fresh = Node(data, acl, owner, zxid, time_ms)
        node = nodes.get(path)
        if node is not None:
            # Only when the journal is replayed over a snapshot that saw later writes.
            self._drop_owner(path, node.owner)
            fresh.children = node.children
        nodes[path] = fresh
        parent = nodes.get(parent_path)
        if parent is not None:
            if undos is not None:
                before = (path, parent, parent.creations, parent.pzxid)
                undos.append((self._undo_create, before))
            if parent.children is None:
                parent.children = {}
            name = path[slash + 1 :]
            parent.children[name] = jute.write_string(name)
            parent.data_reply = parent.children_reply = None
            if parent_creations > parent.creations:
                parent.creations = parent_creations
                parent.pzxid = zxid
        if owner:
            self._index_owner(path, owner)
        triggers.append((_CREATED, path, acl))
        if parent is not None:
            triggers.append((_CHILDREN_CHANGED, parent_path, parent.acl))

    def is_idle(self, path: str, now_ms: int) -> bool:
        """Whether a node may go (ContainerManager): a container that had children and has none,
        one without children whose time to live has passed since its data was set."""
        node = self.nodes.get(path)
        if node is None or node.owner >= 0 or node.children:
            return False
        if node.owner == CONTAINER_OWNER:
            return node.creations > 0
        return now_ms - node.mtime > ttl_of(node.owner)

    def insert(self, path: str, node: Node) -> None:
        """Puts a node in place as it is (from a snapshot), linking it to its parent."""
        self.nodes[path] = node
        if path != "/":
            parent = self.nodes.get(parent_of(path))
            if parent is not None:
                self._link(parent, path)
        self._index_owner(path, node.owner)

    def _add_reserved_nodes(self) -> None:
        for path in ("/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"):
            acl = _READ_ONLY_ACL if path == "/zookeeper/config" else OPEN_ACL
            self.insert(path, Node(b"", acl, 0, 0, 0))

    def _set_data(
        self,
        zxid: int,
        time_ms: int,
        txn: SetDataTxn,
        triggers: list[Trigger],
        undos: list[Undo] | None,
    ) -> None:
        node = self.nodes.get(txn.path)
        if node is None:
            return
        if undos is not None:
            before = (node, node.data, node.version, node.mzxid, node.mtime)
            undos.append((self._undo_set_data, before))
        node.data = txn.data
        node.version = txn.version
        node.mzxid = zxid
        node.mtime = time_ms
        node.data_reply = None
        triggers.append((EventType.DATA_CHANGED, txn.path, node.acl))

    def _delete(
        self,
        zxid: int,
        path: str,
        triggers: list[Trigger],
        undos: list[Undo] | None = None,
    ) -> None:
        node = self.nodes.pop(path, None)
        if node is not None and node.owner:
            self._drop_owner(path, node.owner)
        slash = path.rfind("/")
        parent_path = path[:slash] or "/"
        parent = self.nodes.get(parent_path)
        if parent is not None:
            if undos is not None:
                undos.append((self._undo_delete, (path, node, parent, parent.pzxid)))
            if parent.children is not None:
                parent.children.pop(path[slash + 1 :], None)
            parent.data_reply = parent.children_reply = None
            if zxid > parent.pzxid:
                parent.pzxid = zxid
        if node is not None:
            triggers.append((EventType.DELETED, path, node.acl))
            if parent is not None:
                triggers.append((EventType.CHILDREN_CHANGED, parent_path, parent.acl))

    def _link(self, parent: Node, path: str) -> None:
        if parent.children is None:
            parent.children = {}
        name = path[path.rfind("/") + 1 :]
        parent.children[name] = jute.write_string(name)
        parent.data_reply = parent.children_reply = None

    def _index_owner(self, path: str, owner: int) -> None:
        if owner > 0:
            self.ephemerals.setdefault(owner, {})[path] = None
        elif owner == CONTAINER_OWNER:
            self.containers[path] = None
        elif owner:
            self.ttls[path] = None

    def _drop_owner(self, path: str, owner: int) -> None:
        if owner == CONTAINER_OWNER:
            self.containers.pop(path, None)
        elif owner < 0:
            self.ttls.pop(path, None)
        elif owner:
            owned = self.ephemerals.get(owner)
            if owned is not None:
                owned.pop(path, None)
                if not owned:
                    del self.ephemerals[owner]

    def _undo_create(self, path: str, parent: Node, creations: int, pzxid: int) -> None:
        node = self.nodes.pop(path)
        self._drop_owner(path, node.owner)
        if parent.children is not None:
            del parent.children[path[path.rfind("/") + 1 :]]
        parent.creations, parent.pzxid = creations, pzxid
        parent.data_reply = parent.children_reply = None

    def _undo_delete(self, path: str, node: Node, parent: Node, pzxid: int) -> None:
        self.insert(path, node)
        parent.pzxid = pzxid

    def _undo_set_data(
        self, node: Node, data: bytes | None, version: int, mzxid: int, mtime: int
    ) -> None:
        node.data, node.version, node.mzxid, node.mtime = data, version, mzxid, mtime
        node.data_reply = None
