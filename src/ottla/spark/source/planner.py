"""What to read: joins the options, the offsets so far and what the cluster has now.

Runs on the driver. Every decision is a function of `offsets.py`; this asks the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.spark.errors import SourceError, TopicMissing, TopicRecreated
from ottla.spark.kafka import KafkaClient, TopicNow
from ottla.spark.options import EARLIEST, LATEST, Bound, SourceOptions
from ottla.spark.source import offsets as o
from ottla.spark.source.filters import Pruning, narrowed
from ottla.spark.source.kept_group import KeptGroup
from ottla.spark.source.losses import accept
from ottla.types import TopicPartition

# While nothing comes, at most this many requests are sent in a second.
IDLE_REQUESTS_PER_S = 6
# New partitions and topics are looked for at least this often.
METADATA_MAX_AGE_S = 2.0
# How often topics are looked at until they are the same before and after.
_OBSERVATIONS = 10


class Observation(NamedTuple):
    """Topics and the ends of their partitions, taken at the same life of each topic."""

    topics: dict[str, TopicNow]
    latest: dict[TopicPartition, int]


class Continuation(NamedTuple):
    """What is there now, and where each partition goes on. `carried` topics are others than before,
    and go on where the query's group stands in them; the ids are those of before."""

    now: Observation
    positions: dict[TopicPartition, int]
    carried: dict[str, str]


