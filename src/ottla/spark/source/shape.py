"""From the columns of Kafka's records to those of a query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ottla.spark.errors import SourceError
from ottla.spark.formats.json_format import DROPMALFORMED, FAILFAST
from ottla.wire import columnar

if TYPE_CHECKING:
    from ottla.spark.formats.json_columns import JsonColumns, Parsed
    from ottla.spark.options import SourceOptions


class Shape:
    """`needed` are the columns that have to be decoded."""

    def __init__(self, options: SourceOptions, where: str) -> None:
        self._where = where
        self._json: JsonColumns | None = None
        projection = options.projection
        if projection is None:
            names = columnar.COLUMNS if options.include_headers else columnar.SCHEMA.names
            self.columns: tuple[str, ...] = tuple(names)
        else:
            self.columns = projection.columns
        self.needed = self.columns
        if projection is not None and projection.json is not None:
            from ottla.spark.formats.json_columns import JsonColumns  # few queries need it

            self._json = JsonColumns(projection.json)
            self._mode = projection.json.mode
            if "offset" not in self.columns:  # for the words about a record that is malformed
                self.needed = (*self.columns, "offset")

    def shaped(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if self._json is None:
            yield from batches
            return
        for rows in batches:
            parsed = self._json.parse(rows.column("value"))
            shaped = self._with_structs(rows, parsed)
            if parsed.faults and self._mode == FAILFAST:
                raise self._malformed(rows, parsed)
            if parsed.faults and self._mode == DROPMALFORMED:
                kept = np.ones(len(shaped), np.bool_)
                kept[list(parsed.faults)] = False
                shaped = shaped.filter(pa.array(kept))
            if len(shaped):
                yield shaped

    def _with_structs(self, rows: pa.RecordBatch, parsed: Parsed) -> pa.RecordBatch:
        arrays = [parsed.structs if name == "value" else rows.column(name) for name in self.columns]
        fields = [pa.field(n, a.type) for n, a in zip(self.columns, arrays, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    def _malformed(self, rows: pa.RecordBatch, parsed: Parsed) -> SourceError:
        row = min(parsed.faults)
        offset = rows.column("offset")[row].as_py()
        return SourceError(
            f"the value at offset {offset} of {self._where} does not fit the schema: "
            f"{parsed.faults[row]}. mode=PERMISSIVE reads it with nulls, mode=DROPMALFORMED leaves "
            "it out"
        )
