"""Arrow columns to record batches, with numpy: the way back of `columnar.py`.

`encode` sorts rows into batches by partition and size and lays out their bytes, `seal` puts a
header in front. Sizes and deltas of all rows are arrays; Arrow copies keys and values.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.wire import native
from ottla.wire.checksum import crc32c
from ottla.wire.compression import compress
from ottla.wire.records import HEADER_BYTES, LOG_OVERHEAD_BYTES, MAGIC, TRANSACTIONAL

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]

# Half of the default max.message.bytes: room for a record that turns out larger than the rest.
DEFAULT_BATCH_BYTES = 512 * 1024
# What a record has at most beside its key, value and headers.
_OVERHEAD_BYTES = 24
_PREFIX = struct.Struct(">qiibI")
_CHECKED = struct.Struct(">hiqqqhii")


class Rows(NamedTuple):
    """Columns of equal length; keys, values and header values are binary, and may be null."""

    keys: pa.Array | None
    values: pa.Array
    timestamps_ms: Longs
    headers: pa.Array | None = None


class Producer(NamedTuple):
    """Who writes, for idempotence and transactions (KIP-98); the default is nobody."""

    producer_id: int = -1
    epoch: int = -1
    transactional: bool = False


class EncodedBatch(NamedTuple):
    """The records of one batch, without the header that `seal` puts in front."""

    partition: int
    records: int
    base_timestamp: int
    max_timestamp: int
    body: memoryview


NOBODY = Producer()


def seal(
    batch: EncodedBatch, *, compression: int = 0, producer: Producer = NOBODY, sequence: int = -1
) -> bytes:
    """The whole batch, checksum included."""
    content = compress(compression, batch.body) if compression else batch.body
    attributes = compression | (TRANSACTIONAL if producer.transactional else 0)
    size = HEADER_BYTES + len(content)
    checked = _CHECKED.pack(
        *(attributes, batch.records - 1, batch.base_timestamp, batch.max_timestamp),
        *(producer.producer_id, producer.epoch, sequence, batch.records),
    )
    prefix = _PREFIX.pack(0, size - LOG_OVERHEAD_BYTES, -1, MAGIC, crc32c(content, crc32c(checked)))
    return b"".join((prefix, checked, content))


def encode(
    rows: Rows, partitions: npt.NDArray[np.integer], *, batch_bytes: int = DEFAULT_BATCH_BYTES
) -> Iterator[EncodedBatch]:
    """Batches by partition, in the order of the rows within each partition."""
    if not len(partitions):
        return
    code = native.code
    if code is not None and int(partitions.max()) < code.MOST_PARTITIONS:
        yield from _encode_natively(code, rows, partitions, batch_bytes)
    else:
        yield from _encode_in_python(rows, partitions, batch_bytes)


def _encode_natively(
    code: Any, rows: Rows, partitions: npt.NDArray[np.integer], batch_bytes: int
) -> Iterator[EncodedBatch]:
    block = None if rows.headers is None else encode_headers(rows.headers)
    lanes = code.encode_records(
        np.ascontiguousarray(partitions, np.int64),
        np.ascontiguousarray(rows.timestamps_ms, np.int64),
        None if rows.keys is None else exported(rows.keys),
        exported(rows.values),
        None if block is None else exported(block),
        batch_bytes,
    )
    for partition, records, batches in lanes:
        view = memoryview(records)
        for count, base_timestamp, max_timestamp, begin, end in batches:
            body = view[begin:end]
            yield EncodedBatch(partition, count, base_timestamp, max_timestamp, body)


def exported(column: pa.Array) -> tuple[Any, Any, Any, int]:
    """The buffers of a column as native code takes them, and where it begins in them."""
    validity, bounds, data = column.buffers()
    return validity if column.null_count else None, bounds or b"", data or b"", column.offset


def _encode_in_python(
    rows: Rows, partitions: npt.NDArray[np.integer], batch_bytes: int
) -> Iterator[EncodedBatch]:
    count = len(partitions)
    order = np.argsort(_narrow(partitions), kind="stable")
    sizes = _Sizes.of(rows, order)
    sorted_partitions = partitions[order]
    bounds = _cut(sorted_partitions, sizes.estimates, batch_bytes)
    timestamps = rows.timestamps_ms[order]
    lengths = np.diff(bounds)
    offset_deltas = np.arange(count, dtype=np.int64) - np.repeat(bounds[:-1], lengths)
    timestamp_deltas = timestamps - np.repeat(timestamps[bounds[:-1]], lengths)
    records, record_bounds = _lay_out(rows, order, sizes, timestamp_deltas, offset_deltas)
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        begin, end = int(record_bounds[first]), int(record_bounds[last])
        yield EncodedBatch(
            int(sorted_partitions[first]),
            last - first,
            int(timestamps[first]),
            int(timestamps[first:last].max()),
            records[begin:end],
        )


def _narrow(partitions: npt.NDArray[np.integer]) -> npt.NDArray[np.integer]:
    """numpy sorts 16-bit numbers by radix, several times faster."""
    return partitions.astype(np.uint16) if int(partitions.max()) < 1 << 16 else partitions


class _Sizes(NamedTuple):
    """Lengths in the order of writing; -1 is null."""

    keys: Longs
    values: Longs
    headers: Longs
    header_block: pa.Array | None

    @classmethod
    def of(cls, rows: Rows, order: Longs) -> _Sizes:
        block = None if rows.headers is None else encode_headers(rows.headers)
        none = np.full(len(order), -1, np.int64)
        return cls(
            none if rows.keys is None else _lengths(rows.keys)[order],
            _lengths(rows.values)[order],
            np.ones(len(order), np.int64) if block is None else _lengths(block)[order],
            block,
        )

    @property
    def estimates(self) -> Longs:
        return (
            np.maximum(self.keys, 0) + np.maximum(self.values, 0) + self.headers + _OVERHEAD_BYTES
        )


def _cut(partitions: npt.NDArray[np.integer], estimates: Longs, batch_bytes: int) -> Longs:
    """Where batches begin, and the end: at a new partition, when one is full, and around a record
    that is large by itself (it may just fit what the broker takes)."""
    before = np.cumsum(estimates) - estimates
    new_partition = np.empty(len(partitions), np.bool_)
    new_partition[0] = True
    np.not_equal(partitions[1:], partitions[:-1], out=new_partition[1:])
    starts = np.flatnonzero(new_partition)
    runs = np.diff(np.append(starts, len(partitions)))
    filled = (before - np.repeat(before[starts], runs)) // batch_bytes
    large = estimates > batch_bytes // 2
    begins = new_partition.copy()
    begins[1:] |= (filled[1:] != filled[:-1]) | large[1:] | large[:-1]
    return np.append(np.flatnonzero(begins), len(partitions))


def _lay_out(
    rows: Rows, order: Longs, sizes: _Sizes, timestamp_deltas: Longs, offset_deltas: Longs
) -> tuple[memoryview, Longs]:
    """The bytes of all records, and where each begins (and the end of the last)."""
    count = len(order)
    fields = [zigzag(timestamp_deltas), zigzag(offset_deltas), zigzag(sizes.keys)]
    field_lengths = [varint_lengths(field) for field in fields]
    value_field = zigzag(sizes.values)
    value_field_lengths = varint_lengths(value_field)
    content = np.maximum(sizes.keys, 0) + np.maximum(sizes.values, 0) + sizes.headers
    # One byte of attributes.
    bodies = 1 + sum(field_lengths) + value_field_lengths + content
    size_field = zigzag(bodies)
    size_lengths = varint_lengths(size_field)
    heads = _pack(
        [size_field, np.zeros(count, np.int64), *fields],
        [size_lengths, np.ones(count, np.int64), *field_lengths],
    )
    middles = _pack([value_field], [value_field_lengths])
    parts = [heads, middles, _binary(rows.values)]
    keys = count * len(parts)
    if rows.keys is not None:
        parts.append(_binary(rows.keys))
    headers = sum(map(len, parts))
    parts.append(_NO_HEADERS if sizes.header_block is None else sizes.header_block)
    places = np.empty((count, 4 if rows.keys is None else 5), np.int32)
    column = np.arange(count, dtype=np.int32)
    last = places.shape[1] - 1
    places[:, 0] = column
    if rows.keys is not None:
        places[:, 1] = order + keys
    places[:, last - 2] = column + count
    places[:, last - 1] = order + 2 * count
    places[:, last] = headers if sizes.header_block is None else order + headers
    taken = pa.concat_arrays(parts).take(pa.array(places.ravel()))
    bounds = np.zeros(count + 1, np.int64)
    np.cumsum(size_lengths + bodies, out=bounds[1:])
    return memoryview(taken.buffers()[2])[: int(bounds[-1])], bounds


_NO_HEADERS = pa.array([b"\0"], pa.binary())


def _binary(column: pa.Array) -> pa.Array:
    """Null and empty have no bytes both: the length field tells them apart."""
    return column if column.null_count == 0 else column.fill_null(b"")


def _lengths(column: pa.Array) -> Longs:
    bounds = np.frombuffer(column.buffers()[1], np.int32)[
        column.offset : column.offset + len(column) + 1
    ]
    lengths = np.diff(bounds).astype(np.int64)
    if column.null_count:
        lengths[column.is_null().to_numpy(zero_copy_only=False)] = -1
    return lengths


def zigzag(values: Longs) -> npt.NDArray[np.uint64]:
    return ((values << 1) ^ (values >> 63)).view(np.uint64)


def varint_lengths(values: npt.NDArray[np.uint64]) -> Longs:
    lengths = np.ones(len(values), np.int64)
    largest = int(values.max(initial=0))
    limit = 1 << 7
    while largest >= limit:
        lengths += values >= np.uint64(limit)
        limit <<= 7
    return lengths


def _pack(fields: list[npt.NDArray[np.uint64]], lengths: list[Longs]) -> pa.Array:
    """One element per row: the row's varints one after the other."""
    bounds = np.zeros(len(fields[0]) + 1, np.int32)
    np.cumsum(sum(lengths[1:], lengths[0]), out=bounds[1:])
    data = np.zeros(int(bounds[-1]), np.uint8)
    position = bounds[:-1].astype(np.int64)
    for values, sizes in zip(fields, lengths, strict=True):
        _put_varints(data, position, values, sizes)
        position = position + sizes
    return pa.Array.from_buffers(
        pa.binary(), len(fields[0]), [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    )


def _put_varints(
    data: Bytes, positions: Longs, values: npt.NDArray[np.uint64], lengths: Longs
) -> None:
    longest = int(lengths.max(initial=0))
    rest = values.astype(np.uint64, copy=True)
    for index in range(longest):
        byte = (rest & np.uint64(127)).astype(np.uint8)
        if longest == 1:
            data[positions] = byte
            return
        byte |= (lengths > index + 1).astype(np.uint8) << 7
        written = lengths > index
        if index == 0 or bool(written.all()):
            data[positions + index] = byte
        else:
            data[positions[written] + index] = byte[written]
        rest >>= np.uint64(7)


def encode_headers(headers: pa.Array) -> pa.Array:
    """A column list<struct<key, value>> as one binary element per row: count, then headers."""
    count = len(headers)
    per_row = np.zeros(count, np.int64)
    present = headers.is_valid().to_numpy(zero_copy_only=False)
    bounds = np.frombuffer(headers.buffers()[1], np.int32)[
        headers.offset : headers.offset + count + 1
    ].astype(np.int64)
    per_row[present] = np.diff(bounds)[present]
    # `flatten` leaves out what null rows cover.
    items = headers.flatten()
    if items.null_count or items.field(0).null_count:
        raise ValueError("a header, or the key of a header, is null")
    keys, values = items.field(0).cast(pa.binary()), items.field(1).cast(pa.binary())
    if native.code is not None:
        made = native.code.encode_headers(per_row, exported(keys), exported(values))
        return pa.Array.from_buffers(pa.binary(), count, [None, *map(pa.py_buffer, made)])
    return _encode_headers_in_python(per_row, keys, values)


def _encode_headers_in_python(per_row: Longs, keys: pa.Array, values: pa.Array) -> pa.Array:
    count, total = len(per_row), len(keys)
    counts = zigzag(per_row)
    heads = _pack([counts], [varint_lengths(counts)])
    if not total:
        return heads
    key_lengths, value_lengths = zigzag(_lengths(keys)), zigzag(_lengths(values))
    parts = [
        _pack([key_lengths], [varint_lengths(key_lengths)]),
        keys,
        _pack([value_lengths], [varint_lengths(value_lengths)]),
        _binary(values),
        heads,
    ]
    first = np.zeros(count + 1, np.int64)
    np.cumsum(per_row, out=first[1:])
    # Elements of a row: its count, then four for each header.
    ends = 4 * first[1:] + np.arange(1, count + 1)
    places = np.empty(4 * total + count, np.int64)
    starts = ends - 4 * per_row - 1
    places[starts] = 4 * total + np.arange(count)
    item_places = 4 * np.arange(total) + np.repeat(np.arange(count), per_row) + 1
    for field in range(4):
        places[item_places + field] = field * total + np.arange(total)
    taken = pa.concat_arrays(parts).take(pa.array(places, pa.int32()))
    bytes_before = np.frombuffer(taken.buffers()[1], np.int32)
    row_bounds = bytes_before[np.append(starts, len(places))].astype(np.int32)
    return pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(row_bounds), taken.buffers()[2]]
    )
