"""`restore`: the Parquet of an archive back to a topic: same keys, headers, timestamps, partitions.

Records of a partition are written in the order of their offsets, by one task. The topic must be
empty, else a second run would double it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.pipelines import topics
from ottla.pipelines.context import BatchResult
from ottla.pipelines.spec_keys import SpecError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ottla.client.admin.client import Admin
    from ottla.pipelines.context import JobContext
    from ottla.pipelines.spec import Restore

NEEDED = ("topic", "partition", "offset", "timestamp", "key", "value")


def run(context: JobContext, job: Restore) -> BatchResult:
    if context.topic_format(job) != "ottla":
        raise SpecError("restore needs format: ottla; the other one writes no timestamps")
    rows = archived(context, job)
    count, highest = _extent(rows)
    found = topics.with_admin(
        context.bootstrap_servers(job), context.kafka(job), lambda admin: _state(admin, job)
    )
    if highest >= found[0]:
        raise SpecError(
            f"the archive has partition {highest}, the topic {job.topic.name} has {found[0]}"
        )
    if found[1] and not job.append:
        raise SpecError(topics.HOLDS_RECORDS.format(job.topic.name))
    writer = in_order(rows, highest + 1).write.format("ottla").mode("append")
    # A task that is tried again must not leave records of its first attempt.
    options = {"useTimestampColumn": "true", "deliveryGuarantee": "exactly_once"}
    writer.options(**context.connection(job), **options, topic=job.topic.name).save()
    return BatchResult(count, [f"{count:,} records of {job.path}"], rows_out=count)


def wanted_rows(context: JobContext, job: Restore) -> DataFrame:
    """The rows that the job asks for; raises SpecError for Parquet files of others."""
    frame = context.spark.read.parquet(job.path)
    for name in NEEDED:
        if name not in frame.columns:
            raise SpecError(f"{job.path} is not an archive: it has no column {name!r}")
    if job.where is not None:
        frame = frame.where(job.where)
    return frame if job.from_ is None else frame.where(frame["topic"] == job.from_)


def archived(context: JobContext, job: Restore) -> DataFrame:
    """The rows of one topic; raises SpecError where the archive holds several."""
    frame = wanted_rows(context, job)
    if job.from_ is not None:
        return frame
    names = [row["topic"] for row in frame.select("topic").distinct().sort("topic").collect()]
    if len(names) > 1:
        raise SpecError(f"{job.path} holds the topics {', '.join(names)}: 'from' must choose one")
    return frame


def in_order(rows: DataFrame, partitions: int) -> DataFrame:
    """One task per partition at most, with the records in the order of their offsets."""
    columns = ["key", "value", "partition", "timestamp"]
    columns += ["headers"] if "headers" in rows.columns else []
    ordered = rows.repartition(partitions, "partition").sortWithinPartitions("partition", "offset")
    return ordered.select(*columns)


def _extent(rows: DataFrame) -> tuple[int, int]:
    from pyspark.sql import functions

    (row,) = rows.agg(
        functions.count("*").alias("n"), functions.max("partition").alias("highest")
    ).collect()
    return int(row["n"]), -1 if row["highest"] is None else int(row["highest"])


async def _state(admin: Admin, job: Restore) -> tuple[int, bool]:
    """How many partitions the topic has, and whether it holds records."""
    name = job.topic.name
    description = (await topics.describe(admin, [name]))[name]
    return len(description.partitions), await topics.holds_records(admin, description)
