"""What this broker knows of the cluster: brokers, leaders, topic ids.

Filled only by the controller's UpdateMetadata requests, as Kafka's ZkMetadataCache; Metadata
answers, placement and delayed topic operations all read from here. One owner (the event loop), so
there are no locks and no snapshots: an update replaces only the topics that it names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from ottla.topics.names import shadowed_id
from ottla.types import ZERO_TOPIC_ID, Endpoint, TopicId, TopicPartition

if TYPE_CHECKING:
    from ottla.wire import messages as m

    PartitionState = m.UpdateMetadataRequest.UpdateMetadataPartitionState

NO_CONTROLLER = -1
# LeaderAndIsr.LeaderDuringDelete: the partition is being deleted, forget it.
LEADER_DURING_DELETE = -2

_MAX_ENDED_IDS = 10_000
_MAX_FORMER_NAMES = 10_000
_SECURITY_PROTOCOLS = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}

T = TypeVar("T")
Listener = Callable[[frozenset[str]], None]


class BrokerInfo(NamedTuple):
    """A live broker: its endpoints by listener name and its rack."""

    id: int
    endpoints: dict[str, Endpoint]
    rack: str | None


class _Topic:
    __slots__ = ("derived", "partitions", "topic_id")

    def __init__(self) -> None:
        self.topic_id: TopicId = ZERO_TOPIC_ID
        self.partitions: dict[int, PartitionState] = {}
        # What `MetadataCache.derived` keeps, each with the version of the live brokers.
        self.derived: dict[Hashable, tuple[int, Any]] = {}


class MetadataCache:
    """The cluster as the controller last described it."""

    def __init__(self) -> None:
        self.controller_id = NO_CONTROLLER
        # (controller epoch, broker epoch) of the last update: who told, and to which life of ours.
        self.told_under: tuple[int, int] = (-1, -1)
        self._brokers: dict[int, BrokerInfo] = {}
        self._brokers_version = 0
        self._topics: dict[str, _Topic] = {}
        self._names_by_id: dict[TopicId, str] = {}
        self._listeners: list[Listener] = []
        # Ids of topics that went, by their names; the oldest first, and only so many: who asks
        # does so at once.
        self._ended_ids: dict[str, TopicId] = {}
        # Names that topics had before they were renamed, until another topic takes one. Oldest
        # first, and only so many: who asks does so within moments.
        self._former_names: dict[str, TopicId] = {}

    def update(self, request: m.UpdateMetadataRequest) -> frozenset[str]:
        """Takes over one UpdateMetadata request; returns the topics that it named.

        Live brokers replace the old list, partitions merge, a partition with leader -2 goes (the
        last one takes its topic along), zero topic ids are ignored. A topic with another id is
        another topic: what is known of the old one goes. A topic whose id comes with another name
        was renamed: the old name goes.
        """
        self.controller_id = request.controller_id
        self.told_under = (request.controller_epoch, request.broker_epoch)
        brokers = {broker.id: _broker_info(broker) for broker in request.live_brokers}
        if brokers != self._brokers:
            self._brokers = brokers
            self._brokers_version += 1
        changed = set()
        for topic_state in request.topic_states:
            changed.add(topic_state.topic_name)
            changed.update(self._drop_former_name(topic_state.topic_name, topic_state.topic_id))
            self._update_topic(
                topic_state.topic_name, topic_state.topic_id, topic_state.partition_states
            )
        # Versions 0 to 4 repeat the topic's name in every partition and carry no ids.
        for partition in request.ungrouped_partition_states:
            changed.add(partition.topic_name)
            self._update_topic(partition.topic_name, ZERO_TOPIC_ID, (partition,))
        named = frozenset(changed)
        for listener in tuple(self._listeners):
            listener(named)
        return named

    def _update_topic(
        self, name: str, topic_id: TopicId, partitions: Iterable[PartitionState]
    ) -> None:
        self.forget_other_life(name, topic_id)
        topic = self._topics.get(name) or _Topic()
        topic.derived.clear()
        for state in partitions:
            if state.leader == LEADER_DURING_DELETE:
                topic.partitions.pop(state.partition_index, None)
            else:
                topic.partitions[state.partition_index] = state
        if not topic.partitions:
            self._topics.pop(name, None)
            self._names_by_id.pop(topic.topic_id, None)
            self._note_end(name, topic.topic_id)
            return
        self._topics[name] = topic
        if topic_id not in (ZERO_TOPIC_ID, topic.topic_id):
            self._names_by_id.pop(topic.topic_id, None)
            topic.topic_id = topic_id
            self._names_by_id[topic_id] = name

    def _drop_former_name(self, name: str, topic_id: TopicId) -> list[str]:
        self._former_names.pop(name, None)
        known = None if topic_id == ZERO_TOPIC_ID else self._names_by_id.get(topic_id)
        if known is None or known == name:
            return []
        self._names_by_id.pop(self._topics.pop(known).topic_id, None)
        self._former_names[known] = topic_id
        if len(self._former_names) > _MAX_FORMER_NAMES:
            del self._former_names[next(iter(self._former_names))]
        return [known]

    def was_renamed(self, name: str) -> bool:
        """Whether the topic that had this name last goes on under another one."""
        return name in self._former_names

    def forget_other_life(self, name: str, topic_id: TopicId) -> bool:
        """Forgets the topic if it is known with an id that is not this one."""
        known = self.topic_id(name)
        if ZERO_TOPIC_ID in (topic_id, known) or known == topic_id:
            return False
        self.forget([name])
        return True

    def forget(self, topics: Iterable[str]) -> None:
        """Drops topics that ended without a word of the controller; tells the listeners."""
        gone = [name for name in topics if name in self._topics]
        for name in gone:
            topic_id = self._topics.pop(name).topic_id
            self._names_by_id.pop(topic_id, None)
            self._note_end(name, topic_id)
        if gone:
            named = frozenset(gone)
            for listener in tuple(self._listeners):
                listener(named)

    def _note_end(self, name: str, topic_id: TopicId) -> None:
        self._ended_ids.pop(name, None)
        self._ended_ids[name] = topic_id
        if len(self._ended_ids) > _MAX_ENDED_IDS:
            del self._ended_ids[next(iter(self._ended_ids))]

    def ended_id(self, name: str) -> TopicId:
        """The id of the topic that had this name last and went; zeros where it is not known."""
        return self._ended_ids.get(name, ZERO_TOPIC_ID)

    def lives(self) -> dict[str, object]:
        """The topics, each with a token that changes when a topic ends and comes again."""
        return dict(self._topics)

    def alive_brokers(self) -> list[BrokerInfo]:
        """Live brokers, by id."""
        return [self._brokers[broker_id] for broker_id in sorted(self._brokers)]

    def broker(self, broker_id: int) -> BrokerInfo | None:
        return self._brokers.get(broker_id)

    def endpoint(self, broker_id: int, listener: str) -> Endpoint | None:
        """Where a live broker can be reached on a listener."""
        info = self._brokers.get(broker_id)
        return None if info is None else info.endpoints.get(listener)

    def partition_state(self, tp: TopicPartition) -> PartitionState | None:
        topic = self._topics.get(tp[0])
        return None if topic is None else topic.partitions.get(tp[1])

    def contains(self, tp: TopicPartition) -> bool:
        topic = self._topics.get(tp[0])
        return topic is not None and tp[1] in topic.partitions

    def contains_topic(self, name: str) -> bool:
        return name in self._topics

    def topics(self) -> list[str]:
        return list(self._topics)

    def topic_names(self) -> Collection[str]:
        """A live view of the same names, for membership tests."""
        return self._topics.keys()

    def topic_partitions(self, topic: str) -> dict[int, PartitionState]:
        """The partitions of a topic by number, empty for an unknown one; not to be changed."""
        known = self._topics.get(topic)
        return {} if known is None else known.partitions

    def derived(
        self, topic: str, key: Hashable, build: Callable[[Mapping[int, PartitionState]], T]
    ) -> T:
        """`build(partitions)`, kept until the topic's partitions or the live brokers change.

        For answers that many clients ask for: with 100,000 partitions their parts are worth
        keeping. The keys are a handful (listeners times forms of the answer).
        """
        known = self._topics.get(topic)
        if known is None:
            return build({})
        kept = known.derived.get(key)
        if kept is None or kept[0] != self._brokers_version:
            kept = known.derived[key] = (self._brokers_version, build(known.partitions))
        return cast("T", kept[1])

    def topic_id(self, name: str) -> TopicId:
        """The topic's id, zero where it has none or is unknown."""
        topic = self._topics.get(name)
        return ZERO_TOPIC_ID if topic is None else topic.topic_id

    def topic_name(self, topic_id: TopicId) -> str | None:
        return self._names_by_id.get(topic_id)

    def shadowed_topic(self, shadow: str) -> str | None:
        """The topic that a resize copies into this one (ADR 53)."""
        topic_id = shadowed_id(shadow)
        return None if topic_id is None else self.topic_name(topic_id)

    def is_alive(self, broker_id: int) -> bool:
        return broker_id in self._brokers

    @property
    def brokers_version(self) -> int:
        """Changes whenever the live brokers do."""
        return self._brokers_version

    def add_listener(self, listener: Listener) -> None:
        """`listener` is called after each update with the names of the topics it held."""
        self._listeners.append(listener)

    def remove_listener(self, listener: Listener) -> None:
        self._listeners.remove(listener)

    async def wait_until(
        self, topics: Collection[str], satisfied: Callable[[], bool], timeout_ms: int
    ) -> bool:
        """Waits until `satisfied()` holds; False on time-out.

        Looks again after each update that names one of `topics`.
        """
        if satisfied():
            return True
        loop = asyncio.get_running_loop()
        done: asyncio.Future[bool] = loop.create_future()
        relevant = frozenset(topics)

        def check(named: frozenset[str]) -> None:
            if not done.done() and not relevant.isdisjoint(named) and satisfied():
                done.set_result(True)

        def expire() -> None:
            if not done.done():
                done.set_result(False)

        timer = loop.call_later(timeout_ms / 1000, expire)
        self._listeners.append(check)
        try:
            return await done
        finally:
            timer.cancel()
            self._listeners.remove(check)


def _broker_info(broker: m.UpdateMetadataRequest.UpdateMetadataBroker) -> BrokerInfo:
    endpoints = {}
    for endpoint in broker.endpoints:
        protocol = _SECURITY_PROTOCOLS.get(endpoint.security_protocol, "PLAINTEXT")
        # Listener names came with version 3; before that the protocol was the name.
        listener = endpoint.listener or protocol
        endpoints[listener] = Endpoint(listener, endpoint.host, endpoint.port, protocol)
    if not endpoints and broker.v0_host:
        # Version 0 knows one plain address per broker.
        endpoints["PLAINTEXT"] = Endpoint("PLAINTEXT", broker.v0_host, broker.v0_port)
    return BrokerInfo(broker.id, endpoints, broker.rack)
