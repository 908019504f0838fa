"""Record batches that lie, and some that only look as if they did: what each broker says to them.

Every entry is a whole batch with a right checksum, so that only a look at its records can tell.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterator
from typing import NamedTuple

import cramjam

from ottla.wire.checksum import crc32c
from ottla.wire.compression import CODEC_NAMES, GZIP, LZ4, NONE, SNAPPY, ZSTD, compress
from ottla.wire.lz4_header import with_right_checksum
from ottla.wire.records import CRC_START, HEADER, HEADER_BYTES, LOG_OVERHEAD_BYTES

NOW_MS = 1_700_000_000_000
TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "bounded": {"message.timestamp.difference.max.ms": "1000"},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "uncompressed": {"compression.type": "uncompressed"},
    "gzip": {"compression.type": "gzip"},
}
_CODECS = (NONE, GZIP, SNAPPY, LZ4, ZSTD)


class Lie(NamedTuple):
    name: str
    topic: str
    batch: bytes


# --- how batches are made -------------------------------------------------------------------------


def varint(value: int) -> bytes:
    """Zig-zag, as records have them."""
    value = (value << 1 ^ value >> 63) & 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes((value,))


def sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def fields(
    delta: int = 0,
    *,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    time: int = 0,
    attributes: int = 0,
    headers: bytes = b"\x00",
) -> bytes:
    """What follows a record's size."""
    start = bytes((attributes,)) + varint(time) + varint(delta)
    return start + sized(key) + sized(value) + headers


def record(delta: int = 0, *, size: int | None = None, **more: object) -> bytes:
    """`size` is what it says, whatever it is."""
    body = fields(delta, **more)  # type: ignore[arg-type]
    return varint(len(body) if size is None else size) + body


