"""`ottla bench spark`: format("ottla") beside Spark's own Kafka connector, in one session.

Both read and write the same topics of one Ottla broker on this machine (three for `replicated`),
`local[2]`, 4 partitions. Every piece of work is done once by each to warm up, then in turns, and
what it wrote is counted before its time is. `--scale 0.1`, or `OTTLA_BENCH_SCALE=0.1`, makes
everything ten times smaller, for a look; goals are only judged at full size.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.bench.spark.cases import BulkCases
from ottla.bench.spark.floor import floor_rows
from ottla.bench.spark.sides import Workbench
from ottla.bench.table import Row, chosen_names, exit_code, print_rows
from ottla.errors import OttlaError
from ottla.testing.cluster import ProcessCluster
from ottla.testing.spark import missing_reason, spark_session, stop_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What was written is gone before it can crowd the page cache.
BROKER_SETTINGS = {"log.segment.delete.delay.ms": "0"}
SCALE_VARIABLE = "OTTLA_BENCH_SCALE"
ALL = (
    *("read", "read-lz4", "write", "write-lz4", "once", "copy", "copier", "stream"),
    *("read-json", "write-json", "parse", "headers", "long-keys", "partitions"),
    *("floor", "memory", "linear", "replicated"),
)


def main(output: str = "text", only: Sequence[str] = (), scale: float | None = None) -> int:
    reason = missing_reason()
    if reason is not None:
        raise OttlaError(reason)
    wanted = chosen_names(only, ALL)
    size = chosen_scale() if scale is None else scale
    rows = run([key for key in ALL if key in wanted], size)
    title = "format(ottla) beside Spark's Kafka connector (tuned), local[2], Ottla with one broker"
    print_rows(rows, output, title if size == 1 else f"{title}, at {size:g} of the size")
    return exit_code(rows) if size == 1 else 0


def chosen_scale() -> float:
    """What the environment says."""
    text = os.environ.get(SCALE_VARIABLE, "1")
    try:
        scale = float(text)
    except ValueError:
        scale = 0.0
    if not 0 < scale <= 10:
        raise OttlaError(f"{SCALE_VARIABLE} is {text!r}, it must be a number above 0 and up to 10")
    return scale


def run(wanted: Sequence[str], scale: float) -> list[Row]:
    conf = {"spark.driver.memory": "2g", "spark.ui.showConsoleProgress": "false"}
    spark = spark_session("ottla-bench", conf)
    scratch = Path(tempfile.mkdtemp(prefix="ottla-bench-"))
    try:
        alone = [key for key in wanted if key != "replicated"]
        rows = measure(spark, scratch, scale, alone, brokers=1) if alone else []
        if "replicated" in wanted:
            rows += measure(spark, scratch, scale, ["replicated"], brokers=3)
        return rows
    finally:
        stop_session(spark)
        shutil.rmtree(scratch, ignore_errors=True)


def measure(
    spark: SparkSession, scratch: Path, scale: float, wanted: Sequence[str], *, brokers: int
) -> list[Row]:
    """The rows on a cluster of their own, whose topics serve several of them."""
    with ProcessCluster(brokers=brokers, overrides=BROKER_SETTINGS) as cluster:
        bench = Workbench(spark, cluster.bootstrap_servers, scratch, scale)
        bulk = BulkCases(bench)
        cases = {
            **bulk.cases(),
            "floor": lambda: floor_rows(bench),
            "replicated": bulk.replicated,
        }
        return [row for key in wanted for row in cases[key]()]
