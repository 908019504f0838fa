"""Encodes the client's requests and decodes the answers. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.metadata.store import (
    EPHEMERAL_MODES,
    NO_TTL,
    STORE_ERRORS,
    TTL_MODES,
    Acl,
    BadArgumentsError,
    Check,
    Create,
    CreateMode,
    Delete,
    Op,
    OpResult,
    RuntimeInconsistencyError,
    SetData,
    Stat,
    StoreError,
)
from ottla.zk import jute
from ottla.zk.jute import JuteError

# Twice as fast as Stat._make, which checks the length that struct guarantees.
_as_stat: Callable[[type[Stat], tuple[int, ...]], Stat] = tuple.__new__


_CREATES = frozenset((jute.OP_CREATE, jute.OP_CREATE2))


def encode_create(
    path: str, data: bytes | None, acl: tuple[Acl, ...], mode: int, ttl_ms: int = NO_TTL
) -> bytes:
    has_ttl = mode in TTL_MODES
    if ttl_ms >= 0 and not has_ttl:
        # The request has no place for it, and whoever gave it expects the node to go.
        raise BadArgumentsError(path)
    return b"".join(
        (
            jute.write_string(path),
            jute.write_buffer(data),
            jute.write_acls(acl),
            jute.INT.pack(mode),
            jute.LONG.pack(ttl_ms) if has_ttl else b"",
        )
    )


def create_operation(mode: CreateMode) -> int:
    if mode in TTL_MODES:
        return jute.OP_CREATE_TTL
    return jute.OP_CREATE_CONTAINER if mode is CreateMode.CONTAINER else jute.OP_CREATE2


def encode_op(op: Op, path: str) -> tuple[int, bytes]:
    """The operation's code and body, with the path as the server knows it."""
    if isinstance(op, Create):
        return create_operation(op.mode), encode_create(path, op.data, op.acl, op.mode, op.ttl_ms)
    if isinstance(op, SetData):
        body = jute.write_string(path) + jute.write_buffer(op.data) + jute.INT.pack(op.version)
        return jute.OP_SET_DATA, body
    if isinstance(op, Delete):
        return jute.OP_DELETE, jute.write_string(path) + jute.INT.pack(op.version)
    if isinstance(op, Check):
        return jute.OP_CHECK, jute.write_string(path) + jute.INT.pack(op.version)
    raise BadArgumentsError(repr(op))


def encode_multi(encoded: Sequence[tuple[int, bytes]]) -> bytes:
    parts = []
    for code, body in encoded:
        parts.append(jute.MULTI_HEADER.pack(code, False, -1))
        parts.append(body)
    parts.append(jute.END_OF_MULTI)
    return b"".join(parts)


def decode_multi(buffer: bytes, position: int, end: int) -> tuple[int, list[OpResult]]:
    """The zxid of the multi, from the header in front of the body, and its results. A server
    before 3.6 answers a create without a stat, as those of 3.4 did."""
    zxid = jute.REPLY_HEADER.unpack_from(buffer, position - jute.REPLY_HEADER.size)[1]
    results: list[OpResult] = []
    kind, done, position = jute.read_multi_header(buffer, position, end)
    while not done:
        path: str | None = None
        stat: Stat | None = None
        error: StoreError | None = None
        if kind in _CREATES:
            path, position = jute.read_string(buffer, position, end)
            if kind != jute.OP_CREATE:
                stat, position = jute.read_stat(buffer, position, end)
        elif kind == jute.OP_SET_DATA:
            stat, position = jute.read_stat(buffer, position, end)
        elif kind == jute.OP_ERROR:
            code, position = jute.read_int(buffer, position, end)
            # Those before the failing one are told 0, those after it -2: none was done.
            error = STORE_ERRORS.get(code, StoreError)() if code else RuntimeInconsistencyError()
        elif kind not in (jute.OP_DELETE, jute.OP_CHECK):
            raise JuteError(f"unknown result {kind} in a multi")
        results.append(OpResult(path, stat, error))
        kind, done, position = jute.read_multi_header(buffer, position, end)
    return zxid, results


def stat_of_new(op: Create, zxid: int, session_id: int) -> Stat:
    """What a node looked like right after it was made, where the server did not say; only the
    times are unknown."""
    return Stat(
        czxid=zxid,
        mzxid=zxid,
        ctime=0,
        mtime=0,
        version=0,
        cversion=0,
        aversion=0,
        ephemeral_owner=session_id if op.mode in EPHEMERAL_MODES else 0,
        data_length=len(op.data or b""),
        num_children=0,
        pzxid=zxid,
    )


def decode_get(buffer: bytes, position: int, end: int) -> tuple[bytes | None, Stat]:
    """Written out in full: a new controller reads a whole cluster through this."""
    stat_at = end - jute.STAT.size
    if stat_at - position < 4:
        raise JuteError("packet ends inside a stat")
    length = jute.INT.unpack_from(buffer, position)[0]
    position += 4
    if max(length, 0) != stat_at - position:
        raise JuteError("length beyond the end of the packet")
    data = buffer[position:stat_at] if length >= 0 else None
    return data, _as_stat(Stat, jute.STAT.unpack_from(buffer, stat_at))


def decode_stat(buffer: bytes, position: int, end: int) -> Stat:
    return jute.read_stat(buffer, position, end)[0]


def decode_created(buffer: bytes, position: int, end: int) -> tuple[str, Stat]:
    path, position = jute.read_string(buffer, position, end)
    return path, jute.read_stat(buffer, position, end)[0]


def decode_children(buffer: bytes, position: int, end: int) -> list[str]:
    return jute.read_strings(buffer, position, end)[0]


def decode_acl(buffer: bytes, position: int, end: int) -> tuple[tuple[Acl, ...], Stat]:
    acl, position = jute.read_acls(buffer, position, end)
    return acl, jute.read_stat(buffer, position, end)[0]
