"""Columnar reading and writing, judged by `records.py`, which goes record by record."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.wire import columnar, columnar_encode, records
from ottla.wire.primitives import WireError
from ottla.wire.records import Record, build_batch, build_marker
from tests.support.native import FORMS, in_force
from tests.support.wire.strategies import RECORD

END = 1 << 62
_batch = st.tuples(
    st.lists(RECORD, min_size=1, max_size=10),
    st.integers(0, 4),
    st.one_of(st.none(), st.integers(0, 1 << 42)),
)


@pytest.fixture(params=FORMS, scope="module", autouse=True)
def form(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test here runs on native code and on pure Python."""
    with in_force(request.param):
        yield


def columns_of(rows: Sequence[pa.RecordBatch]) -> list[Record]:
    table = pa.Table.from_batches(rows, columnar.SCHEMA_WITH_HEADERS)
    return [
        Record(
            row["key"],
            row["value"],
            stamp // 1000,
            tuple((h["key"], h["value"]) for h in row["headers"] or ()),
            row["offset"],
        )
        for row, stamp in zip(
            table.drop_columns("timestamp").to_pylist(),
            table["timestamp"].cast(pa.int64()).to_pylist(),
            strict=True,
        )
    ]


def read(data: bytes, start: int = 0, end: int = END) -> list[Record]:
    scanned = columnar.scan(data, start, end)
    return columns_of(
        list(
            columnar.decode(
                scanned.batches,
                topic="t",
                partition=3,
                start=start,
                end=end,
                include_headers=True,
            )
        )
    )


def one_by_one(data: bytes) -> list[Record]:
    return [r for _, batch in records.iter_batches(data) for r in records.iter_records(batch)]


def encoded(batches: Sequence[tuple[list[Record], int, int | None]]) -> bytes:
    data, offset = b"", 5
    for items, codec, append_time in batches:
        data += build_batch(
            items, base_offset=offset, compression=codec, log_append_time_ms=append_time
        )
        offset += len(items)
    return data


@settings(max_examples=60, deadline=None)
@given(st.lists(_batch, min_size=1, max_size=5))
def test_reads_what_the_plain_reader_reads(batches):
    data = encoded(batches)
    assert read(data) == one_by_one(data)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(RECORD, st.integers(0, 3)), min_size=1, max_size=30),
    st.sampled_from([100, 2000, 1 << 19]),
    st.integers(0, 4),
)
def test_writes_what_the_plain_reader_understands(rows, batch_bytes, codec):
    items = [record for record, _ in rows]
    columns = columnar_encode.Rows(
        pa.array([r.key for r in items], pa.binary()),
        pa.array([r.value for r in items], pa.binary()),
        np.array([r.timestamp for r in items], np.int64),
        pa.array([list(r.headers) or None for r in items], columnar.HEADERS_TYPE),
    )
    partitions = np.array([partition for _, partition in rows])
    written: dict[int, list[Record]] = {}
    for batch in columnar_encode.encode(columns, partitions, batch_bytes=batch_bytes):
        sealed = columnar_encode.seal(
            batch, compression=codec, producer=columnar_encode.Producer(7, 2, True), sequence=11
        )
        records.verify_crc(sealed)
        header = records.read_header(sealed)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 11)
        assert header.is_transactional and header.codec == codec
        found = list(records.iter_records(sealed))
        assert header.last_offset_delta == len(found) - 1 == batch.records - 1
        assert header.max_timestamp == max(r.timestamp for r in found)
        assert [r.offset for r in found] == list(range(len(found)))
        written.setdefault(batch.partition, []).extend(r._replace(offset=-1) for r in found)
    for partition in range(4):
        assert written.get(partition, []) == [r for r, p in rows if p == partition]


def test_slices_of_arrow_columns_are_written_as_they_are():
    """An Arrow array may begin in the middle of its buffers."""
    keys = pa.array([b"a", None, b"ccc", b"d"], pa.binary()).slice(1)
    values = pa.array([b"0", b"1", None, b"3"], pa.binary()).slice(1)
    headers = pa.array([None, [("h", b"1")], None, [("i", None)]], columnar.HEADERS_TYPE).slice(1)
    rows = columnar_encode.Rows(keys, values, np.zeros(3, np.int64), headers)
    (batch,) = columnar_encode.encode(rows, np.zeros(3, np.int64))
    found = list(records.iter_records(columnar_encode.seal(batch)))
    assert [(r.key, r.value, r.headers) for r in found] == [
        (None, b"1", (("h", b"1"),)),
        (b"ccc", None, ()),
        (b"d", b"3", (("i", None),)),
    ]


