"""What a session with a JVM beside it and one of Spark Connect do in different ways."""

from __future__ import annotations

import contextlib
import io
import re
from typing import TYPE_CHECKING

from ottla.pipelines.spec_secrets import Secrets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CONNECT = "pyspark.sql.connect"
# Without a meaning: only that it is another one than before.
_DAEMON = "OTTLA_PYTHON_DAEMON"
# Enough rows that Spark gives some to every core that it has.
_MANY = 100_000


# Settings with this in their names, or in their values, are not shown in plans.
_REDACTION = "spark.sql.redaction.options.regex"
_REDACTED_BEFORE = "(?i)url"


def hide_settings(spark: SparkSession, secrets: Secrets) -> None:
    """Spark shows a source's options in plans and in errors, but for those that look like secrets
    by their names; here it is known which ones are."""
    if not secrets.settings:
        return
    known = spark.conf.get(_REDACTION, _REDACTED_BEFORE) or _REDACTED_BEFORE
    names = [re.escape(name.removeprefix("kafka.")) for name in secrets.settings]
    new = [name for name in names if name not in known]
    if new:
        spark.conf.set(_REDACTION, "|".join([known, *new]))


def is_connect(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith(_CONNECT)


def parallelism(spark: SparkSession) -> int:
    """How many tasks Spark makes of rows of its own."""
    if not is_connect(spark):
        return int(spark.sparkContext.defaultParallelism)
    return tasks_of_a_range(spark)


def renew_workers(spark: SparkSession, error: Exception) -> None:
    """Spark 4.2 asks a daemon that was killed before it said where it listens for workers again and
    again (PythonWorkerFactory.startDaemon keeps it, without an address), and fails in all later
    jobs. Another environment of the workers has a daemon of its own."""
    text = str(error)
    if "PythonWorkerFactory.startDaemon" not in text and not (
        "PythonWorkerFactory" in text and "NullPointerException" in text
    ):
        return
    if not is_connect(spark):
        environment = spark.sparkContext.environment
        environment[_DAEMON] = str(int(environment.get(_DAEMON, "0")) + 1)


def tasks_of_a_range(spark: SparkSession) -> int:
    """By looking: Spark Connect does not tell."""
    from pyspark.sql import functions

    # Two steps: Spark refuses an aggregate of something that is not the same each time.
    tasks = spark.range(_MANY).select(functions.spark_partition_id().alias("task"))
    (row,) = tasks.agg(functions.max("task").alias("last")).collect()
    return int(row["last"] or 0) + 1


def with_own_views(spark: SparkSession) -> SparkSession:
    """A session in which names of views are free; settings are those of the first one."""
    if not is_connect(spark):
        return spark.newSession()
    cloned: SparkSession = spark.cloneSession()  # type: ignore[attr-defined]
    return cloned


def plan_text(frame: DataFrame) -> str:
    """The plan as Spark understood it. Both kinds of frames print it, neither gives it."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        frame.explain(extended=True)
    return printed.getvalue()
