"""LeaderAndIsr and StopReplica on this broker's partitions (ReplicaManager.becomeLeaderOrFollower,
stopReplicas). Broker and controller epochs are checked by the handlers before."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.replication.partition import Partition
from ottla.errors import ErrorCode, KafkaError
from ottla.storage.log.log import Log
from ottla.types import ZERO_TOPIC_ID, TopicId, TopicPartition
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.replication.replica_manager import ReplicaManager

    PartitionState = m.LeaderAndIsrRequest.LeaderAndIsrPartitionState

_state_changes = logging.getLogger("state.change.logger")
_NO_EPOCH = -1
_EPOCH_DURING_DELETE = -2
# From this version on answers are grouped by topic id.
_ANSWERS_BY_ID = 5
_STOP_STATES_BY_TOPIC = 3

Errors = dict[TopicPartition, ErrorCode]


class _Order(NamedTuple):
    """What the request wants of one partition."""

    tp: TopicPartition
    topic_id: TopicId
    state: PartitionState


def _orders(request: m.LeaderAndIsrRequest) -> Iterator[_Order]:
    for topic in request.topic_states:
        for state in topic.partition_states:
            tp = TopicPartition(topic.topic_name, state.partition_index)
            yield _Order(tp, topic.topic_id, state)
    for state in request.ungrouped_partition_states:
        yield _Order(TopicPartition(state.topic_name, state.partition_index), ZERO_TOPIC_ID, state)


async def create_logs_ahead(manager: ReplicaManager, request: m.LeaderAndIsrRequest) -> None:
    """The slow part of a large request, before its orders are carried out in one go."""
    await manager.log_manager.create_ahead(
        {
            order.tp: order.topic_id
            for order in _orders(request)
            if manager.broker_id in order.state.replicas
            and not manager.partitions.is_offline(order.tp)
            and manager.partitions.get(order.tp) is None
        }
    )


def become_leader_or_follower(
    manager: ReplicaManager, request: m.LeaderAndIsrRequest, version: int
) -> m.LeaderAndIsrResponse:
    errors: Errors = {}
    to_lead: list[_Order] = []
    to_follow: list[_Order] = []
    for order in _orders(request):
        error = _objection(manager, order)
        errors[order.tp] = error
        if error is ErrorCode.NONE:
            (to_lead if order.state.leader == manager.broker_id else to_follow).append(order)
    _make_leaders(manager, to_lead, errors)
    _make_followers(manager, to_follow, errors)
    return leader_and_isr_response(request, version, errors)


def _objection(manager: ReplicaManager, order: _Order) -> ErrorCode:
    """Why an order is refused; NONE if it is to be carried out."""
    tp, state = order.tp, order.state
    if manager.partitions.is_offline(tp):
        return ErrorCode.KAFKA_STORAGE_ERROR
    partition = manager.partitions.get(tp)
    log = manager.partitions.log(tp) or manager.log_manager.get(tp)
    if not _topic_id_fits(log, order.topic_id):
        _state_changes.error("%s: the log has another topic id than the request", tp)
        return ErrorCode.INCONSISTENT_TOPIC_ID
    if partition is not None and state.leader_epoch <= partition.leader_epoch:
        if log is not None and log.topic_id == ZERO_TOPIC_ID != order.topic_id:
            log.assign_topic_id(order.topic_id)
        _state_changes.info(
            "%s: LeaderAndIsr with epoch %d ignored, the current one is %d",
            tp,
            state.leader_epoch,
            partition.leader_epoch,
        )
        return ErrorCode.STALE_CONTROLLER_EPOCH
    if manager.broker_id not in state.replicas:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _topic_id_fits(log: Log | None, topic_id: TopicId) -> bool:
    return log is None or ZERO_TOPIC_ID in (log.topic_id, topic_id) or log.topic_id == topic_id


def _log_for(manager: ReplicaManager, partition: Partition, order: _Order) -> Log:
    log = partition.log
    if log is None:
        log = manager.log_manager.get_or_create(
            order.tp, is_new=order.state.is_new, topic_id=order.topic_id
        )
    if log.topic_id == ZERO_TOPIC_ID != order.topic_id:
        log.assign_topic_id(order.topic_id)
    return log


def _enter(manager: ReplicaManager, order: _Order, errors: Errors) -> tuple[Partition, Log] | None:
    """The partition and its log; where there is no disk for it, the partition is offline."""
    partition = manager.partitions.enter(order.tp)
    try:
        return partition, _log_for(manager, partition, order)
    except (KafkaError, OSError) as error:
        _state_changes.error("%s: no log: %s", order.tp, error)
        manager.set_offline(order.tp)
        errors[order.tp] = ErrorCode.KAFKA_STORAGE_ERROR
        return None


def _make_leaders(manager: ReplicaManager, orders: list[_Order], errors: Errors) -> None:
    manager.fetchers.remove([order.tp for order in orders])
    now_ms = manager.runtime.clock.monotonic_ms()
    lines: list[str] = []
    for order in orders:
        entered = _enter(manager, order, errors)
        if entered is None:
            continue
        partition, log = entered
        partition.become_leader(order.state, log, now_ms)
        lines.append(
            f"{order.tp}: leads from offset {partition.epoch_start_offset} with epoch "
            f"{partition.leader_epoch}, ISR {partition.isr}"
        )
        manager.leadership.began(order.tp, partition.leader_epoch)
    if lines:
        # All in one: ten thousand single records hold up a start by half a second.
        _state_changes.info("%s", "\n".join(lines))


def _make_followers(manager: ReplicaManager, orders: list[_Order], errors: Errors) -> None:
    following: list[Partition] = []
    for order in orders:
        entered = _enter(manager, order, errors)
        if entered is None:
            continue
        partition, log = entered
        partition.log = log
        leader = order.state.leader
        listener = manager.config.inter_broker_listener
        if leader < 0 or manager.metadata_cache.endpoint(leader, listener) is None:
            # The log is there for when a leader shows up; the order itself is not taken.
            _state_changes.warning("%s: leader %d is not known here", order.tp, leader)
            continue
        was_leader = partition.is_leader
        manager.fetchers.remove([order.tp])
        partition.become_follower(order.state, log)
        _state_changes.info(
            "%s: follows broker %d with epoch %d", order.tp, leader, partition.leader_epoch
        )
        following.append(partition)
        if was_leader:
            manager.leadership.ended(order.tp, partition.leader_epoch)
    manager.fetchers.add(following)


def leader_and_isr_response(
    request: m.LeaderAndIsrRequest,
    version: int,
    errors: Errors,
    top_level: ErrorCode = ErrorCode.NONE,
) -> m.LeaderAndIsrResponse:
    response = m.LeaderAndIsrResponse
    if version < _ANSWERS_BY_ID:
        return response(
            error_code=top_level,
            partition_errors=[
                response.LeaderAndIsrPartitionError(
                    topic_name=tp.topic, partition_index=tp.partition, error_code=error
                )
                for tp, error in errors.items()
            ],
        )
    return response(
        error_code=top_level,
        topics=[
            response.LeaderAndIsrTopicError(
                topic_id=topic.topic_id,
                partition_errors=[
                    response.LeaderAndIsrPartitionError(
                        partition_index=state.partition_index,
                        error_code=errors[TopicPartition(topic.topic_name, state.partition_index)],
                    )
                    for state in topic.partition_states
                ],
            )
            for topic in request.topic_states
        ],
    )


def refuse_leader_and_isr(
    request: m.LeaderAndIsrRequest, version: int, error: ErrorCode
) -> m.LeaderAndIsrResponse:
    """The same error for the request and every partition in it."""
    errors = {order.tp: error for order in _orders(request)}
    return leader_and_isr_response(request, version, errors, error)


class _Stop(NamedTuple):
    tp: TopicPartition
    leader_epoch: int
    delete: bool


def _stops(request: m.StopReplicaRequest, version: int) -> Iterator[_Stop]:
    delete = request.delete_partitions
    if version >= _STOP_STATES_BY_TOPIC:
        for state in request.topic_states:
            for part in state.partition_states:
                tp = TopicPartition(state.topic_name, part.partition_index)
                yield _Stop(tp, part.leader_epoch, part.delete_partition)
    elif version >= 1:
        for topic in request.topics:
            for index in topic.partition_indexes:
                yield _Stop(TopicPartition(topic.name, index), _NO_EPOCH, delete)
    else:
        for item in request.ungrouped_partitions:
            yield _Stop(TopicPartition(item.topic_name, item.partition_index), _NO_EPOCH, delete)


def stop_replicas(
    manager: ReplicaManager, request: m.StopReplicaRequest, version: int
) -> m.StopReplicaResponse:
    response = m.StopReplicaResponse
    return response(
        partition_errors=[
            response.StopReplicaPartitionError(
                topic_name=stop.tp.topic,
                partition_index=stop.tp.partition,
                error_code=_stop_one(manager, stop),
            )
            for stop in _stops(request, version)
        ]
    )


def _stop_one(manager: ReplicaManager, stop: _Stop) -> ErrorCode:
    tp = stop.tp
    if manager.partitions.is_offline(tp):
        return ErrorCode.KAFKA_STORAGE_ERROR
    partition = manager.partitions.get(tp)
    if partition is None:
        # A log can be left over from a broker that was down when the topic was deleted.
        if stop.delete:
            manager.log_manager.delete(tp)
        return ErrorCode.NONE
    always = stop.leader_epoch in (_NO_EPOCH, _EPOCH_DURING_DELETE)
    if not always and stop.leader_epoch <= partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if stop.delete:
        manager.delete(tp, stop.leader_epoch if stop.leader_epoch >= 0 else None)
    else:
        manager.fetchers.remove([tp])
        partition.fail_waits(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    _state_changes.info("%s: replica stopped%s", tp, " and deleted" if stop.delete else "")
    return ErrorCode.NONE
