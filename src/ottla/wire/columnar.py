"""Record batches to Arrow columns, with numpy: no Python work per field.

`scan` looks at the headers of what a fetch brought and leaves out what must not be read (control
batches, aborted transactions); `decode` turns the rest into Arrow record batches with the columns
of Spark's Kafka connector. The way back is in `columnar_encode.py`. Needs numpy and pyarrow, so
nothing that a broker imports may import this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.wire import native
from ottla.wire.compression import decompress
from ottla.wire.primitives import Buffer
from ottla.wire.records import (
    HEADER_BYTES,
    BatchHeader,
    CorruptBatch,
    iter_batches,
    parse_marker,
    verify_crc,
)

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]

HEADERS_TYPE = pa.list_(
    pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))
)
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
    ]
)
SCHEMA_WITH_HEADERS = SCHEMA.append(pa.field("headers", HEADERS_TYPE))
COLUMNS = tuple(SCHEMA_WITH_HEADERS.names)

# Plain bytes that become one Arrow record batch; keeps its offsets far below 2 GiB.
MAX_PLAIN_BYTES = 16 * 1024 * 1024
# A record takes seven bytes at least (DefaultRecord with nothing in it).
_MIN_RECORD_BYTES = 7
# Records that are walked one by one before a look ahead for more of the same size; twice as many
# after every look that found none.
_FIRST_STEP = 32
_LAST_STEP = 4096
# What zig-zag varints of one byte mean.
_OF_ONE_BYTE: Longs = np.array([(byte >> 1) ^ -(byte & 1) for byte in range(128)], np.int64)


# Beyond it microseconds do not fit: somebody wrote nanoseconds.
_MAX_TIMESTAMP_MS = ((1 << 63) - 1) // 1000


def _microseconds(timestamps_ms: Longs) -> pa.Array:
    """As Spark has them; what it cannot hold is an error as with its own connector."""
    if len(timestamps_ms):
        furthest = max(int(timestamps_ms.max()), int(timestamps_ms.min()), key=abs)
        if abs(furthest) > _MAX_TIMESTAMP_MS:
            raise CorruptBatch(
                f"a record has the timestamp {furthest}, which in milliseconds is beyond what a "
                "timestamp of Spark can hold: is it in nanoseconds?"
            )
    return pa.array(timestamps_ms * 1000).view(pa.timestamp("us", tz="UTC"))


class AbortedTransaction(NamedTuple):
    """One entry of a fetch answer: from this offset on the producer's records do not count."""

    producer_id: int
    first_offset: int


class Batch(NamedTuple):
    header: BatchHeader
    data: memoryview


class Scan(NamedTuple):
    """What one fetch brought: the batches to decode, and where to read next."""

    batches: list[Batch]
    next_offset: int | None


def scan(
    data: Buffer,
    start: int,
    end: int,
    *,
    aborted: Iterable[AbortedTransaction] | None = None,
    check_crcs: bool = True,
) -> Scan:
    """Checks and sorts out whole batches; `next_offset` is None where there is none.

    `aborted` is given for read_committed only (the algorithm of Kafka's CompletedFetch).
    """
    waiting = sorted(aborted or (), key=lambda entry: entry.first_offset, reverse=True)
    aborting: set[int] = set()
    batches: list[Batch] = []
    next_offset = None
    for header, batch in iter_batches(data):
        next_offset = header.next_offset
        if check_crcs:
            verify_crc(batch)
        while waiting and waiting[-1].first_offset <= header.last_offset:
            aborting.add(waiting.pop().producer_id)
        if not header.record_count and len(batch) > HEADER_BYTES:
            raise CorruptBatch(
                f"a batch of no records with {len(batch) - HEADER_BYTES} bytes of them"
            )
        if header.is_control:
            if header.producer_id in aborting and parse_marker(batch).is_abort:
                aborting.discard(header.producer_id)
        elif (
            header.record_count
            and header.last_offset >= start
            and header.base_offset < end
            and not (header.is_transactional and header.producer_id in aborting)
        ):
            batches.append(Batch(header, batch))
    return Scan(batches, next_offset)


