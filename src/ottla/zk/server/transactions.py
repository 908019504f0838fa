"""Decides what a write request does (ZooKeeper's PrepRequestProcessor). Pure.

Each `prepare_*` checks one request against the tree and returns the transaction to apply, or
raises the StoreError that the client is told. `Multi` does several, all or nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.metadata.store import (
    ANY_VERSION,
    EPHEMERAL_MODES,
    NO_TTL,
    OPEN_ACL,
    SEQUENTIAL_MODES,
    TTL_MODES,
    Acl,
    BadArgumentsError,
    BadVersionError,
    Check,
    Create,
    CreateMode,
    Delete,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Op,
    SetData,
    Stat,
    UnimplementedError,
)
from ottla.zk.paths import SPECIAL_PATHS, is_too_long, parent_of, validate, validate_child
from ottla.zk.server import acl as acls
from ottla.zk.server.acl import Identity
from ottla.zk.server.records import encode_create
from ottla.zk.server.tree import (
    CONTAINER_OWNER,
    MAX_TTL_MS,
    CreateTxn,
    DeleteTxn,
    Node,
    SetAclTxn,
    SetDataTxn,
    Tree,
    Trigger,
    Txn,
    Undo,
    ttl_owner,
)

# What the ACLs of one multi may come to in the journal.
MAX_GROWTH_BYTES = 4 << 20

_CONTAINER = CreateMode.CONTAINER
_MODES = frozenset(int(mode) for mode in CreateMode)

# Half the time of a NamedTuple's own constructor.
_as_create: Callable[[type[CreateTxn], tuple[object, ...]], CreateTxn] = tuple.__new__


def prepare_create(
    tree: Tree,
    session_id: int,
    identities: tuple[Identity, ...],
    path: str,
    data: bytes | None,
    acl: tuple[Acl, ...],
    mode: int,
    ttl_ms: int = NO_TTL,
    *,
    extended_types: bool = False,
) -> CreateTxn:
    slash = path.rfind("/")
    if mode not in _MODES or slash < 0:
        raise BadArgumentsError(path)
    if mode > _CONTAINER or ttl_ms != NO_TTL:
        _check_ttl(mode, ttl_ms, path, extended_types=extended_types)
    if acl is not OPEN_ACL:
        acl = acls.resolve(acl, identities, path)
    nodes = tree.nodes
    parent = nodes.get(path[:slash] or "/")
    if parent is None:
        raise NoNodeError(path[:slash])
    if parent.acl is not OPEN_ACL:
        acls.check(parent.acl, acls.CREATE, identities, path)
    if mode in SEQUENTIAL_MODES:
        # ZooKeeper counts in a signed 32-bit int, which wraps.
        path += format(_int32(parent.creations), "010d")
    validate_child(path, slash)
    if is_too_long(path):
        raise BadArgumentsError(path)
    if path in nodes:
        raise NodeExistsError(path)
    if parent.owner > 0:
        raise NoChildrenForEphemeralsError(path)
    owner = 0
    if mode in EPHEMERAL_MODES:
        owner = session_id
    elif mode == _CONTAINER:
        owner = CONTAINER_OWNER
    elif mode > _CONTAINER:
        owner = ttl_owner(ttl_ms)
    return _as_create(CreateTxn, (path, data, acl, owner, parent.creations + 1))


def prepare_set_data(
    tree: Tree, identities: tuple[Identity, ...], path: str, data: bytes | None, version: int
) -> SetDataTxn:
    validate(path)
    node = _node(tree, path)
    acls.check(node.acl, acls.WRITE, identities, path)
    return SetDataTxn(path, data, _next_version(node.version, version, path))


def prepare_delete(
    tree: Tree, identities: tuple[Identity, ...], path: str, version: int
) -> DeleteTxn:
    if "/" not in path or path in SPECIAL_PATHS:
        raise BadArgumentsError(path)
    parent = _node(tree, parent_of(path))
    acls.check(parent.acl, acls.DELETE, identities, path)
    node = _node(tree, path)
    _next_version(node.version, version, path)
    if node.children:
        raise NotEmptyError(path)
    return DeleteTxn(path)


def prepare_set_acl(
    tree: Tree,
    identities: tuple[Identity, ...],
    path: str,
    acl: tuple[Acl, ...],
    version: int,
) -> SetAclTxn:
    validate(path)
    acl = acls.resolve(acl, identities, path)
    node = _node(tree, path)
    acls.check(node.acl, acls.ADMIN, identities, path)
    return SetAclTxn(path, acl, _next_version(node.aversion, version, path))


def check_version(tree: Tree, identities: tuple[Identity, ...], path: str, version: int) -> None:
    validate(path)
    node = _node(tree, path)
    acls.check(node.acl, acls.READ, identities, path)
    _next_version(node.version, version, path)


# What an operation of a multi tells: the path of a node it made, the stat where there is one.
MultiResult = tuple[str | None, Stat | None]


class Multi:
    """One multi under way: operations are applied one by one, each seeing those before it.

    When one raises a StoreError, or there is no reason any more to go on, `take_back` leaves
    the tree as it was before.
    """

    __slots__ = (
        "_before",
        "_extended_types",
        "_growth",
        "_identities",
        "_session_id",
        "_tree",
        "_undos",
        "log",
        "time_ms",
        "triggers",
        "zxid",
    )

    def __init__(
        self,
        tree: Tree,
        session_id: int,
        identities: tuple[Identity, ...],
        time_ms: int,
        *,
        extended_types: bool = False,
    ) -> None:
        self._tree = tree
        self._extended_types = extended_types
        self._session_id = session_id
        self._identities = identities
        self._before = tree.last_zxid
        self._undos: list[Undo] = []
        self._growth = 0
        self.zxid = tree.last_zxid + 1
        self.time_ms = time_ms
        self.triggers: list[Trigger] = []
        # For the journal: transactions, or what `records` makes of them.
        self.log: list[Txn | bytes] = []

    def create(
        self,
        path: str,
        data: bytes | None,
        acl: tuple[Acl, ...],
        mode: int,
        wire: bytes | None = None,
        ttl_ms: int = NO_TTL,
    ) -> str:
        """The path made. `wire`: path, data and ACL as the request has them, which the journal
        takes over where nothing in them had to be resolved."""
        tree = self._tree
        txn = prepare_create(
            tree,
            self._session_id,
            self._identities,
            path,
            data,
            acl,
            mode,
            ttl_ms,
            extended_types=self._extended_types,
        )
        tree.last_zxid = self.zxid
        tree.create(self.zxid, self.time_ms, txn, self.triggers, self._undos)
        if wire is not None and txn.path is path and txn.acl is acl:
            self.log.append(encode_create(wire, txn.owner, txn.parent_creations))
        else:
            self.log.append(txn)
            self._grow(txn)
        return txn.path

    def set_data(self, path: str, data: bytes | None, version: int) -> None:
        self._apply(prepare_set_data(self._tree, self._identities, path, data, version))

    def delete(self, path: str, version: int) -> None:
        self._apply(prepare_delete(self._tree, self._identities, path, version))

    def check(self, path: str, version: int) -> None:
        check_version(self._tree, self._identities, path, version)

    def perform(self, op: Op) -> MultiResult:
        """The path of a created node, and the stat of the node right after the operation."""
        if type(op) is Create:
            path = self.create(op.path, op.data, op.acl, op.mode, ttl_ms=op.ttl_ms)
            return path, self._tree.nodes[path].stat()
        if type(op) is SetData:
            self.set_data(op.path, op.data, op.version)
            return None, self._tree.nodes[op.path].stat()
        if type(op) is Delete:
            self.delete(op.path, op.version)
        elif type(op) is Check:
            self.check(op.path, op.version)
        else:
            raise BadArgumentsError(repr(op))
        return None, None

    def packed_stat(self, path: str) -> bytes:
        return self._tree.nodes[path].packed_stat()

    def take_back(self) -> None:
        for undo, before in reversed(self._undos):
            undo(*before)
        self._tree.last_zxid = self._before
        self._undos.clear()
        self.triggers.clear()
        self.log.clear()

    def _grow(self, txn: CreateTxn) -> None:
        """What the caller proved may stand in each node where the request says `auth`: a packet
        bounds what it says, this what becomes of it."""
        self._growth += sum(len(acl.id) for acl in txn.acl)
        if self._growth > MAX_GROWTH_BYTES:
            raise BadArgumentsError(txn.path)

    def _apply(self, txn: SetDataTxn | DeleteTxn) -> None:
        self._tree.apply(self.zxid, self.time_ms, txn, self.triggers, self._undos)
        self.log.append(txn)


def _check_ttl(mode: int, ttl_ms: int, path: str, *, extended_types: bool) -> None:
    """As validateCreateRequest: a time to live goes with its modes and with no other."""
    has_ttl = mode in TTL_MODES
    if has_ttl and not extended_types:
        raise UnimplementedError(path)
    if not (0 < ttl_ms <= MAX_TTL_MS if has_ttl else ttl_ms < 0):
        raise BadArgumentsError(path)


def _node(tree: Tree, path: str) -> Node:
    node = tree.nodes.get(path)
    if node is None:
        raise NoNodeError(path)
    return node


def _next_version(current: int, expected: int, path: str) -> int:
    if expected not in (ANY_VERSION, current):
        raise BadVersionError(path)
    return _int32(current + 1)


def _int32(value: int) -> int:
    return (value + 0x8000_0000) % 0x1_0000_0000 - 0x8000_0000
