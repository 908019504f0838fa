"""The sink of a stream for Spark 4.0, which hands over rows and not Arrow columns."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Row
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
    from pyspark.sql.types import StructType

ROWS_PER_BATCH = 10_000
_NAMES = ("key", "value", "topic", "partition", "headers", "timestamp")


class RowWriter(DataSourceStreamWriter):
    """Gives the rows to a writer of Arrow columns."""

    def __init__(self, columns: DataSourceStreamArrowWriter, schema: StructType) -> None:
        self._columns = columns
        self._schema = schema

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        return self._columns.write(to_columns(iterator, self._schema))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._columns.commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._columns.abort(messages, batchId)


def to_columns(rows: Iterator[Row], schema: StructType) -> Iterator[pa.RecordBatch]:
    """The columns that a sink looks at, with the types that Spark itself would have sent; what
    other columns hold is not looked at."""
    import pyarrow as pa

    types = _types()
    fields = [
        (place, pa.field(field.name, types[field.dataType.simpleString()]))
        for place, field in enumerate(schema.fields)
        if field.name in _NAMES and field.dataType.simpleString() in types
    ]
    while taken := list(islice(rows, ROWS_PER_BATCH)):
        yield pa.RecordBatch.from_arrays(
            [pa.array([_plain(row[place]) for row in taken], one.type) for place, one in fields],
            schema=pa.schema([one for _, one in fields]),
        )


def _types() -> dict[str, pa.DataType]:
    import pyarrow as pa

    def headers(value: pa.DataType) -> pa.DataType:
        return pa.list_(pa.struct([("key", pa.string()), ("value", value)]))

    return {
        "string": pa.string(),
        "binary": pa.binary(),
        "int": pa.int32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "array<struct<key:string,value:binary>>": headers(pa.binary()),
        "array<struct<key:string,value:string>>": headers(pa.string()),
    }


def _plain(value: Any) -> Any:
    """As Arrow takes it. Rows have local times without a zone, binaries as byte arrays, and
    structs as tuples with names."""
    if isinstance(value, datetime):
        return value.astimezone() if value.tzinfo is None else value
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    if isinstance(value, tuple) and hasattr(value, "asDict"):
        return {name: _plain(entry) for name, entry in value.asDict().items()}
    return value