def test_a_null_header_key_is_refused():
    headers = pa.array([[(None, b"1")]], columnar.HEADERS_TYPE)
    with pytest.raises(ValueError, match="null"):
        columnar_encode.encode_headers(headers)


def test_large_records_stand_alone():
    """A record of nearly max.message.bytes must not make its neighbours' batch too large."""
    values = pa.array([b"s" * 400, b"L" * 900, b"s" * 400, b"s" * 100], pa.binary())
    rows = columnar_encode.Rows(None, values, np.zeros(4, np.int64))
    sizes = [
        batch.records
        for batch in columnar_encode.encode(rows, np.zeros(4, np.int64), batch_bytes=1000)
    ]
    assert sizes == [1, 1, 2]


@pytest.mark.parametrize(
    ("size", "per_batch"), [(50, 3), (50, 200), (100, 9000), (20_000, 3), (20_000, 100)]
)
def test_records_of_one_size_and_of_many_sizes(size, per_batch):
    """Runs of equal sizes, many small batches and sizes of three bytes take ways of their own."""
    rng = random.Random(size * per_batch)
    total = 2 * per_batch + 1
    for vary in (0, 1, size // 2):
        data, offset = bytearray(), 0
        while offset < total:
            items = [
                Record(b"%d" % i, b"v" * (size + rng.randint(0, vary)), 10**12 + i)
                for i in range(min(per_batch, total - offset))
            ]
            data += build_batch(items, base_offset=offset)
            offset += len(items)
        assert read(bytes(data)) == one_by_one(bytes(data))


def test_only_the_offsets_asked_for():
    data = b"".join(
        build_batch([Record(None, b"%d" % i) for i in range(10)], base_offset=base)
        for base in (0, 10, 20)
    )
    assert [r.offset for r in read(data, 7, 22)] == list(range(7, 22))
    assert read(data, 30, 40) == []


def test_offsets_with_holes_after_compaction():
    kept = [Record(b"k", b"v", 1, offset=offset) for offset in (103, 107)]
    data = build_batch(kept, base_offset=100, keep_offsets=True, last_offset_delta=9)
    assert [r.offset for r in read(data, 100, 110)] == [103, 107]
    assert columnar.scan(data, 100, 110).next_offset == 110


def transaction_log() -> bytes:
    """Producer 1 aborts at 2, producer 2 commits at 4, producer 1 commits at 6."""

    def records_of(producer, base, word):
        return build_batch(
            [Record(None, word)],
            base_offset=base,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )

    def marker(producer, base, commit):
        return build_marker(
            producer_id=producer,
            producer_epoch=0,
            commit=commit,
            coordinator_epoch=0,
            timestamp_ms=0,
            base_offset=base,
        )

    return b"".join(
        [
            records_of(1, 0, b"aborted"),
            records_of(2, 1, b"kept"),
            marker(1, 2, False),
            build_batch([Record(None, b"plain")], base_offset=3),
            marker(2, 4, True),
            records_of(1, 5, b"second"),
            marker(1, 6, True),
        ]
    )


def values_of(scanned: columnar.Scan) -> list[bytes]:
    rows = columnar.decode(scanned.batches, topic="t", partition=0, start=0, end=END)
    return [value for batch in rows for value in batch.column("value").to_pylist()]


def test_aborted_transactions_are_left_out_with_read_committed():
    aborted = [columnar.AbortedTransaction(1, 0)]
    scanned = columnar.scan(transaction_log(), 0, END, aborted=aborted)
    assert values_of(scanned) == [b"kept", b"plain", b"second"]
    assert scanned.next_offset == 7


def test_all_but_markers_with_read_uncommitted():
    scanned = columnar.scan(transaction_log(), 0, END)
    assert values_of(scanned) == [b"aborted", b"kept", b"plain", b"second"]


def test_what_a_timestamp_type_is():
    data = build_batch([Record(None, b"a", 5)]) + build_batch(
        [Record(None, b"b", 5)], base_offset=1, log_append_time_ms=9
    )
    rows = pa.Table.from_batches(
        columnar.decode(
            columnar.scan(data, 0, END).batches, topic="t", partition=0, start=0, end=END
        )
    )
    assert rows["timestampType"].to_pylist() == [0, 1]
    assert rows["timestamp"].cast(pa.int64()).to_pylist() == [5000, 9000]


@pytest.mark.parametrize("timestamp", [0, -1, 1 << 45, 9223372036854775])
def test_timestamps_that_spark_can_hold(timestamp):
    assert read(build_batch([Record(None, b"a", timestamp)]))[0].timestamp == timestamp


@pytest.mark.parametrize("timestamp", [1_763_312_400_000_000_000, 9223372036854776, -(1 << 62)])
def test_timestamps_that_spark_cannot_hold(timestamp):
    """Nanoseconds became a day of the year 174999; the official connector refuses them as well."""
    with pytest.raises(WireError, match=f"timestamp {timestamp}, .* is it in nanoseconds"):
        read(build_batch([Record(None, b"a", 5), Record(None, b"a", timestamp)]))


def test_a_header_key_that_is_no_text():
    body = bytes([0, 0, 0, 1, 1, 2, 4]) + b"\xff\xfe" + bytes([1])
    plain = build_batch([Record(None, None, 0, (("ab", None),))])
    broken = bytearray(plain.replace(b"ab", b"\xff\xfe"))
    assert body[1:] in broken
    scanned = columnar.scan(broken, 0, END, check_crcs=False)
    (rows,) = columnar.decode(
        scanned.batches, topic="t", partition=0, start=0, end=END, include_headers=True
    )
    assert rows.column("headers").to_pylist() == [[{"key": "\ufffd\ufffd", "value": None}]]


def test_a_wrong_checksum_is_refused():
    data = bytearray(build_batch([Record(b"k", b"v")]))
    data[-2] ^= 1
    with pytest.raises(records.CorruptBatch, match="checksum"):
        columnar.scan(data, 0, END)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_damaged_records_are_refused_or_read_but_never_break(data):
    """Whatever the bytes are: an error of the wire or rows, no other failure and no hang."""
    items = data.draw(st.lists(RECORD, min_size=1, max_size=8))
    count = data.draw(st.integers(1, 4))
    batch = bytearray(b"".join(build_batch(items) for _ in range(count)))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(records.HEADER_BYTES, len(batch) - 1))
        batch[position] = data.draw(st.integers(0, 255))
    try:
        scanned = columnar.scan(batch, 0, END, check_crcs=False)
        for rows in columnar.decode(
            scanned.batches, topic="t", partition=0, start=0, end=END, include_headers=True
        ):
            rows.validate(full=True)
    except WireError:
        pass


