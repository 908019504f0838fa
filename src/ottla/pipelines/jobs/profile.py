"""`profile`: key skew, sizes, rates, gaps and null shares of topics, partition by partition."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.pipelines.context import BatchResult
from ottla.pipelines.plots import bar_plot, html_table, line_plot, page, text_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ottla.pipelines.context import JobContext
    from ottla.pipelines.spec import Profile

# So many points has the plot of a topic's rate.
_TIME_POINTS = 60
_COLUMNS = (
    "partition",
    "records",
    "share",
    "bytes",
    "value_p50",
    "value_p95",
    "value_max",
    "null_keys",
    "null_values",
    "keys",
    "gaps",
    "per_s",
)


def run(context: JobContext, job: Profile) -> BatchResult:
    topics = [source.topic for source in job.from_]
    # Several questions are asked of the same rows: they are fetched once.
    rows = sizes(context.read_all(job, topics)).persist()
    try:
        found = {
            topic: figures(rows.where(rows["topic"] == topic), job.top_keys) for topic in topics
        }
    finally:
        rows.unpersist()
    if job.json is not None:
        Path(job.json).write_text(json.dumps(found, indent=2) + "\n")
    if job.html is not None:
        Path(job.html).write_text(html(found))
    return BatchResult(sum(topic["records"] for topic in found.values()), lines(found), found)


def sizes(frame: DataFrame) -> DataFrame:
    """What the questions need of a record, without its value."""
    from pyspark.sql import functions as f

    return frame.select(
        "topic",
        "partition",
        "offset",
        f.col("timestamp").cast("double").alias("at_s"),
        f.col("key").cast("string").alias("key"),
        f.length("key").alias("key_bytes"),
        f.length("value").alias("value_bytes"),
    )


def figures(rows: DataFrame, top_keys: int) -> dict[str, Any]:
    partitions = [row.asDict() for row in by_partition(rows).collect()]
    total = sum(partition["records"] for partition in partitions)
    for partition in partitions:
        partition["share"] = partition["records"] / total
        partition["gaps"] = (
            partition["last_offset"] - partition["first_offset"] + 1 - partition["records"]
        )
        seconds = partition["last_s"] - partition["first_s"]
        partition["per_s"] = partition["records"] / seconds if seconds > 0 else None
    busiest = [row.asDict() for row in most_frequent(rows, top_keys).collect()]
    for key in busiest:
        key["share"] = key["records"] / total
    largest = max((partition["records"] for partition in partitions), default=0)
    return {
        "records": total,
        "bytes": sum(partition["bytes"] for partition in partitions),
        # 1.0: all partitions hold the same number of records.
        "skew": largest * len(partitions) / total if total else None,
        "partitions": partitions,
        "top_keys": busiest,
        "rate": rate(rows, partitions),
    }


def by_partition(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    value = f.col("value_bytes")
    return (
        rows.groupBy("partition")
        .agg(
            f.count("*").alias("records"),
            f.sum(f.coalesce("key_bytes", f.lit(0)) + f.coalesce(value, f.lit(0))).alias("bytes"),
            f.percentile_approx(value, 0.5).alias("value_p50"),
            f.percentile_approx(value, 0.95).alias("value_p95"),
            f.max(value).alias("value_max"),
            f.avg(f.col("key").isNull().cast("int")).alias("null_keys"),
            f.avg(value.isNull().cast("int")).alias("null_values"),
            f.approx_count_distinct("key").alias("keys"),
            f.min("offset").alias("first_offset"),
            f.max("offset").alias("last_offset"),
            f.min("at_s").alias("first_s"),
            f.max("at_s").alias("last_s"),
        )
        .sort("partition")
    )


def most_frequent(rows: DataFrame, count: int) -> DataFrame:
    from pyspark.sql import functions as f

    counted = (
        rows.where(f.col("key").isNotNull())
        .groupBy("key")
        .agg(f.count("*").alias("records"), f.count_distinct("partition").alias("partitions"))
    )
    return counted.sort(f.desc("records"), "key").limit(count)


def rate(rows: DataFrame, partitions: Sequence[Mapping[str, Any]]) -> list[tuple[float, float]]:
    """Records per second over the time of the topic: seconds since its first record, rate."""
    from pyspark.sql import functions as f

    if not partitions:
        return []
    first = min(partition["first_s"] for partition in partitions)
    last = max(partition["last_s"] for partition in partitions)
    step = max((last - first) / _TIME_POINTS, 0.001)
    bucket = f.least(f.floor((f.col("at_s") - first) / step), f.lit(_TIME_POINTS - 1))
    counts = {row["at"]: row["count"] for row in rows.groupBy(bucket.alias("at")).count().collect()}
    return [(number * step, counts.get(number, 0) / step) for number in range(_TIME_POINTS)]


def _table(topic: Mapping[str, Any]) -> list[list[object]]:
    return [[partition[name] for name in _COLUMNS] for partition in topic["partitions"]]


def lines(found: Mapping[str, Any]) -> list[str]:
    out = []
    for name, topic in found.items():
        skew = "-" if topic["skew"] is None else f"{topic['skew']:.2f}"
        out.append(f"{name}: {topic['records']:,} records, {topic['bytes']:,} bytes, skew {skew}")
        out += text_table(_COLUMNS, _table(topic)) if topic["partitions"] else []
        if topic["top_keys"]:
            out += text_table(
                ("key", "records", "share", "partitions"),
                [[k["key"], k["records"], k["share"], k["partitions"]] for k in topic["top_keys"]],
            )
    return out


def html(found: Mapping[str, Any]) -> str:
    sections = []
    for name, topic in found.items():
        parts = topic["partitions"]
        sections += [
            f"<h2>{name}</h2>",
            html_table(_COLUMNS, _table(topic)),
            bar_plot("Records by partition", [(str(p["partition"]), p["records"]) for p in parts]),
            bar_plot("Most frequent keys", [(k["key"], k["records"]) for k in topic["top_keys"]]),
            line_plot("Records per second, by their timestamps", {name: topic["rate"]}),
        ]
    return page("Profile of " + ", ".join(found), sections)
