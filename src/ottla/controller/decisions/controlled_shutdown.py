"""A broker wants to leave without hurting anyone (KafkaController.doControlledShutdown)."""

from __future__ import annotations

from ottla.controller import partition_machine, replica_machine
from ottla.controller.context import ControllerContext
from ottla.controller.election import Strategy
from ottla.controller.events import ControlledShutdown
from ottla.controller.requests import RequestBatch
from ottla.controller.steps import Steps
from ottla.errors import ErrorCode
from ottla.types import TopicPartition, TopicPartitionReplica
from ottla.wire import messages as m

_UNKNOWN_EPOCH = -1


def refusal(ctx: ControllerContext, broker_id: int, broker_epoch: int) -> ErrorCode | None:
    """Epoch -1 skips the epoch check; an id never seen fails before its absence is noticed."""
    if broker_epoch != _UNKNOWN_EPOCH:
        cached = ctx.broker_epochs.get(broker_id)
        if cached is None:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        if broker_epoch < cached:
            return ErrorCode.STALE_BROKER_EPOCH
    if broker_id not in ctx.brokers:
        return ErrorCode.BROKER_NOT_AVAILABLE
    return None


def on_controlled_shutdown(
    ctx: ControllerContext, event: ControlledShutdown
) -> Steps[m.ControlledShutdownResponse]:
    broker_id = event.request.broker_id
    refused = refusal(ctx, broker_id, event.request.broker_epoch)
    if refused is not None:
        return m.ControlledShutdownResponse(error_code=refused)
    ctx.journal.info(f"Shutting down broker {broker_id}")
    ctx.journal.record("broker", broker=broker_id, cause="controlled shutdown")
    ctx.shutting_down.add(broker_id)
    led, followed = _partitions_to_move(ctx, broker_id)
    yield from partition_machine.to_online(ctx, led, Strategy.CONTROLLED_SHUTDOWN)
    batch = RequestBatch(ctx)
    for tp in followed:
        batch.add_stop_replica(broker_id, tp, delete=False)
    yield from batch.send()
    yield from replica_machine.to_offline(
        ctx, [TopicPartitionReplica(tp.topic, tp.partition, broker_id) for tp in followed]
    )
    return m.ControlledShutdownResponse(
        remaining_partitions=[
            m.ControlledShutdownResponse.RemainingPartition(
                topic_name=tp.topic, partition_index=tp.partition
            )
            for tp in ctx.partitions_on(broker_id)
            if tp in ctx.leadership and ctx.leadership[tp].leader == broker_id
        ]
    )


def _partitions_to_move(
    ctx: ControllerContext, broker_id: int
) -> tuple[list[TopicPartition], list[TopicPartition]]:
    led: list[TopicPartition] = []
    followed: list[TopicPartition] = []
    for tp in ctx.partitions_on(broker_id):
        state = ctx.leadership.get(tp)
        if state is None or len(ctx.assignment(tp).replicas) < 2:
            continue
        if not ctx.is_queued_for_deletion(tp.topic):
            (led if state.leader == broker_id else followed).append(tp)
    return led, followed
