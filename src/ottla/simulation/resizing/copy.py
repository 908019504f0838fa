"""The copy of a topic into its shadow, as a simple resizer makes it.

Every record carries in a header where it comes from. So a copy that was cut short goes on behind
what the shadow has, and whether it is exact can be told by reading it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.client.fetch import FetchedRecord, RecordReader
from ottla.client.offsets import LATEST, list_offsets
from ottla.client.partitioner import partition_of_key
from ottla.client.produce import TopicProducer
from ottla.simulation.resizing.lives import FROM, ORIGIN, Spot, origin_of
from ottla.types import TopicPartition
from ottla.wire.records import Record

if TYPE_CHECKING:
    import random

    from ottla.client.admin.resizing import ResizeBegun
    from ottla.client.cluster import Cluster

_TIMEOUT_MS = 12_000.0
_POLL_MS = 200


class Inexact(Exception):
    """The shadow has something twice, or not: two copiers were at it. It cannot be mended."""


class Copy:
    """`resume` first of all; any call may raise KafkaError, and then this copy is over."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        begun: ResizeBegun,
        partitions: int,
        rng: random.Random,
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._begun = begun
        self._partitions = partitions
        self._producer = TopicProducer(cluster, begun.shadow, rng=rng, timeout_ms=_TIMEOUT_MS)
        self._source = RecordReader(cluster, {}, timeout_ms=_TIMEOUT_MS)
        self.records = 0

    async def resume(self) -> None:
        await self._producer.start()
        numbers = range(self._begun.old_partitions)
        positions = {TopicPartition(self._topic, number): 0 for number in numbers}
        for came_from in (await self.shadow()).values():
            for spot in came_from:
                tp = TopicPartition(self._topic, spot.partition)
                positions[tp] = max(positions[tp], spot.offset + 1)
        self._source.positions = positions

    async def go_on(self) -> int:
        """What one round brings; how many records that were."""
        found = await self._source.poll(max_wait_ms=_POLL_MS)
        for record in found:
            await self._copy(record)
        await self._producer.flush()
        self.records += len(found)
        return len(found)

    async def go_to(self, ends: Mapping[int, int]) -> None:
        """Under a fence the ends stay where they are."""
        positions = self._source.positions
        while any(positions[TopicPartition(self._topic, p)] < end for p, end in ends.items()):
            await self.go_on()

    async def shadow(self, wanted: Mapping[int, int] | None = None) -> dict[int, list[Spot]]:
        """Where the shadow's records come from, by partition. With the `wanted` ends of the
        source, raises Inexact unless it is all of it, in order."""
        ends = await self._ends(self._begun.shadow, self._partitions)
        reader = RecordReader(self._cluster, dict.fromkeys(ends, 0), timeout_ms=_TIMEOUT_MS)
        found: dict[int, list[Spot]] = {tp.partition: [] for tp in ends}
        async for record in reader.read_until(ends):
            noted = dict(record.headers)[FROM]
            found[record.partition.partition].append(Spot.decode(noted or b""))
        if wanted is not None:
            _check(found, wanted)
        return found

    async def _ends(self, topic: str, partitions: int) -> dict[TopicPartition, int]:
        numbers = [TopicPartition(topic, number) for number in range(partitions)]
        # What is remembered of leaders may be old.
        await self._cluster.metadata([topic], timeout_ms=_TIMEOUT_MS)
        return await list_offsets(self._cluster, numbers, LATEST, timeout_ms=_TIMEOUT_MS)

    async def _copy(self, found: FetchedRecord) -> None:
        record = Record(found.key, found.value, found.timestamp_ms, found.headers, found.offset)
        spot = Spot(self._begun.topic_id, found.partition.partition, found.offset)
        headers = [(FROM, spot.encode()), (ORIGIN, origin_of(spot, record).encode())]
        target = (
            spot.partition % self._partitions
            if found.key is None
            else partition_of_key(found.key, self._partitions)
        )
        await self._producer.send(
            Record(found.key, found.value, found.timestamp_ms, headers), target
        )


def _check(found: Mapping[int, list[Spot]], wanted: Mapping[int, int]) -> None:
    for came_from in found.values():
        last: dict[int, int] = {}
        for spot in came_from:
            if spot.offset <= last.get(spot.partition, -1):
                raise Inexact
            last[spot.partition] = spot.offset
    counts = dict.fromkeys(wanted, 0)
    for came_from in found.values():
        for spot in came_from:
            counts[spot.partition] += 1
    if counts != dict(wanted):
        raise Inexact


def carried(came_from: Mapping[int, list[Spot]], committed: Mapping[int, int]) -> dict[int, int]:
    """Where a group goes on in each partition of the shadow: at the first record that it has not
    read."""
    return {
        partition: next(
            (
                place
                for place, spot in enumerate(spots)
                if spot.offset >= committed.get(spot.partition, 0)
            ),
            len(spots),
        )
        for partition, spots in came_from.items()
    }
