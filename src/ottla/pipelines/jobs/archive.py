"""`archive`: topics to Parquet, one folder a day or hour, every record exactly once.

A micro-batch is written beside the archive and then moved in under names made from the query's id
and the batch's number. A batch that runs again removes those names first, so its rows are there
once. Plain files, no log of Spark's: any reader of Parquet sees the same rows. Small files of
finished batches are joined now and then.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ottla.pipelines import archive_files
from ottla.pipelines.context import Stream, count_rows_out
from ottla.pipelines.files import FileStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ottla.pipelines.context import JobContext
    from ottla.pipelines.spec import Archive

COLUMNS = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers")
_STAGING = "_staging"
_MB = 1024 * 1024


def streams(context: JobContext, job: Archive) -> list[Stream]:
    topics = [source.topic for source in job.from_]
    frame = with_time_columns(context.read_stream(job, topics), job.partition_by)
    writer = ArchiveWriter(context, job)
    writer.remove_leftovers()
    counted = count_rows_out(frame)
    return [Stream(job.name, counted, each_batch=writer.write, after=writer.finish)]


def with_time_columns(frame: DataFrame, partition_by: str) -> DataFrame:
    from pyspark.sql import functions

    frame = frame.select(*(name for name in COLUMNS if name in frame.columns))
    if partition_by == "none":
        return frame
    frame = frame.withColumn("date", functions.date_format("timestamp", "yyyy-MM-dd"))
    if partition_by == "hour":
        frame = frame.withColumn("hour", functions.date_format("timestamp", "HH"))
    return frame


class ArchiveWriter:
    """Moves micro-batches into the archive. Used by the query's own thread only."""

    def __init__(self, context: JobContext, job: Archive) -> None:
        self._spark = context.spark
        self._job = job
        self._files = FileStore(context.spark, job.path)
        self._folders = {"date": ["date"], "hour": ["date", "hour"], "none": []}[job.partition_by]
        self._query = ""
        self._batch = -1
        self._counts: Counter[str] = Counter()

    def remove_leftovers(self) -> None:
        """Before the query starts: a compaction at the end of an earlier run may have been cut
        short, and a batch that would tidy up may never come."""
        for path in archive_files.leftovers(self._files.walk(self._files.root)):
            self._files.remove(path)

    def write(self, batch: DataFrame, batch_id: int) -> None:
        context = batch.sparkSession.sparkContext
        self._query = context.getLocalProperty("sql.streaming.queryId") or ""
        is_first, self._batch = self._batch < 0, batch_id
        staging = f"{self._files.root}/{_STAGING}/{self._query}"
        writer = batch.write.mode("overwrite")
        if self._folders:
            writer = writer.partitionBy(*self._folders)
        writer.parquet(staging)
        # Only the first batch after a start may have been tried before.
        if is_first:
            self._tidy()
        parquet = (f for f in self._files.walk(staging) if f.name.endswith(".parquet"))
        for number, file in enumerate(sorted(parquet)):
            folder = self._files.root + file.folder.removeprefix(staging)
            name = archive_files.batch_file(self._query, batch_id, number)
            self._files.move(file.path, f"{folder}/{name}")
            self._counts[folder] += 1
        self._files.remove(staging)
        for folder, count in list(self._counts.items()):
            if 0 < self._job.compact_files <= count:
                self._compact(folder, self._job.compact_files)
                self._counts[folder] = 0

    def finish(self) -> str:
        """After the end of the query: joins what is small, but the last batch's files, which a
        restart may write again."""
        joined = 0
        if self._batch >= 0 and self._job.compact_files:
            joined = self._compact(self._files.root, 2)
        self._files.remove(f"{self._files.root}/{_STAGING}")
        return f"{joined} small files joined" if joined else ""

    def _tidy(self) -> None:
        """Removes what an attempt that was cut short left behind."""
        files = list(self._files.walk(self._files.root))
        earlier = archive_files.of_batch(files, self._query, self._batch)
        for path in archive_files.leftovers(files) + earlier:
            self._files.remove(path)

    def _compact(self, folder: str, least_files: int) -> int:
        """Joins files of batches before the one in hand: those are committed and never re-run."""
        plans = archive_files.plan_compactions(
            self._files.walk(folder),
            self._query,
            self._batch,
            least_files,
            self._job.small_file_mb * _MB,
        )
        for plan in plans:
            self._join(plan)
        return sum(len(plan.files) for plan in plans)

    def _join(self, plan: archive_files.Compaction) -> None:
        staging = f"{self._files.root}/{_STAGING}/{self._query}-compaction"
        paths = [file.entry.path for file in plan.files]
        order = ("topic", "partition", "offset")
        rows = self._spark.read.parquet(*paths).coalesce(1).sortWithinPartitions(*order)
        rows.write.mode("overwrite").parquet(staging)
        (written,) = (f for f in self._files.walk(staging) if f.name.endswith(".parquet"))
        # The new file first: were this cut short, the name says which files it replaces.
        self._files.move(written.path, plan.target)
        for path in paths:
            if path != plan.target:
                self._files.remove(path)
        self._files.remove(staging)
