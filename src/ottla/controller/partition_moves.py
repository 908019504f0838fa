"""Moving partitions to other replicas (KIP-455, KafkaController.onPartitionReassignment).

Phase U writes and remembers the new assignment. While the target replicas are not all in the ISR,
phase A tells old and new replicas of the move; once they are, phase B hands over leadership, stops
the removed replicas and writes the final assignment last of all, because the topic znode is the
only place that remembers a move across controllers. Kafka goes partition by partition; here each
step covers all the partitions of a request.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from ottla.bounds.batches import first_of
from ottla.controller import deletion, partition_machine, replica_machine
from ottla.controller.context import ControllerContext
from ottla.controller.election import Strategy
from ottla.controller.replica_states import ReplicaState
from ottla.controller.requests import RequestBatch, send_update_metadata
from ottla.controller.steps import Steps
from ottla.controller.stored_assignments import Moves, remove_from_admin_node, write_assignments
from ottla.controller.stored_leadership import raise_epochs, read_states
from ottla.controller.transitions import record_step
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.znodes import ReplicaAssignment
from ottla.types import TopicPartition, TopicPartitionReplica

# The outcome per partition; None where the move was accepted.
Outcomes = dict[TopicPartition, KafkaError | None]


def objection(
    ctx: ControllerContext, tp: TopicPartition, replicas: tuple[int, ...]
) -> KafkaError | None:
    """What is wrong with the wished replicas (KafkaController.validateReplicas)."""
    listed = f"ArrayBuffer({', '.join(map(str, replicas))})"
    if not replicas:
        text = "Empty replica list specified in partition reassignment."
    elif len(set(replicas)) != len(replicas):
        text = f"Duplicate replica ids in partition reassignment replica list: {listed}"
    elif any(replica < 0 for replica in replicas):
        text = f"Invalid broker id in replica list: {listed}"
    else:
        adding = ctx.assignment(tp).reassign_to(replicas).adding
        live = [broker for broker in sorted(ctx.brokers) if broker not in ctx.shutting_down]
        if set(adding) <= set(live):
            return None
        text = (
            "Replica assignment has brokers that are not alive. Replica list:"
            f" ArrayBuffer({', '.join(map(str, adding))}), live broker list:"
            f" Set({', '.join(map(str, live))})"
        )
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)


def planned(
    ctx: ControllerContext, tp: TopicPartition, target: tuple[int, ...] | None
) -> ReplicaAssignment | None:
    """The assignment with which the move runs; None for a cancellation where nothing moves."""
    current = ctx.assignment(tp)
    if target is not None:
        return current.reassign_to(target)
    return current.reassign_to(current.origin) if current.is_being_reassigned else None


def trigger(ctx: ControllerContext, moves: Moves) -> Steps[Outcomes]:
    """Starts moves that somebody asked for, where the partition is there and stays."""
    outcomes: Outcomes = {}
    accepted = {}
    unknown = []
    for tp, move in moves.items():
        if ctx.is_queued_for_deletion(tp.topic) or not ctx.assignment(tp).replicas:
            unknown.append(tp)
            outcomes[tp] = KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."
            )
        elif not move.target:
            # An old tool's node may say so; Kafka would delete every replica of the partition.
            outcomes[tp] = KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT)
        elif not _somebody_can_lead(ctx, tp, move):
            outcomes[tp] = KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Unable to revert partition assignment for {tp.topic}:{tp.partition} because it"
                " would require an unclean leader election.",
            )
        else:
            accepted[tp] = move
    if unknown:
        ctx.journal.info(
            f"Skipping reassignment of {first_of(unknown)}: not there or being deleted"
        )
    unfit = yield from advance(ctx, accepted)
    for tp in accepted:
        outcomes[tp] = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) if tp in unfit else None
    return outcomes


def _somebody_can_lead(ctx: ControllerContext, tp: TopicPartition, move: ReplicaAssignment) -> bool:
    """Whether a replica with all records stays where a move takes replicas of an earlier one out.
    Kafka 2.8.2 does not ask and may delete the only one; KRaft refuses as we do."""
    state = ctx.leadership.get(tp)
    if state is None or set(ctx.assignment(tp).replicas) <= set(move.replicas):
        return True
    is_led = ctx.is_online(state.leader, tp)
    return any(
        replica in move.replicas and (ctx.is_online(replica, tp) or not is_led)
        for replica in state.isr
    )


def advance(ctx: ControllerContext, moves: Moves) -> Steps[set[TopicPartition]]:
    """Brings moves as far as they can go now; returns the partitions where that failed."""
    if not moves:
        return set()
    # A topic is not deleted while it moves; the end of phase B takes that back.
    deletion.mark_ineligible(ctx, {tp.topic for tp in moves}, "topic reassignment in progress")
    unfit = yield from _update(ctx, moves)
    running = {tp: move for tp, move in moves.items() if tp not in unfit}
    complete = yield from _complete_ones(running)
    waiting = {tp: move for tp, move in running.items() if tp not in complete}
    if waiting:
        yield from _start_replicas(ctx, waiting)
    if complete:
        finishing = {tp: move for tp, move in complete.items() if tp in ctx.leadership}
        unfit |= complete.keys() - finishing.keys()
        yield from _finish(ctx, finishing)
    return unfit


def may_be_complete(ctx: ControllerContext) -> dict[TopicPartition, ReplicaAssignment]:
    """Moves whose target replicas are all in the ISR that the controller last wrote."""
    found = {}
    for tp in sorted(ctx.partitions_being_reassigned):
        assignment, state = ctx.assignment(tp), ctx.leadership.get(tp)
        if state is not None and set(assignment.target) <= set(state.isr):
            found[tp] = assignment
    return found


def _update(ctx: ControllerContext, moves: Moves) -> Steps[set[TopicPartition]]:
    """Phase U: znode, memory, and the end of replicas that an earlier move had added."""
    changed = {tp: move for tp, move in moves.items() if ctx.assignment(tp) != move}
    unfit = yield from write_assignments(ctx, changed)
    unneeded = []
    for tp, move in changed.items():
        if tp in unfit:
            continue
        current = ctx.assignment(tp)
        ctx.set_assignment(tp, move)
        cause = f"reassignment of {list(current.replicas)} to {list(move.target)}"
        record_step(ctx, "partition", tp, cause=cause)
        unneeded += [
            TopicPartitionReplica(tp.topic, tp.partition, replica)
            for replica in current.replicas
            if replica not in move.replicas
        ]
    yield from _lead_from_within(ctx, [tp for tp in moves if tp not in unfit])
    yield from _stop_for_good(ctx, unneeded, next_epoch=True)
    return unfit


def _lead_from_within(ctx: ControllerContext, moving: list[TopicPartition]) -> Steps[None]:
    """A new replica of an earlier move may lead by now and have no place in this one. Kafka 2.8.2
    stops it, and nobody leads until a controller starts anew: its partition counts as online."""
    led_from_outside = [
        tp
        for tp in moving
        if not ctx.is_queued_for_deletion(tp.topic)
        and tp in ctx.leadership
        and ctx.leadership[tp].leader not in ctx.assignment(tp).replicas
    ]
    if led_from_outside:
        yield from partition_machine.to_online(ctx, led_from_outside, Strategy.OFFLINE)


def _complete_ones(moves: Moves) -> Steps[dict[TopicPartition, ReplicaAssignment]]:
    """The ISR of the store decides, as in Kafka."""
    states = yield from read_states(tp for tp, move in moves.items() if move.is_being_reassigned)
    return {
        tp: move
        for tp, move in moves.items()
        if not move.is_being_reassigned
        or (tp in states and set(move.target) <= set(states[tp].isr))
    }


def _start_replicas(ctx: ControllerContext, moves: Moves) -> Steps[None]:
    """Phase A: a new epoch for all replicas, old and new; the new ones begin to fetch."""
    raised = yield from raise_epochs(ctx, moves)
    batch = RequestBatch(ctx)
    for tp, move in moves.items():
        if tp in raised:
            # isNew lets a replica go to any good folder; an old one may be on an offline folder.
            batch.add_leader_and_isr(move.origin, tp, is_new=False)
            batch.add_leader_and_isr(move.adding, tp, is_new=True)
    yield from batch.send()
    starting = _replicas(moves, lambda move: move.adding)
    yield from replica_machine.to_new(
        ctx, [r for r in starting if ctx.replica_state(r) is ReplicaState.NON_EXISTENT]
    )


def _finish(ctx: ControllerContext, moves: Moves) -> Steps[None]:
    """Phase B, in Kafka's order B1 to B8."""
    if not moves:
        return
    yield from replica_machine.to_online(ctx, _replicas(moves, lambda move: move.adding))
    final = {tp: ReplicaAssignment(move.target) for tp, move in moves.items()}
    for tp, assignment in final.items():
        ctx.set_assignment(tp, assignment)
    yield from _hand_over(ctx, final)
    yield from _stop_for_good(ctx, _replicas(moves, lambda move: move.removing))
    yield from write_assignments(ctx, final)
    yield from remove_from_admin_node(
        ctx, lambda tp, replicas: tp in final and replicas == final[tp].replicas
    )
    yield from send_update_metadata(ctx, ctx.brokers, final)
    for tp, assignment in final.items():
        cause = f"reassignment to {list(assignment.replicas)} completed"
        record_step(ctx, "partition", tp, cause=cause)
    moving = {tp.topic for tp in ctx.partitions_being_reassigned}
    yield from deletion.resume_topics(ctx, {tp.topic for tp in final} - moving)


