"""`audit`: the lifecycle topic read by Spark: what happened to which topic when, and how long it
took. A failover is told with the time from the partition's offline state (or, where the controller
itself was lost, from the new controller's first event) to its new leader."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.pipelines.context import BatchResult
from ottla.pipelines.plots import text_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ottla.pipelines.context import JobContext
    from ottla.pipelines.spec import Audit

EVENT = (
    "ts_ms long, controller_epoch int, event string, kind string, topic string, topic_id string, "
    "partition int, broker int, `from` string, `to` string, cause string"
)
NEW, ONLINE, OFFLINE = "NewPartition", "OnlinePartition", "OfflinePartition"
_APART_MS = 1000
_COLUMNS = ("when", "what", "topic", "partitions", "ms", "epoch")


def run(context: JobContext, job: Audit) -> BatchResult:
    events = parse_events(context.read_all(job, [job.topic]))
    if job.only is not None:
        # The controller's own events name no topic, and tell when an epoch began.
        events = events.where(events["topic"].isNull() | (events["topic"] == job.only))
    events = events.persist()
    try:
        count = events.count()
        found = [row.asDict() for row in incidents(events).collect()]
    finally:
        events.unpersist()
    if job.json is not None:
        Path(job.json).write_text(json.dumps(found, indent=2) + "\n")
    return BatchResult(count, lines(found), found)


def parse_events(frame: DataFrame) -> DataFrame:
    """Anyone may write to the topic: what is not an event is left out."""
    from pyspark.sql import functions as f

    parsed = f.from_json(f.col("value").cast("string"), EVENT).alias("e")
    rows = frame.select("offset", parsed).where("e.event is not null and e.ts_ms is not null")
    return rows.select("offset", "e.*")


def incidents(events: DataFrame) -> DataFrame:
    """Creations, expansions, deletions and failovers, in the order of their beginnings."""
    made = _made(events, "TopicChange", "created")
    grown = _made(events, "PartitionModifications", "expanded")
    found = made.unionByName(grown).unionByName(_deleted(events)).unionByName(_failovers(events))
    return found.sort("began_ms", "topic")


def _made(events: DataFrame, event: str, what: str) -> DataFrame:
    """From the first partition that is new to the last that has a leader. Partitions of a topic
    that came within a second came together."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    rows = events.where((f.col("kind") == "partition") & (f.col("event") == event))
    partitions = rows.groupBy("topic", "topic_id", "partition").agg(
        f.min(f.when(f.col("to") == NEW, f.col("ts_ms"))).alias("new_ms"),
        f.min(f.when(f.col("to") == ONLINE, f.col("ts_ms"))).alias("online_ms"),
        f.max("controller_epoch").alias("controller_epoch"),
    )
    by_topic = Window.partitionBy("topic_id").orderBy("new_ms")
    is_apart = f.col("new_ms") - f.lag("new_ms").over(by_topic) > _APART_MS
    partitions = partitions.where("new_ms is not null").withColumn(
        "occasion", f.sum(f.coalesce(is_apart, f.lit(False)).cast("int")).over(by_topic)
    )
    # Not over while one of them has no leader.
    is_over = f.count("online_ms") == f.count("*")
    grouped = partitions.groupBy("topic", "topic_id", "occasion").agg(
        f.min("new_ms").alias("began_ms"),
        f.when(is_over, f.max("online_ms")).alias("ended_ms"),
        f.count("*").cast("int").alias("partitions"),
        f.max("controller_epoch").alias("controller_epoch"),
    )
    return _told(grouped, what)


def _deleted(events: DataFrame) -> DataFrame:
    """From the controller's first step to the word that all is gone."""
    from pyspark.sql import functions as f

    rows = events.where(f.col("topic").isNotNull())
    began = f.min(f.when(f.col("event") == "TopicDeletion", f.col("ts_ms")))
    ended = f.max(f.when((f.col("kind") == "topic") & (f.col("to") == "Deleted"), f.col("ts_ms")))
    gone = f.when(f.col("event") == "TopicDeletion", f.col("partition"))
    grouped = rows.groupBy("topic", "topic_id").agg(
        began.alias("began_ms"),
        ended.alias("ended_ms"),
        f.count_distinct(gone).cast("int").alias("partitions"),
        f.max("controller_epoch").alias("controller_epoch"),
    )
    return _told(grouped.where("began_ms is not null"), "deleted")


def _failovers(events: DataFrame) -> DataFrame:
    """Partitions that were offline and got a leader, together where they did so in one event."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    by_epoch = Window.partitionBy("controller_epoch")
    by_partition = Window.partitionBy("topic_id", "partition").orderBy("offset")
    rows = events.withColumn("epoch_began_ms", f.min("ts_ms").over(by_epoch))
    rows = rows.where(f.col("kind") == "partition")
    before = f.when(f.lag("to").over(by_partition) == OFFLINE, f.lag("ts_ms").over(by_partition))
    rows = rows.withColumn("offline_ms", f.coalesce(before, f.col("epoch_began_ms")))
    moved = rows.where((f.col("from") == OFFLINE) & (f.col("to") == ONLINE))
    grouped = moved.groupBy("topic", "topic_id", "controller_epoch", "event", "offline_ms").agg(
        f.max("ts_ms").alias("ended_ms"),
        f.count_distinct("partition").cast("int").alias("partitions"),
    )
    return _told(grouped.withColumnRenamed("offline_ms", "began_ms"), "failover")


def _told(rows: DataFrame, what: str) -> DataFrame:
    from pyspark.sql import functions as f

    return rows.select(
        "began_ms",
        f.lit(what).alias("what"),
        "topic",
        "topic_id",
        "partitions",
        # None: it was not over when the topic was read.
        (f.col("ended_ms") - f.col("began_ms")).alias("duration_ms"),
        "controller_epoch",
    )


def lines(found: list[dict[str, Any]]) -> list[str]:
    rows = [
        [
            when(row["began_ms"]),
            row["what"],
            row["topic"],
            row["partitions"],
            row["duration_ms"],
            row["controller_epoch"],
        ]
        for row in found
    ]
    return text_table(_COLUMNS, rows) if rows else ["nothing happened"]


def when(ts_ms: int) -> str:
    try:
        moment = datetime.fromtimestamp(ts_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return "?"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d}Z"
