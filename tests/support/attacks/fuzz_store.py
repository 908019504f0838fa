"""Requests to the store that nobody sane sends: every operation with extreme values, and noise."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

from ottla.zk import jute
from tests.support.attacks.fuzz_driver import Opening
from tests.support.attacks.fuzz_requests import mutated

# All of ZooDefs.OpCode that a client can send, some that it cannot, and some that nobody knows.
OPERATIONS = (
    *(jute.OP_CREATE, jute.OP_DELETE, jute.OP_EXISTS, jute.OP_GET_DATA, jute.OP_SET_DATA),
    *(jute.OP_GET_ACL, jute.OP_SET_ACL, jute.OP_GET_CHILDREN, jute.OP_SYNC, jute.OP_PING),
    *(jute.OP_GET_CHILDREN2, jute.OP_CHECK, jute.OP_MULTI, jute.OP_CREATE2, jute.OP_RECONFIG),
    *(jute.OP_CHECK_WATCHES, jute.OP_REMOVE_WATCHES, jute.OP_CREATE_CONTAINER),
    *(jute.OP_CREATE_TTL, jute.OP_MULTI_READ, jute.OP_AUTH, jute.OP_SET_WATCHES, jute.OP_SASL),
    *(jute.OP_GET_EPHEMERALS, jute.OP_GET_ALL_CHILDREN_NUMBER, jute.OP_SET_WATCHES2),
    *(jute.OP_ADD_WATCH, jute.OP_WHO_AM_I, jute.OP_ERROR, 0, 10, 20, 108, 109, -10, 12345),
)
# Few names, so that what legal requests make has an end; sequences only where there is no parent.
_PATHS = (
    "/fuzz", "/fuzz/a", "/fuzz/b", "/fuzz/a/c", "/", "", "fuzz", "/fuzz/", "//", "/fuzz/../x",
    "/fuzz/.", "/zookeeper", "/zookeeper/quota", "/no/such", "/fuzz/" + "d" * 300, "/é", "/\0",
    "/fuzz/\n", "/" + "deep/" * 60 + "x",
)  # fmt: skip
_BLOBS = (b"", b"x", bytes(200), b"user:password", b"\xff" * 20)
_SCHEMES = ("world", "auth", "digest", "ip", "x509", "sasl", "super", "")
_IDENTITIES = ("anyone", "user:password", "127.0.0.1", "10.0.0.0/8", "999.1.1.1/99", "", "a" * 200)
_INTS = (0, 1, -1, 2, 3, 4, 5, 6, 31, 100, 0x7FFFFFFF, -0x80000000)
_FLAGS = (0, 1, 4, 5, 6, 7, -1, 99)
_LIES = (-1, -2, 0x7FFFFFFF, -0x80000000, 100_000)


class _Body:
    """Fields of one request, most of them true."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.out = bytearray()

    def blob(self, data: bytes) -> None:
        length = len(data) if self._rng.random() > 0.02 else self._rng.choice(_LIES)
        self.out += struct.pack(">i", length) + data

    def path(self) -> None:
        self.blob(self._rng.choice(_PATHS).encode())

    def paths(self) -> None:
        count = int(self._rng.random() * 4)
        self.out += struct.pack(
            ">i", count if self._rng.random() > 0.02 else self._rng.choice(_LIES)
        )
        for _ in range(count):
            self.path()

    def data(self) -> None:
        self.blob(self._rng.choice(_BLOBS))

    def number(self, values: tuple[int, ...] = _INTS) -> None:
        self.out += struct.pack(">i", self._rng.choice(values))

    def long(self) -> None:
        self.out += struct.pack(">q", self._rng.choice((*_INTS, 1 << 62, -(1 << 63))))

    def flag(self) -> None:
        self.out.append(self._rng.choice((0, 1, 255)))

    def acl(self) -> None:
        if self._rng.random() < 0.7:
            # Open to all: a node that nobody may delete would stay for good.
            self.out += jute.write_acls((jute.Acl(31, "world", "anyone"),))
            return
        count = int(self._rng.random() * 3)
        self.out += struct.pack(">i", count)
        for _ in range(count):
            self.number()
            self.blob(self._rng.choice(_SCHEMES).encode())
            self.blob(self._rng.choice(_IDENTITIES).encode())

    def operation(self, kind: int) -> None:
        """The body that the operation has."""
        fields = {
            jute.OP_EXISTS: "pf", jute.OP_GET_DATA: "pf", jute.OP_GET_CHILDREN: "pf",
            jute.OP_GET_CHILDREN2: "pf", jute.OP_DELETE: "pn", jute.OP_CHECK: "pn",
            jute.OP_SET_DATA: "pdn", jute.OP_GET_ACL: "p", jute.OP_SET_ACL: "pan",
            jute.OP_SYNC: "p", jute.OP_CREATE: "pdaF", jute.OP_CREATE2: "pdaF",
            jute.OP_CREATE_CONTAINER: "pdaF", jute.OP_CREATE_TTL: "pdaFl", jute.OP_AUTH: "nsd",
            jute.OP_SET_WATCHES: "lPPP", jute.OP_SET_WATCHES2: "lPPPPP", jute.OP_ADD_WATCH: "pn",
            jute.OP_CHECK_WATCHES: "pn", jute.OP_REMOVE_WATCHES: "pn", jute.OP_SASL: "d",
            jute.OP_GET_EPHEMERALS: "p", jute.OP_GET_ALL_CHILDREN_NUMBER: "p",
            jute.OP_RECONFIG: "pppl", jute.OP_MULTI: "M", jute.OP_MULTI_READ: "R",
        }.get(kind, "")  # fmt: skip
        for letter in fields:
            self._write(letter)

    def _write(self, letter: str) -> None:
        match letter:
            case "p":
                self.path()
            case "P":
                self.paths()
            case "d":
                self.data()
            case "n":
                self.number()
            case "F":
                self.number(_FLAGS)
            case "f":
                self.flag()
            case "l":
                self.long()
            case "a":
                self.acl()
            case "s":
                self.blob(self._rng.choice(_SCHEMES).encode())
            case "M":
                self._multi((jute.OP_CREATE, jute.OP_DELETE, jute.OP_SET_DATA, jute.OP_CHECK, 99))
            case "R":
                self._multi((jute.OP_GET_DATA, jute.OP_GET_CHILDREN, jute.OP_CREATE))

    def _multi(self, kinds: tuple[int, ...]) -> None:
        for _ in range(int(self._rng.random() * 4)):
            kind = self._rng.choice(kinds)
            self.out += jute.MULTI_HEADER.pack(kind, False, -1)
            self.operation(kind)
        if self._rng.random() > 0.02:
            self.out += jute.END_OF_MULTI


def store_frames(rng: random.Random) -> Iterator[bytes]:
    """Whole packets of every operation, without end."""
    while True:
        kind = rng.choice(OPERATIONS)
        body = _Body(rng)
        body.operation(kind)
        xid = jute.XID_AUTH if kind == jute.OP_AUTH else rng.choice((1, 2, -8, 0x7FFFFFFF))
        head = struct.pack(">iii", 8 + len(body.out), xid, kind)
        yield head + bytes(body.out)


def blind_store_frames(rng: random.Random, frames: Iterator[bytes]) -> Iterator[bytes]:
    while True:
        if rng.random() < 0.1:
            noise = rng.randbytes(int(rng.random() ** 3 * 300))
            yield struct.pack(">i", len(noise)) + noise
        else:
            yield mutated(rng, next(frames))


def hello(rng: random.Random) -> Opening:
    """What opens a connection, right most of the time. The shortest session that there is: what a
    dead one leaves behind goes with it."""
    good = jute.CONNECT_REQUEST.pack(0, 0, 1, 0) + jute.INT.pack(16) + bytes(16) + b"\x00"
    if rng.random() > 0.02:
        return Opening(jute.frame(good), 1)
    return Opening(mutated(rng, jute.frame(good)), 1)
