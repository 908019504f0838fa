"""Offsets of a query and what follows from them. Pure: the caller asks the cluster.

An offset of the stream is JSON: `{"events":{"id":"…","partitions":{"0":17}}}`. The id is the
topic's (KIP-516): a topic that was deleted and made again has another one, and is not mistaken for
the one whose records were read. Clusters without topic ids have an empty id there. Where the query
goes on in another topic of the same name (`kept_group.py`) a micro-batch without records of it says
so: its end has the new topic's id and, as `from`, the old one's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.spark.errors import OffsetError
from ottla.spark.options import EARLIEST, LATEST, Bound
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.spark.kafka import TopicNow


class TopicOffsets(NamedTuple):
    """`carried_from` is the id of the topic that these offsets were translated from."""

    topic_id: str
    partitions: dict[int, int]
    carried_from: str = ""


Offsets = dict[str, TopicOffsets]


class Loss(NamedTuple):
    """Something that was to be read and is not there; `recreated` where the topic is another."""

    topic: str
    why: str
    recreated: bool = False


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Records that one task reads."""

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def to_json(offsets: Offsets) -> dict[str, Any]:
    """The same offsets give the same text: Spark compares texts to see whether there is news."""
    return {
        topic: {
            "id": offsets[topic].topic_id,
            **({"from": offsets[topic].carried_from} if offsets[topic].carried_from else {}),
            "partitions": {
                str(partition): offsets[topic].partitions[partition]
                for partition in sorted(offsets[topic].partitions)
            },
        }
        for topic in sorted(offsets)
    }


