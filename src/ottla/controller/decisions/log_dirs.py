"""Failed log directories: a broker announces one, LeaderAndIsr answers tell which replicas."""

from __future__ import annotations

import logging

from ottla.controller import replica_machine
from ottla.controller.context import ControllerContext
from ottla.controller.decisions.brokers import on_replicas_offline
from ottla.controller.events import LeaderAndIsrResponseReceived, LogDirEventNotification
from ottla.controller.renaming import progress as renames
from ottla.controller.requests import record_answer
from ottla.controller.resizing import progress as resizes
from ottla.controller.steps import Steps, get_children, get_paths, write
from ottla.errors import ErrorCode
from ottla.metadata.store import Delete
from ottla.metadata.znodes import LogDirEventNotificationZnode
from ottla.types import TopicPartition, TopicPartitionReplica


def on_log_dir_event(ctx: ControllerContext, event: LogDirEventNotification) -> Steps[None]:
    """Sends LeaderAndIsr for all replicas of the broker as a probe; the answers name the lost."""
    names = yield from get_children(LogDirEventNotificationZnode.parent(), event)
    paths = [LogDirEventNotificationZnode.path(name) for name in names]
    nodes = yield from get_paths(paths)
    announced = {LogDirEventNotificationZnode.decode(n.data) for n in nodes if n is not None}
    broker_ids = sorted(b for b in announced if b is not None and b in ctx.brokers)
    if broker_ids:
        ctx.journal.info(f"Handling log directory failure for brokers {broker_ids}")
        yield from replica_machine.to_online(ctx, replica_machine.hosted_on(ctx, broker_ids))
    yield from write([Delete(path) for path in paths])


def on_leader_and_isr_response(
    ctx: ControllerContext, event: LeaderAndIsrResponseReceived
) -> Steps[None]:
    """Code 56 puts a replica on a failed directory, 0 takes it back; other codes do not count."""
    broker_id, response = event.broker_id, event.response
    record_answer(ctx, event)
    if response.error_code != ErrorCode.NONE:
        return
    known = ctx.offline_dir_partitions.get(broker_id)
    names: dict[bytes, str] | None = None
    lost = []
    for topic in response.topics:
        for partition in topic.partition_errors:
            if partition.error_code == ErrorCode.KAFKA_STORAGE_ERROR or known:
                names = names or {topic_id: name for name, topic_id in ctx.topic_ids.items()}
                name = names.get(topic.topic_id)
                if name is None:
                    continue
                tp = TopicPartition(name, partition.partition_index)
                if partition.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                    lost.append(tp)
                elif partition.error_code == ErrorCode.NONE and known:
                    known.discard(tp)
    newly_lost = [tp for tp in lost if not known or tp not in known]
    if newly_lost and broker_id in ctx.brokers:
        ctx.offline_dir_partitions.setdefault(broker_id, set()).update(newly_lost)
        ctx.journal.state_change(
            logging.INFO,
            "Mark replicas %s on broker %d as offline",
            ",".join(map(str, newly_lost)),
            broker_id,
        )
        yield from on_replicas_offline(
            ctx, [TopicPartitionReplica(tp.topic, tp.partition, broker_id) for tp in newly_lost]
        )
    yield from renames.resume(ctx)
    yield from resizes.resume(ctx)