def _hand_over(ctx: ControllerContext, final: Moves) -> Steps[None]:
    """B3: an election where the leader goes or is dead, else only a new epoch."""
    staying: list[TopicPartition] = []
    leaving: list[TopicPartition] = []
    for tp, assignment in final.items():
        leader = ctx.leadership[tp].leader
        stays = leader in assignment.replicas and ctx.is_online(leader, tp)
        (staying if stays else leaving).append(tp)
    if leaving:
        yield from partition_machine.to_online(ctx, leaving, Strategy.REASSIGN)
    if staying:
        raised = yield from raise_epochs(ctx, staying)
        batch = RequestBatch(ctx)
        for tp in staying:
            if tp in raised:
                batch.add_leader_and_isr(final[tp].replicas, tp, is_new=False)
        yield from batch.send()


def _stop_for_good(
    ctx: ControllerContext, replicas: list[TopicPartitionReplica], *, next_epoch: bool = False
) -> Steps[None]:
    """Out of the ISR, stopped, deleted and forgotten; as in Kafka nobody waits for the answer.

    `next_epoch` is for replicas of a superseded move: they know the current epoch, and brokers
    refuse a stop that does not carry a higher one (Kafka 2.8.2 leaves such replicas behind).
    """
    if not replicas:
        return
    yield from replica_machine.to_offline(ctx, replicas)
    yield from replica_machine.to_deletion_started(ctx, replicas, next_epoch=next_epoch)
    replica_machine.to_deletion_successful(ctx, replicas)
    replica_machine.to_non_existent(ctx, replicas)


def resume(ctx: ControllerContext, *, without: Collection[TopicPartition] = ()) -> Steps[None]:
    """Takes up the moves that an earlier controller began."""
    yield from advance(
        ctx,
        {
            tp: ctx.assignment(tp)
            for tp in sorted(ctx.partitions_being_reassigned)
            if tp not in without
        },
    )


def resume_towards(ctx: ControllerContext, broker_ids: Iterable[int]) -> Steps[None]:
    """Takes up the moves that waited for these brokers."""
    back = set(broker_ids)
    yield from advance(
        ctx,
        {
            tp: ctx.assignment(tp)
            for tp in sorted(ctx.partitions_being_reassigned)
            if back & set(ctx.assignment(tp).target)
        },
    )


def _replicas(
    moves: Moves, of: Callable[[ReplicaAssignment], tuple[int, ...]]
) -> list[TopicPartitionReplica]:
    return [
        TopicPartitionReplica(tp.topic, tp.partition, replica)
        for tp, move in moves.items()
        for replica in of(move)
    ]
