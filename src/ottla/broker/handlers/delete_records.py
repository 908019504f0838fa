"""DeleteRecords (21), versions 0 to 2.

Behaviour: the leader raises its log start to the offset (-1 = high watermark) and answers with the
lowest log start of the live replicas once all of them have reached it, else 7 at the time-out.
Errors: 6, 3, 56, 1 beyond the high watermark, 44 without `delete` in cleanup.policy, 17 for an
internal topic. The low watermark is -1 beside an error.
Versions: all alike.
Left out: nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.broker.replication.partition import Partition
from ottla.errors import ErrorCode, KafkaError
from ottla.security.rights import Operation, ResourceType, refused_in_turns
from ottla.topics.names import is_internal
from ottla.types import TopicPartition
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext

    Result = m.DeleteRecordsResponse.DeleteRecordsPartitionResult

_HIGH_WATERMARK = -1
# Followers report their log start with every fetch; this call is rare enough to look for it.
_POLL_MS = 20


async def handle(ctx: RequestContext, request: m.DeleteRecordsRequest) -> m.DeleteRecordsResponse:
    response = m.DeleteRecordsResponse
    waiting: list[tuple[Partition, int, Result]] = []
    results: dict[str, list[Result]] = {}
    refused = await refused_in_turns(
        ctx, Operation.DELETE, ResourceType.TOPIC, (topic.name for topic in request.topics)
    )
    async for tp, offset in ctx.turns.each((await _wanted(ctx, request)).items()):
        result = response.DeleteRecordsPartitionResult(
            partition_index=tp.partition, low_watermark=-1
        )
        results.setdefault(tp.topic, []).append(result)
        if tp.topic in refused:
            result.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            continue
        try:
            waiting.append((*_delete(ctx, tp, offset), result))
        except KafkaError as error:
            result.error_code = error.code
    await _wait(ctx, waiting, request.timeout_ms)
    return response(
        topics=[
            response.DeleteRecordsTopicResult(name=name, partitions=partitions)
            for name, partitions in results.items()
        ]
    )


async def _wanted(
    ctx: RequestContext, request: m.DeleteRecordsRequest
) -> dict[TopicPartition, int]:
    """Of a partition that is named twice the last offset counts, as in Kafka."""
    return {
        TopicPartition(topic.name, part.partition_index): part.offset
        async for topic in ctx.turns.each(request.topics)
        async for part in ctx.turns.each(topic.partitions)
    }


def _delete(ctx: RequestContext, tp: TopicPartition, offset: int) -> tuple[Partition, int]:
    if is_internal(tp.topic) and ctx.services.replica_manager.partitions.is_known(tp):
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    partition = ctx.services.replica_manager.partitions.require(tp)
    log = partition.leader_log()
    if "delete" not in log.settings.cleanup_policy:
        raise KafkaError(ErrorCode.POLICY_VIOLATION)
    wanted = log.high_watermark if offset == _HIGH_WATERMARK else offset
    if wanted < 0:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if log.advance_start_offset(wanted):
        # Followers that wait for records hear of the new start at once.
        for wait in tuple(partition.fetch_waits):
            if wait.as_follower:
                wait.complete()
    return partition, wanted


async def _wait(
    ctx: RequestContext, waiting: list[tuple[Partition, int, Result]], timeout_ms: int
) -> None:
    clock = ctx.services.runtime.clock
    deadline = clock.monotonic_ms() + timeout_ms
    while waiting:
        expired = clock.monotonic_ms() >= deadline
        alive = {broker.id for broker in ctx.services.metadata_cache.alive_brokers()}
        waiting = [
            entry
            async for entry in ctx.turns.each(waiting)
            if not _settled(alive, *entry, expired=expired)
        ]
        if waiting:
            await asyncio.sleep(_POLL_MS / 1000)


def _settled(
    alive: set[int], partition: Partition, offset: int, result: Result, *, expired: bool
) -> bool:
    try:
        low_watermark = partition.low_watermark(alive)
    except KafkaError as error:
        result.error_code = error.code
        return True
    if low_watermark >= offset:
        result.low_watermark = low_watermark
        return True
    if expired:
        result.error_code = ErrorCode.REQUEST_TIMED_OUT
    return expired
