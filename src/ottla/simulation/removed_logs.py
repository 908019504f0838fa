"""A log goes only if its topic's deletion was asked for, or if its partition was moved away.

Looked at from outside: what is written to the store, and which logs brokers have. Where a broker
loses power, its disk may lose a log that was not synced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from ottla.metadata.store import Stat
from ottla.metadata.znodes import DeleteTopicZnode, TopicPartitionStateZnode, TopicZnode
from ottla.types import ZERO_TOPIC_ID, TopicId, TopicPartition, format_topic_id

if TYPE_CHECKING:
    from ottla.process.node import Node

# Of a value that was seen on its way to the store.
NO_STAT = Stat(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
_TOPIC = re.compile(r"/brokers/topics/([^/]+)")
_STATE = re.compile(r"/brokers/topics/([^/]+)/partitions/(\d+)/state")
_ASKED = re.compile(re.escape(DeleteTopicZnode.path("")) + r"([^/]+)")


class Held(NamedTuple):
    """A log of one life of a topic."""

    tp: TopicPartition
    topic_id: TopicId


class RemovedLogs:
    """`violated` hears of every log that went without a reason."""

    def __init__(self, violated: Callable[[str], None], broker_ids: Iterable[int]) -> None:
        self._violated = violated
        self._held: dict[int, set[Held]] = {broker_id: set() for broker_id in broker_ids}
        self._ids: dict[str, TopicId] = {}
        self._being_deleted: set[str] = set()
        self._ended: set[TopicId] = set()
        # Brokers that a move takes a partition away from, by its topic's name and its number.
        self._removing: dict[tuple[str, int], set[int]] = {}
        # (broker, topic id, partition): a log may have a former name of its topic.
        self._moved_away: set[tuple[int, TopicId, int]] = set()

    # the store

    def written(self, path: str, data: bytes | None) -> None:
        if found := _ASKED.fullmatch(path):
            self._being_deleted.add(found[1])
            if found[1] in self._ids:
                self._ended.add(self._ids[found[1]])
        elif found := _TOPIC.fullmatch(path):
            self._take_topic(found[1], data)
        elif found := _STATE.fullmatch(path):
            self._take_state(found[1], int(found[2]), data)

    def removed(self, path: str) -> None:
        if found := _ASKED.fullmatch(path):
            self._being_deleted.discard(found[1])
        elif found := _TOPIC.fullmatch(path):
            self._ids.pop(found[1], None)

    def _take_topic(self, name: str, data: bytes | None) -> None:
        topic = TopicZnode.decode(data)
        if topic.topic_id is None:
            return
        if self._ids.get(name, topic.topic_id) != topic.topic_id:
            # Another topic has the name now, and the one that had it has ended (ADR 53).
            self._ended.add(self._ids[name])
        self._ids[name] = topic.topic_id
        if name in self._being_deleted:
            self._ended.add(topic.topic_id)
        for number, assignment in topic.partitions.items():
            self._removing[name, number] = set(assignment.removing)
            elsewhere = self._held.keys() - set(assignment.replicas)
            self._moved_away.update((broker_id, topic.topic_id, number) for broker_id in elsewhere)

    def _take_state(self, name: str, number: int, data: bytes | None) -> None:
        """A broker that leaves deletes its log once it is out of the ISR, before the assignment is
        written without it (KafkaController.onPartitionReassignment)."""
        state = TopicPartitionStateZnode.decode(data, NO_STAT)
        topic_id = self._ids.get(name)
        if state is not None and topic_id is not None:
            leaving = self._removing.get((name, number), set()) - {state.leader, *state.isr}
            self._moved_away.update((broker_id, topic_id, number) for broker_id in leaving)

    # the brokers

    def lost_power(self, broker_id: int) -> None:
        self._held[broker_id].clear()

    def look_at(self, node: Node) -> None:
        logs = node.parts.log_manager
        held = {Held(log.tp, log.topic_id) for log in logs.logs()}
        aside = {path.name.rpartition(".")[0] for path in logs.strays.folders}
        # What has another name by now is still there.
        present = {(one.topic_id, one.tp.partition) for one in held}
        for gone in self._held[node.broker_id] - held:
            life = (gone.topic_id, gone.tp.partition)
            is_moved = (node.broker_id, *life) in self._moved_away
            if gone.topic_id in self._ended or is_moved or str(gone.tp) in aside:
                continue
            if life in present:
                continue
            self._violated(
                f"broker {node.broker_id} has no log of {gone.tp} with the topic id "
                f"{format_topic_id(gone.topic_id)} any more, and nobody asked for that"
            )
        self._held[node.broker_id] = {one for one in held if one.topic_id != ZERO_TOPIC_ID}
