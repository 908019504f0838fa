"""The same small program for every Spark: writes and reads topics, in batches and in streams.

    python smoke.py '{"servers": "…", "remote": null, "folder": "…", "topics": ["a", "b", "c"]}'

With one topic there is a batch and no stream.

Run by tests in environments of their own, so it imports nothing but this package and PySpark. The
last line of its output is what it found, as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyspark

from ottla.spark import progress, session
from ottla.spark.launch.session import stop_session

ROWS = 1_000


class Smoke:
    def __init__(self, spark: Any, servers: str, folder: Path) -> None:
        self.spark = spark
        self.connect = {"kafka.bootstrap.servers": servers}
        self.folder = folder

    def write(self, topic: str, first: int, **options: str) -> None:
        rows = self.spark.range(first, first + ROWS).selectExpr(
            "CAST(id AS STRING) AS key",
            "CAST(id AS STRING) AS value",
            "IF(id % 2 = 0, array(struct('h' AS key, CAST('x' AS BINARY) AS value)), NULL) headers",
        )
        writer = rows.write.format("ottla").mode("append").options(**self.connect, **options)
        writer.option("topic", topic).save()

    def count(self, topic: str) -> list[int]:
        """Rows, different values and values with headers."""
        frame = self.spark.read.format("ottla").options(**self.connect, subscribe=topic)
        options = {"kafka.isolation.level": "read_committed", "includeHeaders": "true"}
        found = frame.options(**options).load()
        aggregates = ("count(*)", "count(DISTINCT value)", "count(headers)")
        return list(found.selectExpr(*aggregates).first())

    def copy(self, source: str, target: str, **options: str) -> Any:
        """One run of a query with a shuffle, until it has read what is there."""
        frame = self.spark.readStream.format("ottla").options(**self.connect, subscribe=source)
        frame = frame.options(startingOffsets="earliest", includeHeaders="true", **options).load()
        rows = frame.selectExpr("key", "value", "headers", "timestamp").repartition(3, "key")
        query = rows.writeStream.format("ottla").options(**self.connect, topic=target)
        query = query.option("useTimestampColumn", "true").trigger(availableNow=True)
        started = query.option("checkpointLocation", str(self.folder / target)).start()
        started.awaitTermination()
        return started

    def forget_last_commit(self, target: str) -> None:
        """As if the driver had been killed after the write and before Spark's own note of it."""
        last = self.commits(target)[-1]
        last.unlink()
        last.with_name(f".{last.name}.crc").unlink(missing_ok=True)

    def commits(self, target: str) -> list[Path]:
        """One file for each micro-batch."""
        files = (self.folder / target / "commits").iterdir()
        return sorted((f for f in files if f.name.isdigit()), key=lambda file: int(file.name))


def run(smoke: Smoke, first: str, *others: str) -> dict[str, Any]:
    found: dict[str, Any] = {"spark": pyspark.__version__, "python": sys.version.split()[0]}
    smoke.write(first, 0)
    found["batch"] = smoke.count(first)
    return found | stream(smoke, first, *others) if others else found


def stream(smoke: Smoke, first: str, second: str, third: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    smoke.copy(first, second)
    smoke.write(first, ROWS)
    last = smoke.copy(first, second).lastProgress
    found["stream"] = smoke.count(second)
    found["lag"] = progress.lag(last)
    smoke.forget_last_commit(second)
    smoke.copy(first, second)
    found["exactly_once"] = smoke.count(second)
    try:
        smoke.copy(first, third, maxOffsetsPerTrigger="700")
        found["limited"] = len(smoke.commits(third))
    except Exception as error:
        found["limited"] = str(error)
    found["third"] = smoke.count(third)
    return found


def main(argument: str) -> None:
    given = json.loads(argument)
    spark = session("smoke", master="local[2]", remote=given["remote"])
    try:
        smoke = Smoke(spark, given["servers"], Path(given["folder"]))
        found = run(smoke, *given["topics"])
        found["session"] = type(spark).__module__
    finally:
        stop_session(spark)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