def decode(
    batches: Sequence[Batch],
    *,
    topic: str,
    partition: int,
    start: int,
    end: int,
    include_headers: bool = False,
    columns: Sequence[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Arrow record batches with the records whose offsets are in [start, end).

    Only the given `columns` are built, in their order; without them all but the headers are.
    """
    if columns is None:
        columns = COLUMNS if include_headers else SCHEMA.names
    schema = pa.schema([SCHEMA_WITH_HEADERS.field(name) for name in columns])
    for body in _bodies(batches):
        fields = _decode_body(body, frozenset(columns))
        offsets = _spread(body.headers, "base_offset") + fields.offset_deltas
        _check_order(offsets, body.headers)
        rows = _rows(fields, offsets, body.headers, topic, partition, schema)
        first, last = (int(i) for i in np.searchsorted(offsets, (start, end)))
        if first < last:
            yield rows if last - first == len(offsets) else rows.slice(first, last - first)


def _check_order(offsets: Longs, headers: Sequence[BatchHeader]) -> None:
    """Kafka takes any offsets in an uncompressed batch; here one that is not in its place would be
    left out, or come twice."""
    if (
        int(offsets[0]) < headers[0].base_offset
        or int(offsets[-1]) > headers[-1].last_offset
        or not bool(np.all(offsets[1:] > offsets[:-1]))
    ):
        raise CorruptBatch("the offsets of the records in a batch do not go up within it")


class _Body(NamedTuple):
    """The plain records of some batches."""

    parts: list[Buffer]
    headers: list[BatchHeader]

    @property
    def counts(self) -> list[int]:
        return [header.record_count for header in self.headers]


def _bodies(batches: Sequence[Batch]) -> Iterator[_Body]:
    """Batches in groups of bounded size, each group decoded at once."""
    group = _Body([], [])
    size = 0
    for header, data in batches:
        plain = memoryview(decompress(header.codec, data[HEADER_BYTES:]))
        if group.parts and size + len(plain) > MAX_PLAIN_BYTES:
            yield group
            group, size = _Body([], []), 0
        group.parts.append(plain)
        group.headers.append(header)
        size += len(plain)
    if group.parts:
        yield group


class _Joined(NamedTuple):
    """The plain records of some batches in one buffer, and where each batch begins and ends."""

    plain: Buffer
    spans: list[tuple[int, int]]
    counts: list[int]

    @classmethod
    def of(cls, body: _Body) -> _Joined:
        spans, position = [], 0
        for plain in body.parts:
            spans.append((position, position + len(plain)))
            position += len(plain)
        joined = body.parts[0] if len(body.parts) == 1 else b"".join(body.parts)
        return cls(joined, spans, body.counts)


class _Fields(NamedTuple):
    """Of all records of a body; those that nobody asked for are None."""

    timestamp_deltas: Longs
    offset_deltas: Longs
    keys: pa.Array | None
    values: pa.Array | None
    headers: pa.Array | None


def _decode_body(body: _Body, wanted: frozenset[str]) -> _Fields:
    """By native code where there is some. What it does not take is malformed, and pure Python says
    in which way."""
    found = None if native.code is None else _decode_natively(native.code, body, wanted)
    return found or _decode_in_python(body, wanted)


def _decode_natively(code: Any, body: _Body, wanted: frozenset[str]) -> _Fields | None:
    counts = body.counts
    if min(counts) <= 0:
        return None
    made = tuple(name in wanted for name in ("key", "value", "headers"))
    found = code.decode(list(zip(body.parts, counts, strict=True)), made)
    if found is None:
        return None
    timestamps, offsets, keys, values, headers = found
    total = sum(counts)
    return _Fields(
        np.frombuffer(timestamps, np.int64),
        np.frombuffer(offsets, np.int64),
        None if keys is None else _of_buffers(keys, total),
        None if values is None else _of_buffers(values, total),
        None if headers is None else _headers_of_buffers(headers, total),
    )


def _of_buffers(buffers: tuple[Any, Any, Any, int], count: int) -> pa.Array:
    """An Arrow array on what native code made."""
    *parts, nulls = buffers
    whole = [None if part is None else pa.py_buffer(part) for part in parts]
    return pa.Array.from_buffers(pa.binary(), count, whole, nulls)


def _headers_of_buffers(buffers: tuple[Any, ...], count: int) -> pa.Array:
    validity, bounds, nulls, keys, values = buffers
    total = len(keys[1]) // 4 - 1
    items = pa.StructArray.from_arrays(
        [_strings(_of_buffers(keys, total)), _of_buffers(values, total)],
        fields=list(HEADERS_TYPE.value_type),
    )
    whole = [None if validity is None else pa.py_buffer(validity), pa.py_buffer(bounds)]
    return pa.Array.from_buffers(HEADERS_TYPE, count, whole, nulls, children=[items])


def _decode_in_python(parts: _Body, wanted: frozenset[str]) -> _Fields:
    body = _Joined.of(parts)
    data = np.frombuffer(body.plain, np.uint8)
    sizes, starts = read_ints(data, _record_positions(data, body))
    ends = starts + sizes
    # One byte of attributes precedes the fields; none are defined.
    timestamps, position = read_varints(data, starts + 1)
    offsets, position = read_ints(data, position)
    # Any negative length is that of null, as in Kafka.
    key_lengths, key_starts = read_ints(data, position)
    key_ends = key_starts + np.maximum(key_lengths, 0)
    value_lengths, value_starts = read_ints(data, key_ends)
    value_ends = value_starts + np.maximum(value_lengths, 0)
    counts, header_starts = read_ints(data, value_ends)
    if (
        min(int(counts.min()), int(sizes.min())) < 0
        # Nothing reaches past its record, so every position above was a valid one.
        or not bool(np.all(header_starts + 2 * counts <= ends))
        or not bool(np.all((counts > 0) | (header_starts == ends)))
    ):
        raise CorruptBatch("a record is malformed: its fields do not fit its size")
    keys = values = headers = None
    if "key" in wanted:
        keys = _slices(body.plain, key_starts, key_ends, key_lengths < 0)
    if "value" in wanted:
        values = _slices(body.plain, value_starts, value_ends, value_lengths < 0)
    if "headers" in wanted:
        headers = _headers(body.plain, data, counts, header_starts, ends)
    return _Fields(timestamps, offsets, keys, values, headers)


def _record_positions(data: Bytes, body: _Joined) -> Longs:
    """Where every record begins, at its size."""
    counts = body.counts
    for (begin, end), count in zip(body.spans, counts, strict=True):
        if not 0 < count <= (end - begin) // _MIN_RECORD_BYTES:
            raise CorruptBatch(f"{count} records in {end - begin} bytes")
    if max(counts) <= 2 * len(counts):
        return _walk_abreast(data, np.array(body.spans, np.int64), np.array(counts, np.int64))
    parts: list[Longs] = []
    for (begin, end), count in zip(body.spans, counts, strict=True):
        parts += _walk(data, body.plain, begin, end, count)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _walk_abreast(data: Bytes, spans: Longs, counts: Longs) -> Longs:
    """Many small batches: one step goes on by a record in each of them."""
    position, ends = spans[:, 0].copy(), spans[:, 1]
    steps = np.empty((int(counts.max()), len(counts)), np.int64)
    for index in range(len(steps)):
        steps[index] = position
        unfinished = index < counts
        # What stands after a batch's end is none of its records: those look at their first again.
        sizes, begins = read_ints(data, np.where(unfinished, position, spans[:, 0]))
        position = np.where(unfinished, begins + sizes, position)
    if not bool(np.all(position == ends)):
        raise CorruptBatch("the records of a batch do not fill it")
    taken = np.arange(len(steps)) < counts[:, np.newaxis]
    positions: Longs = steps.T[taken]
    return positions


def _walk(data: Bytes, plain: Buffer, position: int, end: int, count: int) -> Iterator[Longs]:
    """Follows the chain of record sizes through one batch, some records at a time. After a few of
    the same size, the rest of that size is found with one comparison."""
    step = _FIRST_STEP
    while count:
        positions = _step(plain, position, end, min(count, step))
        position = positions.pop()
        count -= len(positions)
        yield np.array(positions, np.int64)
        stride = position - positions[-1]
        if count < _FIRST_STEP or positions[-1] - positions[-8] != 7 * stride:
            step = min(2 * step, _LAST_STEP)
            continue
        found = _run(data, position, stride, end, count)
        if found:
            yield position + stride * np.arange(found, dtype=np.int64)
            position += found * stride
            count -= found
    if position != end:
        raise CorruptBatch(f"{end - position} bytes after the last record")


def _step(plain: Buffer, position: int, end: int, count: int) -> list[int]:
    """The positions of the next records, and the end of the last."""
    positions = []
    try:
        for _ in range(count):
            positions.append(position)
            size = plain[position]
            if size < 128:
                position += 1 + (size >> 1)
            else:
                second = plain[position + 1]
                if second < 128:
                    position += 2 + ((size & 127 | second << 7) >> 1)
                else:
                    position = _after_long_record(plain, position)
    except IndexError:
        raise CorruptBatch("a record is cut short") from None
    if position > end:
        raise CorruptBatch(f"a record reaches {position - end} bytes past its batch")
    positions.append(position)
    return positions


def _run(data: Bytes, position: int, stride: int, end: int, count: int) -> int:
    """How many records from here on have the size of the one before."""
    possible = min(count, (end - position) // stride)
    rows = data[position : position + possible * stride].reshape(possible, stride)
    last = data[position - stride : position]
    differing = np.zeros(possible, np.bool_)
    for index in range(1 + int(np.argmax(last < 128))):
        differing |= rows[:, index] != last[index]
    first = int(differing.argmax()) if possible else 0
    return first if possible and differing[first] else possible


def _after_long_record(plain: Buffer, position: int) -> int:
    """The end of a record whose size takes more than two bytes."""
    value = shift = 0
    while True:
        byte = plain[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            # Numbers of records have 32 bits; what is above does not count.
            return position + ((value & 0xFFFFFFFF) >> 1)
        shift += 7
        if shift > 28:
            raise CorruptBatch("the size of a record has more than five bytes")


def read_ints(data: Bytes, positions: Longs) -> tuple[Longs, Longs]:
    """As `read_varints` for numbers of 32 bits: what a fifth byte has above them does not count."""
    values, ends = read_varints(data, positions)
    widths = ends - positions
    if int(widths.max()) < 5:
        return values, ends
    if int(widths.max()) > 5:
        raise CorruptBatch("a number in a record has more than five bytes")
    unsigned = (values << 1 ^ values >> 63) & 0xFFFFFFFF
    return unsigned >> 1 ^ -(unsigned & 1), ends


def read_varints(data: Bytes, positions: Longs) -> tuple[Longs, Longs]:
    """Zig-zag varints at many positions at once, and their ends.

    Positions past the end read the last byte: callers check what came out against the bounds.
    """
    byte = data.take(positions, mode="clip")
    more = byte >= 128
    ends = positions + 1
    if not more.any():
        return _OF_ONE_BYTE.take(byte), ends
    values = (byte & 127).astype(np.int64)
    shift = 7
    while more.any():
        if shift > 63:
            raise CorruptBatch("a varint in a record has more than ten bytes")
        byte = data.take(ends, mode="clip")
        values |= ((byte & 127) * more).astype(np.int64) << shift
        ends += more
        more &= byte >= 128
        shift += 7
    return (values.view(np.uint64) >> np.uint64(1)).view(np.int64) ^ -(values & 1), ends


def _slices(plain: Buffer, starts: Longs, ends: Longs, nulls: npt.NDArray[np.bool_]) -> pa.Array:
    """The given parts of a buffer as an Arrow array, copied by Arrow.

    The parts and the gaps between them are the elements of one array on the buffer; every second
    one is taken.
    """
    count = len(starts)
    bounds = np.empty(2 * count, np.int32)
    bounds[0::2] = starts
    bounds[1::2] = ends
    parts = pa.Array.from_buffers(
        pa.binary(), 2 * count - 1, [None, pa.py_buffer(bounds), pa.py_buffer(plain)]
    )
    chosen = np.arange(0, 2 * count, 2, dtype=np.int32)
    return parts.take(pa.array(chosen, mask=nulls if nulls.any() else None))


def _headers(plain: Buffer, data: Bytes, counts: Longs, positions: Longs, ends: Longs) -> pa.Array:
    """The headers of all records: one round per header of the record that has most of them."""
    bounds = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=bounds[1:])
    total = int(bounds[-1])
    places = np.empty((4, total), np.int64)
    nulls = np.zeros(total, np.bool_)
    records = np.flatnonzero(counts)
    position = positions[records]
    taken = 0
    while len(records):
        key_lengths, key_starts = read_ints(data, position)
        key_ends = key_starts + np.maximum(key_lengths, 0)
        value_lengths, value_starts = read_ints(data, key_ends)
        position = value_starts + np.maximum(value_lengths, 0)
        if int(key_lengths.min()) < 0:
            raise CorruptBatch("a header without a key")
        if not bool(np.all(position <= ends[records])):
            raise CorruptBatch("a header reaches past the end of its record")
        rows = bounds[records] + taken
        places[:, rows] = key_starts, key_ends, value_starts, position
        nulls[rows] = value_lengths < 0
        taken += 1
        last = counts[records] == taken
        if not bool(np.all(position[last] == ends[records[last]])):
            raise CorruptBatch("the size of a record does not fit its content")
        records, position = records[~last], position[~last]
    if total:
        keys = _strings(_slices(plain, places[0], places[1], np.zeros(total, np.bool_)))
        values = _slices(plain, places[2], places[3], nulls)
    else:
        keys, values = pa.array([], pa.string()), pa.array([], pa.binary())
    items = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS_TYPE.value_type))
    # As the connector has it: a record without headers has null, not an empty list.
    return pa.ListArray.from_arrays(
        pa.array(bounds, pa.int32()), items, type=HEADERS_TYPE, mask=pa.array(counts == 0)
    )


def _strings(keys: pa.Array) -> pa.Array:
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:  # not UTF-8: Java puts a replacement character there
        return pa.array([key.decode(errors="replace") for key in keys.to_pylist()], pa.string())


def _spread(headers: Sequence[BatchHeader], name: str) -> Any:
    """What the headers of batches say, for each of their records."""
    values = [getattr(header, name) for header in headers]
    if len(values) == 1:
        return values[0]
    counts = [header.record_count for header in headers]
    return np.repeat(np.array(values, np.int64), counts)


def _rows(
    fields: _Fields,
    offsets: Longs,
    headers: Sequence[BatchHeader],
    topic: str,
    partition: int,
    schema: pa.Schema,
) -> pa.RecordBatch:
    total = len(offsets)
    made: dict[str, Callable[[], pa.Array | None]] = {
        "key": lambda: fields.keys,
        "value": lambda: fields.values,
        "topic": lambda: pa.repeat(topic, total),
        "partition": lambda: pa.array(np.full(total, partition, np.int32)),
        "offset": lambda: pa.array(offsets),
        "timestamp": lambda: _timestamps(fields.timestamp_deltas, headers),
        "timestampType": lambda: pa.array(_timestamp_kinds(headers, total)),
        "headers": lambda: fields.headers,
    }
    return pa.RecordBatch.from_arrays([made[name]() for name in schema.names], schema=schema)


def _timestamp_kinds(headers: Sequence[BatchHeader], total: int) -> npt.NDArray[np.int32]:
    """1 where the broker's time counts, 0 where the producer's does."""
    by_broker = [header.is_log_append_time for header in headers]
    if not any(by_broker):
        return np.zeros(total, np.int32)
    return np.repeat(np.array(by_broker, np.int32), [header.record_count for header in headers])


def _timestamps(deltas: Longs, headers: Sequence[BatchHeader]) -> pa.Array:
    timestamps = _spread(headers, "base_timestamp") + deltas
    kinds = _timestamp_kinds(headers, len(deltas))
    if kinds.any():
        timestamps = np.where(kinds == 1, _spread(headers, "max_timestamp"), timestamps)
    return _microseconds(timestamps)