def batch(
    body: bytes,
    count: int,
    codec: int = NONE,
    *,
    is_packed: bool = False,
    attributes: int = 0,
    last_delta: int | None = None,
    base_time: int = NOW_MS,
    newest: int = NOW_MS,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    """A batch with any body; `is_packed`: it is compressed already, or is said to be."""
    content = body if is_packed or codec == NONE else compress(codec, body)
    made = bytearray(HEADER_BYTES) + content
    HEADER.pack_into(
        made,
        0,
        0,
        len(made) - LOG_OVERHEAD_BYTES,
        -1,
        2,
        0,
        codec | attributes,
        count - 1 if last_delta is None else last_delta,
        base_time,
        newest,
        *producer,
        count,
    )
    struct.pack_into(">I", made, 17, crc32c(memoryview(made)[CRC_START:]))
    return bytes(made)


# --- records, in every codec ----------------------------------------------------------------------


def _bodies() -> Iterator[tuple[str, bytes, int]]:
    """Name, plain records, how many the header says there are."""
    three = record(0) + record(1) + record(2)
    yield "as it should be", three, 3
    yield "one more than there are", three, 4
    yield "one less than there are", three, 2
    yield "a thousand times as many", three, 3000
    yield "the most there can be", three, 0x7FFFFFFF
    yield "nothing", b"", 1
    yield "garbage", b"garbage that is no record at all" * 4, 3
    yield "zeros", bytes(50), 3
    yield "ones", b"\xff" * 50, 3
    yield "bytes behind", three + b"\x00", 3
    yield "a record behind", three + record(3), 3
    yield "cut in the last", three[:-1], 3
    yield "cut at a size", three[: len(three) // 3 * 2], 3
    yield "a size of -1", record(0, size=-1) + record(1), 2
    yield "a size of 0", record(0, size=0) + record(1), 2
    yield "a size too small", record(0, size=5) + record(1), 2
    yield "a size too large", record(0, size=9) + record(1), 2
    yield "a size up to the end", record(0, size=15) + record(1), 2
    yield "a size past the end", record(0, size=40) + record(1), 2
    yield "a last size past the end", record(0) + record(1, size=40), 2
    yield "a last size of -1", record(0) + record(1, size=-1), 2
    yield "only a size", record(0) + varint(7), 2
    yield "a size of five bytes", b"\x90\x80\x80\x80\x00" + fields(), 1
    yield "a size of six bytes", b"\x90\x80\x80\x80\x80\x00" + fields(), 1
    yield "a size with high bits", b"\x90\x80\x80\x80\x70" + fields(), 1
    yield "a key of -2", _raw(b"\x00\x00\x00\x03" + sized(b"v") + b"\x00"), 1
    yield "a value of -7", _raw(b"\x00\x00\x00" + sized(b"k") + varint(-7) + b"\x00"), 1
    yield "a key past its record", _raw(b"\x00\x00\x00" + varint(9) + b"kkkk\x00") + record(1), 2
    yield "a value past all", _raw(b"\x00\x00\x00\x01" + varint(99) + b"vv\x00") + record(1), 2
    yield "a value of two gigabytes", _raw(b"\x00\x00\x00\x01\xfe\xff\xff\xff\x0f"), 1
    yield "a value that ends with it", _raw(b"\x00\x00\x00\x01" + varint(2) + b"vv"), 1
    yield "a key of six bytes", _raw(b"\x00\x00\x00\x82\x80\x80\x80\x80\x00" + b"k\x01\x00"), 1
    yield "-1 headers", record(headers=varint(-1)), 1
    yield "too many headers", record(headers=varint(5) + sized(b"h") + sized(b"1")), 1
    yield "a million headers", record(headers=varint(1_000_000)), 1
    yield "headers left over", record(headers=varint(1) + (sized(b"h") + sized(b"1")) * 2), 1
    yield "a header without a key", record(headers=varint(1) + varint(-1) + sized(b"1")), 1
    yield "a header without a value", record(headers=varint(1) + sized(b"h") + varint(-1)), 1
    yield "a header value of -5", record(headers=varint(1) + sized(b"h") + varint(-5)), 1
    yield "a header name of no text", record(headers=varint(1) + sized(b"\xff") + sized(b"1")), 1
    yield "a header past its record", record(headers=varint(1) + sized(b"h") + varint(40)), 1
    yield "attributes of a record", record(attributes=0xFF), 1
    yield "offsets from 1", record(1) + record(2), 2
    yield "offsets that jump", record(0) + record(5), 2
    yield "offsets that stand", record(0) + record(0), 2
    yield "offsets that go back", record(0) + record(-1), 2
    yield "an offset of six bytes", _raw(b"\x00\x00\x80\x80\x80\x80\x80\x00\x02k\x02v\x00"), 1
    yield "a time of eleven bytes", _raw(b"\x00" + b"\x80" * 10 + b"\x00\x00\x02k\x02v\x00"), 1
    yield "a time of ten bytes", _raw(b"\x00" + b"\x80" * 9 + b"\x00\x00\x02k\x02v\x00"), 1
    yield "later than the header says", record(0, time=5000), 1
    yield "before all time", record(0, time=-NOW_MS - 50), 1
    yield "past all time", record(0, time=0x7FFFFFFFFFFFFFFF), 1
    many = b"".join(record(n, value=b"x" * 20) for n in range(300))
    yield "many alike", many, 300
    yield "many alike and one more", many, 301
    yield "many alike and one less", many, 299
    bad = bytearray(many)
    bad[-29] ^= 0x02
    yield "many alike and a bad one", bytes(bad), 300


def _raw(body: bytes) -> bytes:
    return varint(len(body)) + body


def lies_of_records() -> Iterator[Lie]:
    for name, body, count in _bodies():
        for codec in _CODECS:
            yield Lie(f"{name}, {CODEC_NAMES[codec]}", "plain", batch(body, count, codec))
        # Its records are put together anew.
        yield Lie(f"{name}, to gzip", "gzip", batch(body, count))
        yield Lie(f"{name}, to plain", "uncompressed", batch(body, count, GZIP))


# --- what a codec makes of its bytes --------------------------------------------------------------


def lies_of_codecs() -> Iterator[Lie]:
    plain = b"".join(record(n, value=b"%d" % n * 40) for n in range(40))
    for codec in _CODECS[1:]:
        packed = compress(codec, plain)
        for name, content in (
            ("no bytes", b""),
            ("plain bytes", plain),
            ("one byte cut", packed[:-1]),
            ("four cut", packed[:-4]),
            ("nine cut", packed[:-9]),
            ("half of it", packed[: len(packed) // 2]),
            ("only its start", packed[:6]),
            ("a byte behind", packed + b"\x00"),
            ("bytes behind", packed + b"garbage behind it all, thirty bytes and more"),
            ("twice", packed + packed),
            ("a flipped byte", _flipped(packed, len(packed) // 2)),
            ("a flipped start", _flipped(packed, 1)),
        ):
            yield Lie(f"{CODEC_NAMES[codec]}: {name}", "plain", _packed(content, codec))
        for other in _CODECS[1:]:
            if other != codec:
                content = compress(other, plain)
                said = f"{CODEC_NAMES[other]} said to be {CODEC_NAMES[codec]}"
                yield Lie(said, "plain", _packed(content, codec))
        yield Lie(f"{CODEC_NAMES[codec]} said to be plain", "plain", _packed(packed, NONE))
    yield Lie("raw snappy", "plain", _packed(bytes(cramjam.snappy.compress_raw(plain)), SNAPPY))
    members = gzip.compress(plain[:100]) + gzip.compress(plain[100:])
    yield Lie("gzip in two members", "plain", _packed(members, GZIP))
    frames = compress(ZSTD, plain[:100]) + compress(ZSTD, plain[100:])
    yield Lie("zstd in two frames", "plain", _packed(frames, ZSTD))
    yield from _lies_behind(plain)
    yield from _lies_of_lz4(plain)
    for codec in (5, 6, 7):
        yield Lie(f"codec {codec}", "plain", _packed(plain, codec))


def _lies_behind(plain: bytes) -> Iterator[Lie]:
    """Bytes behind the end of a stream, few and many; some begin as another stream would."""
    for codec in _CODECS[1:]:
        packed = compress(codec, plain)
        for name, behind in (("zeros", bytes(40)), ("its own start", packed)):
            for size in (1, 2, 3, 4, 5, 6, 8, 9, 12, 16, 18, 20, 30):
                said = f"{CODEC_NAMES[codec]} and {size} bytes of {name} behind"
                yield Lie(said, "plain", _packed(packed + behind[:size], codec))
    half = len(plain) // 2
    parts = compress(SNAPPY, plain[:half]) + compress(SNAPPY, plain[half:])
    yield Lie("snappy in two streams", "plain", _packed(parts, SNAPPY))
    head = parts[:16]
    for name, block in (
        ("of no bytes", struct.pack(">i", 0)),
        ("of -1 bytes", struct.pack(">i", -1) + b"x"),
        ("of two gigabytes", struct.pack(">i", 0x7FFFFFFF) + b"x"),
        ("that says it holds two gigabytes", struct.pack(">i", 6) + b"\xff\xff\xff\xff\x07\x00"),
    ):
        yield Lie(f"a snappy block {name}", "plain", _packed(head + block, SNAPPY))


def _lies_of_lz4(plain: bytes) -> Iterator[Lie]:
    """Flags: 0x40 the version, 0x20 independent blocks, 0x10 checksums of blocks, 0x08 the
    content's size, 0x04 its checksum, 0x01 a dictionary."""
    block = struct.pack("<I", len(plain) | 1 << 31) + plain
    end = bytes(4)
    for name, flags, size, rest in (
        ("as it should be", 0x60, b"", block + end),
        ("linked blocks", 0x40, b"", block + end),
        ("no version", 0x20, b"", block + end),
        ("a reserved bit", 0x62, b"", block + end),
        ("a dictionary", 0x61, b"", block + end),
        ("a wrong size of the content", 0x68, bytes(8), block + end),
        ("a wrong checksum of the content", 0x64, b"", block + end + b"abcd"),
        ("a cut checksum of the content", 0x64, b"", block + end + b"ab"),
        ("a wrong checksum of a block", 0x70, b"", block + b"abcd" + end),
        ("a block past the end", 0x60, b"", struct.pack("<I", 9999 | 1 << 31) + plain + end),
        ("a block too large", 0x60, b"", struct.pack("<I", 70000 | 1 << 31) + bytes(70000) + end),
        ("no end", 0x60, b"", block),
    ):
        descriptor = bytes((flags, 0x40)) + size
        frame = b"\x04\x22\x4d\x18" + descriptor + b"\x00" + rest
        yield Lie(f"lz4 with {name}", "plain", _packed(with_right_checksum(frame), LZ4))
    wrong = b"\x04\x22\x4d\x18\x60\x40\x00" + block + end
    yield Lie("lz4 with a wrong checksum", "plain", _packed(wrong, LZ4))
    small = b"\x04\x22\x4d\x18\x60\x10\x00" + block + end
    yield Lie("lz4 with blocks of unknown size", "plain", _packed(with_right_checksum(small), LZ4))


def _packed(content: bytes, codec: int) -> bytes:
    return batch(content, 40, codec, is_packed=True)


def _flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes((data[at] ^ 0x55,)) + data[at + 1 :]


# --- headers, and the rules of topics -------------------------------------------------------------


def lies_of_headers() -> Iterator[Lie]:
    one, two = record(0), record(0) + record(1)
    for codec in (NONE, GZIP):
        name = CODEC_NAMES[codec]
        yield Lie(f"no records, {name}", "plain", batch(b"", 0, codec))
        yield Lie(f"-1 records, {name}", "plain", batch(one, -1, codec))
        yield Lie(f"-1 records up to 0, {name}", "plain", batch(one, -1, codec, last_delta=0))
        yield Lie(f"a last delta of 5, {name}", "plain", batch(two, 2, codec, last_delta=5))
        yield Lie(f"a last delta of -1, {name}", "plain", batch(two, 2, codec, last_delta=-1))
        for topic in TOPICS:
            yield Lie(
                f"a newest time in 2100, {name}",
                topic,
                batch(two, 2, codec, newest=4_102_444_800_000),
            )
            yield Lie(f"a newest time of -1, {name}", topic, batch(two, 2, codec, newest=-1))
            yield Lie(f"no time at all, {name}", topic, batch(one, 1, codec, base_time=-1))
            yield Lie(f"a time of -5, {name}", topic, batch(one, 1, codec, base_time=-5))
            yield Lie(f"append time, {name}", topic, batch(two, 2, codec, attributes=8))
            yield Lie(f"unknown attributes, {name}", topic, batch(two, 2, codec, attributes=64))
            yield Lie(
                f"unknown attributes and a wrong time, {name}",
                topic,
                batch(two, 2, codec, attributes=0x7FC0, newest=5),
            )
            keyless = record(0) + record(1, key=None) + record(2, key=None, time=-9999)
            yield Lie(f"no keys, {name}", topic, batch(keyless, 3, codec))
            yield Lie(f"no keys and cut, {name}", topic, batch(keyless[:-1], 3, codec))
            yield Lie(
                f"no keys and append time, {name}", topic, batch(keyless, 3, codec, attributes=8)
            )
            yield Lie(f"a marker, {name}", topic, batch(one, 1, codec, attributes=32))
            yield Lie(
                f"a producer without a sequence, {name}",
                topic,
                batch(one, 1, codec, producer=(77, 0, -1)),
            )


def all_lies() -> list[Lie]:
    return [*lies_of_records(), *lies_of_codecs(), *lies_of_headers()]
