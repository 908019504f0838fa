"""JSON values to an Arrow struct: whole batches at once where Arrow reads them as Spark would.

Records are joined by newlines and read by `pyarrow.json`. Three things hold that together:

- Only records that begin with `{` and end with `}` are joined. Then a text that can be read has a
  document's end at every record's end: no string holds a newline, and what is open after a `}`
  goes on with a comma or another end, never with the `{` of the next record. As many rows as
  records then means one row for each, so none can move to another record's place.
- Arrow refuses what it would read in another way than Spark (a number for a string, a member that
  comes twice): such a batch is halved until what is left is read record by record.
- Dates and timestamps are read as strings and turned in their usual form only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from pyarrow import types as kinds

from ottla.spark.formats.datetimes import zone_of
from ottla.spark.formats.json_format import JsonFormat
from ottla.spark.formats.json_rows import Row, RowReader

# Records that are not worth another try together.
_ALONE = 8
_OPEN, _CLOSE, _COLON = b"{}:"


class Parsed(NamedTuple):
    """`faults` are those of bad records, by row."""

    structs: pa.StructArray
    faults: dict[int, str]


class JsonColumns:
    """Turns arrays of binary values into arrays of one struct."""

    def __init__(self, json_format: JsonFormat) -> None:
        self._type = json_format.struct
        self._corrupt = json_format.corrupt_record
        self._zone_name = json_format.time_zone
        self._fields = [field for field in self._type if field.name != self._corrupt]
        self._rows = RowReader(pa.struct(self._fields), zone_of(json_format.time_zone))
        # None: Arrow has no reader for one of the types.
        self._schema: pa.Schema | None = None
        if not any(_has_map(field.type) for field in self._fields):
            self._schema = pa.schema([(f.name, _as_read(f.type)) for f in self._fields])

    def parse(self, values: pa.BinaryArray) -> Parsed:
        count = len(values)
        together = self._joinable(values)
        alone = pc.is_valid(values).to_numpy(zero_copy_only=False) & ~together
        if together.all():
            return _joined(self._try_together(values), self._type)
        first, second = np.flatnonzero(together), np.flatnonzero(alone)
        parts = self._try_together(values.take(pa.array(first))) if len(first) else []
        parts += [self._one_by_one(values.take(pa.array(second)))] if len(second) else []
        parsed = _joined(parts, self._type)
        # From the order of the work to that of the records; null stays null.
        rows = np.concatenate((first, second))
        places = np.full(count, -1, np.int64)
        places[rows] = np.arange(len(rows))
        structs = parsed.structs.take(pa.array(places, mask=places < 0))
        return Parsed(structs, {int(rows[row]): fault for row, fault in parsed.faults.items()})

    def _joinable(self, values: pa.BinaryArray) -> npt.NDArray[np.bool_]:
        if self._schema is None or not len(values):
            return np.zeros(len(values), np.bool_)
        data, starts, ends = _bounds(values)
        long_enough = ends - starts >= 2
        # A null has no length.
        opens = data.take(starts, mode="clip") == _OPEN
        found: npt.NDArray[np.bool_] = (
            long_enough & opens & (data.take(ends - 1, mode="clip") == _CLOSE)
        )
        return found

    def _try_together(self, values: pa.BinaryArray) -> list[Parsed]:
        parts = []
        waiting = [values]
        while waiting:
            piece = waiting.pop()
            structs = self._together(piece)
            if structs is not None:
                parts.append(Parsed(structs, {}))
            elif len(piece) <= _ALONE:
                parts.append(self._one_by_one(piece))
            else:
                half = len(piece) // 2
                waiting += [piece.slice(half), piece.slice(0, half)]
        return parts

    def _together(self, values: pa.BinaryArray) -> pa.StructArray | None:
        """None where the records have to be looked at one by one."""
        whole = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
        joined = pc.binary_join(whole, b"\n")
        text = joined[0].as_buffer()
        try:
            joined.cast(pa.string())  # looks whether it is UTF-8
            table = pj.read_json(
                pa.BufferReader(text),
                # One block: no record is cut, and no thread besides Spark's own.
                read_options=pj.ReadOptions(use_threads=False, block_size=len(text) + 1),
                parse_options=pj.ParseOptions(
                    explicit_schema=self._schema, unexpected_field_behavior="ignore"
                ),
            )
            if table.num_rows != len(values):
                return None
            columns = [
                self._finished(table.column(field.name).combine_chunks(), field.type)
                for field in self._fields
            ]
        except pa.ArrowInvalid:
            return None
        return self._assembled(columns, [None] * len(values))

    def _one_by_one(self, values: pa.BinaryArray) -> Parsed:
        rows: list[Row] = []
        texts: list[str | None] = []
        for value in values:
            text = value.as_py().decode(errors="replace")
            row = self._rows.read(text)
            rows.append(row)
            texts.append(text if row.fault else None)
        structs = pa.array([row.values for row in rows], pa.struct(self._fields))
        columns = [structs.field(index) for index in range(len(self._fields))]
        assembled = self._assembled(columns, texts, structs.is_null())
        return Parsed(assembled, {n: row.fault for n, row in enumerate(rows) if row.fault})

    def _assembled(
        self, columns: list[pa.Array], texts: list[str | None], nulls: Any = None
    ) -> pa.StructArray:
        by_name = dict(zip((field.name for field in self._fields), columns, strict=True))
        if self._type.get_field_index(self._corrupt) >= 0:
            by_name[self._corrupt] = pa.array(texts, pa.string())
        return pa.StructArray.from_arrays(
            [by_name[field.name] for field in self._type], fields=list(self._type), mask=nulls
        )

    def _finished(self, array: pa.Array, wanted: pa.DataType) -> pa.Array:
        """Strings become dates and timestamps, wherever they are."""
        if array.type == wanted:
            return array
        if isinstance(array, pa.ChunkedArray):  # of no rows
            return pa.array([], wanted)
        if kinds.is_struct(wanted):
            children = [self._finished(array.field(f.name), f.type) for f in wanted]
            return pa.StructArray.from_arrays(children, fields=list(wanted), mask=array.is_null())
        if kinds.is_list(wanted):
            items = self._finished(array.values, wanted.value_type)
            return pa.ListArray.from_arrays(array.offsets, items, type=wanted, mask=array.is_null())
        if kinds.is_timestamp(wanted):
            return self._timestamps(array)
        return array.cast(wanted)

    def _timestamps(self, strings: pa.StringArray) -> pa.Array:
        aware = pa.timestamp("us", tz="UTC")
        if _has_seconds(strings):
            try:
                return strings.cast(aware)
            except pa.ArrowInvalid:  # without a zone
                pass
        return pc.assume_timezone(strings.cast(pa.timestamp("us")), self._zone_name).cast(aware)


def _joined(parts: list[Parsed], kind: pa.StructType) -> Parsed:
    if len(parts) == 1:
        return parts[0]
    faults: dict[int, str] = {}
    count = 0
    for part in parts:
        faults |= {count + row: fault for row, fault in part.faults.items()}
        count += len(part.structs)
    arrays = [part.structs for part in parts]
    return Parsed(pa.concat_arrays(arrays) if arrays else pa.array([], kind), faults)


def _bounds(values: Any) -> tuple[npt.NDArray[np.uint8], Any, Any]:
    """The bytes of an array, and where each element begins and ends."""
    _, offsets, data = values.buffers()
    bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    return np.frombuffer(data or b"\0", np.uint8), bounds[:-1], bounds[1:]


def _has_seconds(strings: pa.StringArray) -> bool:
    """Spark wants hh:mm:ss before a zone, Arrow does not."""
    data, starts, ends = _bounds(strings)
    valid = ends > starts
    colons = (data.take(starts + 13, mode="clip") == _COLON) & (
        data.take(starts + 16, mode="clip") == _COLON
    )
    return bool(np.all(colons[valid] & (ends - starts >= 19)[valid]))


def _anywhere(kind: pa.DataType, holds: Callable[[pa.DataType], bool]) -> bool:
    if kinds.is_struct(kind):
        return any(_anywhere(field.type, holds) for field in kind)
    if kinds.is_list(kind):
        return _anywhere(kind.value_type, holds)
    return holds(kind)


def _has_map(kind: pa.DataType) -> bool:
    return _anywhere(kind, kinds.is_map)


def _as_read(kind: pa.DataType) -> pa.DataType:
    """What Arrow is told to read."""
    if kinds.is_struct(kind):
        return pa.struct([field.with_type(_as_read(field.type)) for field in kind])
    if kinds.is_list(kind):
        return pa.list_(kind.value_field.with_type(_as_read(kind.value_type)))
    return pa.string() if kinds.is_date(kind) or kinds.is_timestamp(kind) else kind
