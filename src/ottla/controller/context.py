"""Everything the active controller knows, rebuilt from znodes by each new one.

One owner: the task that takes events from the queue. The indexes (replicas by broker, partitions
without a leader, replica states by topic) keep an event's work proportional to what it touches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.controller.census import Census
from ottla.controller.config import ControllerConfig
from ottla.controller.events import GroupOffsets
from ottla.controller.journal import Journal
from ottla.controller.partition_states import PartitionState
from ottla.controller.replica_states import ReplicaState
from ottla.controller.topic_ids import TopicIds
from ottla.metadata.ended import EndedTopic
from ottla.metadata.renames import StoredRename
from ottla.metadata.resizes import StoredResize
from ottla.metadata.znodes import BrokerInfo, LeaderAndIsr, ReplicaAssignment
from ottla.types import TopicId, TopicPartition, TopicPartitionReplica
from ottla.wire import messages as m

_UNLED = (PartitionState.NEW, PartitionState.OFFLINE)
_NO_ASSIGNMENT = ReplicaAssignment(())
# A third faster than TopicPartition(topic, partition): tens of thousands at a failover.
_as_partition: Callable[[type[TopicPartition], tuple[str, int]], TopicPartition] = tuple.__new__

# Of one rename or step of a resize: whoever asks again may have lost his connection before.
MAX_WAITING = 100


class Waiters:
    """Those who asked for something that takes a while; each hears how it ended, once."""

    __slots__ = ("_replies",)

    def __init__(self) -> None:
        self._replies: list[Callable[[Any], None]] = []

    def add(self, reply: Callable[[Any], None]) -> None:
        self._replies.append(reply)
        del self._replies[:-MAX_WAITING]

    def take(self) -> list[Callable[[Any], None]]:
        replies, self._replies = self._replies, []
        return replies


@dataclass(slots=True, eq=False)
class Rename:
    """A topic on its way to another name: what the store says of it, and who has yet to answer."""

    topic_id: TopicId
    stored: StoredRename
    # Brokers that have not answered, each with what it was asked last: an answer to something that
    # was asked before, for a rename that was given up since, is none.
    asked: dict[int, m.CarryOffsetsRequest] = field(default_factory=dict)
    # Brokers that know of the new name (their epochs), and partitions of __consumer_offsets in
    # which nothing names the old one any more.
    told: dict[int, int] = field(default_factory=dict)
    carried: set[int] = field(default_factory=set)
    # How often coordinators were found with open transactions.
    rounds: int = 0
    group_ids: set[str] = field(default_factory=set)
    offsets: int = 0
    # Whoever asked for it and waits here.
    waiters: Waiters = field(default_factory=Waiters)


@dataclass(slots=True, eq=False)
class Resize:
    """A topic on its way to another number of partitions: what the store says of it, and who has
    yet to answer."""

    stored: StoredResize
    # Brokers that have not answered, each with what it was asked last: an answer to something that
    # was asked before, for a fence that was lifted since, is none.
    asked: dict[int, m.ResizeOrderRequest] = field(default_factory=dict)
    # Of the fence that stands: how often somebody was found busy, how long nobody was heard of who
    # wants it, and how long it stands; in ticks.
    rounds: int = 0
    silent: int = 0
    standing: int = 0
    # Where the topic's partitions end, by what their leaders say under this fence.
    ends: dict[int, int] = field(default_factory=dict)
    # The offsets that groups are to get, until every coordinator has them.
    groups: Sequence[GroupOffsets] | None = None
    guards_keys: bool = False
    # Brokers that know of the swap (their epochs), and partitions of __consumer_offsets whose
    # coordinators have done what they were asked for last.
    told: dict[int, int] = field(default_factory=dict)
    carried: set[int] = field(default_factory=set)
    group_count: int = 0
    member_count: int = 0
    is_open_for_writes: bool = False
    is_ticking: bool = False
    # Whoever asked for the step under way and waits here.
    waiters: Waiters = field(default_factory=Waiters)


class ControllerContext:
    """Brokers, topics, assignments, leaders, and the states of partitions and replicas.

    Memory only: state machines and decisions change it after the store has taken their writes.
    """

    def __init__(
        self,
        broker_id: int,
        config: ControllerConfig,
        journal: Journal,
        new_topic_id: Callable[[], TopicId],
        *,
        epoch: int,
        epoch_zk_version: int,
        strict_transitions: bool = False,
        now_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        self.broker_id = broker_id
        self.config = config
        self.journal = journal
        self.new_topic_id = new_topic_id
        self.now_ms = now_ms
        self.epoch = epoch
        self.epoch_zk_version = epoch_zk_version
        # Whether an illegal transition raises, or is only told of (`transitions`).
        self.strict_transitions = strict_transitions
        self.finalized_features: Mapping[str, Any] = {}
        # Every registered broker that was accepted: "live or shutting down" in Kafka's words.
        self.brokers: dict[int, BrokerInfo] = {}
        self.broker_epochs: dict[int, int] = {}
        self.shutting_down: set[int] = set()
        # Brokers that are Ottla's, even while they are down (ADR 13).
        self.ottla_brokers: set[int] = set()
        # Those of them that know of renames.
        self.renaming_brokers: set[int] = set()
        # Topics that are being renamed.
        self.renames: dict[TopicId, Rename] = {}
        # Brokers that know of resizes, and topics that are being resized, by their old ids.
        self.resizing_brokers: set[int] = set()
        self.resizes: dict[TopicId, Resize] = {}
        # Topics that have an entry in /ottla/ended, oldest first, and whether it waits for brokers.
        self.ended: dict[TopicId, bool] = {}
        # Those of them that are kept (ADR 50), also while their deletion is under way.
        self.trash: dict[TopicId, EndedTopic] = {}
        self.offline_dir_partitions: dict[int, set[TopicPartition]] = {}
        self.topics: set[str] = set()
        self.topic_ids = TopicIds()
        self.leadership: dict[TopicPartition, LeaderAndIsr] = {}
        self.partitions_being_reassigned: set[TopicPartition] = set()
        self.topics_to_delete: set[str] = set()
        self.topics_with_deletion_started: set[str] = set()
        self.topics_ineligible_for_deletion: set[str] = set()
        self._assignments: dict[str, dict[int, ReplicaAssignment]] = {}
        self._partitions_by_broker: defaultdict[int, set[TopicPartition]] = defaultdict(set)
        self._partition_states: dict[TopicPartition, PartitionState] = {}
        self._unled: dict[TopicPartition, None] = {}
        self._replica_states: dict[str, dict[TopicPartitionReplica, ReplicaState]] = {}
        self._replica_counts: dict[str, dict[ReplicaState, int]] = {}
        self.census = Census()

    # Brokers

    def add_broker(self, info: BrokerInfo, epoch: int) -> None:
        self.brokers[info.broker_id] = info
        self.broker_epochs[info.broker_id] = epoch

    def remove_broker(self, broker_id: int) -> None:
        self.brokers.pop(broker_id, None)
        self.broker_epochs.pop(broker_id, None)

    def is_online(
        self, broker_id: int, tp: TopicPartition, *, or_shutting_down: bool = False
    ) -> bool:
        """Whether the broker is up and its log directory for this partition works."""
        if broker_id not in self.brokers:
            return False
        if broker_id in self.shutting_down and not or_shutting_down:
            return False
        offline = self.offline_dir_partitions.get(broker_id)
        return not offline or tp not in offline

    def will_clean_up(self, broker_id: int) -> bool:
        """Whether the broker is down and, being Ottla's, deletes what ended when it returns."""
        return broker_id not in self.brokers and broker_id in self.ottla_brokers

    def online_check(
        self, tp: TopicPartition, *, or_shutting_down: bool = False
    ) -> Callable[[int], bool]:
        if not self.offline_dir_partitions and (or_shutting_down or not self.shutting_down):
            # Nearly always, and asked about every partition at a failover.
            return self.brokers.__contains__
        return lambda broker_id: self.is_online(broker_id, tp, or_shutting_down=or_shutting_down)

    # Topics and assignments

    def set_assignment(self, tp: TopicPartition, assignment: ReplicaAssignment) -> None:
        topic, partition = tp
        partitions = self._assignments.setdefault(topic, {})
        former = partitions.get(partition)
        if former is not None:
            self.partitions_being_reassigned.discard(tp)
            for broker_id in former.replicas:
                self._partitions_by_broker[broker_id].discard(tp)
        partitions[partition] = assignment
        for broker_id in assignment.replicas:
            self._partitions_by_broker[broker_id].add(tp)
        if assignment.adding or assignment.removing:
            self.partitions_being_reassigned.add(tp)

    def assignment(self, tp: TopicPartition) -> ReplicaAssignment:
        """Empty for a partition that is not known."""
        topic, partition = tp
        partitions = self._assignments.get(topic)
        return _NO_ASSIGNMENT if partitions is None else partitions.get(partition, _NO_ASSIGNMENT)

    def topic_assignment(self, topic: str) -> dict[int, ReplicaAssignment]:
        return self._assignments.get(topic, {})

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, partition) for partition in self._assignments.get(topic, {})]

    def all_partitions(self) -> list[TopicPartition]:
        return [
            _as_partition(TopicPartition, (topic, partition))
            for topic, partitions in self._assignments.items()
            for partition in partitions
        ]

    def partitions_on(self, broker_id: int) -> list[TopicPartition]:
        """Sorted, so that the same history gives the same requests."""
        return sorted(self._partitions_by_broker.get(broker_id, ()))

    def replicas_of(self, partitions: Iterable[TopicPartition]) -> list[TopicPartitionReplica]:
        return [
            TopicPartitionReplica(tp.topic, tp.partition, broker_id)
            for tp in partitions
            for broker_id in self.assignment(tp).replicas
        ]

    def replicas_on(self, broker_ids: Iterable[int]) -> list[TopicPartitionReplica]:
        return [
            TopicPartitionReplica(tp.topic, tp.partition, broker_id)
            for broker_id in broker_ids
            for tp in self.partitions_on(broker_id)
        ]

    def remove_topic(self, topic: str) -> None:
        """Forgets the topic; a deletion under way goes with it (ControllerContext.removeTopic)."""
        for tp in self.partitions_of(topic):
            for broker_id in self.assignment(tp).replicas:
                self._partitions_by_broker[broker_id].discard(tp)
            self.leadership.pop(tp, None)
            self.census.partition_moved(self.partition_state(tp), PartitionState.NON_EXISTENT)
            self._partition_states.pop(tp, None)
            self._unled.pop(tp, None)
            self.partitions_being_reassigned.discard(tp)
        self._assignments.pop(topic, None)
        self._replica_states.pop(topic, None)
        self.census.replicas_forgotten(self._replica_counts.pop(topic, {}))
        self.topic_ids.pop(topic, None)
        self.topics.discard(topic)
        self.topics_to_delete.discard(topic)
        self.topics_with_deletion_started.discard(topic)
        self.topics_ineligible_for_deletion.discard(topic)

    def rename_topic(self, topic: str, name: str) -> None:
        """Everything that is known of the topic, its states included, is known under the other
        name; the leaderships are for whoever has read them again."""
        ids, assignment = self.topic_ids[topic], self.topic_assignment(topic)
        partition_states = {tp: self.partition_state(tp) for tp in self.partitions_of(topic)}
        replica_states = dict(self._replica_states.get(topic, {}))
        offline = {
            broker_id: {tp for tp in partitions if tp.topic == topic}
            for broker_id, partitions in self.offline_dir_partitions.items()
        }
        self.remove_topic(topic)
        self.topics.add(name)
        self.topic_ids[name] = ids
        for partition, replicas in assignment.items():
            self.set_assignment(TopicPartition(name, partition), replicas)
        for tp, state in partition_states.items():
            self.put_partition_state(TopicPartition(name, tp.partition), state)
        for replica, replica_state in replica_states.items():
            self.put_replica_state(replica._replace(topic=name), replica_state)
        for broker_id, partitions in offline.items():
            self.offline_dir_partitions[broker_id] -= partitions
            self.offline_dir_partitions[broker_id].update(
                TopicPartition(name, tp.partition) for tp in partitions
            )

    def rename_of(self, topic: str) -> Rename | None:
        """The rename under way that leads from or to this name."""
        for rename in self.renames.values():
            if topic in (rename.stored.source, rename.stored.target):
                return rename
        return None

    def resize_of(self, topic: str) -> Resize | None:
        """The resize under way of this topic, or for which it is the shadow."""
        for resize in self.resizes.values():
            if topic in (resize.stored.topic, resize.stored.shadow):
                return resize
        return None

    def topics_changing_hands(self) -> set[str]:
        """Names that a resize has given to another topic, whose groups are not all told yet."""
        return {r.stored.topic for r in self.resizes.values() if r.stored.is_swapped}

    def is_queued_for_deletion(self, topic: str) -> bool:
        return topic in self.topics_to_delete

    # Partition states

    def partition_state(self, tp: TopicPartition) -> PartitionState:
        return self._partition_states.get(tp, PartitionState.NON_EXISTENT)

    def put_partition_state(self, tp: TopicPartition, state: PartitionState) -> None:
        self.census.partition_moved(self.partition_state(tp), state)
        if state is PartitionState.NON_EXISTENT:
            self._partition_states.pop(tp, None)
        else:
            self._partition_states[tp] = state
        if state in _UNLED:
            self._unled[tp] = None
        else:
            self._unled.pop(tp, None)

    def found_partitions(self, states: Mapping[TopicPartition, PartitionState]) -> None:
        """All that there are, at once: what a new controller has read."""
        self.census.partitions_found(states.values())
        self._partition_states = dict(states)
        self._unled = {tp: None for tp, state in states.items() if state in _UNLED}

    def partitions_without_leader(self) -> list[TopicPartition]:
        """New and offline partitions of topics that stay."""
        return [tp for tp in self._unled if tp.topic not in self.topics_to_delete]

    # Replica states

    def replica_state(self, replica: TopicPartitionReplica) -> ReplicaState:
        states = self._replica_states.get(replica.topic)
        if states is None:
            return ReplicaState.NON_EXISTENT
        return states.get(replica, ReplicaState.NON_EXISTENT)

    def put_replica_state(self, replica: TopicPartitionReplica, state: ReplicaState) -> None:
        states = self._replica_states.setdefault(replica.topic, {})
        counts = self._replica_counts.setdefault(replica.topic, {})
        previous = states.get(replica)
        self.census.replica_moved(previous or ReplicaState.NON_EXISTENT, state)
        if previous is not None:
            counts[previous] -= 1
        if state is ReplicaState.NON_EXISTENT:
            states.pop(replica, None)
        else:
            states[replica] = state
            counts[state] = counts.get(state, 0) + 1

    def found_replicas(
        self, by_topic: dict[str, dict[TopicPartitionReplica, ReplicaState]]
    ) -> None:
        """As `found_partitions`."""
        self._replica_states = by_topic
        self._replica_counts = {}
        for topic, states in by_topic.items():
            counts = self._replica_counts[topic] = {}
            for state in states.values():
                counts[state] = counts.get(state, 0) + 1
        self.census.replicas_found(
            state for states in by_topic.values() for state in states.values()
        )

    def replicas_in_state(self, topic: str, state: ReplicaState) -> list[TopicPartitionReplica]:
        if not self.any_replica_in_state(topic, state):
            return []
        states = self._replica_states.get(topic, {})
        return [replica for replica, current in states.items() if current is state]

    def any_replica_in_state(self, topic: str, state: ReplicaState) -> bool:
        return self._replica_counts.get(topic, {}).get(state, 0) > 0

    def all_replicas_in_state(self, topic: str, state: ReplicaState) -> bool:
        """True for a topic without replicas, as in Kafka: nothing is left to wait for."""
        states = self._replica_states.get(topic, {})
        return self._replica_counts.get(topic, {}).get(state, 0) == len(states)
