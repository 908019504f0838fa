"""Rows of Spark 4.0 become the columns that later versions send."""

from datetime import UTC, datetime

from pyspark.sql import Row
from pyspark.sql import types as t

from ottla.spark.sink import row_writer
from ottla.spark.sink.row_writer import RowWriter, to_columns

HEADER = t.StructType().add("key", t.StringType()).add("value", t.BinaryType())
SCHEMA = (
    t.StructType()
    .add("key", t.BinaryType())
    .add("value", t.StringType())
    .add("partition", t.IntegerType())
    .add("timestamp", t.TimestampType())
    .add("headers", t.ArrayType(HEADER))
    .add("other", t.DecimalType(4, 2))
)
NOON = datetime(2026, 1, 1, 12, 0, 0, 250_000, tzinfo=UTC)


def row(number, *, time=NOON):
    headers = [Row(key="h", value=bytearray(b"1"))] if number % 2 else None
    key = None if number % 3 else bytearray(b"k%d" % number)
    return Row(
        key=key, value=f"v{number}", partition=number, timestamp=time, headers=headers, other=1
    )


def test_values_and_types(monkeypatch):
    monkeypatch.setattr(row_writer, "ROWS_PER_BATCH", 2)
    local = NOON.astimezone().replace(tzinfo=None)  # as Spark hands times to Python
    batches = list(to_columns(iter([row(0, time=local), row(1), row(2)]), SCHEMA))
    assert [batch.num_rows for batch in batches] == [2, 1]
    found = [entry for batch in batches for entry in batch.to_pylist()]
    assert [entry["key"] for entry in found] == [b"k0", None, None]
    assert [entry["value"] for entry in found] == ["v0", "v1", "v2"]
    assert [entry["headers"] for entry in found] == [None, [{"key": "h", "value": b"1"}], None]
    assert {entry["timestamp"].astimezone(UTC) for entry in found} == {NOON}
    assert str(batches[0].schema.field("timestamp").type) == "timestamp[us, tz=UTC]"
    assert "other" not in batches[0].schema.names, "no sink looks at it"


def test_no_rows_are_no_batches():
    assert list(to_columns(iter([]), SCHEMA)) == []


class Columns:
    """A writer that keeps what it is told."""

    def __init__(self):
        self.told = []

    def write(self, batches):
        return sum(batch.num_rows for batch in batches)

    def commit(self, messages, batch_id):
        self.told.append(("commit", messages, batch_id))

    def abort(self, messages, batch_id):
        self.told.append(("abort", messages, batch_id))


def test_the_writer_of_columns_does_the_rest():
    columns = Columns()
    writer = RowWriter(columns, SCHEMA)
    assert writer.write(iter([row(0), row(1)])) == 2
    writer.commit(["m"], 4)
    writer.abort([None], 5)
    assert columns.told == [("commit", ["m"], 4), ("abort", [None], 5)]
