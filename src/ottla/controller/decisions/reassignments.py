"""Moves are asked for, taken back, listed, and come to their end."""

from __future__ import annotations

from ottla.controller import partition_moves
from ottla.controller.context import ControllerContext
from ottla.controller.events import (
    ApiPartitionReassignment,
    ListPartitionReassignments,
    ReassignmentProgress,
    ZkPartitionReassignment,
)
from ottla.controller.partition_moves import Outcomes
from ottla.controller.steps import Steps, check_exists, get_paths
from ottla.controller.stored_assignments import remove_from_admin_node
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.znodes import ReassignPartitionsZnode, ReplicaAssignment
from ottla.types import TopicPartition


def on_api_reassignment(ctx: ControllerContext, event: ApiPartitionReassignment) -> Steps[Outcomes]:
    outcomes: Outcomes = {}
    moves: dict[TopicPartition, ReplicaAssignment] = {}
    for tp, target in event.targets.items():
        wrong = None if target is None else partition_moves.objection(ctx, tp, target)
        move = None if wrong else partition_moves.planned(ctx, tp, target)
        if move is not None:
            moves[tp] = move
        else:
            outcomes[tp] = wrong or KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    # The newest wish counts, whichever way it came.
    yield from remove_from_admin_node(ctx, lambda tp, _: tp in moves)
    outcomes.update((yield from partition_moves.trigger(ctx, moves)))
    return outcomes


def on_zk_reassignment(
    ctx: ControllerContext, event: ZkPartitionReassignment
) -> Steps[set[TopicPartition]]:
    """The node of old tools. Its brokers need not be alive; returns the partitions that move."""
    path = ReassignPartitionsZnode.path()
    if not (yield from check_exists(path, event)):
        return set()
    node = (yield from get_paths([path]))[0]
    if node is None:
        return set()
    wished = ReassignPartitionsZnode.decode(node.data)
    if not wished:
        ctx.journal.error(f"{path} names no partition and is removed: {node.data!r}")
        yield from remove_from_admin_node(ctx, lambda _tp, _replicas: True)
        return set()
    moves = {tp: ctx.assignment(tp).reassign_to(target) for tp, target in wished.items()}
    outcomes = yield from partition_moves.trigger(ctx, moves)
    refused = {tp: error for tp, error in outcomes.items() if error is not None}
    if refused:
        reasons = ", ".join(f"{tp}: {error}" for tp, error in refused.items())
        ctx.journal.warn(f"Failed reassignment through zk with the following errors: {reasons}")
        yield from remove_from_admin_node(ctx, lambda tp, _: tp in refused)
    return outcomes.keys() - refused.keys()


def on_reassignment_progress(ctx: ControllerContext, event: ReassignmentProgress) -> Steps[None]:
    ready = partition_moves.may_be_complete(ctx)
    for tp, assignment in ready.items():
        ctx.journal.info(
            f"Target replicas {list(assignment.target)} have all caught up with the leader for"
            f" reassigning partition {tp}"
        )
    yield from partition_moves.advance(ctx, ready)


def on_list_reassignments(
    ctx: ControllerContext, event: ListPartitionReassignments
) -> Steps[dict[TopicPartition, ReplicaAssignment]]:
    asked = event.partitions
    listed = ctx.partitions_being_reassigned if asked is None else set(asked)
    yield from ()
    return {
        tp: ctx.assignment(tp) for tp in sorted(listed) if ctx.assignment(tp).is_being_reassigned
    }
