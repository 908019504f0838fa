"""Which transitions the tables allow, and what happens to the others.

Apache Kafka 2.8.2 logs an illegal transition and leaves the state as it is; so do we, and count it
and publish it as well. It is a mistake of the controller's own, so where `strict_transitions` is on
(simulation, tests) it raises.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ottla.controller.context import ControllerContext
from ottla.controller.partition_states import VALID_PREVIOUS as VALID_PREVIOUS_OF_PARTITIONS
from ottla.controller.partition_states import PartitionState
from ottla.controller.replica_states import VALID_PREVIOUS as VALID_PREVIOUS_OF_REPLICAS
from ottla.controller.replica_states import ReplicaState
from ottla.errors import InvariantViolated
from ottla.types import TopicPartition, TopicPartitionReplica


class IllegalTransition(InvariantViolated):
    """A state machine was asked for a step that its table does not have."""


def movable_partitions(
    ctx: ControllerContext, partitions: Iterable[TopicPartition], target: PartitionState
) -> list[TopicPartition]:
    """Those that may go to `target` from where they are."""
    allowed = VALID_PREVIOUS_OF_PARTITIONS[target]
    movable = []
    for tp in partitions:
        state = ctx.partition_state(tp)
        if state in allowed:
            movable.append(tp)
        else:
            _refuse(ctx, f"Partition {tp}", tp, None, state.title, target.title)
    return movable


def movable_replicas(
    ctx: ControllerContext, replicas: Iterable[TopicPartitionReplica], target: ReplicaState
) -> list[TopicPartitionReplica]:
    """Those that may go to `target` from where they are."""
    allowed = VALID_PREVIOUS_OF_REPLICAS[target]
    movable = []
    for replica in replicas:
        state = ctx.replica_state(replica)
        if state in allowed:
            movable.append(replica)
        else:
            tp, broker_id = replica.topic_partition, replica.broker_id
            _refuse(ctx, f"Replica {replica}", tp, broker_id, state.title, target.title)
    return movable


def _refuse(
    ctx: ControllerContext,
    subject: str,
    tp: TopicPartition,
    broker_id: int | None,
    source: str,
    target: str,
) -> None:
    text = f"{subject} cannot go from {source} to {target}: that is not a valid transition"
    ctx.journal.illegal_transitions += 1
    ctx.journal.state_change(logging.ERROR, "%s", text)
    ctx.journal.record(
        "illegal",
        topic=tp.topic,
        topic_id=ctx.topic_ids.get(tp.topic),
        partition=tp.partition,
        broker=broker_id,
        from_state=source,
        to_state=target,
        cause="not a valid transition, the state is kept",
    )
    if ctx.strict_transitions:
        raise IllegalTransition(text)
