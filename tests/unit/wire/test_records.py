"""Record batches: bytes, checksums, markers, and what is refused."""

from __future__ import annotations

import struct

import cramjam
import pytest

from ottla.storage.compaction.record_spans import record_spans
from ottla.wire import compression, records
from ottla.wire.records import Record

_ITEMS = [Record(b"k%d" % i, b"v" * i, 1000 + i, [("h", None), ("x", b"1")]) for i in range(50)]


def _plain(record: Record) -> Record:
    return record._replace(offset=-1, headers=list(record.headers))


@pytest.mark.parametrize("codec", range(5))
def test_records_survive_every_codec(codec: int) -> None:
    batch = records.build_batch(_ITEMS, base_offset=7, compression=codec, leader_epoch=3)
    records.verify_crc(batch)
    header = records.read_header(batch)
    assert (header.codec, header.record_count, header.size) == (codec, 50, len(batch))
    assert (header.base_offset, header.last_offset, header.next_offset) == (7, 56, 57)
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1049)
    read = list(records.iter_records(batch))
    assert [_plain(record) for record in read] == _ITEMS
    assert [record.offset for record in read] == list(range(7, 57))


def test_null_and_empty_are_different() -> None:
    items = [Record(None, None, 1), Record(b"", b"", 1), Record(None, b"v", -1)]
    read = list(records.iter_records(records.build_batch(items)))
    assert [(r.key, r.value, r.timestamp) for r in read] == [
        (None, None, 1),
        (b"", b"", 1),
        (None, b"v", -1),
    ]


def test_known_batch_bytes() -> None:
    """A batch as DefaultRecordBatch lays it out, checksum computed independently of our code."""
    batch = records.build_batch([Record(None, b"x", 5)], producer_id=9, producer_epoch=1)
    body = bytes([14, 0, 0, 0, 1, 2]) + b"x" + bytes([0])
    fixed = struct.pack(">hiqqqhii", 0, 0, 5, 5, 9, 1, -1, 1) + body
    assert batch == struct.pack(">qiibI", 0, 57, -1, 2, _crc32c(fixed)) + fixed


