"""`mirror`: topics of one cluster to another, partition for partition, in order.

Keys, values, headers and timestamps stay. A header tells each record's offset in the source, so
that any position can be carried over, although the offsets over there are the other cluster's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.admin.types import NewPartitions, raise_first_error
from ottla.pipelines import topics
from ottla.pipelines.context import Stream, connection_options
from ottla.pipelines.mirror_groups import OFFSET_HEADER, GroupPositions
from ottla.pipelines.noted_rows import NotedRows
from ottla.pipelines.spec_keys import SpecError, TopicSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ottla.client.admin.client import Admin
    from ottla.pipelines.context import JobContext
    from ottla.pipelines.spec import Mirror


def streams(context: JobContext, job: Mirror) -> list[Stream]:
    if context.topic_format(job) != "ottla":
        raise SpecError("mirror needs format: ottla; the other one writes no timestamps")
    _match_partitions(context, job)
    records = as_records(context.read_stream(job, job.reads()), job.prefix)
    options = connection_options(job.to_bootstrap_servers, job.to_kafka or {})
    options["useTimestampColumn"] = "true"
    positions = GroupPositions(context, job).carry if job.groups else None
    return [
        Stream(
            job.name,
            records,
            format="ottla",
            options=options,
            now_and_then=positions,
            after=positions,
            noted=NotedRows(context.spark, job.to_bootstrap_servers, job.to_kafka or {}),
        )
    ]


def as_records(frame: DataFrame, prefix: str) -> DataFrame:
    from pyspark.sql import functions as f

    mark = f.struct(
        f.lit(OFFSET_HEADER).alias("key"),
        f.col("offset").cast("string").cast("binary").alias("value"),
    )
    own = f.coalesce(f.col("headers"), f.array().cast("array<struct<key:string,value:binary>>"))
    return frame.select(
        f.concat(f.lit(prefix), f.col("topic")).alias("topic"),
        "partition",
        "timestamp",
        "key",
        "value",
        f.concat(own, f.array(mark)).alias("headers"),
    )


def _match_partitions(context: JobContext, job: Mirror) -> None:
    """Done at every start: a topic that has grown in the meantime grows over there too."""

    async def counts(admin: Admin) -> dict[str, int]:
        described = await topics.describe(admin, job.reads())
        return {name: len(topic.partitions) for name, topic in described.items()}

    wanted = topics.with_admin(context.bootstrap_servers(job), context.kafka(job), counts)

    async def match(admin: Admin) -> None:
        names = {name: job.prefix + name for name in wanted}
        there = await topics.describe(admin, names.values())
        grow = {
            target: NewPartitions(wanted[name])
            for name, target in names.items()
            if target in there and len(there[target].partitions) < wanted[name]
        }
        raise_first_error(await admin.create_partitions(grow) if grow else {})
        await topics.ensure_topics(
            admin,
            [
                TopicSpec(target, wanted[name], job.replication_factor)
                for name, target in names.items()
                if target not in there
            ],
        )

    topics.with_admin(job.to_bootstrap_servers, job.to_kafka or {}, match)
