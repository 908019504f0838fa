"""`format("ottla")`: the Python Data Source that reads and writes topics of any Kafka cluster.

Options and columns are those of Spark's Kafka connector.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
)

from ottla.spark.options import parse_source_options
from ottla.spark.source.readers import BatchReader, StreamReader
from ottla.spark.unused_options import announce
from ottla.spark.versions import HAS_ADMISSION_CONTROL, HAS_STREAM_ARROW_WRITER, refuse_missing

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_COLUMNS = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, "
    "timestamp TIMESTAMP, timestampType INT"
)
_HEADERS = "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"


class OttlaSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> str:
        with_headers = str(self.options.get("includeHeaders", "false")).strip().lower() == "true"
        return f"{_COLUMNS}, {_HEADERS}" if with_headers else _COLUMNS

    def reader(self, schema: StructType) -> DataSourceReader:
        options = parse_source_options(self.options, streaming=False)
        announce(options.unused, self.options)
        return BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = parse_source_options(self.options, streaming=True)
        refuse_missing(self.options)
        announce(options.unused, self.options)
        if HAS_ADMISSION_CONTROL:
            return StreamReader(options)
        from ottla.spark.source.older_readers import OlderStreamReader

        return OlderStreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from ottla.spark.sink.writers import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        from ottla.spark.sink.writers import stream_writer

        writer = stream_writer(self.options, schema)
        if HAS_STREAM_ARROW_WRITER:
            return writer
        from ottla.spark.sink.row_writer import RowWriter

        return RowWriter(writer, schema)
