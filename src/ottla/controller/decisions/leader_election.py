"""Elections that somebody asks for: preferred leaders (API, admin node, timer), unclean ones."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.bounds.batches import first_of
from ottla.controller import partition_machine
from ottla.controller.context import ControllerContext
from ottla.controller.election import Strategy
from ottla.controller.events import (
    AutoPreferredLeaderElection,
    ElectLeaders,
    PreferredReplicaElection,
    UncleanLeaderElectionEnabled,
)
from ottla.controller.steps import Post, Steps, check_exists, get_paths, write
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.store import Delete
from ottla.metadata.znodes import PreferredReplicaElectionZnode
from ottla.types import TopicPartition

Elections = dict[TopicPartition, int | KafkaError]


def on_preferred_replica_election(
    ctx: ControllerContext, event: PreferredReplicaElection
) -> Steps[None]:
    """Handles the node that old tools write, removes it, and watches for the next one."""
    path = PreferredReplicaElectionZnode.path()
    if not (yield from check_exists(path, event)):
        return
    node = (yield from get_paths([path]))[0]
    asked = PreferredReplicaElectionZnode.decode(node.data) if node is not None else []
    if not asked:
        ctx.journal.error(f"{path} names no partition")
    yield from elect(ctx, asked)
    yield from write([Delete(path)])
    yield Post(event)


def on_elect_leaders(ctx: ControllerContext, event: ElectLeaders) -> Steps[Elections]:
    return (yield from elect(ctx, event.partitions, unclean=event.unclean))


def elect(
    ctx: ControllerContext, asked: Iterable[TopicPartition], *, unclean: bool = False
) -> Steps[Elections]:
    """The new leader of each partition, or why there is none (processReplicaLeaderElection)."""
    elections: Elections = {}
    electable = []
    unknown = []
    for tp in dict.fromkeys(asked):
        if tp.partition not in ctx.topic_assignment(tp.topic):
            unknown.append(tp)
            elections[tp] = KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."
            )
        elif ctx.is_queued_for_deletion(tp.topic):
            ctx.journal.warn(f"Skipping replica leader election for {tp}: it is being deleted")
            elections[tp] = KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted"
            )
        elif has_live_leader(ctx, tp) if unclean else is_led_by_preferred(ctx, tp):
            elections[tp] = KafkaError(ErrorCode.ELECTION_NOT_NEEDED)
        else:
            electable.append(tp)
    if unknown:
        ctx.journal.info(
            f"Skipping replica leader election for {first_of(unknown)}: no such partition"
        )
    strategy = Strategy.UNCLEAN if unclean else Strategy.PREFERRED
    failures = (
        (yield from partition_machine.to_online(ctx, electable, strategy)) if electable else {}
    )
    code = (
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        if unclean
        else ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    )
    for tp in electable:
        reason = failures.get(tp)
        elections[tp] = KafkaError(code, reason) if reason else ctx.leadership[tp].leader
    return elections


def has_live_leader(ctx: ControllerContext, tp: TopicPartition) -> bool:
    """As Kafka asks before an unclean election; a failed log directory does not count here."""
    state = ctx.leadership.get(tp)
    return state is not None and state.leader in ctx.brokers.keys() - ctx.shutting_down


def is_led_by_preferred(ctx: ControllerContext, tp: TopicPartition) -> bool:
    replicas = ctx.assignment(tp).replicas
    state = ctx.leadership.get(tp)
    return bool(replicas) and state is not None and state.leader == replicas[0]


def imbalanced_partitions(ctx: ControllerContext) -> list[TopicPartition]:
    """Partitions to hand back to their first replica: of brokers that miss too many of theirs,
    and only where the first replica can take over. Nothing while any reassignment runs."""
    by_preferred: dict[int, list[TopicPartition]] = {}
    for tp in ctx.all_partitions():
        replicas = ctx.assignment(tp).replicas
        if replicas and not ctx.is_queued_for_deletion(tp.topic):
            by_preferred.setdefault(replicas[0], []).append(tp)
    chosen: list[TopicPartition] = []
    limit = ctx.config.leader_imbalance_per_broker_percentage / 100
    for broker_id, partitions in sorted(by_preferred.items()):
        elsewhere = [
            tp
            for tp in partitions
            if tp in ctx.leadership and ctx.leadership[tp].leader != broker_id
        ]
        if len(elsewhere) / len(partitions) > limit and not ctx.partitions_being_reassigned:
            chosen += [
                tp
                for tp in elsewhere
                if broker_id in ctx.leadership[tp].isr and ctx.is_online(broker_id, tp)
            ]
    return chosen


def on_auto_preferred_election(
    ctx: ControllerContext, event: AutoPreferredLeaderElection
) -> Steps[None]:
    chosen = imbalanced_partitions(ctx)
    if chosen:
        ctx.journal.info(
            f"Starting replica leader election (PREFERRED) for {len(chosen)}"
            " partitions triggered by AutoTriggered"
        )
        yield from partition_machine.to_online(ctx, chosen, Strategy.PREFERRED)


def on_unclean_election_enabled(
    ctx: ControllerContext, event: UncleanLeaderElectionEnabled
) -> Steps[None]:
    yield from partition_machine.elect_partitions_without_leader(ctx, event.topic)
