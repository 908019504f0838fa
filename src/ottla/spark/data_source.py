"""`format("ottla")`: the Python Data Source that reads and writes topics of any Kafka cluster.

Options and columns are those of Spark's Kafka connector.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
)

from ottla.spark.errors import OptionError
from ottla.spark.formats.projection import projected, source_schema
from ottla.spark.options import SourceOptions, parse_source_options
from ottla.spark.source.readers import BatchReader, FilteringReader, StreamReader
from ottla.spark.unused_options import announce
from ottla.spark.versions import HAS_ADMISSION_CONTROL, HAS_STREAM_ARROW_WRITER, refuse_missing

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class OttlaSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> StructType | str:
        return source_schema(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = self._source_options(schema, streaming=False)
        if not options.push_filters:
            return BatchReader(options)
        if not hasattr(DataSourceReader, "pushFilters"):
            raise OptionError("pushFilters needs Spark 4.1 or later")
        return FilteringReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = self._source_options(schema, streaming=True)
        refuse_missing(self.options)
        if HAS_ADMISSION_CONTROL:
            return StreamReader(options)
        from ottla.spark.source.older_readers import OlderStreamReader

        return OlderStreamReader(options)

    def _source_options(self, schema: StructType, *, streaming: bool) -> SourceOptions:
        options = parse_source_options(self.options, streaming=streaming)
        announce(options.unused, self.options)
        return replace(options, projection=projected(self.options, schema))

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
