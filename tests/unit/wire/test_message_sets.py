"""Message sets of formats 0 and 1, with the legacy records of two other clients as judges."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any
from zlib import crc32

import aiokafka.record.legacy_records as aiokafka_legacy
import kafka.record.legacy_records as kafka_legacy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.wire import message_sets, records
from ottla.wire.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, CompressionError, OutputTooLarge
from ottla.wire.compression import compress as compressed
from ottla.wire.message_sets import Message
from ottla.wire.records import LOG_APPEND_TIME, CorruptBatch, Record

_CODECS = (NONE, GZIP, SNAPPY, LZ4)
_ITEMS = [
    Record(None, None, 1000, offset=40),
    Record(b"", b"", 1003, offset=41),
    Record(b"k", b"v" * 300, 1001, offset=45),
]


def _read(data: bytes) -> list[Message]:
    """All messages of a set, out of their wrappers."""
    found = []
    for entry in message_sets.iter_entries(data):
        assert message_sets.crc_is_valid(entry)
        message = message_sets.read_message(entry)
        found += [message] if message.codec == NONE else message_sets.inner_messages(message)
    return found


def _fields(messages: list[Message]) -> list[tuple[int, int, bytes | None, bytes | None]]:
    return [(found.offset, found.timestamp, found.key, found.value) for found in messages]


def _wanted(items: list[Record], magic: int) -> list[tuple[int, int, bytes | None, bytes | None]]:
    return [(item.offset, item.timestamp if magic else -1, item.key, item.value) for item in items]


def _wrapper(inner: bytes, codec: int = GZIP, magic: int = 1, offset: int = 0) -> Message:
    return Message(offset, magic, codec, 5, None, compressed(codec, inner))


def _plain(magic: int = 1, count: int = 3) -> bytes:
    items = [Record(b"k%d" % i, b"v", 100 + i, offset=i) for i in range(count)]
    return message_sets.build_message_set(items, magic=magic)


@pytest.mark.parametrize("codec", _CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_sets_survive_every_codec(magic: int, codec: int) -> None:
    data = message_sets.build_message_set(_ITEMS, magic=magic, compression=codec)
    found = _read(data)
    assert _fields(found) == _wanted(_ITEMS, magic)
    assert {message.magic for message in found} == {magic}
    entries = list(message_sets.iter_entries(data))
    assert len(entries) == (len(_ITEMS) if codec == NONE else 1)
    last = message_sets.read_message(entries[-1])
    assert (last.offset, last.codec) == (45, codec)
    if codec != NONE:
        assert last.timestamp == (1003 if magic else -1)


@given(
    st.lists(
        st.tuples(
            st.none() | st.binary(max_size=40),
            st.none() | st.binary(max_size=200),
            st.integers(-1, 1 << 62),
            st.integers(1, 1000),
        ),
        min_size=1,
        max_size=20,
    ),
    st.sampled_from((0, 1)),
    st.sampled_from(_CODECS),
)
def test_any_records_come_back(
    items: list[tuple[Any, Any, int, int]], magic: int, codec: int
) -> None:
    offset = 1 << 33
    given_records = []
    for key, value, timestamp, step in items:
        given_records.append(Record(key, value, timestamp, offset=offset))
        offset += step
    data = message_sets.build_message_set(given_records, magic=magic, compression=codec)
    assert _fields(_read(data)) == _wanted(given_records, magic)


@pytest.mark.parametrize("cut", [1, 11, 12, 16, 17, 30])
def test_a_cut_end_is_left_out(cut: int) -> None:
    data = _plain(count=3)
    size = len(data) // 3
    assert len(list(message_sets.iter_entries(data[: 2 * size + cut]))) == 2


# --- other clients --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "codecs"),
    # kafka-python has no library for the others here; aiokafka has no lz4 for format 0.
    [(kafka_legacy, (NONE, GZIP)), (aiokafka_legacy, _CODECS)],
    ids=["kafka-python", "aiokafka"],
)
@pytest.mark.parametrize("magic", [0, 1])
def test_other_clients_sets_are_read_and_ours_by_them(
    module: Any, codecs: tuple[int, ...], magic: int
) -> None:
    items = [Record(None if i % 3 else b"k%d" % i, b"v" * i, 500 + i, offset=i) for i in range(99)]
    for codec in codecs:
        if codec == LZ4 and magic == 0:
            continue
        builder = module.LegacyRecordBatchBuilder(
            magic=magic, compression_type=codec, batch_size=1 << 20
        )
        for item in items:
            builder.append(item.offset, timestamp=item.timestamp, key=item.key, value=item.value)
        theirs = bytes(builder.build())
        assert _fields(_read(theirs)) == _wanted(items, magic)
        ours = message_sets.build_message_set(items, magic=magic, compression=codec)
        if codec == NONE:
            assert ours == theirs
        found = []
        for entry in message_sets.iter_entries(ours):
            batch = module.LegacyRecordBatch(bytearray(entry), magic)
            assert batch.validate_crc()
            found += [(r.offset, r.timestamp, r.key, r.value) for r in batch]
        assert found == [
            (offset, timestamp if magic else None, key, value)
            for offset, timestamp, key, value in _wanted(items, magic)
        ]


def test_known_bytes() -> None:
    """As LegacyRecord lays them out, checksums computed beside our code."""
    body = struct.pack(">bbqi", 1, 0, 7, -1) + struct.pack(">i", 1) + b"x"
    wanted = struct.pack(">qiI", 3, 4 + len(body), crc32(body)) + body
    items = [Record(None, b"x", 7, offset=3)]
    assert message_sets.build_message_set(items, magic=1) == wanted
    body = struct.pack(">bbi", 0, 0, -1) + struct.pack(">i", 1) + b"x"
    wanted = struct.pack(">qiI", 3, 4 + len(body), crc32(body)) + body
    assert message_sets.build_message_set(items, magic=0) == wanted


# --- wrappers -------------------------------------------------------------------------------------


def test_offsets_inside_a_wrapper_count_from_its_first_in_format_1() -> None:
    found = message_sets.inner_messages(_wrapper(_plain(), offset=102))
    assert [message.offset for message in found] == [100, 101, 102]
    # librdkafka's and every producer's that leaves it to the broker
    found = message_sets.inner_messages(_wrapper(_plain(), offset=0))
    assert [message.offset for message in found] == [0, 1, 2]
    found = message_sets.inner_messages(_wrapper(_plain(magic=0), magic=0, offset=102))
    assert [message.offset for message in found] == [0, 1, 2]


def test_a_wrapper_with_append_time_has_it_for_all() -> None:
    wrapper = _wrapper(_plain())._replace(attributes=GZIP | LOG_APPEND_TIME, timestamp=77)
    found = list(message_sets.inner_messages(wrapper))
    assert {message.timestamp for message in found} == {77}
    assert all(message.is_log_append_time for message in found)


def test_raw_snappy_and_frames_of_any_lz4_checksum_are_read() -> None:
    import cramjam

    raw = bytes(cramjam.snappy.compress_raw(_plain()))
    wrapper = Message(0, 1, SNAPPY, 5, None, raw)
    assert len(list(message_sets.inner_messages(wrapper))) == 3
    frame = bytearray(compressed(LZ4, _plain(magic=0)))
    frame[6] ^= 0xFF
    old = Message(0, 0, LZ4, -1, None, bytes(frame))
    assert len(list(message_sets.inner_messages(old))) == 3
    with pytest.raises(CompressionError):
        list(message_sets.inner_messages(old._replace(magic=1)))


def _nested() -> bytes:
    return message_sets.build_message_set(
        [Record(b"k", b"v", 1, offset=0)], magic=1, compression=GZIP
    )


def _damaged() -> bytes:
    return _plain()[:-1] + b"\xff"


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: _wrapper(_nested()), message_sets.InvalidMessageSet),
        (lambda: _wrapper(_plain(magic=0)), message_sets.InvalidMessageSet),
        (lambda: _wrapper(_plain(), offset=1), message_sets.InvalidMessageSet),
        (lambda: _wrapper(b""), message_sets.InvalidMessageSet),
        (lambda: _wrapper(_plain()[:20]), message_sets.InvalidMessageSet),
        (lambda: _wrapper(_plain(), codec=ZSTD), message_sets.InvalidMessageSet),
        (lambda: _wrapper(_plain())._replace(value=None), message_sets.InvalidMessageSet),
        (lambda: _wrapper(_damaged()), CorruptBatch),
        (lambda: _wrapper(struct.pack(">qi", 0, 13) + bytes(13)), CorruptBatch),
        (lambda: _wrapper(_plain())._replace(value=b"not gzip"), CompressionError),
        (lambda: _wrapper(_plain())._replace(attributes=5), CompressionError),
        (lambda: _wrapper(bytes(17 << 20)), OutputTooLarge),
    ],
)
def test_wrappers_that_are_refused(make: Callable[[], Message], error: type[Exception]) -> None:
    with pytest.raises(error):
        list(message_sets.inner_messages(make()))


def _entry(body: bytes) -> bytes:
    return struct.pack(">qiI", 0, 4 + len(body), crc32(body)) + body


@pytest.mark.parametrize(
    "body",
    [
        struct.pack(">bbq", 1, 0, 5),
        struct.pack(">bbqi", 1, 0, 5, 3) + b"ke",
        struct.pack(">bbi", 0, 0, 100) + bytes(4),
        struct.pack(">bbii", 0, 0, -1, 1),
        struct.pack(">bbii", 0, 0, -1, 1 << 30) + b"x",
    ],
)
def test_sizes_that_do_not_fit(body: bytes) -> None:
    (entry,) = message_sets.iter_entries(_entry(body))
    assert message_sets.crc_is_valid(entry)
    with pytest.raises(message_sets.MalformedMessage):
        message_sets.read_message(entry)


def test_any_negative_size_is_null_and_bytes_behind_the_value_are_left_out() -> None:
    found = message_sets.read_message(_entry(struct.pack(">bbii", 0, 0, -7, -9) + b"more"))
    assert (found.key, found.value) == (None, None)


@pytest.mark.parametrize(
    "data", [struct.pack(">qi", 0, 13) + bytes(20), struct.pack(">qiIB", 0, 20, 0, 3) + bytes(20)]
)
def test_what_is_no_message_set(data: bytes) -> None:
    with pytest.raises(CorruptBatch):
        list(message_sets.iter_entries(data))


@given(st.binary(max_size=200), st.sampled_from((0, 1)))
def test_random_bytes_raise_nothing_else(data: bytes, magic: int) -> None:
    entry = _entry(bytes((magic, 0)) + data)
    try:
        for found in message_sets.iter_entries(entry + data):
            message_sets.read_message(found)
        list(message_sets.inner_messages(Message(3, magic, NONE, -1, None, data)))
    except records.WireError:
        pass


# --- down-conversion ------------------------------------------------------------------------------


def _batch(codec: int = NONE, **kwargs: Any) -> bytes:
    items = [Record(b"k%d" % i, None, 100 - i, [("h", b"1")]) for i in range(4)]
    return records.build_batch(items, base_offset=70, compression=codec, **kwargs)


@pytest.mark.parametrize("codec", _CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_batches_become_message_sets(magic: int, codec: int) -> None:
    found = _read(message_sets.down_convert(_batch(codec, producer_id=3), magic, 70))
    assert [message.offset for message in found] == [70, 71, 72, 73]
    assert [message.timestamp for message in found] == ([100, 99, 98, 97] if magic else [-1] * 4)
    assert [message.key for message in found] == [b"k0", b"k1", b"k2", b"k3"]


@pytest.mark.parametrize(("codec", "first"), [(NONE, 72), (GZIP, 70)])
def test_only_uncompressed_sets_begin_where_they_were_asked_for(codec: int, first: int) -> None:
    found = _read(message_sets.down_convert(_batch(codec), 1, 72))
    assert found[0].offset == first
    assert message_sets.down_convert(_batch(), 1, 74) == b""


def test_append_time_goes_along() -> None:
    for codec in _CODECS:
        found = _read(message_sets.down_convert(_batch(codec, log_append_time_ms=555), 1, 0))
        assert {message.timestamp for message in found} == {555}
        assert all(message.is_log_append_time for message in found)
        found = _read(message_sets.down_convert(_batch(codec, log_append_time_ms=555), 0, 0))
        assert {message.attributes for message in found} == {0}


def test_markers_are_left_out_and_zstd_has_no_message_set() -> None:
    marker = records.build_marker(
        producer_id=1, producer_epoch=0, commit=True, coordinator_epoch=0, timestamp_ms=5
    )
    assert message_sets.down_convert(marker, 1, 0) == b""
    with pytest.raises(CompressionError):
        message_sets.down_convert(_batch(ZSTD), 1, 0)


def test_a_batch_without_records_is_an_empty_set() -> None:
    empty = records.build_batch([], base_offset=3, last_offset_delta=4)
    assert message_sets.down_convert(empty, 1, 0) == b""


def test_gaps_of_compaction_stay() -> None:
    items = [Record(b"a", b"1", 5, offset=10), Record(b"b", b"2", 6, offset=14)]
    batch = records.build_batch(
        items, base_offset=9, keep_offsets=True, last_offset_delta=7, compression=GZIP
    )
    converted = message_sets.down_convert(batch, 1, 0)
    assert [message.offset for message in _read(converted)] == [10, 14]
