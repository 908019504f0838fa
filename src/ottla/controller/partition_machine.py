"""Moves partitions between states (kafka.controller.PartitionStateMachine).

A transition that the table does not allow is refused (`transitions`); the rest
of the batch goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ottla.controller import election
from ottla.controller.context import ControllerContext
from ottla.controller.election import Elected, Strategy
from ottla.controller.partition_states import PartitionState
from ottla.controller.requests import RequestBatch
from ottla.controller.steps import Steps, failed, get_paths, write
from ottla.controller.stored_leadership import MAX_WRITE_ROUNDS, states_of, write_states
from ottla.controller.transitions import movable_partitions, record_step
from ottla.metadata.store import Create, NodeExistsError
from ottla.metadata.znodes import (
    ConfigZnode,
    LeaderAndIsr,
    TopicPartitionStateZnode,
    TopicPartitionsZnode,
    TopicPartitionZnode,
)
from ottla.state_changes import TRACE
from ottla.types import TopicPartition

UNCLEAN_CONFIG = "unclean.leader.election.enable"

# Why a partition did not get a leader, for those that did not.
Failures = dict[TopicPartition, str]


def to_new(ctx: ControllerContext, partitions: Iterable[TopicPartition]) -> None:
    for tp in movable_partitions(ctx, partitions, PartitionState.NEW):
        _move(ctx, tp, PartitionState.NEW)


def to_offline(ctx: ControllerContext, partitions: Iterable[TopicPartition]) -> None:
    for tp in movable_partitions(ctx, partitions, PartitionState.OFFLINE):
        _move(ctx, tp, PartitionState.OFFLINE)


def to_non_existent(ctx: ControllerContext, partitions: Iterable[TopicPartition]) -> None:
    for tp in movable_partitions(ctx, partitions, PartitionState.NON_EXISTENT):
        _move(ctx, tp, PartitionState.NON_EXISTENT)


def to_online(
    ctx: ControllerContext,
    partitions: Iterable[TopicPartition],
    strategy: Strategy,
    *,
    just_read: bool = False,
) -> Steps[Failures]:
    """Gives new partitions their first leader, others an elected one, and tells the brokers. With
    `just_read` the states in memory are as good as those in the store."""
    new: list[TopicPartition] = []
    others: list[TopicPartition] = []
    for tp in movable_partitions(ctx, partitions, PartitionState.ONLINE):
        (new if ctx.partition_state(tp) is PartitionState.NEW else others).append(tp)
    batch = RequestBatch(ctx)
    failures: Failures = {}
    if new:
        failures.update((yield from _initialise(ctx, new, batch)))
    if others:
        failures.update((yield from _elect(ctx, others, strategy, batch, just_read=just_read)))
    start = f"Controller {ctx.broker_id} epoch {ctx.epoch} failed to change state for partition"
    ctx.journal.state_changes(
        logging.ERROR,
        (
            f"{start} {tp.topic}-{tp.partition} from {ctx.partition_state(tp).title} to"
            f" OnlinePartition: {reason}"
            for tp, reason in failures.items()
        ),
    )
    yield from batch.send()
    return failures


def elect_partitions_without_leader(
    ctx: ControllerContext, topic: str | None = None, *, just_read: bool = False
) -> Steps[None]:
    """Tries every new and offline partition again, of one topic or of all."""
    partitions = ctx.partitions_without_leader()
    if topic is not None:
        partitions = [tp for tp in partitions if tp.topic == topic]
    if partitions:
        yield from to_online(ctx, partitions, Strategy.OFFLINE, just_read=just_read)


def _move(ctx: ControllerContext, tp: TopicPartition, target: PartitionState) -> None:
    source = ctx.partition_state(tp)
    ctx.put_partition_state(tp, target)
    ctx.census.partition_steps[source, target] += 1
    state = ctx.leadership.get(tp)
    record_step(ctx, "partition", tp, from_state=source.title, to_state=target.title)
    if target is PartitionState.ONLINE and state is not None:
        ctx.journal.state_change(
            logging.INFO,
            "Changed partition %s from %s to %s with state LeaderAndIsr(leader=%d,"
            " leaderEpoch=%d, isr=List(%s), zkVersion=%d)",
            tp,
            source.title,
            target.title,
            state.leader,
            state.leader_epoch,
            ", ".join(map(str, state.isr)),
            state.zk_version,
        )
    elif target is PartitionState.NEW:
        ctx.journal.state_change(
            logging.INFO,
            "Changed partition %s state from %s to %s with assigned replicas %s",
            tp,
            source.title,
            target.title,
            ",".join(map(str, ctx.assignment(tp).replicas)),
        )
    else:
        ctx.journal.state_change(
            TRACE, "Changed partition %s state from %s to %s", tp, source.title, target.title
        )


def _initialise(
    ctx: ControllerContext, partitions: list[TopicPartition], batch: RequestBatch
) -> Steps[Failures]:
    """Creates `partitions`, `<p>` and `state` in three rounds over all partitions at once."""
    failures: Failures = {}
    states: dict[TopicPartition, LeaderAndIsr] = {}
    for tp in partitions:
        replicas = ctx.assignment(tp).replicas
        state = election.first_leadership(replicas, ctx.online_check(tp), ctx.epoch)
        if state is None:
            failures[tp] = (
                f"assigned replicas are {list(replicas)}, live brokers are"
                f" {sorted(ctx.brokers.keys() - ctx.shutting_down)}. No assigned replica is alive."
            )
        else:
            states[tp] = state
    topics = dict.fromkeys(tp.topic for tp in states)
    yield from write([Create(TopicPartitionsZnode.path(topic)) for topic in topics])
    yield from write([Create(TopicPartitionZnode.path(tp)) for tp in states])
    results = yield from write(
        [
            Create(TopicPartitionStateZnode.path(tp), TopicPartitionStateZnode.encode(state))
            for tp, state in states.items()
        ]
    )
    for (tp, state), result in zip(states.items(), results, strict=True):
        if failed(result):
            # NODEEXISTS: someone wrote a state by hand. As in Kafka the partition stays new.
            found = "its state znode exists already"
            failures[tp] = found if isinstance(result.error, NodeExistsError) else str(result.error)
        else:
            ctx.leadership[tp] = state
            batch.add_leader_and_isr(state.isr, tp, is_new=True)
            _move(ctx, tp, PartitionState.ONLINE)
    return failures


def _elect(
    ctx: ControllerContext,
    partitions: list[TopicPartition],
    strategy: Strategy,
    batch: RequestBatch,
    *,
    just_read: bool,
) -> Steps[Failures]:
    """Reads, elects, writes; whoever lost a race reads again, a bounded number of times."""
    failures: Failures = {}
    remaining = partitions
    for _ in range(MAX_WRITE_ROUNDS):
        stored = yield from states_of(ctx, remaining, just_read=just_read)
        just_read = False
        winners = yield from _choose(ctx, remaining, stored, strategy, failures)
        outcome = yield from write_states(ctx, {tp: won.state for tp, won in winners.items()})
        for tp in outcome.done:
            won = winners[tp]
            batch.add_leader_and_isr(won.recipients, tp, is_new=False)
            if won.state.leader not in stored[tp].isr:
                ctx.journal.unclean_election(tp, won.state.leader, stored[tp].isr)
            _move(ctx, tp, PartitionState.ONLINE)
        failures.update({tp: repr(error) for tp, error in outcome.failed.items()})
        remaining = outcome.stale
        if not remaining:
            break
    failures.update(dict.fromkeys(remaining, "its state znode kept changing"))
    return failures


def _choose(
    ctx: ControllerContext,
    partitions: list[TopicPartition],
    stored: dict[TopicPartition, LeaderAndIsr],
    strategy: Strategy,
    failures: Failures,
) -> Steps[dict[TopicPartition, Elected]]:
    candidates = {}
    for tp in partitions:
        current = stored.get(tp)
        if current is None:
            failures[tp] = f"there is no leadership of {tp} in the store"
        elif current.controller_epoch > ctx.epoch:
            failures[tp] = (
                f"its state was written by a controller of epoch {current.controller_epoch},"
                f" later than {ctx.epoch}"
            )
        else:
            candidates[tp] = current
    unclean = yield from _unclean_topics(ctx, candidates, strategy)
    winners = {}
    for tp, current in candidates.items():
        won = _run(ctx, tp, current, strategy, unclean=tp.topic in unclean)
        if won is None:
            failures[tp] = (
                f"Failed to elect leader for partition {tp.topic}-{tp.partition} under strategy"
                f" {strategy.value}"
            )
        else:
            winners[tp] = won
    return winners


def _run(
    ctx: ControllerContext,
    tp: TopicPartition,
    current: LeaderAndIsr,
    strategy: Strategy,
    *,
    unclean: bool,
) -> Elected | None:
    assignment = ctx.assignment(tp)
    online = ctx.online_check(tp)
    match strategy:
        case Strategy.PREFERRED:
            return election.elect_preferred(assignment.replicas, current, online)
        case Strategy.REASSIGN:
            return election.elect_for_reassignment(assignment.target, current, online)
        case Strategy.CONTROLLED_SHUTDOWN:
            alive = ctx.online_check(tp, or_shutting_down=True)
            return election.elect_for_shutdown(
                assignment.replicas, current, alive, ctx.shutting_down
            )
        case Strategy.OFFLINE | Strategy.UNCLEAN:
            return election.elect_offline(assignment.replicas, current, online, unclean=unclean)


def _unclean_topics(
    ctx: ControllerContext,
    candidates: dict[TopicPartition, LeaderAndIsr],
    strategy: Strategy,
) -> Steps[set[str]]:
    """Topics that accept an unclean leader: asked only where no clean one can be found."""
    if strategy not in (Strategy.OFFLINE, Strategy.UNCLEAN):
        return set()
    topics = sorted(
        {
            tp.topic
            for tp, current in candidates.items()
            if election.needs_unclean(ctx.assignment(tp).replicas, current, ctx.online_check(tp))
        }
    )
    if strategy is Strategy.UNCLEAN:
        return set(topics)
    nodes = yield from get_paths([ConfigZnode.path(ConfigZnode.TOPICS, t) for t in topics])
    default = "true" if ctx.config.unclean_leader_election_enable else "false"
    allowed = set()
    for topic, node in zip(topics, nodes, strict=True):
        config = ConfigZnode.decode(node.data) if node is not None else {}
        if config.get(UNCLEAN_CONFIG, default).lower() == "true":
            allowed.add(topic)
    return allowed
