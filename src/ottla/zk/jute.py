"""ZooKeeper's wire encoding (jute): the few types its packets are made of. Pure.

Readers take `(buffer, position, end)` and return the value with the next position; nothing is
ever read beyond `end`, and a count is checked against the bytes that are left before anything
is allocated for it. All failures raise `JuteError`.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from ottla.errors import OttlaError
from ottla.metadata.store import OPEN_ACL, Acl, InvalidAclError, Stat

# jute.maxbuffer of a server: one packet may not be longer.
MAX_PACKET_BYTES = 0xFFFFF
# Entries in the ACL of a request: every look at the node goes through them.
MAX_ACL_ENTRIES = 100

INT = struct.Struct(">i")
LONG = struct.Struct(">q")
REQUEST_HEADER = struct.Struct(">ii")  # xid, type
FRAMED_REQUEST = struct.Struct(">iii")  # length, xid, type
REPLY_HEADER = struct.Struct(">iqi")  # xid, zxid, error
FRAMED_REPLY = struct.Struct(">iiqi")  # length, xid, zxid, error
CONNECT_REQUEST = struct.Struct(">iqiq")  # protocol, last zxid seen, time-out, session
CONNECT_RESPONSE = struct.Struct(">iiq")  # protocol, time-out, session
STAT = struct.Struct(">qqqqiiiqiiq")
EVENT_HEADER = struct.Struct(">ii")  # type, state
MULTI_HEADER = struct.Struct(">i?i")  # type, done, error

NULL = INT.pack(-1)
END_OF_MULTI = MULTI_HEADER.pack(-1, True, -1)

# What requests call things; org.apache.zookeeper.ZooDefs.OpCode.
OP_CREATE = 1
OP_DELETE = 2
OP_EXISTS = 3
OP_GET_DATA = 4
OP_SET_DATA = 5
OP_GET_ACL = 6
OP_SET_ACL = 7
OP_GET_CHILDREN = 8
OP_SYNC = 9
OP_PING = 11
OP_GET_CHILDREN2 = 12
OP_CHECK = 13
OP_MULTI = 14
OP_CREATE2 = 15
OP_RECONFIG = 16
OP_CHECK_WATCHES = 17
OP_REMOVE_WATCHES = 18
OP_CREATE_CONTAINER = 19
OP_CREATE_TTL = 21
OP_MULTI_READ = 22
OP_AUTH = 100
OP_SET_WATCHES = 101
OP_SASL = 102
OP_GET_EPHEMERALS = 103
OP_GET_ALL_CHILDREN_NUMBER = 104
OP_SET_WATCHES2 = 105
OP_ADD_WATCH = 106
OP_WHO_AM_I = 107
OP_CLOSE_SESSION = -11
OP_ERROR = -1

# Transaction ids that are not answers to a numbered request.
XID_EVENT = -1
XID_PING = -2
XID_AUTH = -4
XID_SET_WATCHES = -8

# KeeperState.SyncConnected, the state every watch event carries.
STATE_SYNC_CONNECTED = 3


class JuteError(OttlaError):
    """A packet that does not hold what it promises."""


def read_int(buffer: bytes, position: int, end: int) -> tuple[int, int]:
    if end - position < 4:
        raise JuteError("packet ends inside an int")
    return INT.unpack_from(buffer, position)[0], position + 4


def read_long(buffer: bytes, position: int, end: int) -> tuple[int, int]:
    if end - position < 8:
        raise JuteError("packet ends inside a long")
    return LONG.unpack_from(buffer, position)[0], position + 8


def read_bool(buffer: bytes, position: int, end: int) -> tuple[bool, int]:
    if position >= end:
        raise JuteError("packet ends before a boolean")
    return buffer[position] != 0, position + 1


def read_buffer(buffer: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    if end - position < 4:
        raise JuteError("packet ends inside a length")
    length = INT.unpack_from(buffer, position)[0]
    position += 4
    if length < 0:
        return None, position
    stop = position + length
    if stop > end:
        raise JuteError("length beyond the end of the packet")
    return buffer[position:stop], stop


def read_string(buffer: bytes, position: int, end: int) -> tuple[str, int]:
    """A null string reads as empty: no request tells the two apart."""
    if end - position < 4:
        raise JuteError("packet ends inside a length")
    length = INT.unpack_from(buffer, position)[0]
    position += 4
    if length <= 0:
        return "", position
    stop = position + length
    if stop > end:
        raise JuteError("length beyond the end of the packet")
    try:
        return buffer[position:stop].decode(), stop
    except UnicodeDecodeError as error:
        raise JuteError("text is not UTF-8") from error


def read_strings(buffer: bytes, position: int, end: int) -> tuple[list[str], int]:
    count, position = read_int(buffer, position, end)
    if count * 4 > end - position:
        raise JuteError("more elements than bytes")
    strings = []
    for _ in range(count):
        text, position = read_string(buffer, position, end)
        strings.append(text)
    return strings, position


def read_acls(
    buffer: bytes, position: int, end: int, max_entries: int | None = None
) -> tuple[tuple[Acl, ...], int]:
    stop = position + _OPEN_ACL_SIZE
    if stop <= end and buffer[position:stop] == _OPEN_ACL_BYTES:
        return OPEN_ACL, stop
    count, position = read_int(buffer, position, end)
    if count * 12 > end - position:
        raise JuteError("more elements than bytes")
    if max_entries is not None and count > max_entries:
        raise InvalidAclError(f"{count} entries, of which there may be {max_entries}")
    acls = []
    for _ in range(count):
        perms, position = read_int(buffer, position, end)
        scheme, position = read_string(buffer, position, end)
        identity, position = read_string(buffer, position, end)
        acls.append(Acl(perms, scheme, identity))
    return tuple(acls), position


def read_create(
    buffer: bytes, position: int, end: int
) -> tuple[str, bytes | None, tuple[Acl, ...], int, int, int]:
    """Path, data, ACL, mode, and where path and ACL end; the four bytes of the mode are last."""
    # By far the most are for a persistent node that is open to all, so that is tried first.
    if end - position >= 8:
        length = INT.unpack_from(buffer, position)[0]
        path_end = position + 4 + length
        if 0 < length <= end - position - 8:
            length = INT.unpack_from(buffer, path_end)[0]
            data_end = path_end + 4 + length
            stop = data_end + _OPEN_CREATE_TAIL_SIZE
            if length >= 0 and stop <= end and buffer[data_end:stop] == _OPEN_CREATE_TAIL:
                try:
                    path = buffer[position + 4 : path_end].decode()
                except UnicodeDecodeError as error:
                    raise JuteError("text is not UTF-8") from error
                return path, buffer[path_end + 4 : data_end], OPEN_ACL, 0, path_end, stop - 4
    path, path_end = read_string(buffer, position, end)
    data, data_end = read_buffer(buffer, path_end, end)
    acl, acl_end = read_acls(buffer, data_end, end, MAX_ACL_ENTRIES)
    mode, _ = read_int(buffer, acl_end, end)
    return path, data, acl, mode, path_end, acl_end


def read_stat(buffer: bytes, position: int, end: int) -> tuple[Stat, int]:
    if end - position < STAT.size:
        raise JuteError("packet ends inside a stat")
    return Stat._make(STAT.unpack_from(buffer, position)), position + STAT.size


def read_multi_header(buffer: bytes, position: int, end: int) -> tuple[int, bool, int]:
    """Operation type, whether the list ends here, and the next position."""
    if end - position < MULTI_HEADER.size:
        raise JuteError("packet ends inside a multi header")
    kind, done, _ = MULTI_HEADER.unpack_from(buffer, position)
    return kind, done, position + MULTI_HEADER.size


def write_buffer(data: bytes | None) -> bytes:
    if data is None:
        return NULL
    return INT.pack(len(data)) + data


def write_string(text: str) -> bytes:
    raw = text.encode()
    return INT.pack(len(raw)) + raw


def write_strings(texts: list[str]) -> bytes:
    parts = [INT.pack(len(texts))]
    pack = INT.pack
    for text in texts:
        raw = text.encode()
        parts.append(pack(len(raw)))
        parts.append(raw)
    return b"".join(parts)


def write_acls(acls: tuple[Acl, ...]) -> bytes:
    if acls is OPEN_ACL:
        return _OPEN_ACL_BYTES
    parts = [INT.pack(len(acls))]
    for perms, scheme, identity in acls:
        parts += (INT.pack(perms), write_string(scheme), write_string(identity))
    return b"".join(parts)


def frame(body: bytes) -> bytes:
    return INT.pack(len(body)) + body


def reply(xid: int, zxid: int, error: int = 0, body: bytes = b"") -> bytes:
    """A framed answer; an error carries no body."""
    return FRAMED_REPLY.pack(16 + len(body), xid, zxid, error) + body


@lru_cache(maxsize=16)
def watch_event(kind: int, path: str) -> bytes:
    """A framed watch notification; kept a little, because an event often goes to many."""
    return reply(
        XID_EVENT,
        -1,
        0,
        EVENT_HEADER.pack(kind, STATE_SYNC_CONNECTED) + write_string(path),
    )


def _encode_open_acl() -> bytes:
    perms, scheme, identity = OPEN_ACL[0]
    return INT.pack(1) + INT.pack(perms) + write_string(scheme) + write_string(identity)


_OPEN_ACL_BYTES = _encode_open_acl()
_OPEN_ACL_SIZE = len(_OPEN_ACL_BYTES)
_OPEN_CREATE_TAIL = _OPEN_ACL_BYTES + INT.pack(0)
_OPEN_CREATE_TAIL_SIZE = len(_OPEN_CREATE_TAIL)
