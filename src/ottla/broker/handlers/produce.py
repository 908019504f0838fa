"""Produce (0), versions 0 to 11.

Behaviour: one record batch per partition is appended by the leader; batches stay as they are but
for offsets, leader epoch and a wrong latest timestamp (storage/append/checks.py and inner.py say
what is checked). acks=0 sends nothing back; an error then ends the connection (KafkaError out of
`handle`).
Versions: 0 to 2 carry message sets of formats 0 and 1, which become one batch
(storage/append/up_conversion.py); as in Kafka, batches are taken there too. zstd needs v7. v8 has
record errors, v10 the current leader and its endpoint beside NOT_LEADER_OR_FOLLOWER (KIP-951).
Left out: transaction verification (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.context.breadth import check_breadth
from ottla.broker.replication.append import ProduceResult
from ottla.errors import ErrorCode, KafkaError
from ottla.security.rights import Operation, ResourceType, allowed, refused_names
from ottla.types import TopicPartition
from ottla.wire import messages as m
from ottla.wire.compression import ZSTD
from ottla.wire.message_sets import iter_entries
from ottla.wire.records import (
    ATTRIBUTES_LOW_AT,
    CODEC_MASK,
    HEADER_BYTES,
    MAGIC,
    MAGIC_AT,
    TRANSACTIONAL,
    CorruptBatch,
    size_at,
)

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext
    from ottla.broker.replication.hosted import HostedPartitions

_OLDEST_WITH_BATCHES = 3
_OLDEST_WITH_ZSTD = 7
_OLDEST_WITH_LEADER = 10


async def handle(ctx: RequestContext, request: m.ProduceRequest) -> m.ProduceResponse | None:
    appends = ctx.services.replica_manager.appends
    named = sum([len(topic.partition_data) for topic in request.topic_data])
    check_breadth(named, appends.partitions)
    results: dict[TopicPartition, ProduceResult] = {}
    entries: dict[TopicPartition, memoryview] = {}
    transactional = False
    refused_topics = refused_names(
        ctx, Operation.WRITE, ResourceType.TOPIC, (topic.name for topic in request.topic_data)
    )
    for topic in request.topic_data:
        for data in topic.partition_data:
            tp = TopicPartition(topic.name, data.index)
            records = data.records
            error = _objection(records, ctx.version)
            if error is None and records is not None:
                entries[tp] = records
                transactional = transactional or _is_transactional(records)
            if topic.name in refused_topics:
                error = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            elif not appends.partitions.is_known(tp):
                error = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                if tp in entries:
                    # The controller may tell of it before the next batch is served.
                    appends.refusals.note(tp, entries[tp], error.code)
            if error is not None:
                results[tp] = ProduceResult(error.code, error_message=error.message)
    for tp in results:
        entries.pop(tp, None)
    if transactional and not _may_use(ctx, request.transactional_id):
        refused = ProduceResult(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        results = dict.fromkeys([*results, *entries], refused)
    elif entries:
        results |= await appends.append(
            entries,
            acks=request.acks,
            timeout_ms=request.timeout_ms,
            client_id=ctx.header.client_id,
            client_host=ctx.client_host,
        )
    if request.acks == 0:
        _raise_first_error(results)
        return None
    return make_response(appends.partitions, ctx.listener, ctx.version, request, results)


def _may_use(ctx: RequestContext, transactional_id: str | None) -> bool:
    return transactional_id is not None and allowed(
        ctx, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
    )


def _is_transactional(records: memoryview) -> bool:
    return (
        len(records) > ATTRIBUTES_LOW_AT
        and records[MAGIC_AT] == MAGIC
        and bool(records[ATTRIBUTES_LOW_AT] & TRANSACTIONAL)
    )


def _objection(records: memoryview | None, version: int) -> KafkaError | None:
    """ProduceRequest.validateRecords: one batch of magic 2, with a codec the version may use; old
    versions take anything."""
    if version < _OLDEST_WITH_BATCHES:
        # The log looks at what there is. Kafka fails for null as one does for a null pointer.
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) if records is None else None
    if records is not None and _is_usual(records):
        return None
    entries = iter_entries(records or b"")
    try:
        first = next(entries, None)
        if first is None:
            return KafkaError(
                ErrorCode.INVALID_RECORD,
                f"Produce requests with version {version} must have at least one record batch per "
                "partition",
            )
        if first[MAGIC_AT] != MAGIC:
            return KafkaError(
                ErrorCode.INVALID_RECORD,
                f"Produce requests with version {version} are only allowed to contain record "
                "batches with magic version 2",
            )
        if version < _OLDEST_WITH_ZSTD and first[ATTRIBUTES_LOW_AT] & CODEC_MASK == ZSTD:
            return KafkaError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                f"Produce requests with version {version} are not allowed to use ZStandard "
                "compression",
            )
        if next(entries, None) is not None:
            return KafkaError(
                ErrorCode.INVALID_RECORD,
                f"Produce requests with version {version} are only allowed to contain exactly one "
                "record batch per partition",
            )
    except CorruptBatch as error:
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"Not a record batch: {error}")
    return None


def _is_usual(records: memoryview) -> bool:
    """One batch with a codec that all versions may use: most are, and are looked at once."""
    return (
        len(records) >= HEADER_BYTES
        and records[MAGIC_AT] == MAGIC
        and records[ATTRIBUTES_LOW_AT] & CODEC_MASK < ZSTD
        and size_at(records) == len(records)
    )


def _raise_first_error(results: dict[TopicPartition, ProduceResult]) -> None:
    for tp, result in results.items():
        if result.error is not ErrorCode.NONE:
            raise KafkaError(result.error, f"{tp}: {result.error_message or result.error.text}")


def make_response(
    partitions: HostedPartitions,
    listener: str,
    version: int,
    request: m.ProduceRequest,
    results: dict[TopicPartition, ProduceResult],
) -> m.ProduceResponse:
    """The answer to the partitions that a request names; one that it names twice is there once,
    as in Kafka, where the last of its batches counts."""
    response = m.ProduceResponse
    # Not where this broker leads and refuses all the same (ADR 53): a client that is told of the
    # leader it knows does not ask for the topic's shape.
    with_leader = version >= _OLDEST_WITH_LEADER
    leaders: set[int] = set()
    topics: dict[str, dict[int, m.ProduceResponse.PartitionProduceResponse]] = {}
    for topic in request.topic_data:
        if not topic.partition_data:
            continue
        answers = topics.setdefault(topic.name, {})
        for data in topic.partition_data:
            tp = TopicPartition(topic.name, data.index)
            result = results[tp]
            answer = response.PartitionProduceResponse(
                index=data.index,
                error_code=result.error,
                base_offset=result.base_offset,
                log_append_time_ms=result.log_append_time_ms,
                log_start_offset=result.log_start_offset,
                error_message=result.error_message,
            )
            if result.record_errors:
                answer.record_errors = [
                    response.BatchIndexAndErrorMessage(
                        batch_index=index, batch_index_error_message=message
                    )
                    for index, message in result.record_errors
                ]
            if (
                with_leader
                and result.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
                and not partitions.leads(tp)
            ):
                leader, epoch = partitions.current_leader(tp)
                answer.current_leader = response.LeaderIdAndEpoch(
                    leader_id=leader, leader_epoch=epoch
                )
                leaders.add(leader)
            answers[data.index] = answer
    answered = response(
        responses=[
            response.TopicProduceResponse(name=name, partition_responses=list(found.values()))
            for name, found in topics.items()
        ]
    )
    if leaders:
        answered.node_endpoints = [
            response.NodeEndpoint(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in partitions.leader_nodes(leaders, listener)
        ]
    return answered
