"""A deletion was asked for, or a broker answered a StopReplica that deletes."""

from __future__ import annotations

from ottla.controller import deletion
from ottla.controller.context import ControllerContext
from ottla.controller.events import StopReplicaResponseReceived, TopicDeletion
from ottla.controller.requests import record_answer
from ottla.controller.resizing import progress as resizing
from ottla.controller.steps import Steps, get_children, write
from ottla.controller.trash import keeping
from ottla.errors import ErrorCode
from ottla.metadata.store import Delete
from ottla.metadata.znodes import DeleteTopicsZnode, DeleteTopicZnode
from ottla.types import TopicPartitionReplica


def on_topic_deletion(ctx: ControllerContext, event: TopicDeletion) -> Steps[None]:
    asked = yield from get_children(DeleteTopicsZnode.path(), event)
    unknown = [topic for topic in asked if topic not in ctx.topics]
    known = [topic for topic in asked if topic in ctx.topics]
    if unknown:
        ctx.journal.warn(f"Ignoring request to delete non-existing topics {','.join(unknown)}")
        yield from write([Delete(DeleteTopicZnode.path(topic)) for topic in unknown])
    if not known:
        return
    if not ctx.config.delete_topic_enable:
        ctx.journal.info(f"Removing {','.join(known)} since delete topic is disabled")
        yield from write([Delete(DeleteTopicZnode.path(topic)) for topic in known])
        return
    new = yield from keeping.refuse_protected(
        ctx, [topic for topic in known if not ctx.is_queued_for_deletion(topic)]
    )
    if new:
        ctx.journal.info(f"Starting topic deletion for topics {','.join(new)}")
    moving = {tp.topic for tp in ctx.partitions_being_reassigned} & set(new)
    ctx.topics_to_delete.update(new)
    deletion.mark_ineligible(ctx, moving, "topic reassignment in progress")
    renaming = {topic for topic in new if ctx.rename_of(topic) is not None}
    deletion.mark_ineligible(ctx, renaming, "topic rename in progress")
    deletion.mark_ineligible(ctx, ctx.topics_changing_hands(), "topic resize in progress")
    yield from resizing.end_without_topic(ctx)
    yield from deletion.resume(ctx)


def on_stop_replica_response(
    ctx: ControllerContext, event: StopReplicaResponseReceived
) -> Steps[None]:
    """Counts only partitions sent with delete=true of topics whose deletion has started.

    An answer to what was meant for an earlier life of the broker says nothing of this one.
    """
    record_answer(ctx, event)
    sent_to = event.request.broker_epoch
    if ctx.broker_epochs.get(event.broker_id, sent_to) != sent_to:
        return
    errors = {
        (e.topic_name, e.partition_index): e.error_code for e in event.response.partition_errors
    }
    deleted: list[TopicPartitionReplica] = []
    refused: list[TopicPartitionReplica] = []
    for topic in event.request.topic_states:
        if topic.topic_name not in ctx.topics_with_deletion_started:
            continue
        for partition in topic.partition_states:
            if not partition.delete_partition:
                continue
            name, index = topic.topic_name, partition.partition_index
            replica = TopicPartitionReplica(name, index, event.broker_id)
            code = event.response.error_code or errors.get((name, index), 0)
            (deleted if code == ErrorCode.NONE else refused).append(replica)
    if refused:
        ctx.journal.error(
            f"Broker {event.broker_id} could not delete {', '.join(map(str, refused))}"
        )
        yield from deletion.fail_replicas(ctx, refused)
    if deleted:
        yield from deletion.complete_replicas(ctx, deleted)
