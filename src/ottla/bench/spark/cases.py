"""The rows of `ottla bench spark` that move records in bulk.

Every piece of work is done by our side and by the connector, tuned and as it comes. The rate beside
the tuned one is what a goal is about; rows for the connector's defaults and for the processors'
time of all processes (JVM, Python workers, brokers) follow it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.bench.processes import peak_mb
from ottla.bench.spark.shapes import (
    HEADERS,
    JSON,
    JSON_SCHEMA,
    LONG_KEYS,
    PLAIN,
    REPLICATED,
    SMALL,
    Shape,
)
from ottla.bench.spark.sides import (
    COPIER,
    OURS,
    PARTITIONS,
    ROUNDS,
    Side,
    Taken,
    Workbench,
    driver_pid,
)
from ottla.bench.table import Row
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LINEAR_RECORDS = (1_000_000, 5_000_000, 20_000_000)
MANY_PARTITIONS = 200
# Single rounds of a stream differ by a quarter on either side, more than in the other rows.
STREAM_ROUNDS = 5
LZ4 = {"kafka.compression.type": "lz4"}
# The goals. They are never edited to fit a result.
READ_GOAL, WRITE_GOAL, COPY_GOAL, STREAM_GOAL, ONCE_GOAL = 1.2, 1.0, 1.2, 1.2, 0.8
COPIER_GOAL = 1.0  # beside a copy by format("ottla"), which is at least once
JSON_READ_GOAL, JSON_WRITE_GOAL, PARSE_GOAL = 1.5, 1.5, 2.5
LINEAR_GOAL = 1.25  # a row of the large topic costs at most this many times one of the small


class BulkCases:
    """Topics that were filled serve several cases."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._filled: dict[tuple[str, str], str] = {}

    def cases(self) -> dict[str, Callable[[], list[Row]]]:
        return {
            "read": lambda: self._read_rows("read, uncompressed", PLAIN, READ_GOAL),
            "read-lz4": lambda: self._read_rows("read, lz4", PLAIN, READ_GOAL, LZ4),
            "write": lambda: self._write_rows("write, uncompressed", PLAIN, WRITE_GOAL),
            "write-lz4": lambda: self._write_rows("write, lz4", PLAIN, WRITE_GOAL, LZ4),
            "once": self._once_rows,
            "copy": self._copy_rows,
            "copier": self._copier_rows,
            "stream": self._stream_rows,
            "read-json": lambda: self._read_rows("read", JSON, JSON_READ_GOAL),
            "write-json": lambda: self._write_rows("write", JSON, JSON_WRITE_GOAL),
            "parse": self._parse_rows,
            "headers": self._headers_rows,
            "long-keys": lambda: self._write_rows("write", LONG_KEYS, None),
            "partitions": self._partitions_rows,
            "memory": self._memory_rows,
            "linear": self._linear_rows,
        }

    def replicated(self) -> list[Row]:
        """On a cluster of three."""
        return self._write_rows("write to three replicas", REPLICATED, None, replicas=3)

    def _source(
        self,
        shape: Shape,
        options: dict[str, str] | None = None,
        partitions: int = PARTITIONS,
    ) -> str:
        """A topic with the records, filled at its first use."""
        key = (f"{shape.size} x {shape.records} in {partitions}", str(options))
        if key not in self._filled:
            name = self._bench.topic("source", partitions)
            self._bench.write(OURS, self._records(shape), name, **(options or {}))
            self._filled[key] = name
        return self._filled[key]

    def _count(self, shape: Shape) -> int:
        return self._bench.scaled(shape.records)

    def _records(self, shape: Shape) -> DataFrame:
        return shape.frame(self._bench.spark, self._count(shape), PARTITIONS)

    def _read_rows(
        self, work: str, shape: Shape, goal: float | None, options: dict[str, str] | None = None
    ) -> list[Row]:
        name = self._source(shape, options)
        taken = self._in_turns(lambda side: self._read_all(self._bench.read(side, name)))
        return self._rates(work, shape, taken, goal)

    def _in_turns(self, work: Callable[[Side], None], rounds: int = ROUNDS) -> list[Taken]:
        return self._bench.in_turns(
            lambda side: self._bench.timed(lambda: work(side)), rounds=rounds
        )

    def _read_all(self, frame: DataFrame) -> None:
        """Every column of every row is made, and nothing done with it."""
        frame.write.format("noop").mode("overwrite").save()

    def _headers_rows(self) -> list[Row]:
        name = self._source(HEADERS)
        read = self._in_turns(
            lambda side: self._read_all(self._bench.read(side, name, includeHeaders="true"))
        )
        return [
            *self._rates("read", HEADERS, read, None),
            *self._write_rows("write", HEADERS, None),
        ]

    def _partitions_rows(self) -> list[Row]:
        name = self._source(SMALL, partitions=MANY_PARTITIONS)
        taken = self._in_turns(lambda side: self._read_all(self._bench.read(side, name)))
        return self._rates(f"read {MANY_PARTITIONS} partitions", SMALL, taken, None)

    def _parse_rows(self) -> list[Row]:
        name = self._source(JSON)
        taken = self._in_turns(lambda side: self._read_all(parsed(self._bench, side, name)))
        return self._rates("read and parse", JSON, taken, PARSE_GOAL)

    def _write_rows(
        self,
        work: str,
        shape: Shape,
        goal: float | None,
        options: dict[str, str] | None = None,
        *,
        ours_only: dict[str, str] | None = None,
        replicas: int = 1,
    ) -> list[Row]:
        records = self._records(shape)

        def write(side: Side) -> Taken:
            given = {**(options or {}), **(ours_only or {} if side is OURS else {})}
            with self._bench.target("written", self._count(shape), replicas) as name:
                return self._bench.timed(lambda: self._bench.write(side, records, name, **given))

        return self._rates(work, shape, self._bench.in_turns(write), goal)

    def _once_rows(self) -> list[Row]:
        work = "write exactly once (connector: at least once)"
        guarantee = {"deliveryGuarantee": "exactly_once"}
        return self._write_rows(work, PLAIN, ONCE_GOAL, ours_only=guarantee)

    def _copy_rows(self) -> list[Row]:
        source = self._source(PLAIN)

        def copy(side: Side) -> Taken:
            frame = self._bench.read(side, source).select("key", "value")
            with self._bench.target("copy", self._count(PLAIN)) as target:
                return self._bench.timed(lambda: self._bench.write(side, frame, target))

        return self._rates("copy topic to topic", PLAIN, self._bench.in_turns(copy), COPY_GOAL)

    def _copier_rows(self) -> list[Row]:
        """What `ottla clone` and `ottla resize` copy with."""
        source, count = self._source(PLAIN), self._count(PLAIN)

        def copy(side: Side) -> Taken:
            with self._bench.target("copier", count) as target:
                if side is COPIER:
                    return self._bench.timed(lambda: self._bench.copy(source, target))
                frame = self._bench.read(side, source).select("key", "value")
                return self._bench.timed(lambda: self._bench.write(side, frame, target))

        ours, plain = self._bench.in_turns(copy, sides=(COPIER, OURS))
        name = f"clone and resize: copy topic to topic, {count:,} x {PLAIN.size}"
        return [
            Row(
                *(name, count / ours.seconds, count / plain.seconds, "rows/s"),
                f"≥ {COPIER_GOAL:g}x format(ottla)",
                plain.seconds / ours.seconds >= COPIER_GOAL,
                higher_is_better=True,
            ),
            Row("  processors' time of all processes", ours.cpu_s, plain.cpu_s, "s"),
        ]

    def _stream_rows(self) -> list[Row]:
        source = self._source(PLAIN)

        def stream(side: Side) -> Taken:
            with self._bench.folder("stream") as folder:
                taken = self._bench.timed(lambda: self._to_parquet(side, source, folder))
                written = self._bench.spark.read.parquet(str(folder / "data")).count()
                if written != self._count(PLAIN):
                    raise OttlaError(f"{side.title} streamed {written:,} of all the rows")
            return taken

        taken = self._bench.in_turns(stream, STREAM_ROUNDS)
        return self._rates("stream to Parquet", PLAIN, taken, STREAM_GOAL)

    def _to_parquet(self, side: Side, source: str, folder: Path) -> None:
        query = (
            self._bench.stream(side, source)
            .writeStream.format("parquet")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(folder / "data"))
        )
        query.awaitTermination()

    def _rates(self, work: str, shape: Shape, taken: list[Taken], goal: float | None) -> list[Row]:
        ours, tuned, default = taken
        count = self._count(shape)
        name = f"{work}, {count:,} x {shape.size}"

        def rate(name: str, peer: Taken, goal: float | None) -> Row:
            return Row(
                name,
                count / ours.seconds,
                count / peer.seconds,
                "rows/s",
                "" if goal is None else f"≥ {goal:g}x",
                None if goal is None else peer.seconds / ours.seconds >= goal,
                higher_is_better=True,
            )

        return [
            rate(name, tuned, goal),
            rate("  beside the connector as it comes", default, None),
            Row("  processors' time of all processes", ours.cpu_s, tuned.cpu_s, "s"),
        ]

    def _memory_rows(self) -> list[Row]:
        if not self._bench.worker_peak_mb:  # no other row has run
            self._read_all(self._bench.read(OURS, self._source(PLAIN)))
            self._bench.note_workers()
        return [
            Row("memory of the driver (JVM), peak", peak_mb(driver_pid()), None, "MB"),
            Row(
                "memory of the largest Python worker, peak", self._bench.worker_peak_mb, None, "MB"
            ),
        ]

    def _linear_rows(self) -> list[Row]:
        sizes = [self._bench.scaled(records) for records in LINEAR_RECORDS]
        few, *more = sizes
        base = self._cost_per_row(few)
        rows = [Row(f"read {few:,} rows: each", 1e9 * base, None, "ns")]
        for records in more:
            growth = self._cost_per_row(records) / base
            work = f"read {records:,} rows: each costs so many times one of {few:,}"
            rows.append(Row(work, growth, None, "x", f"≤ {LINEAR_GOAL:g}x", growth <= LINEAR_GOAL))
        return rows

    def _cost_per_row(self, records: int) -> float:
        with self._bench.target("many", records) as name:
            frame = PLAIN.frame(self._bench.spark, records, PARTITIONS)
            self._bench.write(OURS, frame, name)
            taken = [
                self._bench.timed(lambda: self._read_all(self._bench.read(OURS, name)))
                for _ in range(ROUNDS)
            ]
        return min(one.seconds for one in taken) / records


def parsed(bench: Workbench, side: Side, name: str) -> DataFrame:
    """The fields of the JSON as columns: read as such by our side, by from_json after the other."""
    if side is OURS:
        asked = {"valueFormat": "json", "schema": JSON_SCHEMA, "columns": "value"}
        return bench.read(side, name, **asked).select("value.*")
    text = f"from_json(CAST(value AS STRING), '{JSON_SCHEMA}')"
    return bench.read(side, name).selectExpr(f"{text} AS event").select("event.*")