def from_json(value: Any) -> Offsets:
    """Raises OffsetError for what `to_json` did not make, as in a checkpoint of another source."""
    try:
        return {
            topic: TopicOffsets(
                _text(entry["id"]),
                {int(index): _offset(number) for index, number in entry["partitions"].items()},
                _text(entry.get("from", "")),
            )
            for topic, entry in value.items()
        }
    except (KeyError, TypeError, ValueError, AttributeError):
        raise OffsetError(
            f"the offsets {value!r} were not written by format ottla: a checkpoint of another "
            "source (format kafka among them) cannot be continued, use a new checkpointLocation"
        ) from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _offset(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError
    return value


def iter_partitions(offsets: Offsets) -> Iterator[tuple[TopicPartition, int]]:
    for topic, entry in offsets.items():
        for partition, offset in entry.partitions.items():
            yield TopicPartition(topic, partition), offset


def assemble(
    topics: Mapping[str, TopicNow],
    positions: Mapping[TopicPartition, int],
    carried: Mapping[str, str] | None = None,
) -> Offsets:
    """Offsets with the ids that the topics have now, and had where they were carried over."""
    found: Offsets = {}
    for partition, offset in positions.items():
        name = partition.topic
        was = (carried or {}).get(name, "")
        entry = found.setdefault(name, TopicOffsets(topics[name].topic_id, {}, was))
        entry.partitions[partition.partition] = offset
    return found


def same_places(one: Offsets, other: Offsets) -> bool:
    """Wherever they were carried from."""
    return {topic: entry[:2] for topic, entry in one.items()} == {
        topic: entry[:2] for topic, entry in other.items()
    }


def is_carried(start: Offsets, end: Offsets, topic: str) -> bool:
    """Whether the micro-batch is the step from one topic to the next, which has no records."""
    before, after = start.get(topic), end.get(topic)
    return (
        before is not None
        and after is not None
        and bool(after.carried_from)
        and after.carried_from == before.topic_id
    )


def asked_for(
    bound: Bound, partitions: list[TopicPartition], name: str
) -> dict[TopicPartition, int]:
    """The number that a bound gives each partition: an offset, or with `by_timestamp` a time."""
    if bound.word is not None:
        return dict.fromkeys(partitions, bound.word)
    if bound.timestamp_ms is not None:
        return dict.fromkeys(partitions, bound.timestamp_ms)
    given = {
        TopicPartition(topic, partition): number
        for topic, numbers in bound.given.items()
        for partition, number in numbers.items()
    }
    missing = sorted(set(partitions) - given.keys())
    unknown = sorted(given.keys() - set(partitions))
    if missing or unknown:
        words = []
        if missing:
            words.append(f"without {', '.join(map(str, missing))}")
        if unknown:
            words.append(f"with {', '.join(map(str, unknown))}, which is not subscribed")
        raise OffsetError(
            f"{name} must name every partition and no other; it is {' and '.join(words)}"
        )
    return given


def resolve(
    asked: Mapping[TopicPartition, int],
    earliest: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    words = {EARLIEST: earliest, LATEST: latest}
    return {
        partition: words[number][partition] if number in words else number
        for partition, number in asked.items()
    }


def check_asked(
    name: str,
    asked: Mapping[TopicPartition, int],
    earliest: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
) -> list[Loss]:
    """Offsets that a user asked for and that the partitions do not have."""
    losses = []
    for partition, offset in sorted(asked.items()):
        low, high = earliest[partition], latest[partition]
        if not low <= offset <= high:
            what = "aged out" if offset < low else "not written yet"
            losses.append(
                Loss(
                    partition.topic,
                    f"{name} asks for offset {offset} of {partition}, which is {what}: "
                    f"the partition has {low} to {high}",
                )
            )
    return losses


def losses_since(
    start: Offsets,
    topics: Mapping[str, TopicNow],
    latest: Mapping[TopicPartition, int],
) -> list[Loss]:
    """What tells that the topics are not the ones the offsets were taken from, or lost records."""
    losses = []
    for topic, entry in sorted(start.items()):
        now = topics.get(topic)
        if now is None:
            losses.append(Loss(topic, f"topic {topic} was deleted while it was being read"))
        elif not same_topic(entry.topic_id, now.topic_id):
            losses.append(
                Loss(
                    topic,
                    f"topic {topic} was deleted and made again: its id is {now.topic_id}, the "
                    f"query was reading {entry.topic_id}. Its records are other records",
                    recreated=True,
                )
            )
        else:
            losses += _losses_of_topic(topic, entry, now, latest)
    return losses


def _losses_of_topic(
    topic: str, entry: TopicOffsets, now: TopicNow, latest: Mapping[TopicPartition, int]
) -> Iterator[Loss]:
    gone = sorted(entry.partitions.keys() - now.partitions)
    if gone:
        listed = ", ".join(map(str, gone))
        yield Loss(
            topic,
            f"topic {topic} has {len(now.partitions)} partitions now, without {listed}: it was "
            "shrunk, or deleted and made again",
            recreated=True,
        )
    for partition, offset in sorted(entry.partitions.items()):
        end = latest.get(TopicPartition(topic, partition))
        if end is not None and end < offset:
            yield Loss(
                topic,
                f"{topic}-{partition} ends at offset {end}, but {offset} was read already: the "
                "topic was deleted and made again, or its log was cut off",
                recreated=not (entry.topic_id and now.topic_id),
            )


def continued(
    start: Offsets,
    topics: Mapping[str, TopicNow],
    earliest: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Where each partition that is there now goes on: after what was read, or at its oldest record
    where it is new or its topic is another one."""
    positions = {}
    for partition, end in latest.items():
        entry = start.get(partition.topic)
        same = entry is not None and same_topic(entry.topic_id, topics[partition.topic].topic_id)
        read = entry.partitions.get(partition.partition) if entry is not None and same else None
        positions[partition] = earliest[partition] if read is None else min(read, end)
    return positions


def same_topic(one: str, other: str) -> bool:
    """Ids that say nothing (old clusters have none) are no reason for doubt."""
    return not one or not other or one == other


def limit(
    start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], rows: int
) -> dict[TopicPartition, int]:
    """At most about `rows` in all, shared in proportion to what each partition has waiting (the
    connector's KafkaMicroBatchStream.rateLimit; a partition with a little gets one at least)."""
    sizes = {p: end - start[p] for p, end in latest.items() if end > start[p]}
    total = sum(sizes.values())
    if total <= rows:
        return dict(latest)
    limited = dict(latest)
    for partition, size in sizes.items():
        share = max(rows * size // total, 1)
        limited[partition] = min(start[partition] + share, latest[partition])
    return limited


def waiting(start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> int:
    return sum(max(end - start[p], 0) for p, end in latest.items())


def plan(
    ranges: list[OffsetRange], *, min_partitions: int | None, max_records: int | None
) -> list[OffsetRange]:
    """The ranges of tasks, in a fixed order; large ones are divided where more tasks are asked for.

    What is planned depends on the offsets alone, so that a batch that is run again has the same
    tasks: the exactly-once sink counts on it.
    """
    ranges = sorted(
        (one for one in ranges if one.end > one.start), key=lambda one: (one.topic, one.partition)
    )
    if max_records:
        ranges = [
            part for one in ranges for part in divide(one, -(-(one.end - one.start) // max_records))
        ]
    if not min_partitions or len(ranges) >= min_partitions:
        return ranges
    total = sum(one.end - one.start for one in ranges)
    planned: list[OffsetRange] = []
    for one in ranges:
        share = (one.end - one.start) * min_partitions / total
        planned += divide(one, max(round(share), 1))
    return planned


def gather(
    ranges: list[OffsetRange], *, min_records: int | None, min_partitions: int | None
) -> list[tuple[OffsetRange, ...]]:
    """What each task reads: small ranges share one until it has `min_records`, as far as
    `min_partitions` allows. By the offsets alone, as `plan`."""
    if not min_records:
        return [(one,) for one in ranges]
    wanted = min_partitions or 1
    enough = min(min_records, sum(one.end - one.start for one in ranges) // wanted)
    tasks: list[tuple[OffsetRange, ...]] = []
    joined: list[OffsetRange] = []
    records = 0
    for left, one in zip(range(len(ranges) - 1, -1, -1), ranges, strict=True):
        joined.append(one)
        records += one.end - one.start
        if records >= enough or len(tasks) + 1 + left <= wanted:
            tasks.append(tuple(joined))
            joined, records = [], 0
    return [*tasks, tuple(joined)] if joined else tasks


def divide(one: OffsetRange, parts: int) -> list[OffsetRange]:
    """Consecutive ranges of about the same size; never an empty one."""
    size = one.end - one.start
    parts = min(parts, size)
    bounds = [one.start + size * index // parts for index in range(parts + 1)]
    return [
        OffsetRange(one.topic, one.topic_id, one.partition, low, high)
        for low, high in pairwise(bounds)
    ]
