"""A new controller takes over (KafkaController.onControllerFailover), in Kafka's order."""

from __future__ import annotations

from ottla.controller import (
    deletion,
    ended_topics,
    partition_machine,
    partition_moves,
    replica_machine,
)
from ottla.controller.context import ControllerContext
from ottla.controller.decisions.brokers import read_all_marks, read_brokers
from ottla.controller.decisions.leader_election import on_preferred_replica_election
from ottla.controller.decisions.reassignments import on_zk_reassignment
from ottla.controller.decisions.topics import give_topic_ids, read_topics
from ottla.controller.events import (
    Failover,
    IsrChangeNotification,
    LogDirEventNotification,
    PreferredReplicaElection,
    TopicChange,
    TopicDeletion,
    ZkPartitionReassignment,
)
from ottla.controller.partition_states import PartitionState
from ottla.controller.renaming import progress
from ottla.controller.renaming import stored as renames
from ottla.controller.replica_states import ReplicaState
from ottla.controller.requests import RequestBatch, send_update_metadata
from ottla.controller.resizing import progress as resizing
from ottla.controller.resizing import stored as resizes
from ottla.controller.steps import OpenChannels, Steps, get_children, get_paths, write
from ottla.controller.stored_leadership import (
    MAX_WRITE_ROUNDS,
    Dated,
    read_dated_states,
    without_returned,
    write_states,
)
from ottla.controller.trash import keeping, undelete
from ottla.metadata.ended import StoredEntry
from ottla.metadata.store import Create, Delete, SetData
from ottla.metadata.znodes import (
    BadZnodeError,
    DeleteTopicsZnode,
    DeleteTopicZnode,
    Features,
    FeatureZnode,
    IsrChangeNotificationZnode,
    LogDirEventNotificationZnode,
    TopicsZnode,
)
from ottla.types import TopicId, TopicPartition, TopicPartitionReplica


def on_failover(ctx: ControllerContext, event: Failover) -> Steps[None]:
    yield from _enable_features(ctx)
    yield from _delete_log_dir_notifications()
    yield from _delete_isr_notifications()
    # First of all: a topic on its way back must not be taken for one without states.
    ended = yield from undelete.resume(ctx, (yield from ended_topics.read()))
    asked, states = yield from _load(ctx)
    asked = yield from _allowed(ctx, asked, ended)
    yield from _queue_deletions(ctx, asked)
    yield from ended_topics.take_over(ctx, ended)
    yield from _pass_over_returned(ctx, states)
    # Brokers must know who is alive, and who the controller is, before LeaderAndIsr comes.
    yield from progress.expect_on(ctx, ctx.brokers)
    yield from resizing.close_on(ctx, ctx.brokers)
    yield from send_update_metadata(ctx, ctx.brokers)
    partitions = ctx.all_partitions()
    yield from _start_replicas(ctx, partitions)
    yield from _start_partitions(ctx, partitions)
    ctx.journal.info(f"Ready to serve as the new controller with epoch {ctx.epoch}")
    started = yield from on_zk_reassignment(ctx, ZkPartitionReassignment())
    yield from partition_moves.resume(ctx, without=started)
    yield from deletion.resume(ctx)
    yield from progress.resume(ctx)
    yield from resizing.resume(ctx)
    yield from on_preferred_replica_election(ctx, PreferredReplicaElection())


def _enable_features(ctx: ControllerContext) -> Steps[None]:
    """KIP-584: the node must exist and be enabled. Not fenced, as in Kafka."""
    path = FeatureZnode.path()
    node = (yield from get_paths([path]))[0]
    enabled = FeatureZnode.encode(Features({}, FeatureZnode.STATUS_ENABLED))
    if node is None:
        yield from write([Create(path, enabled)], fenced=False)
        return
    try:
        features = FeatureZnode.decode(node.data)
    except BadZnodeError as error:
        ctx.journal.error(f"{error}; it is left as it is and counts as no features")
        return
    if features.status == FeatureZnode.STATUS_ENABLED:
        ctx.finalized_features = features.features
    else:
        yield from write([SetData(path, enabled, node.stat.version)], fenced=False)


def _delete_log_dir_notifications() -> Steps[None]:
    """What they announced is seen anyhow: every broker gets LeaderAndIsr for all its replicas."""
    names = yield from get_children(
        LogDirEventNotificationZnode.parent(), LogDirEventNotification()
    )
    yield from write([Delete(LogDirEventNotificationZnode.path(name)) for name in names])


def _delete_isr_notifications() -> Steps[None]:
    names = yield from get_children(IsrChangeNotificationZnode.parent(), IsrChangeNotification())
    yield from write([Delete(IsrChangeNotificationZnode.path(name)) for name in names])


