"""What a server does for each request: decode, ask the engine, encode. No IO.

One function per operation: `(peer, buffer, position, end) -> body`; a StoreError becomes the
error code of the answer. One whose work grows with more than its request is a generator that
yields where others may have a turn, and returns the body. `HANDLERS` is the one table of what is
served.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import cast

from ottla.metadata.store import (
    Acl,
    BadArgumentsError,
    EventType,
    MarshallingError,
    NoNodeError,
    NoWatcherError,
    StoreError,
    UnimplementedError,
)
from ottla.zk import jute
from ottla.zk.jute import JuteError
from ottla.zk.paths import is_too_long
from ottla.zk.server import acl as acls
from ottla.zk.server.multi import multi
from ottla.zk.server.peer import Peer
from ottla.zk.server.transactions import check_version
from ottla.zk.server.tree import Node
from ottla.zk.server.watches import ANY, CHILDREN, DATA

# Steps of a longer answer: between two of them others may have a turn, and the tree may change.
Steps = Generator[None, None, bytes]
Handler = Callable[[Peer, bytes, int, int], bytes | Steps]

# No answer is made that is longer; a read of many nodes is measured first. Our own client asks for
# 32 nodes at once, each as large as a packet lets it be.
MAX_ANSWER_BYTES = 36 << 20
# A multi read that is longer is done in steps; our own client's are shorter than twice this.
LONG_READ_BYTES = 1 << 14
# Entries of a long list that are gone through in one step.
AT_A_TIME = 20

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


def _watchable(path: str) -> None:
    if is_too_long(path):
        raise BadArgumentsError(path)


def _bounded(body: bytes) -> bytes:
    if len(body) > MAX_ANSWER_BYTES:
        raise MarshallingError("the answer would be too long")
    return body


def get_data(peer: Peer, buffer: bytes, position: int, end: int) -> bytes:
    path, position = jute.read_string(buffer, position, end)
    watch, position = jute.read_bool(buffer, position, end)
    node = readable(peer, path)
    if watch:
        _watchable(path)
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
        _watchable(path)
        peer.engine.watches.add_data(path, peer)
    if node is None:
        raise NoNodeError(path)
    return node.packed_stat()


def get_children(peer: Peer, buffer: bytes, position: int, end: int) -> bytes:
    path, position = jute.read_string(buffer, position, end)
    watch, position = jute.read_bool(buffer, position, end)
    node = readable(peer, path)
    if watch:
        _watchable(path)
        peer.engine.watches.add_children(path, peer)
    return _bounded(node.packed_children())


def get_children2(peer: Peer, buffer: bytes, position: int, end: int) -> bytes:
    path, position = jute.read_string(buffer, position, end)
    watch, position = jute.read_bool(buffer, position, end)
    node = readable(peer, path)
    if watch:
        _watchable(path)
        peer.engine.watches.add_children(path, peer)
    return _bounded(node.packed_children()) + node.packed_stat()


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
    acl, position = jute.read_acls(buffer, position, end, jute.MAX_ACL_ENTRIES)
    version, position = jute.read_int(buffer, position, end)
    return peer.engine.set_acl(peer.identities, path, acl, version).packed_stat()


def sync(peer: Peer, buffer: bytes, position: int, end: int) -> bytes:
    """With one server every answer already follows all writes before it."""
    path, position = jute.read_string(buffer, position, end)
    return jute.write_string(path)


def multi_read(peer: Peer, buffer: bytes, position: int, end: int) -> bytes | Steps:
    """Each read has its own outcome. A watch flag is ignored, as by MultiOperationRecord."""
    steps = _multi_read(peer, buffer, position, end)
    if end - position > LONG_READ_BYTES:
        return steps
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return cast("bytes", done.value)


def _multi_read(peer: Peer, buffer: bytes, position: int, end: int) -> Steps:
    parts = []
    size = 0
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
            body = node.data_reply if kind == jute.OP_GET_DATA else node.packed_children()
            if body is None:
                pieces = node.data_parts()
                parts += pieces
                size += sum(map(len, pieces))
            else:
                parts.append(body)
                size += len(body)
            # Nothing was copied yet.
            if size > MAX_ANSWER_BYTES:
                raise MarshallingError("the answer would be too long")
        yield
        kind, done, position = jute.read_multi_header(buffer, position, end)
    parts.append(jute.END_OF_MULTI)
    return b"".join(parts)


def set_watches(peer: Peer, buffer: bytes, position: int, end: int) -> Steps:
    yield from _set_watches(peer, buffer, position, end)
    return b""


def set_watches2(peer: Peer, buffer: bytes, position: int, end: int) -> Steps:
    position = yield from _set_watches(peer, buffer, position, end)
    watches = peer.engine.watches
    for is_recursive in (False, True):
        paths, position = yield from _read_paths(buffer, position, end)
        for path in paths:
            watches.add_persistent(path, peer, recursive=is_recursive)
            yield
    return b""


def _set_watches(peer: Peer, buffer: bytes, position: int, end: int) -> Generator[None, None, int]:
    """A client back after a lost connection: what it missed is told now, the rest watched. Of a
    node that it may not read any more it hears nothing."""
    seen_zxid, position = jute.read_long(buffer, position, end)
    data_paths, position = yield from _read_paths(buffer, position, end)
    exist_paths, position = yield from _read_paths(buffer, position, end)
    child_paths, position = yield from _read_paths(buffer, position, end)
    nodes, watches = peer.engine.tree.nodes, peer.engine.watches
    for path in data_paths:
        node = nodes.get(path)
        if node is None:
            peer.notify(EventType.DELETED, path)
        elif node.mzxid > seen_zxid and peer.may_read(node.acl):
            peer.notify(EventType.DATA_CHANGED, path)
        else:
            watches.add_data(path, peer)
        yield
    for path in exist_paths:
        node = nodes.get(path)
        if node is not None and peer.may_read(node.acl):
            peer.notify(EventType.CREATED, path)
        else:
            watches.add_data(path, peer)
        yield
    for path in child_paths:
        node = nodes.get(path)
        if node is None:
            peer.notify(EventType.DELETED, path)
        elif node.pzxid > seen_zxid and peer.may_read(node.acl):
            peer.notify(EventType.CHILDREN_CHANGED, path)
        else:
            watches.add_children(path, peer)
        yield
    return position


def _read_paths(
    buffer: bytes, position: int, end: int
) -> Generator[None, None, tuple[dict[str, None], int]]:
    """As `jute.read_strings`; each path once, and none that nobody may watch."""
    count, position = jute.read_int(buffer, position, end)
    if count * 4 > end - position:
        raise JuteError("more elements than bytes")
    paths: dict[str, None] = {}
    for _ in range(count):
        path, position = jute.read_string(buffer, position, end)
        _watchable(path)
        paths[path] = None
        yield
    return paths, position


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
    _watchable(path)
    peer.engine.watches.add_persistent(path, peer, recursive=mode == 1)
    # ErrorResponse with code 0.
    return jute.INT.pack(0)


def get_ephemerals(peer: Peer, buffer: bytes, position: int, end: int) -> Steps:
    prefix, position = jute.read_string(buffer, position, end)
    owned = list(peer.engine.tree.ephemerals.get(peer.session.id, ()))
    found: list[bytes] = []
    size = 0
    for start in range(0, len(owned), AT_A_TIME):
        chosen = [path for path in owned[start : start + AT_A_TIME] if path.startswith(prefix)]
        found += map(jute.write_string, chosen)
        size += sum(map(len, found[-len(chosen) :])) if chosen else 0
        if size > MAX_ANSWER_BYTES:
            raise MarshallingError("the answer would be too long")
        yield
    return jute.INT.pack(len(found)) + b"".join(found)


def get_all_children_number(peer: Peer, buffer: bytes, position: int, end: int) -> Steps:
    path, position = jute.read_string(buffer, position, end)
    readable(peer, path)
    nodes = peer.engine.tree.nodes
    if path == "/":
        return jute.INT.pack(len(nodes) - 1)
    count = 0
    above = [path]
    while above:
        parent = above.pop()
        node = nodes.get(parent)
        names = list(node.children or ()) if node is not None else []
        count += len(names)
        for start in range(0, len(names), AT_A_TIME):
            for name in names[start : start + AT_A_TIME]:
                below = nodes.get(f"{parent}/{name}")
                if below is not None and below.children:
                    above.append(f"{parent}/{name}")
            yield
    return jute.INT.pack(count)


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
