"""The one module that encodes and decodes what the store keeps on disk. Pure.

A journal record is `length, crc32, payload`; its payload `zxid, time, transactions`. A zero
length ends the file (journals are filled with zeros ahead of the writer). A record without
transactions is a mark: when it was written, everything up to its zxid was on disk. A snapshot is a
magic number, the zxid it was started at, the sessions, the nodes, and a crc32 over everything. The
note of a clean stop is the last zxid and a crc32, as text.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ottla.errors import InvariantViolated, OttlaError
from ottla.metadata.store import OPEN_ACL, Acl
from ottla.zk import jute
from ottla.zk.server.acl import shared
from ottla.zk.server.tree import (
    CloseSessionTxn,
    CreateSessionTxn,
    CreateTxn,
    DeleteTxn,
    Node,
    SetAclTxn,
    SetDataTxn,
    Tree,
    Txn,
)

JOURNAL_MAGIC = b"OTLZKJ01"
SNAPSHOT_MAGIC = b"OTLZKS01"
# No record is longer, and a search behind damage takes no longer one for one. A packet bounds a
# multi; a session with many nodes ends in several writes.
MAX_RECORD_BYTES = 1 << 28

# How far a search behind damage goes before it gives up: nobody can make a start take minutes by
# what he writes into a node.
_MAX_CANDIDATES = 1_000_000
_MAX_CHECKED_BYTES = 1 << 28
# A zxid this far from the one before it is none.
_MAX_ZXID_JUMP = 1 << 32

_FRAME = struct.Struct(">II")
_RECORD = struct.Struct(">qqI")
_SNAPSHOT_HEAD = struct.Struct(">qII")
_SESSION = struct.Struct(">qi")
_NODE = struct.Struct(">qqqqqqiiq")
_CREATE_TAIL = struct.Struct(">qq")

_CREATE, _DELETE, _SET_DATA, _SET_ACL, _CREATE_SESSION, _CLOSE_SESSION = range(1, 7)


# zxid, time, transactions, where the record ends.
Record = tuple[int, int, list[Txn], int]


class DamagedFile(OttlaError):
    """A file of the store that cannot be what was written."""


def encode_record(zxid: int, time_ms: int, txns: Sequence[Txn | bytes]) -> bytes:
    """Transactions, or what `encode_create` made of them."""
    parts = [_RECORD.pack(zxid, time_ms, len(txns))]
    parts += [txn if isinstance(txn, bytes) else _encode_txn(txn) for txn in txns]
    payload = b"".join(parts)
    if len(payload) > MAX_RECORD_BYTES:
        raise InvariantViolated(f"a record of {len(payload)} bytes, which no start would look for")
    return _FRAME.pack(len(payload), zlib.crc32(payload)) + payload


def encode_create(head: bytes, owner: int, parent_creations: int) -> bytes:
    """A create; `head` is its path, data and ACL, which the wire encodes in the same way."""
    return b"\x01" + head + _CREATE_TAIL.pack(owner, parent_creations)


def encode_mark(zxid: int) -> bytes:
    """Said at the start of each batch: everything up to `zxid` was on disk before it."""
    return encode_record(zxid, 0, ())


def iter_records(data: bytes, position: int) -> Iterator[Record]:
    """Up to the first that is torn or missing.

    Raises DamagedFile for one that is whole and cannot be understood: no crash makes such a one.
    """
    size = len(data)
    while position + _FRAME.size <= size:
        length, crc = _FRAME.unpack_from(data, position)
        start = position + _FRAME.size
        end = start + length
        # Longer than any that is written now, it may still be one: versions before limits wrote
        # the end of a session with all its nodes at once. The checksum tells.
        if length == 0 or end > size:
            return
        payload = data[start:end]
        if zlib.crc32(payload) != crc:
            return
        try:
            zxid, time_ms, txns = _decode_payload(payload)
        except (OttlaError, struct.error, IndexError, UnicodeDecodeError) as error:
            raise DamagedFile(
                f"the write at byte {position} is whole but cannot be understood ({error}): was "
                "it made by a later version of Ottla?"
            ) from None
        yield zxid, time_ms, txns, end
        position = end


class Gap(NamedTuple):
    """Bytes of a journal that are no records, and what stands around them."""

    start: int
    end: int
    before: int  # the last zxid before it
    after: int  # the next zxid that can be read; 0 where nothing behind it can
    unclear: bool = False  # the search behind it took too long

    @property
    def loses_writes(self) -> bool:
        return self.after != self.before + 1


def walk(data: bytes, position: int, zxid: int) -> Iterator[tuple[int, int, list[Txn], int] | Gap]:
    """All records of a journal that follows the write `zxid`, and the gaps between them: places
    that cannot be read, and records whose zxid is not the next one."""
    while True:
        for record in iter_records(data, position):
            found, _, txns, _ = record
            follows = found == zxid + 1 if txns else found <= zxid
            if not follows:
                break
            yield record
            position = record[3]
            zxid = max(zxid, found)
        end = position + len(data[position:].rstrip(b"\0"))
        if end == position:
            return
        try:
            behind = _find_record(data, position, zxid)
        except TimeoutError:
            yield Gap(position, end, zxid, 0, unclear=True)
            return
        if behind is None:
            yield Gap(position, end, zxid, 0)
            return
        start, following = behind
        yield Gap(position, start, zxid, following)
        position, zxid = start, following - 1


def _find_record(data: bytes, start: int, zxid: int) -> tuple[int, int] | None:
    """Where the first whole record later than `zxid` begins, at `start` or behind it, and which
    write is the next one then. Raises TimeoutError."""
    lowest, highest = zxid + 1, zxid + _MAX_ZXID_JUMP
    shared = _shared_prefix(lowest.to_bytes(8, "big"), highest.to_bytes(8, "big"))
    # A length that may be one, any checksum, a zxid that begins as it must.
    form = rb"(?=(?!\0{4})[\0-\x10].{7}(?!\0{8})" + re.escape(shared) + rb")"
    candidates, to_check = _MAX_CANDIDATES, _MAX_CHECKED_BYTES
    for match in re.compile(form, re.DOTALL).finditer(data, start):
        candidates -= 1
        if candidates < 0:
            raise TimeoutError
        position = match.start()
        length, crc = _FRAME.unpack_from(data, position)
        first, end = position + _FRAME.size, position + _FRAME.size + length
        if not _RECORD.size <= length <= MAX_RECORD_BYTES or end > len(data):
            continue
        found, _, count = _RECORD.unpack_from(data, first)
        if not lowest <= found <= highest:
            continue
        to_check -= length
        if to_check < 0:
            raise TimeoutError
        if zlib.crc32(memoryview(data)[first:end]) == crc:
            return position, found if count else found + 1
    return None


def _shared_prefix(one: bytes, other: bytes) -> bytes:
    size = next((i for i in range(len(one)) if one[i] != other[i]), len(one))
    return one[:size]


def encode_note(zxid: int) -> bytes:
    text = f"{zxid:016x}"
    return f"{text} {zlib.crc32(text.encode()):08x}\n".encode()


def decode_note(data: bytes) -> int:
    """The zxid of a clean stop; raises DamagedFile."""
    try:
        zxid = int(data[:16], 16)
    except ValueError:
        zxid = -1
    if zxid < 0 or data != encode_note(zxid):
        raise DamagedFile("not the note of a clean stop")
    return zxid


def encode_snapshot_head(zxid: int, sessions: dict[int, int], node_count: int) -> bytes:
    parts = [SNAPSHOT_MAGIC, _SNAPSHOT_HEAD.pack(zxid, len(sessions), node_count)]
    parts += [_SESSION.pack(session_id, timeout) for session_id, timeout in sessions.items()]
    return b"".join(parts)


def encode_node(path: str, node: Node) -> bytes:
    return b"".join(
        (
            jute.write_string(path),
            jute.write_buffer(node.data),
            jute.write_acls(node.acl),
            _NODE.pack(
                node.owner,
                node.czxid,
                node.mzxid,
                node.pzxid,
                node.ctime,
                node.mtime,
                node.version,
                node.aversion,
                node.creations,
            ),
        )
    )


def seal_snapshot(parts: Iterable[bytes]) -> bytes:
    body = b"".join(parts)
    return body + encode_snapshot_end(zlib.crc32(body))


def encode_snapshot_end(crc: int) -> bytes:
    return crc.to_bytes(4, "big")


def decode_snapshot(data: bytes) -> Tree:
    """The tree a snapshot holds; raises DamagedFile."""
    end = len(data) - 4
    head = len(SNAPSHOT_MAGIC)
    if end < head + _SNAPSHOT_HEAD.size or data[:head] != SNAPSHOT_MAGIC:
        raise DamagedFile("not a snapshot of this store")
    if zlib.crc32(memoryview(data)[:end]) != int.from_bytes(data[end:], "big"):
        raise DamagedFile("the checksum does not match")
    try:
        return _decode_tree(data, head, end)
    except (OttlaError, struct.error, IndexError, UnicodeDecodeError) as error:
        raise DamagedFile(f"whole, but it cannot be understood: {error}") from None


def _decode_tree(data: bytes, head: int, end: int) -> Tree:
    zxid, session_count, node_count = _SNAPSHOT_HEAD.unpack_from(data, head)
    position = head + _SNAPSHOT_HEAD.size
    tree = Tree()
    for _ in range(session_count):
        session_id, timeout_ms = _SESSION.unpack_from(data, position)
        tree.sessions[session_id] = timeout_ms
        position += _SESSION.size
    for _ in range(node_count):
        position = _decode_node(data, position, end, tree)
    tree.last_zxid = zxid
    return tree


def _decode_node(data: bytes, position: int, end: int, tree: Tree) -> int:
    path, position = jute.read_string(data, position, end)
    value, position = jute.read_buffer(data, position, end)
    acl, position = _read_acl(data, position, end)
    fields = _NODE.unpack_from(data, position)
    node = Node(value, acl, fields[0], fields[1], fields[4])
    _, _, node.mzxid, node.pzxid, _, node.mtime, node.version, node.aversion, node.creations = (
        fields
    )
    existing = tree.nodes.get(path)
    if existing is not None:
        node.children = existing.children
    tree.insert(path, node)
    return position + _NODE.size


def _read_acl(data: bytes, position: int, end: int) -> tuple[tuple[Acl, ...], int]:
    acl, position = jute.read_acls(data, position, end)
    return (acl if acl is OPEN_ACL else shared(acl)), position


def _encode_txn(txn: Txn) -> bytes:
    if type(txn) is CreateTxn:
        path, data, acl, owner, creations = txn
        head = jute.write_string(path) + jute.write_buffer(data) + jute.write_acls(acl)
        return encode_create(head, owner, creations)
    if type(txn) is SetDataTxn:
        return b"".join(
            (
                b"\x03",
                jute.write_string(txn.path),
                jute.write_buffer(txn.data),
                jute.INT.pack(txn.version),
            )
        )
    if type(txn) is DeleteTxn:
        return b"\x02" + jute.write_string(txn.path)
    if type(txn) is SetAclTxn:
        return b"".join(
            (
                b"\x04",
                jute.write_string(txn.path),
                jute.write_acls(txn.acl),
                jute.INT.pack(txn.version),
            )
        )
    if type(txn) is CreateSessionTxn:
        return b"\x05" + _SESSION.pack(*txn)
    if type(txn) is CloseSessionTxn:
        return b"\x06" + jute.LONG.pack(txn.session_id) + jute.write_strings(list(txn.paths))
    raise InvariantViolated(f"not a transaction: {txn!r}")


def _decode_payload(payload: bytes) -> tuple[int, int, list[Txn]]:
    zxid, time_ms, count = _RECORD.unpack_from(payload)
    position = _RECORD.size
    txns: list[Txn] = []
    for _ in range(count):
        txn, position = _decode_txn(payload, position, len(payload))
        txns.append(txn)
    return zxid, time_ms, txns


def _decode_txn(data: bytes, position: int, end: int) -> tuple[Txn, int]:
    kind = data[position]
    position += 1
    if kind == _CREATE_SESSION:
        return CreateSessionTxn(*_SESSION.unpack_from(data, position)), position + _SESSION.size
    if kind == _CLOSE_SESSION:
        session_id, position = jute.read_long(data, position, end)
        paths, position = jute.read_strings(data, position, end)
        return CloseSessionTxn(session_id, tuple(paths)), position
    path, position = jute.read_string(data, position, end)
    if kind == _DELETE:
        return DeleteTxn(path), position
    if kind == _SET_ACL:
        acl, position = _read_acl(data, position, end)
        version, position = jute.read_int(data, position, end)
        return SetAclTxn(path, acl, version), position
    value, position = jute.read_buffer(data, position, end)
    if kind == _SET_DATA:
        version, position = jute.read_int(data, position, end)
        return SetDataTxn(path, value, version), position
    if kind == _CREATE:
        acl, position = _read_acl(data, position, end)
        owner, creations = _CREATE_TAIL.unpack_from(data, position)
        return CreateTxn(path, value, acl, owner, creations), position + _CREATE_TAIL.size
    raise DamagedFile(f"unknown kind of transaction {kind}")
