"""Decides what a write request does (ZooKeeper's PrepRequestProcessor). Pure.

Each `prepare_*` checks one request against the tree and returns the transaction to apply, or
raises the StoreError that the client is told. `apply_multi` does a list, all or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.metadata.store import (
    ANY_VERSION,
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
    StoreError,
)
from ottla.zk import acl as acls
from ottla.zk.acl import Identity
from ottla.zk.paths import SPECIAL_PATHS, parent_of, validate
from ottla.zk.tree import (
    CONTAINER_OWNER,
    CreateTxn,
    DeleteTxn,
    Node,
    SetAclTxn,
    SetDataTxn,
    Tree,
    Trigger,
)

_EPHEMERAL = (CreateMode.EPHEMERAL, CreateMode.EPHEMERAL_SEQUENTIAL)
_SEQUENTIAL = (CreateMode.PERSISTENT_SEQUENTIAL, CreateMode.EPHEMERAL_SEQUENTIAL)
_MODES = frozenset(int(mode) for mode in CreateMode)


def prepare_create(
    tree: Tree,
    session_id: int,
    identities: tuple[Identity, ...],
    path: str,
    data: bytes | None,
    acl: tuple[Acl, ...],
    mode: int,
) -> CreateTxn:
    if mode not in _MODES or "/" not in path:
        raise BadArgumentsError(path)
    acl = acls.resolve(acl, identities, path)
    parent = _node(tree, parent_of(path))
    acls.check(parent.acl, acls.CREATE, identities, path)
    if mode in _SEQUENTIAL:
        # ZooKeeper counts in a signed 32-bit int, which wraps.
        path += format(_int32(parent.creations), "010d")
    validate(path)
    if path in tree.nodes:
        raise NodeExistsError(path)
    if parent.owner and parent.owner != CONTAINER_OWNER:
        raise NoChildrenForEphemeralsError(path)
    owner = 0
    if mode in _EPHEMERAL:
        owner = session_id
    elif mode == CreateMode.CONTAINER:
        owner = CONTAINER_OWNER
    return CreateTxn(path, data, acl, owner, parent.creations + 1)


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


MultiTxn = CreateTxn | SetDataTxn | DeleteTxn
# What one operation of a multi did: nothing for a check; the stat right after it otherwise.
MultiResult = tuple[MultiTxn | None, Stat | None]


def apply_multi(
    tree: Tree,
    session_id: int,
    identities: tuple[Identity, ...],
    ops: Sequence[Op],
    zxid: int,
    time_ms: int,
    triggers: list[Trigger],
) -> tuple[list[MultiResult], int, StoreError | None]:
    """Applies all operations, each seeing the ones before it, or none.

    Returns the result of each operation or, after a failure, the index and the error of the
    operation that failed; then the tree is as it was before.
    """
    results: list[MultiResult] = []
    undos: list[Callable[[], None]] = []
    before = tree.last_zxid
    for index, op in enumerate(ops):
        try:
            txn = _prepare(tree, session_id, identities, op)
        except StoreError as error:
            for undo in reversed(undos):
                undo()
            tree.last_zxid = before
            triggers.clear()
            return [], index, error
        if txn is None:
            results.append((None, None))
            continue
        undos.append(tree.savepoint(txn))
        tree.apply(zxid, time_ms, txn, triggers)
        stat = None if type(txn) is DeleteTxn else tree.nodes[txn.path].stat()
        results.append((txn, stat))
    return results, -1, None


def _prepare(
    tree: Tree, session_id: int, identities: tuple[Identity, ...], op: Op
) -> MultiTxn | None:
    if type(op) is Create:
        return prepare_create(tree, session_id, identities, op.path, op.data, op.acl, op.mode)
    if type(op) is SetData:
        return prepare_set_data(tree, identities, op.path, op.data, op.version)
    if type(op) is Delete:
        return prepare_delete(tree, identities, op.path, op.version)
    if type(op) is Check:
        check_version(tree, identities, op.path, op.version)
        return None
    raise BadArgumentsError(repr(op))


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
