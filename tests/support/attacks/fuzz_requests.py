"""Kafka requests that nobody sane sends: from the schemas with extreme values, and bytes broken.

A request is written straight from its schema, so that it may say what our encoder refuses to say:
negative lengths, nulls where none are allowed, tags that lie about their size. Most fields are
right in most frames: otherwise no frame would get past the decoder.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from functools import cache

from ottla.broker.handlers import ROUTES
from ottla.wire import messages as m
from ottla.wire.framing import request_header_version
from ottla.wire.primitives import uvarint_bytes
from ottla.wire.records import Record, build_batch
from ottla.wire.schema import Field, MessageSchema
from tests.support.attacks.fuzz_driver import Opening

# The one topic that fuzz frames may find; it has two partitions.
TOPIC = "fuzz"
LAST_ID = 0x0DDBA11
Writer = Callable[[random.Random, bytearray], None]

# One field in so many is a lie about its length.
LIES_IN = 60
_NAMES = (
    *(TOPIC,) * 4, "g", "g2", "txn", "no-such", "", ".", "..", "../../x", "a/b", "x" * 249,
    "y" * 300, "z" * 3000, "new\nline", "é" * 90, "\0", "0", "1", "*", "User:x", "PLAIN", "range",
    "consumer", "cleanup.policy", "retention.ms", "-1", "__consumer_offsets",
)  # fmt: skip
_LENGTHS = (-2, -1, 0x7FFF, 0x7FFFFFFF, 1_000_000, 5000)
_VARINTS = (
    b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x7f", b"\x80\x80\x80\x80\x08", b"\xff" * 6,
    b"\x80\x80\x40", b"\x80\x01", b"\x00",
)  # fmt: skip
_SIZES = {"int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "float64": 8}


def _integers(size: int) -> tuple[bytes, ...]:
    top = 1 << (8 * size - 1)
    wanted = (*(0,) * 4, *(1,) * 3, *(-1,) * 2, 2, 3, 100, top - 1, -top, top // 2)
    return tuple((value % (2 * top)).to_bytes(size, "big") for value in wanted)


_INTEGERS = {kind: _integers(size) for kind, size in _SIZES.items()}
_BATCH = build_batch([Record(b"k", b"v", 1000), Record(None, None, 2000, (("h", None),))])
_BLOBS = (
    b"",
    b"\0",
    _BATCH,
    _BATCH[:-1],
    _BATCH * 3,
    bytes(61),
    b"\xff" * 100,
    b"\0user\0password",
)

_TRUE, _STALE = (b"\x01",), (b"\0\0\0\0", b"\xff\xff\xff\xff")
_SHORT = (b"\0\0\0\0", b"\xff\xff\xff\xff", b"\0\0\0\1", b"\x80\0\0\0")
_NOBODY = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\0\0\0\5")
# What would legally stop the broker, make things without end or wait for minutes is kept from it.
_TAMED: dict[tuple[str, str], tuple[bytes, ...]] = {
    ("CreateTopics", "validate_only"): _TRUE,
    ("CreatePartitions", "validate_only"): _TRUE,
    ("AlterConfigs", "validate_only"): _TRUE,
    ("IncrementalAlterConfigs", "validate_only"): _TRUE,
    ("AlterClientQuotas", "validate_only"): _TRUE,
    ("LeaderAndIsr", "controller_epoch"): _STALE,
    ("StopReplica", "controller_epoch"): _STALE,
    ("UpdateMetadata", "controller_epoch"): _STALE,
    ("ControlledShutdown", "broker_id"): _NOBODY,
    ("Fetch", "max_wait_ms"): _SHORT,
    ("JoinGroup", "rebalance_timeout_ms"): _SHORT,
    ("JoinGroup", "session_timeout_ms"): (*_SHORT, b"\0\0\x27\x10"),
    ("DeleteRecords", "timeout_ms"): _SHORT,
    ("ElectLeaders", "timeout_ms"): _SHORT,
    ("AlterPartitionReassignments", "timeout_ms"): _SHORT,
    ("CreateTopics", "timeout_ms"): _SHORT,
    ("DeleteTopics", "timeout_ms"): _SHORT,
    ("Produce", "timeout_ms"): _SHORT,
}  # fmt: skip
# Those whose first version cannot be told to validate only, or that delete what others need.
_LEFT_OUT = {
    ("CreateTopics", 0),
    *(("DeleteTopics", version) for version in range(20)),
    # These make state by name and have no dry run.
    *(
        (name, version)
        for name in ("CreateAcls", "AlterUserScramCredentials")
        for version in range(9)
    ),
}


def apis() -> list[tuple[str, int, int]]:
    """Name, key and version of everything that may be sent."""
    return [
        (route.name, route.api_key, version)
        for route in ROUTES
        for version in range(route.min_version, route.max_version + 1)
        if (route.name, version) not in _LEFT_OUT
    ]


class _Compiler:
    """Writers for the fields of one message in one version."""

    def __init__(self, api: str, schema: MessageSchema, version: int) -> None:
        self._api = api
        self._schema = schema
        self._version = version
        self._compact = version in schema.flexible

    def body(self) -> Writer:
        return self._struct(self._schema.fields)

    def _struct(self, fields: tuple[Field, ...]) -> Writer:
        here = [field for field in fields if self._version in field.versions]
        plain = [self._field(field) for field in here if self._version not in field.tagged]
        tags = [(field.tag, self._field(field)) for field in here if self._version in field.tagged]

        def write(rng: random.Random, out: bytearray) -> None:
            for one in plain:
                one(rng, out)
            if self._compact:
                _write_tags(rng, out, tags)

        return write

    def _field(self, field: Field) -> Writer:
        one = self._one(field)
        if not field.is_array:
            return one
        compact = self._compact
        nullable = self._version in field.nullable

        def array(rng: random.Random, out: bytearray) -> None:
            draw = rng.random()
            if draw < 1 / LIES_IN or (nullable and draw > 0.9):
                _write_lie(rng, out, compact, 4)
                return
            count = 60 if draw < 0.02 else int(draw * 4)
            out += uvarint_bytes(count + 1) if compact else struct.pack(">i", count)
            for _ in range(count):
                one(rng, out)

        return array

    def _one(self, field: Field) -> Writer:
        kind = field.element
        tamed = _TAMED.get((self._api, field.name))
        if tamed is not None:
            return _choice(tamed)
        if kind in self._schema.structs:
            return self._struct(self._schema.structs[kind].fields)
        if kind in _INTEGERS:
            return _choice(_INTEGERS[kind])
        if kind == "bool":
            return _choice((b"\0", b"\1", b"\2", b"\xff"))
        if kind == "uuid":
            return _choice((bytes(16), b"\xff" * 16, bytes(range(16))))
        texts = tuple(name.encode() for name in _NAMES) if kind == "string" else _BLOBS
        return _text(texts, self._compact, 2 if kind == "string" else 4)


def _choice(values: tuple[bytes, ...]) -> Writer:
    count = len(values)

    def write(rng: random.Random, out: bytearray) -> None:
        out += values[int(rng.random() * count)]

    return write


def _text(texts: tuple[bytes, ...], compact: bool, size: int) -> Writer:
    ready = tuple(
        (uvarint_bytes(len(text) + 1) if compact else len(text).to_bytes(size, "big")) + text
        for text in texts
    )
    count = len(ready)

    def write(rng: random.Random, out: bytearray) -> None:
        draw = rng.random()
        if draw < 1 / LIES_IN:
            _write_lie(rng, out, compact, size)
        else:
            out += ready[int(draw * count)]

    return write


def _write_lie(rng: random.Random, out: bytearray, compact: bool, size: int) -> None:
    if compact:
        out += rng.choice(_VARINTS)
    else:
        out += (rng.choice(_LENGTHS) % (1 << 8 * size)).to_bytes(size, "big")


def _write_tags(rng: random.Random, out: bytearray, tags: list[tuple[int, Writer]]) -> None:
    draw = rng.random()
    if draw < 0.9 and not tags:
        out.append(0)
        return
    if draw < 1 / LIES_IN:
        out += rng.choice(_VARINTS)
        return
    sent = [(tag, write) for tag, write in tags if rng.random() < 0.5]
    if draw > 0.97:
        sent.append((rng.choice((0, 1, 77, 2_000_000)), _choice((b"", b"x", bytes(40)))))
    out += uvarint_bytes(len(sent))
    for tag, write in sent:
        inside = bytearray()
        write(rng, inside)
        size = len(inside) if rng.random() > 1 / LIES_IN else rng.choice((0, len(inside) + 1, 9999))
        out += uvarint_bytes(tag) + uvarint_bytes(size) + inside


@cache
def _writer(api: str, version: int) -> Writer:
    return _Compiler(api, getattr(m, f"{api}Request").SCHEMA, version).body()


def schema_frames(rng: random.Random) -> Iterator[bytes]:
    """Whole frames, each of an API and version drawn from all of them, without end."""
    everything = apis()
    while True:
        name, key, version = everything[int(rng.random() * len(everything))]
        header = request_header_version(key, version)
        out = bytearray(struct.pack(">ihhi", 0, key, version, 7))
        if header:
            out += rng.choice((b"\xff\xff", b"\0\0", b"\0\4fuzz", b"\0\3a\nb"))
        if header == 2:
            _write_tags(rng, out, [])
        _writer(name, version)(rng, out)
        struct.pack_into(">i", out, 0, len(out) - 4)
        yield bytes(out)


def last_request() -> Opening:
    """Nothing before, and behind the frames a request that is always answered."""
    asked = struct.pack(">hhi", 18, 0, LAST_ID) + b"\xff\xff"
    after = struct.pack(">i", len(asked)) + asked
    return Opening(after=after, after_id=struct.pack(">i", LAST_ID))


def blind_frames(rng: random.Random, frames: Iterator[bytes]) -> Iterator[bytes]:
    """One in ten is nothing but random bytes; the others are frames with something broken."""
    while True:
        if rng.random() < 0.1:
            noise = rng.randbytes(int(rng.random() ** 3 * 300))
            # Most have a true length: otherwise the first of a connection would be its last.
            lying = rng.random() < 0.1
            yield noise if lying else struct.pack(">i", len(noise)) + noise
        else:
            yield mutated(rng, next(frames))


def mutated(rng: random.Random, frame: bytes) -> bytes:
    """Up to four changes behind API key and version, and a length that fits most of the time."""
    # What a change might turn an order or a dry run into is decided by the key: it stays.
    out = bytearray(frame)
    for _ in range(1 + int(rng.random() ** 3 * 4)):
        at = 8 + int(rng.random() * max(1, len(out) - 8))
        draw = rng.random()
        if draw < 0.4 and at < len(out):
            out[at] = int(rng.random() * 256)
        elif draw < 0.6:
            out[at : at + 4] = rng.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0"))
        elif draw < 0.75:
            del out[at : at + 1 + int(rng.random() * 8)]
        elif draw < 0.9:
            out[at:at] = rng.randbytes(1 + int(rng.random() * 8))
        else:
            del out[at:]
    struct.pack_into(">i", out, 0, len(out) - 4 if rng.random() > 0.01 else 0x7FFFFFFF)
    return bytes(out)
