"""One Spark session and one cluster on which format("ottla") and the connector do the same work."""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.bench.processes import command, cpu_by_process, cpu_since, descendants, peak_mb
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 4
ROUNDS = 2


class Side(NamedTuple):
    """Who does the work, and with which options."""

    title: str
    format: str
    read: Mapping[str, str]
    write: Mapping[str, str]
    # In a session as Spark starts one by itself, as far as it matters here.
    plain_session: bool = False


# What `session()` sets and Spark does not, back to Spark's own.
PLAIN_SETTINGS = {
    "fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.LocalFs",
    "fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
    "spark.sql.adaptive.streaming.stateless.enabled": "true",
}
OURS = Side("ottla", "ottla", {}, {})
TUNED = Side(
    "connector, tuned",
    "kafka",
    {"kafka.max.poll.records": "5000", "kafka.max.partition.fetch.bytes": str(8 << 20)},
    {"kafka.linger.ms": "20", "kafka.batch.size": str(128 << 10)},
)
DEFAULT = Side("connector, as it comes", "kafka", {}, {})
SIDES = (OURS, TUNED, DEFAULT)
# No format of Spark's: `Workbench.copy`.
COPIER = Side("copier", "", {}, {})


class Taken(NamedTuple):
    """What a piece of work cost: time by the clock, and of the processors in all processes."""

    seconds: float
    cpu_s: float


class Workbench:
    """Topics, reads and writes; looks at the processes after each piece of work."""

    def __init__(self, spark: SparkSession, servers: str, scratch: Path, scale: float) -> None:
        from confluent_kafka import admin

        # The cluster goes before it, which it would report.
        self._admin = admin.AdminClient({"bootstrap.servers": servers, "log_level": 0})
        self.spark = spark
        self.servers = servers
        self.scratch = scratch
        self._scale = scale
        self._made = 0
        self.worker_peak_mb = 0.0

    def scaled(self, count: int, least: int = 1_000) -> int:
        return max(least, round(count * self._scale))

    def topic(self, prefix: str, partitions: int = PARTITIONS, replicas: int = 1) -> str:
        """A topic of its own for every run, so that all begin empty."""
        from confluent_kafka import admin

        name = self.name(prefix)
        topic = admin.NewTopic(name, partitions, replicas)  # type: ignore[attr-defined]  # untyped names
        self._admin.create_topics([topic])[name].result(60)
        return name

    def name(self, prefix: str) -> str:
        self._made += 1
        return f"{prefix}-{self._made}"

    @contextmanager
    def target(self, prefix: str, records: int, replicas: int = 1) -> Iterator[str]:
        """An empty topic, counted when it has been written and then deleted."""
        name = self.topic(prefix, replicas=replicas)
        yield name
        written = self.record_count(name)
        # Commit markers take offsets too: one for each task and partition at most.
        if not records <= written <= records + PARTITIONS * PARTITIONS:
            raise OttlaError(f"{name} has {written:,} records, it should have {records:,}")
        self.delete(name)

    def delete(self, name: str) -> None:
        self._admin.delete_topics([name])[name].result(60)

    def record_count(self, name: str) -> int:
        from ottla.spark.kafka import KafkaClient
        from ottla.spark.options import Connect
        from ottla.types import TopicPartition

        client = KafkaClient(Connect(self.servers))
        try:
            partitions = [TopicPartition(name, index) for index in range(PARTITIONS)]
            return sum(client.latest(partitions, read_committed=False).values())
        finally:
            client.close()

    def read(self, side: Side, name: str, **options: str) -> DataFrame:
        reader = self.spark.read.format(side.format)
        given = {**side.read, **options, "subscribe": name}
        return reader.option("kafka.bootstrap.servers", self.servers).options(**given).load()

    def write(self, side: Side, frame: DataFrame, name: str, **options: str) -> None:
        writer = frame.write.format(side.format).mode("append")
        given = {**side.write, **options, "topic": name}
        writer.option("kafka.bootstrap.servers", self.servers).options(**given).save()

    def copy(self, source: str, target: str) -> None:
        """As `ottla clone` and `ottla resize` do: each record once, each key in order."""
        from ottla.pipelines.copy.copier import Copier, CopyJob
        from ottla.pipelines.copy.ends import Endpoint
        from ottla.pipelines.copy.folder import CopyFolder
        from ottla.runtime import SystemDisk
        from ottla.topics.partitioners import Partitioner

        job = CopyJob(
            Endpoint(self.servers, source), Endpoint(self.servers, target), Partitioner.MURMUR2
        )
        with self.folder("copier") as folder:
            copier = Copier(self.spark, job, CopyFolder(SystemDisk(), folder))
            try:
                copier.start()
                copier.finish(copier.source_ends())
            finally:
                copier.close()

    def stream(self, side: Side, name: str, **options: str) -> DataFrame:
        spark = self._plain_session() if side.plain_session else self.spark
        reader = spark.readStream.format(side.format)
        given = {**side.read, **options, "subscribe": name, "startingOffsets": "earliest"}
        return reader.option("kafka.bootstrap.servers", self.servers).options(**given).load()

    def _plain_session(self) -> SparkSession:
        """Another session of the same JVM."""
        plain = self.spark.newSession()
        for key, value in PLAIN_SETTINGS.items():
            plain.conf.set(key, value)
        return plain

    @contextmanager
    def folder(self, prefix: str) -> Iterator[Path]:
        """For what a query leaves, its checkpoint among it."""
        path = self.scratch / self.name(prefix)
        yield path
        shutil.rmtree(path, ignore_errors=True)

    def timed(self, work: Callable[[], None]) -> Taken:
        pids = [os.getpid(), *descendants(os.getpid())]
        before = cpu_by_process(pids)
        begun = time.perf_counter()
        work()
        seconds = time.perf_counter() - begun
        after = cpu_by_process([os.getpid(), *descendants(os.getpid())])
        return Taken(seconds, cpu_since(before, after))

    def in_turns(
        self,
        work: Callable[[Side], Taken],
        rounds: int = ROUNDS,
        sides: Sequence[Side] = SIDES,
    ) -> list[Taken]:
        """The medians of each side, after one round that is not counted; who is first changes from
        round to round."""
        taken: dict[str, list[Taken]] = {side.title: [] for side in sides}
        for index in range(1 + rounds):
            for side in sides if index % 2 == 0 else reversed(sides):
                taken[side.title].append(work(side))
                self.note_workers()
        return [median(found[1:]) for found in taken.values()]

    def note_workers(self) -> None:
        """Spark ends workers that are idle for a while, so they are looked at after every run."""
        workers = [pid for pid in descendants(driver_pid()) if "python" in command(pid)]
        self.worker_peak_mb = max(self.worker_peak_mb, *map(peak_mb, workers), 0.0)


def median(found: Sequence[Taken]) -> Taken:
    return Taken(
        statistics.median(one.seconds for one in found),
        statistics.median(one.cpu_s for one in found),
    )


def driver_pid() -> int:
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    return int(gateway.proc.pid)