def _crc32c(data: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def test_keep_offsets_as_compaction_does() -> None:
    items = [Record(b"a", b"1", 5, offset=10), Record(b"b", b"2", 6, offset=14)]
    batch = records.build_batch(items, base_offset=10, keep_offsets=True, last_offset_delta=7)
    assert [record.offset for record in records.iter_records(batch)] == [10, 14]
    assert records.read_header(batch).last_offset == 17


def test_an_empty_batch_is_a_header_alone() -> None:
    batch = records.build_batch([], base_offset=3, last_offset_delta=4)
    assert len(batch) == records.HEADER_BYTES
    assert list(records.iter_records(batch)) == []
    assert records.read_header(batch).base_timestamp == -1


def test_leader_patches_in_place_without_touching_the_checksum() -> None:
    batch = memoryview(bytearray(records.build_batch(_ITEMS)))
    records.patch(batch, 1 << 40, 12)
    records.verify_crc(batch)
    header = records.read_header(batch)
    assert (header.base_offset, header.partition_leader_epoch) == (1 << 40, 12)


def test_append_time_reads_as_the_time_of_every_record() -> None:
    batch = memoryview(bytearray(records.build_batch(_ITEMS)))
    records.patch_append_time(batch, 99)
    records.verify_crc(batch)
    assert records.read_header(batch).is_log_append_time
    assert {record.timestamp for record in records.iter_records(batch)} == {99}
    direct = records.build_batch(_ITEMS, log_append_time_ms=99)
    assert direct == bytes(batch)


def test_sequences_wrap() -> None:
    batch = records.build_batch(_ITEMS[:3], producer_id=1, base_sequence=0x7FFFFFFF)
    assert records.read_header(batch).last_sequence == 1
    assert records.read_header(records.build_batch(_ITEMS)).last_sequence == -1


@pytest.mark.parametrize("commit", [True, False])
def test_markers(commit: bool) -> None:
    marker = records.build_marker(
        producer_id=5, producer_epoch=2, commit=commit, coordinator_epoch=8, timestamp_ms=1 << 40
    )
    assert len(marker) == 78
    header = records.read_header(marker)
    assert header.is_control and header.is_transactional and header.base_sequence == -1
    parsed = records.parse_marker(marker)
    assert (parsed.is_commit, parsed.is_abort, parsed.coordinator_epoch) == (commit, not commit, 8)


def test_other_control_records() -> None:
    leader_change = records.build_batch([Record(struct.pack(">hh", 0, 3), b"?")], control=True)
    assert records.parse_marker(leader_change).type == 3
    later = Record(struct.pack(">hhq", 1, 1, 0), struct.pack(">hiq", 1, 4, 0))
    assert records.parse_marker(records.build_batch([later])) == records.Marker(1, 4, 1)
    for key, value in (
        (None, b""),
        (b"\x00", b""),
        (struct.pack(">hh", -1, 1), bytes(6)),
        (struct.pack(">hh", 0, 1), None),
        (struct.pack(">hh", 0, 1), struct.pack(">hi", -1, 4)),
    ):
        with pytest.raises(records.CorruptBatch):
            records.parse_marker(records.build_batch([Record(key, value)]))


def test_iter_batches_gives_views_and_leaves_a_partial_tail_out() -> None:
    one, two = records.build_batch(_ITEMS[:2]), records.build_batch(_ITEMS[2:], base_offset=2)
    data = bytearray(one + two + one[:30])
    batches = list(records.iter_batches(data))
    assert [header.base_offset for header, _ in batches] == [0, 2]
    assert [bytes(view) for _, view in batches] == [one, two]
    batches[1][1][0] = 1
    assert data[len(one)] == 1


def test_wrong_checksum() -> None:
    batch = bytearray(records.build_batch(_ITEMS))
    batch[-1] ^= 1
    with pytest.raises(records.CorruptBatch, match="checksum"):
        records.verify_crc(batch)
    with pytest.raises(records.CorruptBatch):
        records.verify_crc(b"short")


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_have_an_error_of_their_own(magic: int) -> None:
    old = struct.pack(">qiIbb", 0, 22, 0, magic, 0) + bytes(16)
    with pytest.raises(records.OldMagic) as caught:
        list(records.iter_batches(old))
    assert caught.value.magic == magic


@pytest.mark.parametrize(
    ("offset", "value"),
    [(8, b"\x00\x00\x00\x0d"), (8, b"\xff\xff\xff\xff"), (16, b"\x03"), (8, b"\x00\x00\x00\x10")],
)
def test_headers_that_are_none(offset: int, value: bytes) -> None:
    batch = bytearray(records.build_batch(_ITEMS))
    batch[offset : offset + len(value)] = value
    with pytest.raises(records.CorruptBatch):
        records.read_header(batch)
    with pytest.raises(records.CorruptBatch):
        list(records.iter_batches(batch))


@pytest.mark.parametrize("count", [-1, 0, 1, 49, 51, 2**31 - 1])
def test_a_wrong_record_count(count: int) -> None:
    batch = bytearray(records.build_batch(_ITEMS))
    struct.pack_into(">i", batch, 57, count)
    with pytest.raises(records.CorruptBatch):
        list(records.iter_records(batch))


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_compression_bombs_are_stopped(codec: int) -> None:
    bomb = compression.compress(codec, bytes(20_000_000))
    with pytest.raises(compression.OutputTooLarge):
        compression.decompress(codec, bomb, max_bytes=1_000_000)
    assert len(compression.decompress(codec, bomb)) == 20_000_000


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
@pytest.mark.parametrize("data", [b"", b"a", b"ab" * 100_000, bytes(range(256)) * 300])
def test_codecs_round_trip(codec: int, data: bytes) -> None:
    assert compression.decompress(codec, compression.compress(codec, data)) == data


@pytest.mark.parametrize("codec", [1, 2, 3, 4, 5])
def test_garbage_is_a_compression_error(codec: int) -> None:
    with pytest.raises(compression.CompressionError):
        compression.decompress(codec, b"\x82SNAPPY\x00garbage that is no stream")


def test_framings_that_kafkas_java_reader_wants() -> None:
    assert compression.compress(2, b"abc").startswith(
        b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    )
    lz4 = compression.compress(3, b"abc" * 100)
    assert lz4[:4] == b"\x04\x22\x4d\x18"
    assert lz4[4] & 0x20, "blocks must not depend on each other"


def test_lz4_is_the_fast_compressor_as_in_kafka() -> None:
    data = b"".join(b"record %d, %x." % (i, i * i) for i in range(5000))

    def at_level(level: int) -> bytes:
        compressor = cramjam.lz4.Compressor(level, content_checksum=False, block_linked=False)
        compressor.compress(data)
        return bytes(compressor.finish())

    slow = at_level(4)  # the high compression mode takes several times as long
    assert compression.compress(3, data) == at_level(1) != slow


def test_raw_snappy_is_read_too() -> None:
    assert compression.decompress(2, b"\x03\x08abc") == b"abc"


# A record's numbers are zig-zag varints: the widest of each number of bytes.
EXTREMES = {
    1: (-64, 63),
    2: (-8192, 8191),
    3: (-1_048_576, 1_048_575),
    5: (-(1 << 34), (1 << 34) - 1),
    9: (-(1 << 62), (1 << 62) - 1),
    10: (-(1 << 63), (1 << 63) - 1),
}


@pytest.mark.parametrize("size", EXTREMES)
def test_varints_of_every_length(size: int) -> None:
    for value in EXTREMES[size]:
        items = [Record(None, b"", 0), Record(None, b"", value)]
        batch = records.build_batch(items)
        assert [record.timestamp for record in records.iter_records(batch)] == [0, value]
        span = record_spans(bytes(batch[records.HEADER_BYTES :]), 2)[1]
        assert span[2] == value
        # Length, attributes, time, offset, no key, value of no bytes, no headers.
        assert span[1] - span[0] == 6 + size
        raw = (value << 1 ^ value >> 63) & (1 << 64) - 1
        encoded = bytes(raw >> 7 * n & 127 | (128 if n + 1 < size else 0) for n in range(size))
        assert records.read_varint(encoded + b"x", 0) == (value, size)


@pytest.mark.parametrize("length", [62, 63, 64, 65, 126, 127, 128, 8191, 8192, 16_383, 16_384])
def test_keys_values_and_headers_where_their_length_gets_a_byte_more(length: int) -> None:
    content = bytes(n % 251 for n in range(length))
    header = ("h" * length, content)
    items = [Record(content, content, 1, [header] * 3), Record(None, b"", 2, [("x", b"")] * length)]
    read = list(records.iter_records(records.build_batch(items)))
    assert [_plain(record) for record in read] == items


def test_varints_that_are_too_long() -> None:
    """Ten bytes hold more than 64 bits; Java drops the rest."""
    assert records.read_varint(b"\xff" * 9 + b"\x01", 0) == (-(1 << 63), 10)
    assert records.read_varint(b"\xff" * 9 + b"\x7f", 0) == (-(1 << 63), 10)
    assert records.read_varint(b"\x80" * 9 + b"\x00", 0) == (0, 10)
    with pytest.raises(records.CorruptBatch, match="more than ten bytes"):
        records.read_varint(b"\x80" * 10 + b"\x00", 0)
    with pytest.raises(IndexError):
        records.read_varint(b"\x80" * 9, 0)


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 300])
def test_a_batch_of_keys_and_values_is_the_same_without_objects(count: int) -> None:
    entries: list[tuple[bytes, bytes | None]] = [
        (b"k" * (n % 200), None if n % 3 == 0 else b"v" * n) for n in range(count)
    ]
    items = [Record(key, value, 77) for key, value in entries]
    assert records.build_of_entries(entries, 77) == records.build_batch(items)
    stamp = {"producer_id": 4, "producer_epoch": 2, "base_sequence": 0, "transactional": True}
    assert records.build_of_entries(entries, 77, **stamp) == records.build_batch(items, **stamp)  # type: ignore[arg-type]
