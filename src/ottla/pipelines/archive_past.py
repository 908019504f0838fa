"""What an archive holds that its checkpoint does not know of: rows that would come twice.

After an older checkpoint was put back, the batches after it are read again, in other portions, so
under other names. The rows that are there may be the only ones left, if the topic has let go of
its own: nothing is deleted. Whoever says `--adopt` has them moved out of the readers' sight, where
the topic still has every one of them; else the readers would miss some. Rows of other checkpoints
are nobody's to move: a job that would read their offsets is refused.
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
# By topic and partition: the oldest offset that is there, and the one after the newest.
Held = Mapping[tuple[str, int], tuple[int, int]]
# Of Spark's log of offsets: its version and what it says of the batch, then a line for each source.
_LINES_BEFORE_SOURCES = 2


class ArchivePast:
    """`checkpoint` is the folder that the job goes on with, None for one that begins."""

    def __init__(self, spark: SparkSession, job: Archive, checkpoint: str | None) -> None:
        self._spark = spark
        self._job = job
        self._files = file_store(spark, job.path)
        self._query: str | None = None
        self._committed = self._planned = -1
        # None where it cannot be told; Spark itself cannot go on then.
        self._ends: Ends | None = {}
        self._checkpoint = checkpoint
        if checkpoint is not None:
            files = file_store(spark, checkpoint)
            self._query = query_id(files, checkpoint)
            self._committed = last_number(files, f"{checkpoint}/commits")
            self._planned = last_number(files, f"{checkpoint}/offsets")
            self._ends = _ends(files, checkpoint, self._committed, job.starting)

    def wrong(self) -> str | None:
        """Why the job would write rows that are there, in words; None where it would not."""
        entries = list(self._files.walk(self._files.root))
        later = self._later()
        if later:
            return self._put_back(max(file.last for file in later))
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

    def _put_back(self, last: int) -> str:
        name = self._job.name
        found = (
            f"its checkpoint ends with batch {self._committed} and {self._job.path} holds rows of "
            f"batches up to {last}: an older checkpoint was put back. Put the newer one back, or "
        )
        if self._ends is None:
            return (
                f"{found}--reset {name} and name another 'path'. --adopt cannot help: the offsets "
                f"at which the checkpoint {self._checkpoint} ends cannot be read"
            )
        return (
            f"{found}--adopt {name} moves the rows after it to {self._job.path}/{SET_ASIDE} and "
            "reads them from the topic again"
        )

    @property
    def can_set_aside(self) -> bool:
        """Whether what is wrong is an older checkpoint, and where it ends is known."""
        return self._ends is not None and bool(self._later())

    def lost(self, held: Held) -> str | None:
        """Why the rows after the checkpoint must stay where they are, in words: the topic has not
        all of them any more. None where it has."""
        from pyspark.sql import functions as f

        rows = self._spark.createDataFrame(
            [(topic, p, first, end) for (topic, p), (first, end) in held.items()],
            "topic string, partition int, first long, beyond long",
        )
        is_gone = f.expr("first IS NULL OR offset < first OR offset >= beyond")
        after = self._read(self._later()).join(self._known(), ["topic", "partition"], "left")
        gone = (
            after.where("offset >= coalesce(end, 0)")
            .join(rows, ["topic", "partition"], "left")
            .where(is_gone)
            .groupBy("topic", "partition")
            .agg(f.count("*").alias("count"), f.min("offset"), f.max("offset"))
            .orderBy("topic", "partition")
        )
        found = gone.collect()
        if not found:
            return None
        topic, partition, count, first, last = found[0]
        return (
            f"--adopt {self._job.name} would hide rows that only {self._job.path} has: "
            f"{topic}-{partition} has not the {count} from offset {first} to {last} any more"
            f"{' (nor have others theirs)' if len(found) > 1 else ''}. Put the newer checkpoint "
            f"back, or --reset {self._job.name} and name another 'path'"
        )

    def _known(self) -> DataFrame:
        """Where the checkpoint ends."""
        ends = [(topic, int(p), end) for (topic, p), end in (self._ends or {}).items()]
        return self._spark.createDataFrame(ends, "topic string, partition int, end long")

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
        rows = self._read([file])
        earlier = (
            rows.join(self._known(), ["topic", "partition"])
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


def _ends(files: FileStore, checkpoint: str, batch: int, starting: str) -> Ends | None:
    """Where a batch ended, from Spark's log of offsets: the line of the one source. None where
    that cannot be told."""
    if batch < 0:
        return {} if starting == "earliest" else None
    try:
        lines = files.read_text(f"{checkpoint}/offsets/{batch}").splitlines()
    except (OSError, ValueError):
        return None
    sources = lines[_LINES_BEFORE_SOURCES:]
    return offsets_of(sources[0]) if len(sources) == 1 else None
