"""The multi request: many operations in one packet, all or nothing. No IO.

An operation is applied as soon as it is read. Creating topics in bulk is thousands of creates
in large multis, so what a create costs here is what a topic costs.
"""

from __future__ import annotations

from ottla.metadata.store import NO_TTL, StoreError
from ottla.zk import jute
from ottla.zk.jute import JuteError
from ottla.zk.server.peer import Peer
from ottla.zk.server.transactions import Multi

_RUNTIME_INCONSISTENCY = -2
_CREATES = frozenset(
    (jute.OP_CREATE, jute.OP_CREATE2, jute.OP_CREATE_CONTAINER, jute.OP_CREATE_TTL)
)
_OTHERS = frozenset((jute.OP_SET_DATA, jute.OP_DELETE, jute.OP_CHECK))
# How the result of an operation that was done begins. Whoever made a node hears of a create with
# or without a stat, never of its kind (OpResult.CreateResult).
_HEADS = {kind: jute.MULTI_HEADER.pack(kind, False, 0) for kind in _OTHERS | {jute.OP_CREATE}}
_CREATED2 = jute.MULTI_HEADER.pack(jute.OP_CREATE2, False, 0)


def multi(peer: Peer, buffer: bytes, position: int, end: int) -> bytes:
    engine = peer.engine
    under_way = engine.begin_multi(peer.session, peer.identities)
    results: list[bytes] = []
    start = position
    try:
        kind, done, position = jute.read_multi_header(buffer, position, end)
        while not done:
            perform = _create if kind in _CREATES else _perform
            result, position = perform(under_way, kind, buffer, position, end)
            results.append(result)
            kind, done, position = jute.read_multi_header(buffer, position, end)
    except StoreError as error:
        under_way.take_back()
        return _failed(_count(buffer, start, end), len(results), error.code)
    except JuteError:
        under_way.take_back()
        raise
    engine.commit_multi(under_way)
    results.append(jute.END_OF_MULTI)
    return b"".join(results)


def _create(
    under_way: Multi, kind: int, buffer: bytes, position: int, end: int
) -> tuple[bytes, int]:
    """The operation's result, and where the next one begins."""
    path, data, acl, mode, path_end, acl_end = jute.read_create(buffer, position, end)
    after = acl_end + 4
    ttl_ms = NO_TTL
    if kind == jute.OP_CREATE_TTL:
        ttl_ms, after = jute.read_long(buffer, after, end)
    made = under_way.create(path, data, acl, mode, buffer[position:acl_end], ttl_ms)
    name = buffer[position:path_end] if made is path else jute.write_string(made)
    if kind == jute.OP_CREATE:
        return _HEADS[kind] + name, after
    return _CREATED2 + name + under_way.packed_stat(made), after


def _perform(
    under_way: Multi, kind: int, buffer: bytes, position: int, end: int
) -> tuple[bytes, int]:
    """As `_create`, for the other operations."""
    path, position = jute.read_string(buffer, position, end)
    if kind == jute.OP_SET_DATA:
        data, position = jute.read_buffer(buffer, position, end)
        version, position = jute.read_int(buffer, position, end)
        under_way.set_data(path, data, version)
        return _HEADS[kind] + under_way.packed_stat(path), position
    version, position = jute.read_int(buffer, position, end)
    if kind == jute.OP_DELETE:
        under_way.delete(path, version)
    elif kind == jute.OP_CHECK:
        under_way.check(path, version)
    else:
        raise JuteError(f"operation {kind} cannot be part of a multi")
    return _HEADS[kind], position


def _count(buffer: bytes, position: int, end: int) -> int:
    """How many operations a multi has; each is read, because a malformed one has no answer."""
    count = 0
    kind, done, position = jute.read_multi_header(buffer, position, end)
    while not done:
        if kind in _CREATES:
            position = jute.read_create(buffer, position, end)[-1] + 4
            if kind == jute.OP_CREATE_TTL:
                _, position = jute.read_long(buffer, position, end)
        elif kind in _OTHERS:
            _, position = jute.read_string(buffer, position, end)
            if kind == jute.OP_SET_DATA:
                _, position = jute.read_buffer(buffer, position, end)
            _, position = jute.read_int(buffer, position, end)
        else:
            raise JuteError(f"operation {kind} cannot be part of a multi")
        count += 1
        kind, done, position = jute.read_multi_header(buffer, position, end)
    return count


def _failed(count: int, failed: int, code: int) -> bytes:
    """Before the failure 0, at it the cause, after it RuntimeInconsistency (DataTree)."""
    parts = []
    for index in range(count):
        error = 0 if index < failed else code if index == failed else _RUNTIME_INCONSISTENCY
        parts.append(jute.MULTI_HEADER.pack(jute.OP_ERROR, False, error) + jute.INT.pack(error))
    parts.append(jute.END_OF_MULTI)
    return b"".join(parts)
