"""ListOffsets (2), versions 0 to 9.

Behaviour: -1 latest visible offset, -2 log start, t the first record at or after t, -3 (v7) the
record with the largest timestamp (KIP-734), -4 (v8) as -2 and -5 (v9) nothing, since there is no
tiered storage. Only the leader answers, but for debug consumers (replica id -2).
Versions: v0 lists segment starts by file time. Before a new leader's high watermark has reached the
start of its epoch: OFFSET_NOT_AVAILABLE (v5) or LEADER_NOT_AVAILABLE.
Readers of committed records (isolation level 1, v2) have the last stable offset as their end.
Left out: nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ottla.broker.fetching.params import READ_COMMITTED, check_isolation_level
from ottla.broker.replication.partition import Partition
from ottla.errors import ErrorCode, KafkaError
from ottla.security.rights import Operation, ResourceType, refused_in_turns
from ottla.storage.log import lookup
from ottla.storage.log.log import Log
from ottla.storage.segment.file_names import LOG_SUFFIX
from ottla.types import TopicPartition
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext
    from ottla.broker.replication.examiner import Examiner

    Part = m.ListOffsetsRequest.ListOffsetsPartition
    Answer = m.ListOffsetsResponse.ListOffsetsPartitionResponse

_LATEST, _EARLIEST, _MAX_TIMESTAMP, _EARLIEST_LOCAL, _LATEST_TIERED = -1, -2, -3, -4, -5
_FIRST_VERSION_OF = {_MAX_TIMESTAMP: 7, _EARLIEST_LOCAL: 8, _LATEST_TIERED: 9}
_OLDEST_WITH_LEADER_EPOCH = 4
_OLDEST_WITH_NOT_AVAILABLE = 5
_CONSUMER, _DEBUG_CONSUMER = -1, -2
# How often one is begun anew where retention or compaction comes between.
_SEARCHES = 3


async def handle(ctx: RequestContext, request: m.ListOffsetsRequest) -> m.ListOffsetsResponse:
    check_isolation_level(request.isolation_level)
    response = m.ListOffsetsResponse
    named: Counter[tuple[str, int]] = Counter()
    async for topic in ctx.turns.each(request.topics):
        async for part in ctx.turns.each(topic.partitions):
            named[topic.name, part.partition_index] += 1
    refused = await refused_in_turns(
        ctx, Operation.DESCRIBE, ResourceType.TOPIC, (topic.name for topic in request.topics)
    )
    return response(
        topics=[
            response.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    _failed(part, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                    if topic.name in refused
                    else await _answer(
                        ctx,
                        request,
                        TopicPartition(topic.name, part.partition_index),
                        part,
                        repeated=named[topic.name, part.partition_index] > 1,
                    )
                    async for part in ctx.turns.each(topic.partitions)
                ],
            )
            async for topic in ctx.turns.each(request.topics)
        ]
    )


def _failed(part: Part, code: ErrorCode) -> Answer:
    return m.ListOffsetsResponse.ListOffsetsPartitionResponse(
        partition_index=part.partition_index,
        error_code=code,
        timestamp=-1,
        offset=-1,
        leader_epoch=-1,
    )


async def _answer(
    ctx: RequestContext,
    request: m.ListOffsetsRequest,
    tp: TopicPartition,
    part: Part,
    *,
    repeated: bool,
) -> Answer:
    answer = _failed(part, ErrorCode.NONE)
    manager = ctx.services.replica_manager
    try:
        if repeated:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        _check_timestamp(part.timestamp, ctx.version)
        partition = manager.partitions.require(tp)
        log = partition.local_log(
            part.current_leader_epoch, require_leader=request.replica_id != _DEBUG_CONSUMER
        )
        if ctx.version == 0:
            answer.old_style_offsets = _segment_starts(ctx, log, part, request.replica_id)
        else:
            answer.offset, answer.timestamp, leader_epoch = await _find(
                partition, log, part.timestamp, request, manager.examiner
            )
            if ctx.version >= _OLDEST_WITH_LEADER_EPOCH:
                answer.leader_epoch = leader_epoch
    except KafkaError as error:
        answer.error_code = error.code
        if (
            error.code is ErrorCode.OFFSET_NOT_AVAILABLE
            and ctx.version < _OLDEST_WITH_NOT_AVAILABLE
        ):
            answer.error_code = ErrorCode.LEADER_NOT_AVAILABLE
    return answer


def _check_timestamp(timestamp: int, version: int) -> None:
    known = timestamp >= _EARLIEST or version >= _FIRST_VERSION_OF.get(timestamp, version + 1)
    if not known:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)


def _visible_end(log: Log, request: m.ListOffsetsRequest) -> int:
    if request.replica_id != _CONSUMER:
        return log.end_offset
    committed = request.isolation_level == READ_COMMITTED
    return log.last_stable_offset if committed else log.high_watermark


async def _find(
    partition: Partition,
    log: Log,
    timestamp: int,
    request: m.ListOffsetsRequest,
    examiner: Examiner,
) -> tuple[int, int, int]:
    """(offset, timestamp, leader epoch), -1 each where there is none."""
    if timestamp in (_EARLIEST, _EARLIEST_LOCAL):
        return log.start_offset, -1, log.epochs.epoch_at(log.start_offset)
    if timestamp == _LATEST_TIERED:
        return -1, -1, -1
    is_consumer = request.replica_id == _CONSUMER
    visible_end = _visible_end(log, request)
    behind = (
        is_consumer and partition.is_leader and log.high_watermark < partition.epoch_start_offset
    )
    if timestamp == _LATEST:
        if behind:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
        return visible_end, -1, partition.leader_epoch
    found = await _search(log, timestamp, examiner)
    if found is None or found.offset >= visible_end:
        if behind:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
        return -1, -1, -1
    return found.offset, found.timestamp, found.leader_epoch


async def _search(log: Log, timestamp: int, examiner: Examiner) -> lookup.TimedOffset | None:
    """Others are served while a long batch is looked through."""
    for _ in range(_SEARCHES):
        search = (
            lookup.search_max_timestamp(log)
            if timestamp == _MAX_TIMESTAMP
            else lookup.search_at_or_after(log, timestamp)
        )
        try:
            scan = next(search)
            while True:
                scan = search.send(await examiner.finish(scan.steps()))
        except StopIteration as done:
            found: lookup.TimedOffset | None = done.value
            return found
        except lookup.LogChanged:
            continue
    raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)


def _segment_starts(ctx: RequestContext, log: Log, part: Part, replica_id: int) -> list[int]:
    """Log.legacyFetchOffsetsBefore: newest first, at most as many as asked for."""
    visible_end = log.high_watermark if replica_id == _CONSUMER else log.end_offset
    disk = ctx.services.runtime.disk
    starts = [
        (max(segment.base_offset, log.start_offset), disk.mtime_ms(segment.path(LOG_SUFFIX)))
        for segment in log.segments
        if segment.base_offset < visible_end
    ]
    starts.append((visible_end, ctx.services.runtime.clock.now_ms()))
    if part.timestamp == _EARLIEST:
        starts = starts[:1]
    elif part.timestamp != _LATEST:
        starts = [entry for entry in starts if entry[1] <= part.timestamp]
    return [offset for offset, _ in reversed(starts)][: max(0, part.max_num_offsets)]
