"""Everything the active controller knows, rebuilt from znodes by each new one.

One owner: the task that takes events from the queue. The indexes (replicas by broker, partitions
without a leader, replica states by topic) keep an event's work proportional to what it touches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ottla.controller.census import Census
from ottla.controller.config import ControllerConfig
from ottla.controller.journal import Journal
from ottla.controller.partition_states import PartitionState
from ottla.controller.replica_states import ReplicaState
from ottla.metadata.znodes import BrokerInfo, LeaderAndIsr, ReplicaAssignment
from ottla.types import TopicId, TopicPartition, TopicPartitionReplica

_UNLED = (PartitionState.NEW, PartitionState.OFFLINE)
_DELETED = (ReplicaState.DELETION_STARTED, ReplicaState.DELETION_SUCCESSFUL)
_NO_ASSIGNMENT = ReplicaAssignment(())


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
    ) -> None:
        self.broker_id = broker_id
        self.config = config
        self.journal = journal
        self.new_topic_id = new_topic_id
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
        # Topics that have an entry in /ottla/ended, oldest first, and whether it waits for brokers.
        self.ended: dict[TopicId, bool] = {}
        self.offline_dir_partitions: dict[int, set[TopicPartition]] = {}
        self.topics: set[str] = set()
        self.topic_ids: dict[str, TopicId] = {}
        self.leadership: dict[TopicPartition, LeaderAndIsr] = {}
        self.partitions_being_reassigned: set[TopicPartition] = set()
        self.topics_to_delete: set[str] = set()
        self.topics_with_deletion_started: set[str] = set()
        self.topics_ineligible_for_deletion: set[str] = set()
        self._assignments: dict[str, dict[int, ReplicaAssignment]] = {}
        self._partitions_by_broker: dict[int, set[TopicPartition]] = {}
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
        return lambda broker_id: self.is_online(broker_id, tp, or_shutting_down=or_shutting_down)

    # Topics and assignments

    def set_assignment(self, tp: TopicPartition, assignment: ReplicaAssignment) -> None:
        partitions = self._assignments.setdefault(tp.topic, {})
        for broker_id in partitions.get(tp.partition, _NO_ASSIGNMENT).replicas:
            self._partitions_by_broker[broker_id].discard(tp)
        partitions[tp.partition] = assignment
        for broker_id in assignment.replicas:
            self._partitions_by_broker.setdefault(broker_id, set()).add(tp)
        if assignment.is_being_reassigned:
            self.partitions_being_reassigned.add(tp)
        else:
            self.partitions_being_reassigned.discard(tp)

    def assignment(self, tp: TopicPartition) -> ReplicaAssignment:
        """Empty for a partition that is not known."""
        return self._assignments.get(tp.topic, {}).get(tp.partition, _NO_ASSIGNMENT)

    def is_known(self, tp: TopicPartition) -> bool:
        return tp.partition in self._assignments.get(tp.topic, {})

    def topic_assignment(self, topic: str) -> dict[int, ReplicaAssignment]:
        return self._assignments.get(topic, {})

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, partition) for partition in self._assignments.get(topic, {})]

    def all_partitions(self) -> list[TopicPartition]:
        return [
            TopicPartition(topic, partition)
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

    def partitions_without_leader(self) -> list[TopicPartition]:
        """New and offline partitions of topics that stay."""
        return [tp for tp in self._unled if tp.topic not in self.topics_to_delete]

    # Replica states

    def replica_state(self, replica: TopicPartitionReplica) -> ReplicaState:
        states = self._replica_states.get(replica.topic, {})
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

    def hosted_replicas_on(self, broker_ids: Iterable[int]) -> list[TopicPartitionReplica]:
        """Without those that are deleted, or about to be: their brokers hear of them no more."""
        return [
            replica
            for replica in self.replicas_on(broker_ids)
            if self.replica_state(replica) not in _DELETED
        ]

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
