"""What a server does for each request: decode, ask the engine, encode. No IO.

One function per operation: `(peer, buffer, position, end) -> body`; a StoreError becomes the
error code of the answer. `HANDLERS` is the one table of what is served.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.metadata.store import (
    Acl,
    EventType,
    NoNodeError,
    NoWatcherError,
    StoreError,
    UnimplementedError,
)
from ottla.zk import jute
from ottla.zk.jute import JuteError
from ottla.zk.server import acl as acls
from ottla.zk.server.multi import multi
from ottla.zk.server.peer import Peer
from ottla.zk.server.transactions import check_version
from ottla.zk.server.tree import Node
from ottla.zk.server.watches import ANY, CHILDREN, DATA

Handler = Callable[[Peer, bytes, int, int], bytes]

# How the result of each kind of read in a multi read begins.
_READ_HEADS = {
    kind: jute.MULTI_HEADER.pack(kind, False, 0)
    for kind in (jute.OP_GET_DATA, jute.OP_GET_CHILDREN)
}


def readable(peer: Peer, path: str) -> Node:
    node = peer.engine.tree.nodes.get(path)
    if node is None:
        raise NoNodeError(path)
    acls.check(node.acl, acls.READ, peer.identities, path)
    return node


def get_data(peer: Peer, buffer: bytes, position: int, end: int) -> bytes:
    path, position = jute.read_string(buffer, position, end)
    watch, position = jute.read_bool(buffer, position, end)
    node = readable(peer, path)
    if watch:
        peer.engine.watches.add_data(path, peer)
    return node.packed_data()


def exists(peer: Peer, buffer: bytes, position: int, end: int) -> bytes:
    path, position = jute.read_string(buffer, position, end)
    watch, position = jute.read_bool(buffer, position, end)
    node = peer.engine.tree.nodes.get(path)
    if node is not None:
        # Since ZOOKEEPER-2590 even a stat needs READ.
        acls.check(node.acl, acls.READ, peer.identities, path)
    if watch:
        peer.engine.watches.add_data(path, peer)
    if node is None:
        raise NoNodeError(path)
    return node.packed_stat()


def get_children(peer: Peer, buffer: bytes, position: int, end: int) -> bytes:
    path, position = jute.read_string(buffer, position, end)
    watch, position = jute.read_bool(buffer, position, end)
    node = readable(peer, path)
    if watch:
        peer.engine.watches.add_children(path, peer)
    return node.packed_children()


def get_children2(peer: Peer, buffer: bytes, position: int, end: int) -> bytes:
    path, position = jute.read_string(buffer, position, end)
    watch, position = jute.read_bool(buffer, position, end)
    node = readable(peer, path)
    if watch:
        peer.engine.watches.add_children(path, peer)
    return node.packed_children() + node.packed_stat()


def _create(peer: Peer, buffer: bytes, position: int, end: int) -> tuple[str, Node]:
    path, data, acl, mode, _, _ = jute.read_create(buffer, position, end)
    return peer.engine.create(peer.session, peer.identities, path, data, acl, mode)


def create(peer: Peer, buffer: bytes, position: int, end: int) -> bytes:
    path, _ = _create(peer, buffer, position, end)
    return jute.write_string(path)


def create2(peer: Peer, buffer: bytes, position: int, end: int) -> bytes:
    path, node = _create(peer, buffer, position, end)
    return jute.write_string(path) + node.packed_stat()


def create_ttl(peer: Peer, buffer: bytes, position: int, end: int) -> bytes:
    path, data, acl, mode, _, acl_end = jute.read_create(buffer, position, end)
    ttl_ms, _ = jute.read_long(buffer, acl_end + 4, end)
    made, node = peer.engine.create(peer.session, peer.identities, path, data, acl, mode, ttl_ms)
    return jute.write_string(made) + node.packed_stat()


def set_data(peer: Peer, buffer: bytes, position: int, end: int) -> bytes:
    path, position = jute.read_string(buffer, position, end)
    data, position = jute.read_buffer(buffer, position, end)
    version, position = jute.read_int(buffer, position, end)
    return peer.engine.set_data(peer.identities, path, data, version).packed_stat()


def delete(peer: Peer, buffer: bytes, position: int, end: int) -> bytes:
    path, position = jute.read_string(buffer, position, end)
    version, position = jute.read_int(buffer, position, end)
    peer.engine.delete(peer.identities, path, version)
    return b""


def check(peer: Peer, buffer: bytes, position: int, end: int) -> bytes:
    path, position = jute.read_string(buffer, position, end)
    version, position = jute.read_int(buffer, position, end)
    check_version(peer.engine.tree, peer.identities, path, version)
    return b""


def get_acl(peer: Peer, buffer: bytes, position: int, end: int) -> bytes:
    path, position = jute.read_string(buffer, position, end)
    node = peer.engine.tree.nodes.get(path)
    if node is None:
        raise NoNodeError(path)
    acls.check(node.acl, acls.READ | acls.ADMIN, peer.identities, path)
    shown: tuple[Acl, ...] = node.acl
    if not acls.allows(node.acl, acls.ADMIN, peer.identities):
        shown = acls.masked(shown)
    return jute.write_acls(shown) + node.packed_stat()


def set_acl(peer: Peer, buffer: bytes, position: int, end: int) -> bytes:
    path, position = jute.read_string(buffer, position, end)
    acl, position = jute.read_acls(buffer, position, end)
    version, position = jute.read_int(buffer, position, end)
    return peer.engine.set_acl(peer.identities, path, acl, version).packed_stat()


def sync(peer: Peer, buffer: bytes, position: int, end: int) -> bytes:
    """With one server every answer already follows all writes before it."""
    path, position = jute.read_string(buffer, position, end)
    return jute.write_string(path)


def multi_read(peer: Peer, buffer: bytes, position: int, end: int) -> bytes:
    """Each read has its own outcome. A watch flag is ignored, as by MultiOperationRecord."""
    parts = []
    kind, done, position = jute.read_multi_header(buffer, position, end)
    while not done:
        if kind not in _READ_HEADS:
            raise JuteError(f"operation {kind} cannot be part of a multi read")
        path, position = jute.read_string(buffer, position, end)
        _, position = jute.read_bool(buffer, position, end)
        try:
            node = readable(peer, path)
        except StoreError as error:
            parts.append(jute.MULTI_HEADER.pack(jute.OP_ERROR, False, error.code))
            parts.append(jute.INT.pack(error.code))
        else:
            parts.append(_READ_HEADS[kind])
            is_get = kind == jute.OP_GET_DATA
            parts.append(node.packed_data() if is_get else node.packed_children())
        kind, done, position = jute.read_multi_header(buffer, position, end)
    parts.append(jute.END_OF_MULTI)
    return b"".join(parts)


def set_watches(peer: Peer, buffer: bytes, position: int, end: int) -> bytes:
    _set_watches(peer, buffer, position, end)
    return b""


def set_watches2(peer: Peer, buffer: bytes, position: int, end: int) -> bytes:
    position = _set_watches(peer, buffer, position, end)
    persistent, position = jute.read_strings(buffer, position, end)
    recursive, position = jute.read_strings(buffer, position, end)
    watches = peer.engine.watches
    for path in persistent:
        watches.add_persistent(path, peer, recursive=False)
    for path in recursive:
        watches.add_persistent(path, peer, recursive=True)
    return b""


def _set_watches(peer: Peer, buffer: bytes, position: int, end: int) -> int:
    """A client back after a lost connection: what it missed is told now, the rest watched."""
    seen_zxid, position = jute.read_long(buffer, position, end)
    data_paths, position = jute.read_strings(buffer, position, end)
    exist_paths, position = jute.read_strings(buffer, position, end)
    child_paths, position = jute.read_strings(buffer, position, end)
    nodes, watches = peer.engine.tree.nodes, peer.engine.watches
    for path in data_paths:
        node = nodes.get(path)
        if node is None:
            peer.notify(EventType.DELETED, path)
        elif node.mzxid > seen_zxid:
            peer.notify(EventType.DATA_CHANGED, path)
        else:
            watches.add_data(path, peer)
    for path in exist_paths:
        if path in nodes:
            peer.notify(EventType.CREATED, path)
        else:
            watches.add_data(path, peer)
    for path in child_paths:
        node = nodes.get(path)
        if node is None:
            peer.notify(EventType.DELETED, path)
        elif node.pzxid > seen_zxid:
            peer.notify(EventType.CHILDREN_CHANGED, path)
        else:
            watches.add_children(path, peer)
    return position


def check_watches(peer: Peer, buffer: bytes, position: int, end: int) -> bytes:
    path, kind = _read_watch_kind(buffer, position, end)
    if not peer.engine.watches.contains(path, peer, kind):
        raise NoWatcherError(path)
    return b""


def remove_watches(peer: Peer, buffer: bytes, position: int, end: int) -> bytes:
    path, kind = _read_watch_kind(buffer, position, end)
    if not peer.engine.watches.remove(path, peer, kind):
        raise NoWatcherError(path)
    return b""


def _read_watch_kind(buffer: bytes, position: int, end: int) -> tuple[str, int]:
    path, position = jute.read_string(buffer, position, end)
    kind, position = jute.read_int(buffer, position, end)
    if kind not in (CHILDREN, DATA, ANY):
        raise JuteError(f"unknown kind of watch {kind}")
    return path, kind


def add_watch(peer: Peer, buffer: bytes, position: int, end: int) -> bytes:
    path, position = jute.read_string(buffer, position, end)
    mode, position = jute.read_int(buffer, position, end)
    if mode not in (0, 1):
        raise JuteError(f"unknown mode of watch {mode}")
    peer.engine.watches.add_persistent(path, peer, recursive=mode == 1)
    # ErrorResponse with code 0.
    return jute.INT.pack(0)


def get_ephemerals(peer: Peer, buffer: bytes, position: int, end: int) -> bytes:
    prefix, position = jute.read_string(buffer, position, end)
    owned = peer.engine.tree.ephemerals.get(peer.session.id, {})
    return jute.write_strings([path for path in owned if path.startswith(prefix)])


def get_all_children_number(peer: Peer, buffer: bytes, position: int, end: int) -> bytes:
    path, position = jute.read_string(buffer, position, end)
    readable(peer, path)
    prefix = path.rstrip("/") + "/"
    nodes = peer.engine.tree.nodes
    return jute.INT.pack(sum(1 for other in nodes if other.startswith(prefix) and other != path))


def who_am_i(peer: Peer, buffer: bytes, position: int, end: int) -> bytes:
    parts = [jute.INT.pack(len(peer.identities))]
    for scheme, name in peer.identities:
        user = name.partition(":")[0] if scheme == "digest" else name
        parts += (jute.write_string(scheme), jute.write_string(user))
    return b"".join(parts)


def unimplemented(peer: Peer, buffer: bytes, position: int, end: int) -> bytes:
    raise UnimplementedError


HANDLERS: dict[int, Handler] = {
    jute.OP_CREATE: create,
    jute.OP_DELETE: delete,
    jute.OP_EXISTS: exists,
    jute.OP_GET_DATA: get_data,
    jute.OP_SET_DATA: set_data,
    jute.OP_GET_ACL: get_acl,
    jute.OP_SET_ACL: set_acl,
    jute.OP_GET_CHILDREN: get_children,
    jute.OP_SYNC: sync,
    jute.OP_GET_CHILDREN2: get_children2,
    jute.OP_CHECK: check,
    jute.OP_MULTI: multi,
    jute.OP_CREATE2: create2,
    jute.OP_CHECK_WATCHES: check_watches,
    jute.OP_REMOVE_WATCHES: remove_watches,
    jute.OP_CREATE_CONTAINER: create2,
    jute.OP_CREATE_TTL: create_ttl,
    jute.OP_RECONFIG: unimplemented,
    jute.OP_MULTI_READ: multi_read,
    jute.OP_SET_WATCHES: set_watches,
    jute.OP_GET_EPHEMERALS: get_ephemerals,
    jute.OP_GET_ALL_CHILDREN_NUMBER: get_all_children_number,
    jute.OP_SET_WATCHES2: set_watches2,
    jute.OP_ADD_WATCH: add_watch,
    jute.OP_WHO_AM_I: who_am_i,
}
