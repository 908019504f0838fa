"""One picture of all topics and partitions for everybody who looks with the same rights.

A Metadata of everything costs a broker about 10 ms for every 1,000 partitions, so pages share
what was last answered: the more it cost, the longer it is used.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.client.cluster import Node
from ottla.errors import ErrorCode
from ottla.types import TopicId, TopicPartition
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.client.admin.client import Admin
    from ottla.console.web.access import Access

# Metadata v4 brought allow_auto_topic_creation, v5 the offline replicas.
_MIN_VERSION = 4
# A picture is used for this many times as long as it took: the asking takes under 1 % of the time.
COST_FACTOR = 150
MAX_AGE_S = 90.0
# The same while something is known to have changed.
HURRY_FACTOR = 10


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic, and which entries of the picture's arrays are its partitions."""

    name: str
    topic_id: TopicId
    is_internal: bool
    first: int
    count: int

    @property
    def entries(self) -> range:
        return range(self.first, self.first + self.count)


@dataclass(frozen=True, slots=True)
class Picture:
    """All that one Metadata said. Partitions are entries of parallel arrays, those of a topic next
    to each other and in order; equal lists of brokers are one tuple."""

    cluster_id: str | None
    controller: int | None
    brokers: tuple[Node, ...]  # alive, by id
    topics: tuple[Topic, ...]  # by name
    partitions: array[int]  # numbers within their topic
    leaders: array[int]  # -1: nobody
    epochs: array[int]
    replicas: list[tuple[int, ...]]
    in_sync: list[tuple[int, ...]]
    offline: list[tuple[int, ...]]
    taken_at_s: float  # by the loop's clock
    cost_s: float  # how long it took

    def __len__(self) -> int:
        return len(self.partitions)

    @property
    def alive(self) -> frozenset[int]:
        return frozenset(broker.id for broker in self.brokers)

    def topic(self, name: str) -> Topic | None:
        low, high = 0, len(self.topics)
        while low < high:
            middle = (low + high) // 2
            if self.topics[middle].name < name:
                low = middle + 1
            else:
                high = middle
        found = self.topics[low] if low < len(self.topics) else None
        return found if found is not None and found.name == name else None

    def each(self) -> Iterator[tuple[Topic, int]]:
        """Every partition as its topic and its entry."""
        for topic in self.topics:
            for entry in topic.entries:
                yield topic, entry

    def entry(self, partition: TopicPartition) -> int | None:
        topic = self.topic(partition.topic)
        if topic is None:
            return None
        likely = topic.first + partition.partition
        if partition.partition < topic.count and self.partitions[likely] == partition.partition:
            return likely
        # Numbers have no gaps, but while a topic grows a broker may not know all of them.
        for entry in topic.entries:
            if self.partitions[entry] == partition.partition:
                return entry
        return None


def picture_of(answer: m.MetadataResponse, taken_at_s: float = 0.0, cost_s: float = 0.0) -> Picture:
    """Topics with an error (on their way out, or not the reader's to see) are left out."""
    same: dict[tuple[int, ...], tuple[int, ...]] = {}

    def shared(ids: Sequence[int]) -> tuple[int, ...]:
        key = tuple(ids)
        return same.setdefault(key, key)

    numbers, leaders, epochs = array("i"), array("i"), array("i")
    replicas: list[tuple[int, ...]] = []
    in_sync: list[tuple[int, ...]] = []
    offline: list[tuple[int, ...]] = []
    topics = []
    for topic in sorted(answer.topics, key=lambda topic: topic.name or ""):
        if topic.error_code not in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
            continue
        found = sorted(topic.partitions, key=lambda partition: partition.partition_index)
        topics.append(
            Topic(topic.name or "", topic.topic_id, topic.is_internal, len(numbers), len(found))
        )
        for partition in found:
            numbers.append(partition.partition_index)
            leaders.append(partition.leader_id)
            epochs.append(partition.leader_epoch)
            replicas.append(shared(partition.replica_nodes))
            in_sync.append(shared(partition.isr_nodes))
            offline.append(shared(partition.offline_replicas))
    nodes = sorted(Node(b.node_id, b.host, b.port, b.rack) for b in answer.brokers)
    controller = answer.controller_id if answer.controller_id >= 0 else None
    return Picture(
        answer.cluster_id, controller, tuple(nodes), tuple(topics), numbers, leaders, epochs,
        replicas, in_sync, offline, taken_at_s, cost_s,
    )  # fmt: skip


class Pictures:
    """The owner of the last picture. `ask` gets the Metadata of everything."""

    def __init__(
        self, ask: Callable[[], Awaitable[m.MetadataResponse]], now_s: Callable[[], float]
    ) -> None:
        self._ask = ask
        self._now_s = now_s
        self._last: Picture | None = None
        self._taking: asyncio.Task[Picture] | None = None

    async def at_most(self, max_age_s: float, *, hurry: bool = False) -> Picture:
        """The last one while it is young enough; a costly one is young for longer."""
        last = self._last
        if last is not None:
            factor = HURRY_FACTOR if hurry else COST_FACTOR
            allowed_s = max(max_age_s, min(factor * last.cost_s, MAX_AGE_S))
            if self._now_s() - last.taken_at_s <= allowed_s:
                return last
        return await self._shared_taking()

    async def fresh(self) -> Picture:
        """One that was asked for after this call."""
        if self._taking is not None and not self._taking.done():
            await asyncio.wait([self._taking])
        return await self._shared_taking()

    async def _shared_taking(self) -> Picture:
        if self._taking is None or self._taking.done():
            self._taking = asyncio.ensure_future(self._take())
        # Whoever asked first may leave; the others still wait.
        return await asyncio.shield(self._taking)

    async def _take(self) -> Picture:
        begun_s = self._now_s()
        answer = await self._ask()
        # Its age counts from when it was asked for.
        self._last = picture_of(answer, begun_s, self._now_s() - begun_s)
        return self._last


async def picture(access: Access, max_age_s: float, *, hurry: bool = False) -> Picture:
    """At most `max_age_s` old, or older where asking for it is a burden to the brokers; not so
    much older in a `hurry`, when it is known that something has changed."""
    return await _pictures(access).at_most(max_age_s, hurry=hurry)


async def fresh_picture(access: Access) -> Picture:
    """Asked for after this call: for what follows a write."""
    return await _pictures(access).fresh()


def _pictures(access: Access) -> Pictures:
    loop = asyncio.get_running_loop()
    return access.keep(Pictures, lambda: Pictures(lambda: _everything(access.admin), loop.time))


async def _everything(admin: Admin) -> Any:
    # Not through Cluster.metadata: it would remember the leader of every partition there ever was.
    request = m.MetadataRequest(topics=None, allow_auto_topic_creation=False)
    return await admin.cluster.send_to_any(request, min_version=_MIN_VERSION, call="metadata")
