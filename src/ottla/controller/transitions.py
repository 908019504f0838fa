"""Which transitions the tables allow, how they are told of, and what happens to the others.

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
            valid = ",".join(sorted(previous.title for previous in allowed))
            _refuse(
                ctx,
                f"failed to change state for partition {tp} from {state.title} to {target.title}:"
                f" Partition {tp} should be in one of {valid} states before moving to"
                f" {target.title} state. Instead it is in {state.title} state",
                tp,
                None,
                state.title,
                target.title,
            )
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
            valid = ",".join(sorted(previous.title for previous in allowed))
            _refuse(
                ctx,
                f"{replica_failure(replica, state, target)}: Replica {replica} should be in the"
                f" {valid} states before moving to {target.title} state. Instead it is in"
                f" {state.title} state",
                tp,
                broker_id,
                state.title,
                target.title,
            )
    return movable


def replica_failure(
    replica: TopicPartitionReplica, source: ReplicaState, target: ReplicaState
) -> str:
    """How Kafka's log begins to tell of a replica that stays where it is."""
    return (
        f"initiated state change of replica {replica.broker_id} for partition"
        f" {replica.topic_partition} from {source.title} to {target.title} failed"
    )


def record_step(
    ctx: ControllerContext,
    kind: str,
    tp: TopicPartition,
    *,
    broker: int | None = None,
    from_state: str | None = None,
    to_state: str | None = None,
    cause: str | None = None,
) -> None:
    """A lifecycle event of a partition or replica, with who leads and who is assigned now."""
    state = ctx.leadership.get(tp)
    ctx.journal.record(
        kind,
        topic=tp.topic,
        topic_id=ctx.topic_ids.get(tp.topic),
        partition=tp.partition,
        broker=broker,
        from_state=from_state,
        to_state=to_state,
        cause=cause,
        leader=None if state is None else state.leader,
        isr=None if state is None else state.isr,
        replicas=ctx.assignment(tp).replicas or None,
        leader_epoch=None if state is None else state.leader_epoch,
    )


def _refuse(
    ctx: ControllerContext,
    text: str,
    tp: TopicPartition,
    broker_id: int | None,
    source: str,
    target: str,
) -> None:
    ctx.journal.illegal_transitions += 1
    ctx.journal.state_change(
        logging.ERROR, "Controller %d epoch %d %s", ctx.broker_id, ctx.epoch, text
    )
    record_step(
        ctx,
        "illegal",
        tp,
        broker=broker_id,
        from_state=source,
        to_state=target,
        cause="not a valid transition, the state is kept",
    )
    if ctx.strict_transitions:
        raise IllegalTransition(text)