def _load(ctx: ControllerContext) -> Steps[tuple[list[str], dict[TopicPartition, Dated]]]:
    """Brokers, topics, assignments, states, channels; returns the topics asked to be deleted, and
    the states with their ages."""
    registered = yield from read_brokers(ctx)
    for broker in registered.values():
        ctx.add_broker(broker.info, broker.epoch)
    yield from read_all_marks(ctx, registered)
    # Before the topics are read: afterwards each has one name.
    yield from renames.take_over(ctx)
    yield from resizes.take_over(ctx)
    ctx.topics.update((yield from get_children(TopicsZnode.path(), TopicChange())))
    asked = yield from get_children(DeleteTopicsZnode.path(), TopicDeletion())
    assignments = yield from read_topics(ctx, ctx.topics)
    yield from give_topic_ids(ctx, assignments)
    for topic, assignment in assignments.items():
        for partition, replicas in sorted(assignment.partitions.items()):
            ctx.set_assignment(TopicPartition(topic, partition), replicas)
    partitions = ctx.all_partitions()
    states = yield from read_dated_states(partitions)
    ctx.leadership.update({tp: dated.state for tp, dated in states.items()})
    yield OpenChannels([broker.info for broker in registered.values()])
    ctx.journal.info(
        f"Currently active brokers in the cluster: {sorted(ctx.brokers)}; topics:"
        f" {len(ctx.topics)}; partitions: {len(partitions)}"
    )
    return asked, states


def _pass_over_returned(ctx: ControllerContext, states: dict[TopicPartition, Dated]) -> Steps[None]:
    """Takes brokers out of ISRs that were away while nobody reigned (ADR 22).

    A registration younger than a state's last write says so: whoever saw the broker go would have
    written the state. What it had not synced may be gone, so others of the ISR go first.
    """
    youngest = max(ctx.broker_epochs.values(), default=-1)
    for _ in range(MAX_WRITE_ROUNDS):
        updates = {}
        for tp, dated in states.items():
            if dated.mzxid >= youngest or ctx.is_queued_for_deletion(tp.topic):
                continue
            passed_over = without_returned(ctx, tp, ctx.assignment(tp).replicas, dated)
            if passed_over is not None and dated.state.controller_epoch <= ctx.epoch:
                updates[tp] = passed_over
        outcome = yield from write_states(ctx, updates)
        for tp, written in outcome.done.items():
            who = "others" if len(written.isr) < len(states[tp].state.isr) else "all"
            ctx.journal.info(
                f"{tp} gets leader {written.leader} and ISR {list(written.isr)}: {who} of the ISR"
                " came back while there was no controller"
            )
        if not outcome.stale:
            return
        states = yield from read_dated_states(outcome.stale)


def _allowed(
    ctx: ControllerContext, asked: list[str], ended: dict[TopicId, StoredEntry]
) -> Steps[list[str]]:
    """Protected topics stay, unless their deletion is under way."""
    begun = {topic for topic in asked if ctx.topic_ids.get(topic) in ended}
    rest = yield from keeping.refuse_protected(ctx, [t for t in asked if t not in begun])
    return sorted({*begun, *rest})


def _queue_deletions(ctx: ControllerContext, asked: list[str]) -> Steps[None]:
    if not ctx.config.delete_topic_enable:
        yield from write([Delete(DeleteTopicZnode.path(topic)) for topic in asked])
        return
    ctx.topics_to_delete.update(asked)
    offline = {
        topic
        for topic in asked
        for replica in ctx.replicas_of(ctx.partitions_of(topic))
        if not ctx.is_online(replica.broker_id, replica.topic_partition)
        and not ctx.will_clean_up(replica.broker_id)
    }
    deletion.mark_ineligible(ctx, offline, "offline replicas")
    moving = {tp.topic for tp in ctx.partitions_being_reassigned}
    deletion.mark_ineligible(ctx, moving, "topic reassignment in progress")
    renaming = {name for rename in ctx.renames.values() for name in rename.stored[:2]}
    deletion.mark_ineligible(ctx, renaming, "topic rename in progress")
    deletion.mark_ineligible(ctx, ctx.topics_changing_hands(), "topic resize in progress")


def _start_replicas(ctx: ControllerContext, partitions: list[TopicPartition]) -> Steps[None]:
    """Those that are up are found online, and their brokers are told again what they host."""
    batch = RequestBatch(ctx)
    offline: list[TopicPartitionReplica] = []
    states: dict[str, dict[TopicPartitionReplica, ReplicaState]] = {}
    for tp in partitions:
        topic, partition = tp
        online: list[int] = []
        is_online = ctx.online_check(tp)
        found = states.get(topic)
        if found is None:
            found = states[topic] = {}
        for broker_id in ctx.assignment(tp).replicas:
            replica = TopicPartitionReplica(topic, partition, broker_id)
            if is_online(broker_id):
                found[replica] = ReplicaState.ONLINE
                online.append(broker_id)
            else:
                # So that a deletion does not wait for an answer that cannot come.
                found[replica] = ReplicaState.DELETION_INELIGIBLE
                offline.append(replica)
        if online and tp in ctx.leadership:
            batch.add_leader_and_isr(online, tp, is_new=False)
    ctx.found_replicas(states)
    yield from batch.send()
    yield from replica_machine.to_offline(ctx, offline, just_read=True)


def _start_partitions(ctx: ControllerContext, partitions: list[TopicPartition]) -> Steps[None]:
    states = {}
    for tp in partitions:
        state = ctx.leadership.get(tp)
        if state is None:
            states[tp] = PartitionState.NEW
        elif ctx.online_check(tp)(state.leader):
            states[tp] = PartitionState.ONLINE
        else:
            states[tp] = PartitionState.OFFLINE
    ctx.found_partitions(states)
    yield from partition_machine.elect_partitions_without_leader(ctx, just_read=True)