def test_varints_of_every_length_in_columns():
    edges = [1 << bits for bits in range(63)]
    values = [0, *edges, *(edge - 1 for edge in edges), (1 << 63) - 1]
    values += [-value - 1 for value in values]
    zigzag = columnar_encode.zigzag(np.array(values, np.int64))
    lengths = columnar_encode.varint_lengths(zigzag)
    packed = columnar_encode._pack([zigzag], [lengths]).to_pylist()
    assert {len(raw) for raw in packed} == set(range(1, 11))
    data = np.frombuffer(b"".join(packed), np.uint8)
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1])).astype(np.int64)
    read_back, ends = columnar.read_varints(data, starts)
    assert read_back.tolist() == values
    assert (ends - starts).tolist() == lengths.tolist()
    assert [records.read_varint(raw, 0)[0] for raw in packed] == values


def test_varints_that_are_too_long_in_columns():
    """As one by one: bits beyond 64 are dropped, an eleventh byte is refused."""
    for raw in (b"\xff" * 9 + b"\x7f", b"\x80" * 9 + b"\x02", b"\x80" * 9 + b"\x00"):
        value, end = columnar.read_varints(np.frombuffer(raw, np.uint8), np.zeros(1, np.int64))
        assert (value[0], end[0]) == records.read_varint(raw, 0)
    with pytest.raises(records.CorruptBatch, match="more than ten bytes"):
        columnar.read_varints(np.frombuffer(b"\x80" * 11, np.uint8), np.zeros(1, np.int64))


def test_a_batch_that_says_it_has_no_records_but_has() -> None:
    """Compaction leaves batches without records; they are a header and nothing else."""
    whole = bytearray(records.build_batch([Record(b"k", b"v", 5)]))
    struct.pack_into(">i", whole, 57, 0)
    with pytest.raises(records.CorruptBatch, match="a batch of no records with"):
        columnar.scan(bytes(whole), 0, 10, check_crcs=False)
    emptied = records.build_batch([], last_offset_delta=4)
    assert columnar.scan(emptied, 0, 10).next_offset == 5


@settings(max_examples=30, deadline=None)
@given(
    st.lists(_batch, min_size=1, max_size=4),
    st.lists(st.sampled_from(columnar.COLUMNS), min_size=1, unique=True),
)
def test_only_the_columns_that_are_asked_for(batches, names):
    data = encoded(batches)
    scanned = columnar.scan(data, 0, END)
    where = {"topic": "t", "partition": 3, "start": 1, "end": END}
    whole = list(columnar.decode(scanned.batches, **where, include_headers=True))
    some = list(columnar.decode(scanned.batches, **where, columns=names))
    assert [rows.schema.names for rows in some] == [names] * len(whole)
    assert some == [rows.select(names) for rows in whole]
