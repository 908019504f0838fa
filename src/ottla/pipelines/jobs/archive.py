"""`archive`: topics to Parquet, one folder a day or hour, every record exactly once.

A micro-batch is written beside the archive and then moved in under names made from the query's id
and the batch's number. A batch that runs again removes those names first, so its rows are there
once. Plain files, no log of Spark's: any reader of Parquet sees the same rows. Small files of
finished batches are joined now and then.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from ottla.errors import OttlaError
from ottla.pipelines import archive_files
from ottla.pipelines.checkpoints.keeper import last_number, query_id
from ottla.pipelines.context import Stream, count_rows_out
from ottla.pipelines.files import FileStore, file_store, for_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.pipelines.context import JobContext
    from ottla.pipelines.spec import Archive

COLUMNS = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers")
_STAGING = "_staging"
_MB = 1024 * 1024


def streams(context: JobContext, job: Archive) -> list[Stream]:
    topics = [source.topic for source in job.from_]
    frame = context.read_stream(job, topics)
    frame = with_time_columns(frame, job.partition_by, job.time_zone)
    writer = ArchiveWriter(job, context.checkpoint(job.name))
    writer.remove_leftovers(context.spark)
    counted = count_rows_out(frame)
    return [
        Stream(
            job.name,
            counted,
            each_batch=writer.write,
            after=lambda: writer.finish(context.spark),
            keeps_rows=True,
        )
    ]


def with_time_columns(frame: DataFrame, partition_by: str, time_zone: str) -> DataFrame:
    """The day and hour of a record in the zone. Spark's own functions go by the time zone of the
    session, so a moment is first told in UTC, as a time without a zone."""
    from pyspark.sql import functions as f

    frame = frame.select(*(name for name in COLUMNS if name in frame.columns))
    if partition_by == "none":
        return frame
    utc = "timestampadd(MICROSECOND, unix_micros(timestamp), timestamp_ntz'1970-01-01 00:00:00')"
    moment = f.convert_timezone(f.lit("UTC"), f.lit(time_zone), f.expr(utc))
    frame = frame.withColumn("date", moment.cast("date").cast("string"))
    if partition_by == "hour":
        frame = frame.withColumn("hour", f.lpad(f.hour(moment).cast("string"), 2, "0"))
    return frame


class ArchiveWriter:
    """Moves micro-batches into the archive. Used by the query's own thread only; Spark Connect
    runs `write` in a process of its own, so nothing but the job and its checkpoint is shared."""

    def __init__(self, job: Archive, checkpoint: str) -> None:
        self._job = job
        self._checkpoint = checkpoint
        self._folders = {"date": ["date"], "hour": ["date", "hour"], "none": []}[job.partition_by]
        self._is_first = True
        self._counts: Counter[str] = Counter()

    def remove_leftovers(self, spark: SparkSession) -> None:
        """Before the query starts: a compaction at the end of an earlier run may have been cut
        short, and a batch that would tidy up may never come."""
        files = file_store(spark, self._job.path)
        for path in archive_files.leftovers(files.walk(files.root)):
            files.remove(path)

    def write(self, batch: DataFrame, batch_id: int) -> None:
        spark = batch.sparkSession
        files, query = file_store(spark, self._job.path), self._query(spark)
        staging = f"{files.root}/{_STAGING}/{query}"
        writer = batch.write.mode("overwrite")
        if self._folders:
            writer = writer.partitionBy(*self._folders)
        writer.parquet(for_spark(staging))
        # Only the first batch after a start may have been tried before.
        if self._is_first:
            _tidy(files, query, batch_id)
            self._is_first = False
        parquet = (f for f in files.walk(staging) if f.name.endswith(".parquet"))
        for number, file in enumerate(sorted(parquet)):
            folder = files.root + file.folder.removeprefix(staging)
            name = archive_files.batch_file(query, batch_id, number)
            files.move(file.path, f"{folder}/{name}")
            self._counts[folder] += 1
        files.remove(staging)
        for folder, count in list(self._counts.items()):
            if 0 < self._job.compact_files <= count:
                compaction = _Compaction(spark, files, self._job, query, batch_id)
                compaction.run(folder, self._job.compact_files)
                self._counts[folder] = 0

    def finish(self, spark: SparkSession) -> str:
        """After the end of the query: joins what is small, but the last batch's files, which a
        restart may write again."""
        files = file_store(spark, self._job.path)
        checkpoints = file_store(spark, self._checkpoint)
        last = last_number(checkpoints, f"{checkpoints.root}/commits")
        joined = 0
        if last >= 0 and self._job.compact_files:
            compaction = _Compaction(spark, files, self._job, self._query(spark), last)
            joined = compaction.run(files.root, 2)
        files.remove(f"{files.root}/{_STAGING}")
        return f"{joined} small files joined" if joined else ""

    def _query(self, spark: SparkSession) -> str:
        """Spark writes its id into the checkpoint before the first batch."""
        files = file_store(spark, self._checkpoint)
        found = query_id(files, files.root)
        if found is None:
            raise OttlaError(f"the checkpoint {files.root} has lost its file 'metadata'")
        return found


def _tidy(files: FileStore, query: str, batch: int) -> None:
    """Removes what an attempt that was cut short left behind."""
    there = list(files.walk(files.root))
    for path in archive_files.leftovers(there) + archive_files.of_batch(there, query, batch):
        files.remove(path)


class _Compaction(NamedTuple):
    """Joins files of batches before the one in hand: those are committed and never run again."""

    spark: SparkSession
    files: FileStore
    job: Archive
    query: str
    batch: int

    def run(self, folder: str, least_files: int) -> int:
        plans = archive_files.plan_compactions(
            self.files.walk(folder),
            self.query,
            self.batch,
            least_files,
            self.job.small_file_mb * _MB,
        )
        for plan in plans:
            self._join(plan)
        return sum(len(plan.files) for plan in plans)

    def _join(self, plan: archive_files.Compaction) -> None:
        staging = f"{self.files.root}/{_STAGING}/{self.query}-compaction"
        paths = [file.entry.path for file in plan.files]
        order = ("topic", "partition", "offset")
        rows = self.spark.read.parquet(*map(for_spark, paths))
        rows = rows.coalesce(1).sortWithinPartitions(*order)
        rows.write.mode("overwrite").parquet(for_spark(staging))
        (written,) = (f for f in self.files.walk(staging) if f.name.endswith(".parquet"))
        # The new file first: were this cut short, the name says which files it replaces.
        self.files.move(written.path, plan.target)
        for path in paths:
            if path != plan.target:
                self.files.remove(path)
        self.files.remove(staging)
