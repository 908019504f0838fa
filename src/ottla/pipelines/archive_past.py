"""What an archive holds that its checkpoint does not know of: rows that would come twice.

After an older checkpoint was put back, the batches after it are read again, in other portions, so
under other names. The rows that are there may be the only ones left, if the topic has let go of
its own: nothing is deleted. Whoever says `--adopt` has them moved out of the readers' sight.
Rows of other checkpoints are nobody's to move: a job that would read their offsets is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.pipelines import archive_files
from ottla.pipelines.archive_files import ArchiveFile
from ottla.pipelines.checkpoints.keeper import last_number, query_id
from ottla.pipelines.files import FileStore, file_store, for_spark
from ottla.pipelines.progress import offsets_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.pipelines.spec import Archive

SET_ASIDE = "_set_aside"
_STAGING = "_staging/_set_aside"
# By topic and partition: the next offset to read.
Ends = Mapping[tuple[str, str], int]


class ArchivePast:
    """`checkpoint` is the folder that the job goes on with, None for one that begins."""

    def __init__(self, spark: SparkSession, job: Archive, checkpoint: str | None) -> None:
        self._spark = spark
        self._job = job
        self._files = file_store(spark, job.path)
        self._query: str | None = None
        self._committed = self._planned = -1
        self._ends: Ends | None = {}
        if checkpoint is not None:
            files = file_store(spark, checkpoint)
            self._query = query_id(files, checkpoint)
            self._committed = last_number(files, f"{checkpoint}/commits")
            self._planned = last_number(files, f"{checkpoint}/offsets")
            self._ends = _ends(files, checkpoint, self._committed)

    def wrong(self) -> str | None:
        """Why the job would write rows that are there, in words; None where it would not."""
        entries = list(self._files.walk(self._files.root))
        later = self._later()
        if later:
            last = max(file.last for file in later)
            return (
                f"its checkpoint ends with batch {self._committed} and {self._job.path} holds rows "
                f"of batches up to {last}: an older checkpoint was put back. Put the newer one "
                f"back, or --adopt {self._job.name} moves the rows after it to "
                f"{self._job.path}/{SET_ASIDE} and reads them from the topic again, as far as it "
                "still has them"
            )
        others = [
            file
            for file in filter(None, map(archive_files.parse_file, entries))
            if file.query != self._query
        ]
        if others and self._would_double(others):
            return (
                f"{self._job.path} holds rows of {', '.join(sorted(self._job.reads()))} from "
                f"another checkpoint ({len(others)} files), and their offsets would come twice: "
                "name another 'path', or move those files away"
            )
        return None

    @property
    def can_set_aside(self) -> bool:
        """Whether what is wrong is an older checkpoint, and where it ends is known."""
        return self._ends is not None and bool(self._later())

    def _later(self) -> list[ArchiveFile]:
        if self._query is None:
            return []
        return archive_files.later(
            self._files.walk(self._files.root), self._query, self._committed, self._planned
        )

    def _would_double(self, others: Sequence[ArchiveFile]) -> bool:
        from pyspark.sql import functions as f

        rows = self._read(others)
        held = rows.where(f.col("topic").isin(list(self._job.reads())))
        last = held.groupBy("topic", "partition").agg(f.max("offset").alias("last")).collect()
        ends = self._ends or {}
        return any(
            row["last"] >= ends.get((row["topic"], str(row["partition"])), 0) for row in last
        )

    def _read(self, files: Sequence[ArchiveFile]) -> DataFrame:
        return self._spark.read.parquet(*(for_spark(file.entry.path) for file in files))

    def set_aside(self) -> str:
        """Moves the rows after the checkpoint out of sight; says so."""
        for path in archive_files.leftovers(self._files.walk(self._files.root)):
            self._files.remove(path)
        later = self._later()
        for file in later:
            if file.first <= self._committed:
                self._keep_earlier(file)
            target = file.entry.path.removeprefix(self._files.root)
            # Not even those who look for every *.parquet find it.
            aside = f"{self._files.root}/{SET_ASIDE}{target}.aside"
            self._files.move(file.entry.path, aside)
        if not later:
            return ""
        return (
            f"{self._job.name}: {len(later)} files with rows after its checkpoint were moved to "
            f"{self._files.root}/{SET_ASIDE}"
        )

    def _keep_earlier(self, file: ArchiveFile) -> None:
        """A joined file holds rows of batches before and after: the former stay, under the name
        of what they are. Were this cut short, the whole file counts, as it did."""
        staging = f"{self._files.root}/{_STAGING}"
        ends = [(topic, int(p), end) for (topic, p), end in (self._ends or {}).items()]
        known = self._spark.createDataFrame(ends, "topic string, partition int, end long")
        rows = self._read([file])
        earlier = (
            rows.join(known, ["topic", "partition"])
            .where("offset < end")
            .select(*rows.columns)
            .coalesce(1)
            .sortWithinPartitions("topic", "partition", "offset")
        )
        earlier.write.mode("overwrite").parquet(for_spark(staging))
        name = archive_files.joined_file(file.query, file.first, self._committed)
        for written in self._files.walk(staging):
            if written.name.endswith(".parquet"):
                self._files.move(written.path, f"{file.entry.folder}/{name}")
        self._files.remove(staging)


def _ends(files: FileStore, checkpoint: str, batch: int) -> Ends | None:
    """Where a batch ended, from Spark's log of offsets: the line of the one source."""
    path = f"{checkpoint}/offsets/{batch}"
    if batch < 0 or not files.exists(path):
        return {}
    for line in files.read_text(path).splitlines():
        found = offsets_of(line)
        if found is not None:
            return found
    return None
