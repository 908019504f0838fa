"""What every job gets: the session, the pipeline's settings, the ways to read and write topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.pipelines.checkpoints.keeper import query_id
from ottla.pipelines.files import file_store
from ottla.pipelines.noted_rows import NotedRows
from ottla.pipelines.progress import ROWS_OUT
from ottla.pipelines.spec import Job, Pipeline, TopicStreamJob

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Stream:
    """One streaming query of a job: what is read, and where it goes.

    `each_batch` takes the place of a sink. `now_and_then` is called while the query runs, `after`
    when it has ended; what they return is a note for the report. `noted` knows what a batch that
    was cut off has written.
    """

    name: str
    frame: DataFrame
    mode: str = "append"
    format: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    each_batch: Callable[[DataFrame, int], None] | None = None
    now_and_then: Callable[[], str] | None = None
    after: Callable[[], str] | None = None
    noted: NotedRows | None = None
    # Every row that is read is written: no more is needed to count them.
    keeps_rows: bool = False


@dataclass(frozen=True)
class BatchResult:
    """What a job that is not a stream has done: lines for people, data for programs."""

    rows_in: int
    lines: Sequence[str] = ()
    data: Any = None
    rows_out: int | None = None


@dataclass(frozen=True)
class JobContext:
    spark: SparkSession
    pipeline: Pipeline

    def bootstrap_servers(self, job: Job) -> str:
        return self.pipeline.servers_of(job)

    def kafka(self, job: Job) -> dict[str, str]:
        return self.pipeline.kafka_of(job)

    def topic_format(self, job: Job) -> str:
        return self.pipeline.topic_format_of(job)

    def connection(self, job: Job) -> dict[str, str]:
        """Options that reader and writer share, under the official connector's names."""
        return connection_options(self.bootstrap_servers(job), self.kafka(job))

    def checkpoint(self, stream: str) -> str:
        return f"{self.pipeline.checkpoints.rstrip('/')}/{stream}"

    def read_stream(self, job: TopicStreamJob, topics: Sequence[str]) -> DataFrame:
        options = self._reading(job, topics) | {"startingOffsets": job.starting}
        if job.max_records_per_batch is not None:
            options["maxOffsetsPerTrigger"] = str(job.max_records_per_batch)
        options |= job.options or {}
        return self.spark.readStream.format(self.topic_format(job)).options(**options).load()

    def read_all(self, job: Job, topics: Sequence[str]) -> DataFrame:
        """A batch with everything that is in the topics now."""
        span = {"startingOffsets": "earliest", "endingOffsets": "latest"}
        reader = self.spark.read.format(self.topic_format(job))
        return reader.options(**(self._reading(job, topics) | span)).load()

    def _reading(self, job: Job, topics: Sequence[str]) -> dict[str, str]:
        # Jobs write in transactions: an attempt that was given up must not be read.
        return (
            {"kafka.isolation.level": "read_committed"}
            | self.connection(job)
            | {
                "subscribe": ",".join(topics),
                "includeHeaders": "true",
            }
        )

    def to_topic(
        self, job: Job, name: str, records: DataFrame, topic: str, mode: str = "append"
    ) -> Stream:
        """A query that writes records to a topic."""
        format_ = self.topic_format(job)
        options = self.connection(job) | {"topic": topic}
        # Spark lets no sink written in Python take updates; a batch of updates is a batch of rows.
        if format_ != "ottla":
            return Stream(name, records, mode, format_, options)
        noted = NotedRows(self.spark, self.bootstrap_servers(job), self.kafka(job))
        if mode == "update":
            counted = count_rows_out(records)
            write = BatchWriter(options, self.checkpoint(name))
            return Stream(name, counted, mode, each_batch=write, noted=noted)
        return Stream(name, records, mode, format_, options, noted=noted)


def count_rows_out(frame: DataFrame) -> DataFrame:
    """For functions that take batches: Spark does not see what they write."""
    from pyspark.sql import functions

    return frame.observe(ROWS_OUT, functions.count(functions.lit(1)).alias("n"))


def connection_options(bootstrap_servers: str, kafka: Mapping[str, str]) -> dict[str, str]:
    options = {f"kafka.{name.removeprefix('kafka.')}": value for name, value in kafka.items()}
    return {"kafka.bootstrap.servers": bootstrap_servers} | options


@dataclass(frozen=True)
class BatchWriter:
    """Writes the rows of a batch to a topic. Spark Connect runs it in a process of its own."""

    options: Mapping[str, str]
    checkpoint: str

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        query = query_id(file_store(batch.sparkSession, self.checkpoint), self.checkpoint)
        writer = batch.write.format("ottla").options(**self.options).mode("append")
        # A batch that runs again writes nothing new.
        writer.options(txnAppId=query, txnVersion=str(batch_id)).save()
