"""TxnOffsetCommit (28), versions 0 to 4.

Behaviour: the group's coordinator stores offsets as part of a producer's transaction; they show
when its marker commits them. Partitions that do not exist: UNKNOWN_TOPIC_OR_PARTITION.
Versions: before 2 COORDINATOR_LOAD_IN_PROGRESS is COORDINATOR_NOT_AVAILABLE; 2 has the leader
epoch; from 3 on a group's generation and member are checked where they are given (KIP-447); 4 says
that the client knows TRANSACTION_ABORTABLE, which is never sent.
Left out: version 5, which adds the group to the transaction as well (KIP-890).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from ottla.broker.context.offset_answers import by_topic
from ottla.coordinator.groups.answers import Committer
from ottla.coordinator.groups.records import CommittedOffset
from ottla.coordinator.shards import ProducerStamp
from ottla.errors import ErrorCode, KafkaError
from ottla.security.rights import (
    Operation,
    ResourceType,
    allowed,
    refused_in_turns,
    require_group,
)
from ottla.types import TopicPartition
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext

_OLDEST_WITH_LOADING = 2


async def handle(
    ctx: RequestContext, request: m.TxnOffsetCommitRequest
) -> m.TxnOffsetCommitResponse:
    if not allowed(ctx, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    require_group(ctx, Operation.READ, request.group_id)
    if request.producer_id < 0 or request.producer_epoch < 0:
        # There is no transaction that they could wait for (ADR 16).
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "offsets of a transaction have a producer")
    refused = await refused_in_turns(
        ctx, Operation.READ, ResourceType.TOPIC, (topic.name for topic in request.topics)
    )
    commits = await _known_commits(ctx, request, refused)
    errors: dict[TopicPartition, ErrorCode] = {}
    if commits:
        errors = await ctx.services.groups.in_transactions.commit(
            request.group_id,
            Committer(request.member_id, request.group_instance_id, request.generation_id),
            ProducerStamp(request.producer_id, request.producer_epoch),
            commits,
        )
    if ctx.version < _OLDEST_WITH_LOADING:
        errors = {tp: _for_old_clients(error) for tp, error in errors.items()}
    answer = m.TxnOffsetCommitResponse
    return answer(
        topics=await by_topic(
            ctx.turns,
            request.topics,
            errors,
            refused,
            answer.TxnOffsetCommitResponseTopic,
            answer.TxnOffsetCommitResponsePartition,
        )
    )


async def _known_commits(
    ctx: RequestContext, request: m.TxnOffsetCommitRequest, refused: Collection[str]
) -> dict[TopicPartition, CommittedOffset]:
    now_ms = ctx.services.runtime.clock.now_ms()
    commits = {}
    async for topic in ctx.turns.each(request.topics):
        async for each in ctx.turns.each(topic.partitions):
            tp = TopicPartition(topic.name, each.partition_index)
            if topic.name not in refused and ctx.services.metadata_cache.contains(tp):
                commits[tp] = CommittedOffset(
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.committed_metadata or "",
                    now_ms,
                )
    return commits


def _for_old_clients(error: ErrorCode) -> ErrorCode:
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return error
