"""Positions of consumer groups, carried over to a mirror.

A position is the offset of the next record to read. Over there it is the offset of the first
record that came from that offset or a later one; where there is none yet, the end. Nothing is
skipped by that: at worst, records that the mirror had not brought yet are read once more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from ottla.client.admin.groups import GroupAdmin
from ottla.client.offsets import EARLIEST, LATEST, list_offsets
from ottla.errors import ErrorCode, KafkaError
from ottla.pipelines import topics
from ottla.pipelines.context import connection_options
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin.client import Admin
    from ottla.pipelines.context import JobContext
    from ottla.pipelines.spec import Mirror

OFFSET_HEADER = "ottla.mirror.offset"
# By group: the next offset of each partition.
Positions = dict[str, dict[TopicPartition, int]]
# Such a group has members over there, who commit for themselves.
_ACTIVE = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)


class GroupPositions:
    """Looks up the positions here and commits what they are over there."""

    def __init__(self, context: JobContext, job: Mirror) -> None:
        self._context = context
        self._job = job

    def carry(self) -> str:
        """Commits the positions over there; says how many groups."""
        job = self._job
        positions = topics.with_admin(
            self._context.bootstrap_servers(job), self._context.kafka(job), self._committed
        )
        if not positions:
            return "no positions of groups to carry over"
        kafka = job.to_kafka or {}

        async def known_there(admin: Admin) -> Positions:
            groups = GroupAdmin(admin.cluster)
            return {name: await groups.committed_offsets(name) for name in positions}

        known = topics.with_admin(job.to_bootstrap_servers, kafka, known_there)
        found = self._first_at_or_after(positions, known)

        async def commit(admin: Admin) -> int:
            return await self._commit(admin, positions, known, found)

        carried = topics.with_admin(job.to_bootstrap_servers, kafka, commit)
        return f"positions of {carried} groups carried over"

    async def _committed(self, admin: Admin) -> Positions:
        groups = GroupAdmin(admin.cluster)
        names = [listing.group_id for listing in await groups.list_groups()]
        found: Positions = {}
        for name in chosen(names, self._job.groups):
            offsets = await groups.committed_offsets(name)
            mirrored = {tp: at for tp, at in offsets.items() if tp.topic in self._job.reads()}
            if mirrored:
                found[name] = mirrored
        return found

    def _first_at_or_after(
        self, positions: Positions, known: Positions
    ) -> dict[tuple[TopicPartition, int], int]:
        """By partition here and position: the offset of the record over there."""
        from pyspark.sql import functions as f

        spark, job = self._context.spark, self._job
        wanted = sorted({(tp, at) for offsets in positions.values() for tp, at in offsets.items()})
        rows = [(job.prefix + tp.topic, tp.partition, at) for tp, at in wanted]
        asked = spark.createDataFrame(rows, "topic string, partition int, position long")
        begin = starting_offsets(positions, known, job.prefix)
        assigned = {topic: sorted(map(int, offsets)) for topic, offsets in begin.items()}
        kafka = {"isolation.level": "read_committed", **(job.to_kafka or {})}
        options = connection_options(job.to_bootstrap_servers, kafka)
        there = (
            spark.read.format("ottla")
            .options(**options, assign=json.dumps(assigned), includeHeaders="true")
            .options(startingOffsets=json.dumps(begin), failOnDataLoss="false")
            .load()
            .withColumn("origin", f.expr(_ORIGIN))
        )
        first = (
            there.join(f.broadcast(asked), ["topic", "partition"])
            .where("origin >= position")
            .groupBy("topic", "partition", "position")
            .agg(f.min("offset").alias("offset"))
        )
        found = {}
        for row in first.collect():
            name = row["topic"].removeprefix(job.prefix)
            found[TopicPartition(name, row["partition"]), row["position"]] = row["offset"]
        return found

    async def _commit(
        self,
        admin: Admin,
        positions: Positions,
        known: Positions,
        found: Mapping[tuple[TopicPartition, int], int],
    ) -> int:
        job = self._job
        partitions = {tp for offsets in positions.values() for tp in offsets}
        targets = {tp: TopicPartition(job.prefix + tp.topic, tp.partition) for tp in partitions}
        ends = await list_offsets(admin.cluster, targets.values(), LATEST)
        groups = GroupAdmin(admin.cluster)
        carried = 0
        for name, offsets in positions.items():
            translated = {
                targets[tp]: found.get((tp, at), ends[targets[tp]]) for tp, at in offsets.items()
            }
            ahead = {tp: at for tp, at in translated.items() if at > known[name].get(tp, -1)}
            carried += await _commit_group(groups, name, ahead)
        return carried


def starting_offsets(
    positions: Positions, known: Positions, prefix: str
) -> dict[str, dict[str, int]]:
    """Where to begin looking over there: positions only move on, so not before those that all
    groups of a partition have there; from the beginning where one has none."""
    begin: dict[str, dict[str, int]] = {}
    for name, offsets in positions.items():
        for tp in offsets:
            target = TopicPartition(prefix + tp.topic, tp.partition)
            at = known[name].get(target, EARLIEST)
            of_topic = begin.setdefault(target.topic, {})
            of_topic[str(tp.partition)] = min(of_topic.get(str(tp.partition), at), at)
    return begin


async def _commit_group(
    groups: GroupAdmin, name: str, offsets: Mapping[TopicPartition, int]
) -> bool:
    if not offsets:
        return True
    try:
        await groups.commit_offsets(name, offsets)
    except KafkaError as error:
        if error.code in _ACTIVE:
            return False
        raise
    return True


def chosen(names: Iterable[str], patterns: Iterable[str]) -> list[str]:
    """Groups by name or pattern; those of Spark's sinks belong to their cluster."""
    wanted = list(patterns)
    return [
        name
        for name in names
        if any(fnmatchcase(name, pattern) for pattern in wanted)
        and not name.startswith("ottla-sink-")
    ]


# The last such header is this mirror's, the ones before are of mirrors that the record came by.
_ORIGIN = (
    f"try_cast(cast(try_element_at(filter(headers, h -> h.key = '{OFFSET_HEADER}'), -1).value "
    "as string) as long)"
)