class Planner:
    """Decides for one query where it starts, how far it may read, and what is lost."""

    def __init__(
        self, client: KafkaClient, options: SourceOptions, group: KeptGroup | None = None
    ) -> None:
        self._client = client
        self._options = options
        self._group = group

    def batch(self, pruning: Pruning | None = None) -> list[o.OffsetRange]:
        """The ranges of a batch query; with filters, of what can pass them."""
        now = self.observe()
        partitions = list(now.latest)
        earliest = self._client.earliest(partitions)
        start = self._positions(self._options.starting, "starting", now, earliest)
        end = self._positions(self._options.ending, "ending", now, earliest)
        if self._options.starting.by_timestamp and self._options.ending.word == LATEST:
            # Times are looked up after the ends: what came or was committed since is not read.
            start = {partition: min(offset, end[partition]) for partition, offset in start.items()}
        for partition in partitions:
            if end[partition] < start[partition]:
                raise SourceError(
                    f"{partition} would be read backwards, from {start[partition]} to "
                    f"{end[partition]}"
                )
        if pruning is not None:
            start, end = narrowed(pruning, start, end, self._since(pruning, end))
        return self._plan(now.topics, start, end)

    def _since(
        self, pruning: Pruning, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        if pruning.since_ms is None:
            return {}
        covered = [p for p in partitions if pruning.covers(p)]
        return self._client.list_offsets(dict.fromkeys(covered, pruning.since_ms))

    def initial(self) -> o.Offsets:
        """Where a new streaming query begins."""
        now = self.observe()
        earliest = self._client.earliest(now.latest)
        return o.assemble(
            now.topics, self._positions(self._options.starting, "starting", now, earliest)
        )

    def between(
        self, start: o.Offsets, end: o.Offsets, *, seen: Mapping[str, TopicNow] | None = None
    ) -> list[o.OffsetRange]:
        """The ranges of one micro-batch, also of one that is run again after a restart. Without
        `seen`, the topics as they were when its end was chosen, they are looked at."""
        topics = self._topics(end) if seen is None else seen
        self.report(o.losses_since(end, topics, {}))
        # A micro-batch is given up only where the query can go on, or it would count as read.
        self._carried(end, topics)
        ends = {}
        for partition, offset in o.iter_partitions(end):
            now = topics.get(partition.topic)
            if o.is_carried(start, end, partition.topic):
                continue
            if now is not None and o.same_topic(end[partition.topic].topic_id, now.topic_id):
                ends[partition] = offset
        ids = {topic: TopicNow(entry.topic_id, frozenset()) for topic, entry in end.items()}
        fresh = [p for p in ends if not _was_read(start, end, p)]
        earliest = self._client.earliest(fresh) if fresh else {}
        self._check_fresh(start, earliest)
        starts = {
            p: earliest[p] if p in earliest else start[p.topic].partitions[p.partition]
            for p in ends
        }
        return self._plan(ids, starts, ends)

    def _check_fresh(self, start: o.Offsets, earliest: Mapping[TopicPartition, int]) -> None:
        self.report(
            o.Loss(
                partition.topic,
                f"{partition} is new, but its oldest offset is {offset}: records were deleted "
                "before they were read",
            )
            for partition, offset in sorted(earliest.items())
            if offset > 0 and partition.topic in start
        )

    def observe_since(self, start: o.Offsets) -> Continuation:
        """Raises where records are lost."""
        now = self.observe(since=start)
        carried = self._carried(start, now.topics)
        begun = start | carried
        losses = o.losses_since(begun, now.topics, now.latest)
        if self._group is not None:
            for loss in losses:
                if loss.recreated:  # the group does not say how to go on here
                    raise TopicRecreated(loss.why)
        self.report(losses)
        fresh = [p for p in now.latest if not _continues(begun, now, p)]
        earliest = self._client.earliest(fresh) if fresh else {}
        positions = o.continued(begun, now.topics, earliest, now.latest)
        return Continuation(now, positions, {t: e.carried_from for t, e in carried.items()})

    def _carried(self, start: o.Offsets, topics: Mapping[str, TopicNow]) -> o.Offsets:
        """Topics that are others now, and where the query's group stands in them."""
        if self._group is None:
            return {}
        return {
            topic: self._group.positions(topic, topics[topic], entry.topic_id)
            for topic, entry in start.items()
            if topic in topics and not o.same_topic(entry.topic_id, topics[topic].topic_id)
        }

    def still_there(self, start: o.Offsets, seen: Observation) -> bool:
        """Is what was seen all that there is, by one look at the topics? `seen` has ends that were
        taken before it, and topics that were looked at before those."""
        if not all(_continues(start, seen, partition) for partition in seen.latest):
            return False
        if o.losses_since(start, seen.topics, seen.latest):
            return False
        return self._client.topics(self._options.subscription) == seen.topics

    def ends(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        return self._client.latest(
            partitions, read_committed=self._options.read_committed, timeout_ms=timeout_ms
        )

    def report(self, losses: Iterable[o.Loss]) -> None:
        """Raises for the first loss that the options do not allow."""
        for loss in losses:
            accept(loss, self._options)

    def observe(self, since: o.Offsets | None = None) -> Observation:
        """Repeated where a topic was made again in between: its ends would not be its own."""
        for _ in range(_OBSERVATIONS):
            topics = self._topics(since)
            partitions = [
                TopicPartition(topic, index)
                for topic, now in topics.items()
                for index in sorted(now.partitions)
            ]
            try:
                latest = self.ends(partitions)
            except SourceError:
                if self._are_there(topics):
                    raise
                continue  # one of them was deleted meanwhile
            if self._are_there(topics):
                return Observation(topics, latest)
        raise SourceError(
            f"{', '.join(topics)}: deleted and made again faster than their ends can be looked up"
        )

    def _are_there(self, topics: Mapping[str, TopicNow]) -> bool:
        now = self._client.topics(self._options.subscription)
        return all(
            topic in now and now[topic].topic_id == topics[topic].topic_id for topic in topics
        )

    def _topics(self, since: o.Offsets | None) -> dict[str, TopicNow]:
        """With `since`, a topic that was read and is gone is a loss, for `report` to judge; where
        losses are allowed it is not asked for any more."""
        subscription = self._options.subscription
        goes_on = since is not None and not self._options.fail_on_data_loss
        if goes_on:
            topics = self._client.topics(subscription)
            if all(topic in topics for topic in since or ()):
                return topics
        try:
            return self._client.existing_topics(subscription, since or ())
        except TopicMissing:
            topics = self._client.topics(subscription)
            if goes_on or any(topic not in topics for topic in since or ()):
                return topics
            raise

    def _positions(
        self,
        bound: Bound,
        side: str,
        now: Observation,
        earliest: Mapping[TopicPartition, int],
    ) -> dict[TopicPartition, int]:
        asked = o.asked_for(
            bound,
            list(now.latest),
            f"{side}OffsetsByTimestamp" if bound.by_timestamp else f"{side}Offsets",
        )
        if bound.by_timestamp:
            return self._client.offsets_at(
                asked,
                latest=now.latest,
                latest_without_match=bound.latest_without_match,
                read_committed=self._options.read_committed,
            )
        numbers = {p: n for p, n in asked.items() if n not in (EARLIEST, LATEST)}
        losses = o.check_asked(f"{side}Offsets", numbers, earliest, now.latest)
        self.report(losses)
        found = o.resolve(asked, earliest, now.latest)
        if losses:  # allowed by failOnDataLoss=false: as near as there is
            found = {p: min(max(n, earliest[p]), now.latest[p]) for p, n in found.items()}
        return found

    def _plan(
        self,
        topics: Mapping[str, TopicNow],
        start: Mapping[TopicPartition, int],
        end: Mapping[TopicPartition, int],
    ) -> list[o.OffsetRange]:
        return o.plan(
            [
                o.OffsetRange(p.topic, topics[p.topic].topic_id, p.partition, start[p], end[p])
                for p in end
            ],
            min_partitions=self._options.min_partitions,
            max_records=self._options.max_records_per_partition,
        )


def _was_read(start: o.Offsets, end: o.Offsets, partition: TopicPartition) -> bool:
    before = start.get(partition.topic)
    return (
        before is not None
        and o.same_topic(before.topic_id, end[partition.topic].topic_id)
        and partition.partition in before.partitions
    )


def _continues(start: o.Offsets, now: Observation, partition: TopicPartition) -> bool:
    before = start.get(partition.topic)
    return (
        before is not None
        and o.same_topic(before.topic_id, now.topics[partition.topic].topic_id)
        and partition.partition in before.partitions
    )
