"""Topic deletion (kafka.controller.TopicDeletionManager): who may go, and the steps there.

A topic is deleted once every replica has reported success. It waits (is ineligible) while a replica
is on a dead broker or a failed directory, while it is being reassigned, or after a stop was
refused; the return of a broker, the end of a reassignment or a new controller tries again. A rename
or a resize that has yet to carry the offsets of groups is waited for whatever happens meanwhile
(ADR 51, ADR 53). Unlike in Kafka a dead broker of Ottla's own is not waited for: it deletes the
logs when it returns (ADR 13), because an entry in the store says that the topic ended (ADR 28).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.controller import ended_topics, partition_machine, replica_machine
from ottla.controller.context import ControllerContext
from ottla.controller.replica_states import ReplicaState
from ottla.controller.requests import send_update_metadata
from ottla.controller.steps import Steps, failed, get_children_of, write
from ottla.controller.stored_assignments import remove_from_admin_node, write_assignments
from ottla.controller.trash import keeping
from ottla.metadata.store import Delete, NoNodeError
from ottla.metadata.znodes import (
    ConfigZnode,
    DeleteTopicZnode,
    ReplicaAssignment,
    TopicPartitionStateZnode,
    TopicPartitionsZnode,
    TopicPartitionZnode,
    TopicZnode,
)
from ottla.types import TopicPartition, TopicPartitionReplica

# Deeper than any topic's znodes; a bound for trees that somebody made by hand.
MAX_TREE_DEPTH = 16

_STOPPED = (ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED)


class DeletionSurvey(NamedTuple):
    """What can be done now for the topics that are queued."""

    complete: list[str]
    retry: list[str]
    start: list[str]


def is_eligible(ctx: ControllerContext, topic: str) -> bool:
    return (
        topic in ctx.topics_to_delete
        and not ctx.any_replica_in_state(topic, ReplicaState.DELETION_STARTED)
        and topic not in ctx.topics_ineligible_for_deletion
        # Not left to the mark alone: what takes that away, say a broker that is back, knows nothing
        # of these. Offsets that came later would be those of the next topic of the name.
        and ctx.rename_of(topic) is None
        and topic not in ctx.topics_changing_hands()
    )


def is_done(ctx: ControllerContext, topic: str) -> bool:
    """Whether every replica is deleted, or will be by a broker that is down."""
    if ctx.all_replicas_in_state(topic, ReplicaState.DELETION_SUCCESSFUL):
        return True
    if topic not in ctx.topics_with_deletion_started or not ctx.ottla_brokers - ctx.brokers.keys():
        return False
    return all(
        ctx.replica_state(replica) is ReplicaState.DELETION_SUCCESSFUL
        or ctx.will_clean_up(replica.broker_id)
        for replica in ctx.replicas_of(ctx.partitions_of(topic))
    )


def survey(ctx: ControllerContext) -> DeletionSurvey:
    found = DeletionSurvey([], [], [])
    for topic in sorted(ctx.topics_to_delete):
        if is_done(ctx, topic):
            found.complete.append(topic)
            continue
        started = ctx.any_replica_in_state(topic, ReplicaState.DELETION_STARTED)
        if not started and ctx.any_replica_in_state(topic, ReplicaState.DELETION_INELIGIBLE):
            found.retry.append(topic)
        if is_eligible(ctx, topic):
            found.start.append(topic)
    return found


def mark_ineligible(ctx: ControllerContext, topics: Iterable[str], reason: str) -> None:
    halted = sorted(ctx.topics_to_delete & set(topics))
    if halted:
        ctx.topics_ineligible_for_deletion.update(halted)
        ctx.journal.info(f"Halted deletion of topics {','.join(halted)} due to {reason}")


def resume_topics(ctx: ControllerContext, topics: Iterable[str]) -> Steps[None]:
    """Makes the topics eligible again: something they waited for has happened."""
    resumed = ctx.topics_to_delete & set(topics)
    if resumed:
        ctx.topics_ineligible_for_deletion -= resumed
        yield from resume(ctx)


def fail_replicas(ctx: ControllerContext, replicas: Iterable[TopicPartitionReplica]) -> Steps[None]:
    concerned = [r for r in replicas if ctx.is_queued_for_deletion(r.topic)]
    if concerned:
        # Kafka asks for this step of all of them, and logs it as illegal of one that is deleted
        # already and of one that was never stopped: both stay as they are.
        stopped = [r for r in concerned if ctx.replica_state(r) in _STOPPED]
        replica_machine.to_deletion_ineligible(ctx, stopped)
        mark_ineligible(ctx, {r.topic for r in concerned}, "replica deletion failure")
        yield from resume(ctx)


def complete_replicas(
    ctx: ControllerContext, replicas: Iterable[TopicPartitionReplica]
) -> Steps[None]:
    # An answer may be late: the topic was made anew, or the replica was given up meanwhile.
    replica_machine.to_deletion_successful(
        ctx,
        [
            replica
            for replica in replicas
            if ctx.is_queued_for_deletion(replica.topic)
            and ctx.replica_state(replica) is ReplicaState.DELETION_STARTED
        ],
    )
    yield from resume(ctx)


def resume(ctx: ControllerContext) -> Steps[None]:
    """Finishes, retries and starts whatever can be."""
    if not ctx.topics_to_delete:
        return
    yield from _end_hopeless_moves(ctx)
    ctx.journal.info(f"Handling deletion for topics {','.join(sorted(ctx.topics_to_delete))}")
    found = survey(ctx)
    if found.complete:
        yield from _complete(ctx, found.complete)
    if found.retry:
        ineligible = [
            replica
            for topic in found.retry
            for replica in ctx.replicas_in_state(topic, ReplicaState.DELETION_INELIGIBLE)
        ]
        yield from replica_machine.to_offline(ctx, ineligible)
    if found.start:
        yield from _start(ctx, found.start)
        # Topics of which no living broker has a replica need not wait for any answer.
        started = ctx.topics_with_deletion_started
        done = [topic for topic in found.start if topic in started and is_done(ctx, topic)]
        if done:
            yield from _complete(ctx, done)


def _end_hopeless_moves(ctx: ControllerContext) -> Steps[None]:
    """A deletion waits for the moves of its topic, as in Kafka, but not for one that needs a leader
    which a topic to be deleted does not get any more (ADR 23). Such a topic's moves end where they
    are, with the old replicas and the new, and all of them are deleted."""
    moving = sorted(
        tp for tp in ctx.partitions_being_reassigned if ctx.is_queued_for_deletion(tp.topic)
    )
    hopeless = {tp.topic for tp in moving if not _is_led(ctx, tp)}
    ended = {
        tp: ReplicaAssignment(ctx.assignment(tp).replicas) for tp in moving if tp.topic in hopeless
    }
    if not ended:
        return
    ctx.journal.info(f"Moves end because their topics do: {', '.join(map(str, ended))}")
    unfit = yield from write_assignments(ctx, ended)
    for tp, assignment in ended.items():
        if tp not in unfit:
            ctx.set_assignment(tp, assignment)
    yield from remove_from_admin_node(ctx, lambda tp, _: tp in ended)
    ctx.topics_ineligible_for_deletion -= hopeless


def _is_led(ctx: ControllerContext, tp: TopicPartition) -> bool:
    state = ctx.leadership.get(tp)
    return state is not None and ctx.is_online(state.leader, tp)


def _start(ctx: ControllerContext, topics: list[str]) -> Steps[None]:
    topics = yield from keeping.keep(ctx, topics)
    partitions = [tp for topic in topics for tp in ctx.partitions_of(topic)]
    unseen = [tp for tp in partitions if tp.topic not in ctx.topics_with_deletion_started]
    partition_machine.to_offline(ctx, unseen)
    partition_machine.to_non_existent(ctx, unseen)
    for topic in topics:
        ctx.journal.record("topic", topic=topic, topic_id=ctx.topic_ids.get(topic), cause="delete")
    ctx.topics_with_deletion_started.update(topics)
    # Leader -2 makes every broker forget the partitions before their logs go.
    yield from send_update_metadata(ctx, ctx.brokers, partitions)
    dead, alive, halted = [], [], []
    for topic in topics:
        for replica in ctx.replicas_of(ctx.partitions_of(topic)):
            if not ctx.is_online(replica.broker_id, replica.topic_partition):
                dead.append(replica)
                halted.append(topic)
            elif ctx.replica_state(replica) is not ReplicaState.DELETION_SUCCESSFUL:
                alive.append(replica)
    replica_machine.to_deletion_ineligible(
        ctx,
        # One that waits already needs no second step, and one that was never stopped (its broker
        # was down when the topic was made, or is about to be) waits as it is.
        [r for r in dead if ctx.replica_state(r) in _STOPPED],
    )
    yield from replica_machine.to_offline(ctx, alive)
    yield from replica_machine.to_deletion_started(ctx, alive)
    if halted:
        mark_ineligible(ctx, halted, "offline replicas")


def _complete(ctx: ControllerContext, topics: list[str]) -> Steps[None]:
    """Removes the znodes level by level over all topics, the admin node last of all, so that a
    controller that dies in between leaves a deletion that its successor can finish. Before all of
    them comes the entry that tells a deleted topic from one that got lost."""
    keeping.raise_epochs(ctx, topics)
    yield from keeping.pass_over_returned(ctx, topics)
    topics = yield from ended_topics.announce(ctx, topics)
    if not topics:
        return
    partitions = [tp for topic in topics for tp in ctx.partitions_of(topic)]
    yield from _abandon_dead_replicas(ctx, topics)
    for topic in topics:
        replica_machine.to_non_existent(
            ctx, ctx.replicas_in_state(topic, ReplicaState.DELETION_SUCCESSFUL)
        )
    yield from write([Delete(TopicPartitionStateZnode.path(tp)) for tp in partitions])
    yield from write([Delete(TopicPartitionZnode.path(tp)) for tp in partitions])
    yield from write([Delete(TopicPartitionsZnode.path(topic)) for topic in topics])
    results = yield from write([Delete(TopicZnode.path(topic)) for topic in topics])
    for topic, result in zip(topics, results, strict=True):
        if failed(result, NoNodeError):
            # Somebody added znodes by hand: look at what is there and remove all of it.
            yield from _delete_tree(TopicZnode.path(topic))
    yield from write([Delete(ConfigZnode.path(ConfigZnode.TOPICS, topic)) for topic in topics])
    yield from write([Delete(DeleteTopicZnode.path(topic)) for topic in topics])
    for topic in topics:
        topic_id = ctx.topic_ids.get(topic)
        ctx.journal.record("topic", topic=topic, topic_id=topic_id, to_state="Deleted")
        kept = None if topic_id not in ctx.trash else ctx.trash[topic_id].kept
        if kept is not None:
            cause = f"until {kept.until_ms}"
            ctx.journal.record(
                "topic", topic=topic, topic_id=topic_id, to_state="Kept", cause=cause
            )
        ctx.remove_topic(topic)
        ctx.journal.info(f"Deletion of topic {topic} successfully completed")


def _abandon_dead_replicas(ctx: ControllerContext, topics: list[str]) -> Steps[None]:
    """Takes the replicas of dead brokers the regular way to their end; nobody is told."""
    dead = [
        replica
        for topic in topics
        for replica in ctx.replicas_of(ctx.partitions_of(topic))
        if ctx.replica_state(replica) is not ReplicaState.DELETION_SUCCESSFUL
    ]
    if dead:
        ctx.journal.info(f"Left to brokers that are down: {', '.join(map(str, dead))}")
        yield from replica_machine.to_offline(
            ctx, [r for r in dead if ctx.replica_state(r) not in _STOPPED]
        )
        yield from replica_machine.to_deletion_started(
            ctx, [r for r in dead if ctx.replica_state(r) is ReplicaState.OFFLINE]
        )
        replica_machine.to_deletion_successful(ctx, dead)


def _delete_tree(root: str) -> Steps[None]:
    levels = [[root]]
    while levels[-1] and len(levels) < MAX_TREE_DEPTH:
        children = yield from get_children_of(levels[-1])
        levels.append(
            [
                f"{parent}/{name}"
                for parent, names in zip(levels[-1], children, strict=True)
                for name in names
            ]
        )
    for level in reversed(levels):
        yield from write([Delete(path) for path in level])
