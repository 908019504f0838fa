"""ISR changes: asked for by leaders (AlterIsr, KIP-497) or announced by older ones."""

from __future__ import annotations

from ottla.controller.context import ControllerContext
from ottla.controller.events import AlterIsr, IsrChangeNotification, ReassignmentProgress
from ottla.controller.requests import send_update_metadata
from ottla.controller.steps import Post, Steps, get_children, get_paths, write
from ottla.controller.stored_leadership import read_states, write_states
from ottla.controller.transitions import record_step
from ottla.errors import ErrorCode
from ottla.metadata.store import Delete, NoNodeError
from ottla.metadata.znodes import IsrChangeNotificationZnode, LeaderAndIsr
from ottla.types import TopicPartition
from ottla.wire import messages as m

Answer = LeaderAndIsr | ErrorCode


def on_isr_change_notification(ctx: ControllerContext, event: IsrChangeNotification) -> Steps[None]:
    names = yield from get_children(IsrChangeNotificationZnode.parent(), event)
    paths = [IsrChangeNotificationZnode.path(name) for name in names]
    nodes = yield from get_paths(paths)
    changed = sorted(
        {
            tp
            for node in nodes
            if node is not None
            for tp in IsrChangeNotificationZnode.decode(node.data)
            if tp.partition in ctx.topic_assignment(tp.topic)
        }
    )
    if changed:
        ctx.leadership.update((yield from read_states(changed)))
        yield from send_update_metadata(ctx, ctx.brokers, changed)
        if not ctx.partitions_being_reassigned.isdisjoint(changed):
            yield Post(ReassignmentProgress())
    yield from write([Delete(path) for path in paths])


def on_alter_isr(ctx: ControllerContext, event: AlterIsr) -> Steps[m.AlterPartitionResponse]:
    """Version 0 of AlterPartition (AlterIsr): no epoch is raised, no LeaderAndIsr is sent."""
    request = event.request
    if ctx.broker_epochs.get(request.broker_id) != request.broker_epoch:
        return m.AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    answers: dict[TopicPartition, Answer] = {}
    updates: dict[TopicPartition, LeaderAndIsr] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            tp = TopicPartition(topic.topic_name, partition.partition_index)
            current = ctx.leadership.get(tp)
            if tp.topic in ctx.topics_with_deletion_started:
                # What is kept of it has the ISR from before: nobody may count on another one.
                current = None
            judged = judge(current, request.broker_id, partition, ctx.epoch)
            if isinstance(judged, Update) and current is not None:
                judged = Update(without_the_gone(ctx, current, judged.state))
            if isinstance(judged, Update):
                updates[tp] = judged.state
            else:
                answers[tp] = judged
    before = {tp: ctx.leadership[tp].isr for tp in updates}
    outcome = yield from write_states(ctx, updates)
    answers.update(outcome.done)
    for tp in outcome.done:
        record_step(ctx, "partition", tp, cause=f"the ISR was {','.join(map(str, before[tp]))}")
    answers.update(dict.fromkeys(outcome.stale, ErrorCode.INVALID_UPDATE_VERSION))
    for tp, error in outcome.failed.items():
        ctx.journal.warn(f"Failed to update ISR for partition {tp}: {error!r}")
        gone = isinstance(error, NoNodeError)
        answers[tp] = (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if gone else ErrorCode.UNKNOWN_SERVER_ERROR
        )
    yield from send_update_metadata(ctx, ctx.brokers, answers)
    if not ctx.partitions_being_reassigned.isdisjoint(outcome.done):
        # Later, so that the leader has its answer before the next LeaderAndIsr comes.
        yield Post(ReassignmentProgress())
    return _response(request, answers)


class Update:
    """The leader's wish, to be written at the version it named."""

    __slots__ = ("state",)

    def __init__(self, state: LeaderAndIsr) -> None:
        self.state = state


def judge(
    current: LeaderAndIsr | None,
    broker_id: int,
    wish: m.AlterPartitionRequest.PartitionData,
    controller_epoch: int,
) -> Update | Answer:
    """KafkaController.processAlterIsr for one partition. The ISR is compared as a list."""
    if current is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if wish.leader_epoch < current.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    new_isr = tuple(wish.new_isr)
    if not new_isr:
        # An empty ISR could never elect anybody again; Kafka's leaders do not send one.
        return ErrorCode.INVALID_REQUEST
    if (broker_id, wish.leader_epoch, new_isr) == current[:3]:
        return current
    return Update(
        LeaderAndIsr(broker_id, wish.leader_epoch, new_isr, controller_epoch, wish.partition_epoch)
    )


def without_the_gone(
    ctx: ControllerContext, current: LeaderAndIsr, wished: LeaderAndIsr
) -> LeaderAndIsr:
    """Leaves out brokers that are down or shut down: a leader may wish to add one whose last
    fetch it has just seen, and acks=all would wait for it (KIP-841; Kafka 2.8.2 lets it in).

    It is written and answered all the same, with a new version: a leader of 2.8.2 is stuck after
    an error, and takes the ISR from the answer.
    """
    gone = [
        replica
        for replica in wished.isr
        if replica not in current.isr
        and (replica not in ctx.brokers or replica in ctx.shutting_down)
    ]
    if not gone:
        return wished
    return wished._replace(isr=tuple(replica for replica in wished.isr if replica not in gone))


def _response(
    request: m.AlterPartitionRequest, answers: dict[TopicPartition, Answer]
) -> m.AlterPartitionResponse:
    return m.AlterPartitionResponse(
        topics=[
            m.AlterPartitionResponse.TopicData(
                topic_name=topic.topic_name,
                partitions=[
                    _partition_answer(
                        partition.partition_index,
                        answers[TopicPartition(topic.topic_name, partition.partition_index)],
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _partition_answer(index: int, answer: Answer) -> m.AlterPartitionResponse.PartitionData:
    if isinstance(answer, ErrorCode):
        return m.AlterPartitionResponse.PartitionData(partition_index=index, error_code=answer)
    return m.AlterPartitionResponse.PartitionData(
        partition_index=index,
        leader_id=answer.leader,
        leader_epoch=answer.leader_epoch,
        isr=list(answer.isr),
        partition_epoch=answer.zk_version,
    )
