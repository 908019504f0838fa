"""A small local Spark session for tests, demos and benchmarks.

A session takes several seconds to start: share one. The official Kafka connector is on its class
path where `tools/peers/fetch.py` brought the jars.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.spark.launch.jars import connector_jars
from ottla.spark.launch.session import missing_reason as spark_missing_reason
from ottla.spark.launch.session import session, stop_session
from ottla.testing.tally import Tally

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "CONNECTOR",
    "missing_reason",
    "read_topic",
    "spark_session",
    "spark_tally",
    "stop_session",
]

CONNECTOR = "spark-kafka"


def missing_reason(*, connector: bool = True) -> str | None:
    """Why Spark (with `format("kafka")`) cannot be used here, or None where it can."""
    reason = spark_missing_reason()
    if reason is None and connector and connector_jars(fetch=False) is None:
        return "the jars of Spark's Kafka connector are missing: `make peers` (needs Maven)"
    return reason


def spark_session(app_name: str, extra_conf: Mapping[str, str] | None = None) -> SparkSession:
    """Starts (or returns the already started) session of this process."""
    jars = connector_jars(fetch=False) or []
    conf = {
        "spark.driver.memory": "1g",
        "spark.jars": ",".join(map(str, jars)),
        "spark.sql.shuffle.partitions": "4",
    }
    return session(app_name, master="local[2]", conf={**conf, **(extra_conf or {})})


def read_topic(spark: SparkSession, bootstrap_servers: str, topic: str) -> DataFrame:
    """One batch with everything in the topic, through the official connector."""
    return (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("endingOffsets", "latest")
        .load()
    )


def spark_tally(frame: DataFrame) -> Tally:
    """`ottla.testing.tally` of the column `value`, computed by Spark."""
    row = frame.selectExpr("count(*) AS n", "coalesce(sum(crc32(value)), 0) AS total").first()
    return Tally(0, 0) if row is None else Tally(int(row["n"]), int(row["total"]))
