"""Writes rows to topics: columns key, value, headers, topic and partition, as the Kafka connector.

At least once: an idempotent producer per task. Exactly once: a transaction per task that also
commits the number of the micro-batch (`transactions.py`); a task that runs again after its
transaction was committed finds the number and writes nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from ottla.spark.collector import spare_imports
from ottla.spark.errors import OptionError, SourceError
from ottla.spark.options import SinkOptions, parse_sink_options
from ottla.spark.sink.whole_input import spark_input, whole
from ottla.spark.sink.work import Work
from ottla.spark.unused_options import announce
from ottla.spark.versions import DataSourceStreamArrowWriter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_BATCH_ID = "streaming.sql.batchId"
_QUERY_ID = "sql.streaming.queryId"
_TEXT = ("string", "binary")
_HEADER_TYPES = (
    "array<struct<key:string,value:binary>>",
    "array<struct<key:string,value:string>>",
)


class Written(WriterCommitMessage):
    """What one task did; `rows` is 0 where it found its work done."""

    def __init__(self, rows: int) -> None:
        self.rows = rows


def batch_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceArrowWriter:
    if overwrite:
        raise OptionError('records of a topic cannot be overwritten: use mode("append")')
    parsed = parse_sink_options(options, streaming=False)
    check_columns(schema, parsed)
    announce(parsed.unused, options)
    return BatchWriter(parsed, parsed.txn_app_id or str(uuid.uuid4()))


def stream_writer(options: Mapping[str, str], schema: StructType) -> DataSourceStreamArrowWriter:
    spare_imports()
    parsed = parse_sink_options(options, streaming=True)
    check_columns(schema, parsed)
    announce(parsed.unused, options)
    return StreamWriter(parsed)


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """The rules of the connector's KafkaWriter.validateQuery."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    allowed = {
        "value": _TEXT,
        "key": _TEXT,
        "topic": ("string",),
        "partition": ("int",),
        "headers": _HEADER_TYPES,
    }
    if options.use_timestamps:
        allowed["timestamp"] = ("timestamp",)
    for name, choices in allowed.items():
        if name in types and types[name] not in choices:
            raise OptionError(
                f"column {name} has type {types[name]}, it must be {' or '.join(choices)}"
            )
    needed = ["value", *(["timestamp"] if options.use_timestamps else [])]
    for name in needed:
        if name not in types:
            raise OptionError(f"column {name} is missing")
    if options.topic is None and "topic" not in types:
        raise OptionError("neither the option topic nor a column topic says where to write")


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, options: SinkOptions, job_id: str) -> None:
        self._options = options
        self._job_id = job_id

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from pyspark import TaskContext

        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        # foreachBatch: the number is that of a micro-batch, and not one that a program chose.
        in_query = context is not None and context.getLocalProperty(_QUERY_ID) is not None
        work = Work(self._job_id, self._options.txn_version, partition, in_query)
        return _write(self._options, work, iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from pyspark import TaskContext

        context = TaskContext.get()
        batch_id = None if context is None else context.getLocalProperty(_BATCH_ID)
        query_id = None if context is None else context.getLocalProperty(_QUERY_ID)
        if context is None or batch_id is None or query_id is None:
            raise SourceError("this is not a task of a streaming query: Spark gave no batch id")
        return _write(self._options, Work(query_id, int(batch_id), context.partitionId()), iterator)


def _write(options: SinkOptions, work: Work, rows: Iterator[pa.RecordBatch]) -> Written:
    from ottla.spark.kafka import kept_client
    from ottla.spark.sink.task_writer import TaskWriter

    spare_imports()
    rows = whole(rows, spark_input())
    with kept_client(options.connect) as client:
        return Written(TaskWriter(client, options, work).write(rows))
