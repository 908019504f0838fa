"""Moves replicas between states (kafka.controller.ReplicaStateMachine).

A transition that the table does not allow is refused (`transitions`); the rest
of the batch goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from ottla.controller import election
from ottla.controller.context import ControllerContext
from ottla.controller.replica_states import ReplicaState
from ottla.controller.requests import RequestBatch
from ottla.controller.steps import Steps
from ottla.controller.stored_leadership import MAX_WRITE_ROUNDS, states_of, write_states
from ottla.controller.transitions import movable_replicas, record_step, replica_failure
from ottla.metadata.znodes import LeaderAndIsr
from ottla.state_changes import TRACE
from ottla.types import TopicPartition, TopicPartitionReplica

Replicas = Iterable[TopicPartitionReplica]
_DELETED = (ReplicaState.DELETION_STARTED, ReplicaState.DELETION_SUCCESSFUL)


def hosted_on(ctx: ControllerContext, broker_ids: Iterable[int]) -> list[TopicPartitionReplica]:
    """Without those that are deleted, or about to be: their brokers hear of them no more."""
    return [
        replica
        for replica in ctx.replicas_on(broker_ids)
        if ctx.replica_state(replica) not in _DELETED
    ]


def to_new(ctx: ControllerContext, replicas: Replicas) -> Steps[None]:
    """A replica of a partition that is led already gets LeaderAndIsr with isNew."""
    batch = RequestBatch(ctx)
    for replica in movable_replicas(ctx, replicas, ReplicaState.NEW):
        tp = replica.topic_partition
        state = ctx.leadership.get(tp)
        if state is not None and state.leader == replica.broker_id:
            source = ctx.replica_state(replica)
            reason = "it is being requested to become leader"
            _log_failure(ctx, replica_failure(replica, source, ReplicaState.NEW), reason)
            continue
        if state is not None:
            batch.add_leader_and_isr([replica.broker_id], tp, is_new=True)
        _move(ctx, replica, ReplicaState.NEW)
    yield from batch.send()


def to_online(ctx: ControllerContext, replicas: Replicas) -> Steps[None]:
    """From new it is memory only; otherwise the broker is told (again) what it hosts."""
    batch = RequestBatch(ctx)
    for replica in movable_replicas(ctx, replicas, ReplicaState.ONLINE):
        tp = replica.topic_partition
        if ctx.replica_state(replica) is not ReplicaState.NEW and tp in ctx.leadership:
            batch.add_leader_and_isr([replica.broker_id], tp, is_new=False)
        _move(ctx, replica, ReplicaState.ONLINE)
    yield from batch.send()


def to_offline(
    ctx: ControllerContext, replicas: Replicas, *, just_read: bool = False
) -> Steps[None]:
    """Stops the replica, takes it out of the ISR and tells the others, broker by broker. With
    `just_read` the states in memory are as good as those in the store."""
    batch = RequestBatch(ctx)
    by_broker: dict[int, list[TopicPartitionReplica]] = {}
    for replica in movable_replicas(ctx, replicas, ReplicaState.OFFLINE):
        by_broker.setdefault(replica.broker_id, []).append(replica)
    for broker_id, listed in by_broker.items():
        yield from _take_offline(ctx, broker_id, listed, batch, just_read=just_read)
    yield from batch.send()


def to_deletion_started(
    ctx: ControllerContext, replicas: Replicas, *, next_epoch: bool = False
) -> Steps[None]:
    batch = RequestBatch(ctx)
    for replica in movable_replicas(ctx, replicas, ReplicaState.DELETION_STARTED):
        batch.add_stop_replica(
            replica.broker_id, replica.topic_partition, delete=True, next_epoch=next_epoch
        )
        _move(ctx, replica, ReplicaState.DELETION_STARTED)
    yield from batch.send()


def to_deletion_successful(ctx: ControllerContext, replicas: Replicas) -> None:
    for replica in movable_replicas(ctx, replicas, ReplicaState.DELETION_SUCCESSFUL):
        _move(ctx, replica, ReplicaState.DELETION_SUCCESSFUL)


def to_deletion_ineligible(ctx: ControllerContext, replicas: Replicas) -> None:
    for replica in movable_replicas(ctx, replicas, ReplicaState.DELETION_INELIGIBLE):
        _move(ctx, replica, ReplicaState.DELETION_INELIGIBLE)


def to_non_existent(ctx: ControllerContext, replicas: Replicas) -> None:
    """Forgets the replica; it also leaves the assignment in memory."""
    for replica in movable_replicas(ctx, replicas, ReplicaState.NON_EXISTENT):
        tp = replica.topic_partition
        assignment = ctx.assignment(tp)
        ctx.set_assignment(
            tp,
            assignment._replace(
                replicas=tuple(r for r in assignment.replicas if r != replica.broker_id),
                adding=tuple(r for r in assignment.adding if r != replica.broker_id),
                removing=tuple(r for r in assignment.removing if r != replica.broker_id),
            ),
        )
        _move(ctx, replica, ReplicaState.NON_EXISTENT)


def _move(ctx: ControllerContext, replica: TopicPartitionReplica, target: ReplicaState) -> None:
    _move_all(ctx, (replica,), target)


def _move_all(ctx: ControllerContext, replicas: Replicas, target: ReplicaState) -> None:
    is_tracing, title = ctx.journal.is_tracing, target.title
    lines = []
    for replica in replicas:
        source = ctx.replica_state(replica)
        if source is target:
            # A broker that is told again what it hosts: at a failover that is every replica.
            continue
        ctx.put_replica_state(replica, target)
        ctx.census.replica_steps[source, target] += 1
        topic, partition, broker_id = replica
        tp, former = TopicPartition(topic, partition), source.title
        record_step(ctx, "replica", tp, broker=broker_id, from_state=former, to_state=title)
        if is_tracing:
            lines.append(
                f"Changed state of replica {broker_id} for partition {topic}-{partition} from"
                f" {former} to {title}"
            )
    ctx.journal.state_changes(TRACE, lines)


def _take_offline(
    ctx: ControllerContext,
    broker_id: int,
    replicas: list[TopicPartitionReplica],
    batch: RequestBatch,
    *,
    just_read: bool,
) -> Steps[None]:
    led = []
    for replica in replicas:
        tp = TopicPartition(replica.topic, replica.partition)
        batch.add_stop_replica(broker_id, tp, delete=False)
        if tp in ctx.leadership:
            led.append(tp)
        else:
            batch.add_update_metadata(ctx.brokers, [tp])
            _move(ctx, replica, ReplicaState.OFFLINE)
    updated = yield from _remove_from_isr(ctx, broker_id, led, just_read=just_read)
    ctx.journal.state_changes(logging.INFO, _removed_lines(broker_id, updated))
    for tp in updated:
        if not ctx.is_queued_for_deletion(tp.topic):
            recipients = [r for r in ctx.assignment(tp).replicas if r != broker_id]
            batch.add_leader_and_isr(recipients, tp, is_new=False)
    moved = [TopicPartitionReplica(topic, partition, broker_id) for topic, partition in updated]
    _move_all(ctx, moved, ReplicaState.OFFLINE)


def _removed_lines(broker_id: int, updated: dict[TopicPartition, LeaderAndIsr]) -> Iterator[str]:
    """Thousands of partitions have a few dozen different states."""
    described: dict[LeaderAndIsr, str] = {}
    for (topic, partition), state in updated.items():
        words = described.get(state)
        if words is None:
            words = described[state] = (
                f"(Leader:{state.leader},ISR:{','.join(map(str, state.isr))},"
                f"LeaderEpoch:{state.leader_epoch},ZkVersion:{state.zk_version},"
                f"ControllerEpoch:{state.controller_epoch}) after removing replica {broker_id}"
                " from the ISR as part of transition to OfflineReplica"
            )
        yield f"Partition {topic}-{partition} state changed to {words}"


def _remove_from_isr(
    ctx: ControllerContext,
    broker_id: int,
    partitions: list[TopicPartition],
    *,
    just_read: bool,
) -> Steps[dict[TopicPartition, LeaderAndIsr]]:
    """States as they are once the broker is in no ISR; partitions that failed are left out."""
    finished: dict[TopicPartition, LeaderAndIsr] = {}
    # Thousands of partitions have a few dozen different states.
    decided: dict[LeaderAndIsr, LeaderAndIsr] = {}
    remaining = partitions
    for _ in range(MAX_WRITE_ROUNDS):
        stored = yield from states_of(ctx, remaining, just_read=just_read)
        just_read = False
        updates = {}
        for tp in remaining:
            current = stored.get(tp)
            if current is None or current.controller_epoch > ctx.epoch:
                _log_unreadable(ctx, tp, broker_id, current)
            elif broker_id in current.isr:
                without = decided.get(current)
                if without is None:
                    without = election.without_replica(current, broker_id, ctx.epoch)
                    decided[current] = without
                updates[tp] = without
            else:
                # Nothing to write: Kafka still repeats the state under its own epoch.
                finished[tp] = current._replace(controller_epoch=ctx.epoch)
                ctx.leadership[tp] = finished[tp]
        outcome = yield from write_states(ctx, updates)
        finished.update(outcome.done)
        for tp, error in outcome.failed.items():
            ctx.journal.error(f"Removing broker {broker_id} from the ISR of {tp} failed: {error!r}")
        remaining = outcome.stale
        if not remaining:
            break
    return finished


def _log_unreadable(
    ctx: ControllerContext, tp: TopicPartition, broker_id: int, current: LeaderAndIsr | None
) -> None:
    if current is not None or not ctx.is_queued_for_deletion(tp.topic):
        reason = "has no state" if current is None else "belongs to a later controller"
        replica = TopicPartitionReplica(tp.topic, tp.partition, broker_id)
        source = ctx.replica_state(replica)
        _log_failure(
            ctx,
            replica_failure(replica, source, ReplicaState.OFFLINE),
            f"the partition {reason} in the store",
        )


def _log_failure(ctx: ControllerContext, text: str, reason: str) -> None:
    ctx.journal.state_change(
        logging.ERROR, "Controller %d epoch %d %s: %s", ctx.broker_id, ctx.epoch, text, reason
    )
