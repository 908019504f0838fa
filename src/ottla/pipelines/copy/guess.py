"""Which partitioner has placed the keys of a topic, by a look at some of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.pipelines.copy.placement import Placement
from ottla.spark.source.offsets import OffsetRange
from ottla.spark.source.range_reader import RangeReader
from ottla.topics.partitioners import Partitioner

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.pipelines.copy.ends import Topic

_PARTITIONS, _OFFSETS = 8, 200
# Of the keys that were looked at; a few may come from a program that chose partitions itself.
_TOLERATED = 0.05
_FEWEST = 8


def keys_of(topic: Topic) -> dict[int, list[pa.Array]]:
    """The first keys of some partitions."""
    earliest, latest = topic.earliest(), topic.latest()
    found: dict[int, list[pa.Array]] = {}
    for partition in [p for p in topic.partitions if latest[p] > earliest[p]][:_PARTITIONS]:
        end = min(earliest[partition] + _OFFSETS, latest[partition])
        part = OffsetRange(topic.name, topic.topic_id, partition, earliest[partition], end)
        rows = RangeReader(topic.client, part, topic.options).batches()
        found[partition] = [batch.column("key") for batch in rows]
    return found


def misplaced_share(
    partitioner: Partitioner, keys: Mapping[int, Iterable[pa.Array]], partitions: int
) -> float:
    """Of the keys whose place the partitioner decides; 0 where there are too few to tell."""
    placement = Placement(partitioner, partitions, 1)
    seen = wrong = 0
    for partition, columns in keys.items():
        for column in columns:
            seen += len(column) - column.null_count
            wrong += placement.places(column, partition).misplaced
    return wrong / seen if seen >= _FEWEST else 0.0


def better_guess(
    chosen: Partitioner, keys: Mapping[int, Iterable[pa.Array]], partitions: int
) -> Partitioner | None:
    """Another partitioner that explains where the keys lie, where the chosen one does not."""
    if misplaced_share(chosen, keys, partitions) <= _TOLERATED:
        return None
    for other in Partitioner:
        if misplaced_share(other, keys, partitions) <= _TOLERATED:
            return other
    return None
