"""`ottla bench spark`: format("ottla") beside Spark's own Kafka connector, in one session.

Both read and write the same topics of one Ottla broker on this machine, `local[2]`, records of
100 bytes in 4 partitions. The connector runs with its tuned options. Every piece of work is done
once by each to warm up, then in turns, and what it wrote is counted before its time is. `--scale
0.1` makes everything ten times smaller, for a look; goals are only judged at full size.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.bench.table import Row, chosen_names, exit_code, print_rows
from ottla.errors import OttlaError
from ottla.testing.cluster import ProcessCluster
from ottla.testing.spark import missing_reason, spark_session, stop_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS = 5_000_000
LINEAR_RECORDS = (1_000_000, 5_000_000, 20_000_000)
PARTITIONS = 4
ROUNDS = 2
# Single rounds of a stream differ by a quarter on either side, more than in the other rows.
STREAM_ROUNDS = 5
LZ4 = {"kafka.compression.type": "lz4"}
TUNED_READ = {"kafka.max.poll.records": "5000", "kafka.max.partition.fetch.bytes": str(8 << 20)}
TUNED_WRITE = {"kafka.linger.ms": "20", "kafka.batch.size": str(128 << 10)}
# What was written is gone before it can crowd the page cache.
BROKER_SETTINGS = {"log.segment.delete.delay.ms": "0"}
# The goals. They are never edited to fit a result.
READ_GOAL, WRITE_GOAL, COPY_GOAL, STREAM_GOAL, ONCE_GOAL = 1.2, 1.0, 1.2, 1.2, 0.8
LINEAR_GOAL = 1.25  # a row of the large topic costs at most this many times one of the small
ALL = ("read", "read-lz4", "write", "write-lz4", "once", "copy", "stream", "memory", "linear")


def main(output: str = "text", only: Sequence[str] = (), scale: float = 1.0) -> int:
    reason = missing_reason()
    if reason is not None:
        raise OttlaError(reason)
    wanted = chosen_names(only, ALL)
    rows = run([key for key in ALL if key in wanted], scale)
    title = "format(ottla) beside Spark's Kafka connector (tuned), local[2], Ottla with one broker"
    print_rows(rows, output, title if scale == 1 else f"{title}, at {scale:g} of the size")
    return exit_code(rows) if scale == 1 else 0


def run(wanted: Sequence[str], scale: float) -> list[Row]:
    with ProcessCluster(brokers=1, overrides=BROKER_SETTINGS) as cluster:
        conf = {"spark.driver.memory": "2g", "spark.ui.showConsoleProgress": "false"}
        spark = spark_session("ottla-bench", conf)
        scratch = Path(tempfile.mkdtemp(prefix="ottla-bench-"))
        try:
            bench = _Bench(spark, cluster.bootstrap_servers, scratch, scale)
            return [row for key in wanted for row in bench.measure(key)]
        finally:
            stop_session(spark)
            shutil.rmtree(scratch, ignore_errors=True)


class _Bench:
    """All cases on one session and one cluster; topics that were filled serve several of them."""

    def __init__(self, spark: SparkSession, servers: str, scratch: Path, scale: float) -> None:
        from confluent_kafka import admin

        self._admin = admin.AdminClient({"bootstrap.servers": servers})
        self._spark = spark
        self._servers = servers
        self._scratch = scratch
        self._scale = scale
        self._made = 0
        self._filled: dict[str, str] = {}
        self._worker_peak_mb = 0.0

    def measure(self, key: str) -> list[Row]:
        cases: dict[str, Callable[[], list[Row]]] = {
            "read": lambda: [self._read_row("uncompressed", {})],
            "read-lz4": lambda: [self._read_row("lz4", LZ4)],
            "write": lambda: [self._write_row("uncompressed", {})],
            "write-lz4": lambda: [self._write_row("lz4", LZ4)],
            "once": lambda: [self._once_row()],
            "copy": lambda: [self._copy_row()],
            "stream": lambda: [self._stream_row()],
            "memory": self._memory_rows,
            "linear": self._linear_rows,
        }
        return cases[key]()

    @property
    def _count(self) -> int:
        return self._scaled(RECORDS)

    def _scaled(self, count: int) -> int:
        return max(1_000, round(count * self._scale))

    def _source(self, title: str, options: dict[str, str]) -> str:
        """A topic with the records, filled at its first use."""
        if title not in self._filled:
            name = self._topic("source")
            self._write("ottla", self._records(self._count), name, **options)
            self._filled[title] = name
        return self._filled[title]

    def _topic(self, prefix: str) -> str:
        """A topic of its own for every run, so that all begin empty."""
        from confluent_kafka import admin

        self._made += 1
        name = f"{prefix}-{self._made}"
        topic = admin.NewTopic(name, PARTITIONS, 1)  # type: ignore[attr-defined]  # untyped names
        self._admin.create_topics([topic])[name].result(60)
        return name

    @contextmanager
    def _target(self, prefix: str, records: int) -> Iterator[str]:
        """An empty topic, counted when it has been written and then deleted."""
        name = self._topic(prefix)
        yield name
        written = self._record_count(name)
        # Commit markers take offsets too: one for each task and partition at most.
        if not records <= written <= records + PARTITIONS * PARTITIONS:
            raise OttlaError(f"{name} has {written:,} records, it should have {records:,}")
        self._admin.delete_topics([name])[name].result(60)

    def _record_count(self, name: str) -> int:
        from ottla.spark.kafka import KafkaClient
        from ottla.spark.options import Connect
        from ottla.types import TopicPartition

        client = KafkaClient(Connect(self._servers))
        try:
            partitions = [TopicPartition(name, index) for index in range(PARTITIONS)]
            return sum(client.latest(partitions, read_committed=False).values())
        finally:
            client.close()

    def _records(self, count: int) -> DataFrame:
        # Cheap to make (`rpad` takes longer than either sink): "record ", eight digits and dots.
        return self._spark.range(0, count, 1, PARTITIONS).selectExpr(
            "CAST(id AS STRING) AS key",
            f"concat('record ', CAST(id + 10000000 AS STRING), '{'.' * 85}') AS value",
        )

    def _read(self, kind: str, name: str) -> DataFrame:
        reader = self._spark.read.format(kind).option("kafka.bootstrap.servers", self._servers)
        tuned = TUNED_READ if kind == "kafka" else {}
        return reader.options(subscribe=name, **tuned).load()

    def _write(self, kind: str, frame: DataFrame, name: str, **options: str) -> None:
        writer = frame.write.format(kind).mode("append")
        tuned = TUNED_WRITE if kind == "kafka" else {}
        writer.option("kafka.bootstrap.servers", self._servers).options(
            topic=name, **tuned, **options
        ).save()

    def _write_row(self, title: str, options: dict[str, str]) -> Row:
        return self._rate(f"write, {title}", self._both_write("written", options), WRITE_GOAL)

    def _once_row(self) -> Row:
        seconds = self._both_write("once", {}, {"deliveryGuarantee": "exactly_once"})
        return self._rate("write exactly once (connector: at least once)", seconds, ONCE_GOAL)

    def _both_write(
        self, prefix: str, options: dict[str, str], ours_only: dict[str, str] | None = None
    ) -> tuple[float, float]:
        records = self._records(self._count)

        def write(kind: str) -> float:
            own = ours_only or {} if kind == "ottla" else {}
            with self._target(prefix, self._count) as name:
                return _seconds(lambda: self._write(kind, records, name, **options, **own))

        return self._both(write)

    def _read_row(self, title: str, options: dict[str, str]) -> Row:
        name = self._source(title, options)
        return self._rate(
            f"read, {title}",
            self._both(lambda kind: _seconds(lambda: self._read_all(kind, name))),
            READ_GOAL,
        )

    def _read_all(self, kind: str, name: str) -> None:
        """Every column of every row is made, and nothing done with it."""
        self._read(kind, name).write.format("noop").mode("overwrite").save()

    def _copy_row(self) -> Row:
        name = self._source("uncompressed", {})

        def copy(kind: str) -> float:
            frame = self._read(kind, name).select("key", "value")
            with self._target("copy", self._count) as target:
                return _seconds(lambda: self._write(kind, frame, target))

        return self._rate("copy topic to topic", self._both(copy), COPY_GOAL)

    def _stream_row(self) -> Row:
        name = self._source("uncompressed", {})

        def stream(kind: str) -> float:
            self._made += 1
            folder = self._scratch / f"stream-{self._made}"
            taken = _seconds(lambda: self._stream(kind, name, folder))
            written = self._spark.read.parquet(str(folder / "data")).count()
            if written != self._count:
                raise OttlaError(f"{kind} streamed {written:,} of {self._count:,} rows")
            shutil.rmtree(folder)
            return taken

        return self._rate("stream to Parquet", self._both(stream, STREAM_ROUNDS), STREAM_GOAL)

    def _stream(self, kind: str, name: str, folder: Path) -> None:
        reader = self._spark.readStream.format(kind)
        tuned = TUNED_READ if kind == "kafka" else {}
        query = (
            reader.option("kafka.bootstrap.servers", self._servers)
            .options(subscribe=name, startingOffsets="earliest", **tuned)
            .load()
            .writeStream.format("parquet")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(folder / "data"))
        )
        query.awaitTermination()

    def _both(self, work: Callable[[str], float], rounds: int = ROUNDS) -> tuple[float, float]:
        """Seconds of ours and of the connector, after one round that is not counted; who is first
        changes from round to round."""
        taken: dict[str, list[float]] = {"ottla": [], "kafka": []}
        for index in range(1 + rounds):
            for kind in sorted(taken, reverse=index % 2 == 0):
                taken[kind].append(work(kind))
                self._note_workers()
        ours, peer = (statistics.median(times[1:]) for times in taken.values())
        return ours, peer

    def _rate(self, work: str, seconds: tuple[float, float], goal: float) -> Row:
        ours_s, peer_s = seconds
        return Row(
            f"{work}, {self._count:,} x 100 B",
            self._count / ours_s,
            self._count / peer_s,
            "rows/s",
            f"≥ {goal:g}x",
            peer_s / ours_s >= goal,
            higher_is_better=True,
        )

    def _note_workers(self) -> None:
        """Spark ends workers that are idle for a while, so they are looked at after every run."""
        workers = [pid for pid in _children_of(_driver_pid()) if "python" in _command(pid)]
        self._worker_peak_mb = max(self._worker_peak_mb, *map(_peak_mb, workers), 0.0)

    def _memory_rows(self) -> list[Row]:
        if not self._worker_peak_mb:  # no other row has run
            self._read_all("ottla", self._source("uncompressed", {}))
            self._note_workers()
        return [
            Row("memory of the driver (JVM), peak", _peak_mb(_driver_pid()), None, "MB"),
            Row("memory of the largest Python worker, peak", self._worker_peak_mb, None, "MB"),
        ]

    def _linear_rows(self) -> list[Row]:
        sizes = [self._scaled(records) for records in LINEAR_RECORDS]
        few, *more = sizes
        base = self._cost_per_row(few)
        rows = [Row(f"read {few:,} rows: each", 1e9 * base, None, "ns")]
        for records in more:
            growth = self._cost_per_row(records) / base
            work = f"read {records:,} rows: each costs so many times one of {few:,}"
            rows.append(Row(work, growth, None, "x", f"≤ {LINEAR_GOAL:g}x", growth <= LINEAR_GOAL))
        return rows

    def _cost_per_row(self, records: int) -> float:
        with self._target("many", records) as name:
            self._write("ottla", self._records(records), name)
            taken = [_seconds(lambda: self._read_all("ottla", name)) for _ in range(ROUNDS)]
        return min(taken) / records


def _seconds(work: Callable[[], None]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _driver_pid() -> int:
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    return int(gateway.proc.pid)


def _children_of(pid: int) -> list[int]:
    """All descendants, from /proc."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue  # ended in the meantime
        parents.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found, waiting = [], [pid]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def _peak_mb(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    lines = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(lines[0].split()[1]) / 1024 if lines else 0.0
