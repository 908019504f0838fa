"""`ingest`: files that come into a folder, or a rate source, to a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.pipelines.records import columns_of, to_records
from ottla.pipelines.spec_keys import SpecError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from ottla.pipelines.context import JobContext, Stream
    from ottla.pipelines.spec import Ingest


def streams(context: JobContext, job: Ingest) -> list[Stream]:
    records = to_records(shape(rows(context, job), job.select), job.record_key)
    return [context.to_topic(job, job.name, records, job.topic.name)]


def shape(frame: DataFrame, select: tuple[str, ...]) -> DataFrame:
    return frame.selectExpr(*select) if select else frame


def rows(context: JobContext, job: Ingest) -> DataFrame:
    reader = context.spark.readStream.format(job.format)
    if job.format == "rate":
        options = {"rowsPerSecond": str(job.rows_per_second), **(job.options or {})}
        return reader.options(**options).load()
    # A row that does not fit stops the job: Spark would make nulls of it and say nothing.
    options = {"mode": "FAILFAST"} if job.format in ("csv", "json") else {}
    if job.max_files_per_batch is not None:
        options["maxFilesPerTrigger"] = str(job.max_files_per_batch)
    options |= job.options or {}
    if job.format != "text":
        reader = reader.schema(_schema(context, job, options))
    return reader.options(**options).load(job.path)


def _schema(context: JobContext, job: Ingest, options: dict[str, str]) -> StructType:
    """As declared, or as found in the files that are there."""
    if job.schema is not None:
        return columns_of(job.schema)
    from pyspark.errors import AnalysisException

    reader = context.spark.read.format(job.format).options(**options)
    try:
        return reader.options(inferSchema="true").load(job.path).schema
    except AnalysisException as error:
        words = str(error).splitlines()[0]
        raise SpecError(f"'schema' is missing and {job.path} does not tell it: {words}") from None
