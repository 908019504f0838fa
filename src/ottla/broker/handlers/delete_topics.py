"""DeleteTopics (20), versions 0 to 6.

Behaviour: only the controller deletes (NOT_CONTROLLER otherwise). A topic is marked under
/admin/delete_topics; the answer waits until it has left this broker's metadata cache, at most
timeout_ms.
Versions: with delete.topic.enable=false the code is TOPIC_DELETION_DISABLED from 3 on and
INVALID_REQUEST before; 5 refuses topics above the quota on mutations (KIP-599); 6 takes topic
ids (unknown: UNKNOWN_TOPIC_ID).
Rights: DELETE on the topic; by id also DESCRIBE, without which the name is not told.
A topic with ottla.delete.protect=true gives POLICY_VIOLATION and says what to do (ADR 50).
Left out: other error messages (2.8.2 never sets them).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.broker.notes.topic_notes import Asker
from ottla.errors import ErrorCode
from ottla.security.rights import Operation, ResourceType, refused_in_turns
from ottla.types import ZERO_TOPIC_ID
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext

logger = logging.getLogger(__name__)
Result = m.DeleteTopicsResponse.DeletableTopicResult
PROTECTED = "The topic is protected: set its config ottla.delete.protect to false first."


async def handle(ctx: RequestContext, request: m.DeleteTopicsRequest) -> m.DeleteTopicsResponse:
    if not ctx.services.controller.is_active:
        return _refuse_all(ctx.version, request, ErrorCode.NOT_CONTROLLER)
    if not ctx.services.config.boolean("delete.topic.enable"):
        disabled = ErrorCode.TOPIC_DELETION_DISABLED
        code = ErrorCode.INVALID_REQUEST if ctx.version < 3 else disabled
        return _refuse_all(ctx.version, request, code)
    cache = ctx.services.metadata_cache
    results = []
    async for topic in ctx.turns.each(_requested(ctx.version, request)):
        if topic.name is not None and topic.topic_id != ZERO_TOPIC_ID:
            logger.info("DeleteTopics refused: topic name and topic id are both given")
            return _refuse_all(ctx.version, request, ErrorCode.INVALID_REQUEST)
        name = topic.name if topic.name is not None else cache.topic_name(topic.topic_id)
        topic_id = topic.topic_id if topic.name is None else cache.topic_id(topic.name)
        code = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.NONE
        if topic.name is None and topic.topic_id == ZERO_TOPIC_ID:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED  # 2.8.2: nobody may delete the nameless
        results.append(Result(name=name, topic_id=topic_id, error_code=code))
    await _refuse_unauthorized(ctx, request, results)
    known = list(
        dict.fromkeys(
            result.name
            for result in results
            if result.name is not None and result.error_code == ErrorCode.NONE
        )
    )
    quota = ctx.services.mutation_quotas.for_request(
        ctx, ctx.header.client_id, strict=ctx.version >= 5
    )
    codes = await ctx.services.topic_admin.delete_topics(
        known,
        timeout_ms=request.timeout_ms,
        quota=quota,
        asker=Asker(ctx.api_name, ctx.header.client_id, ctx.principal),
    )
    for result in results:
        if result.name is not None and result.error_code == ErrorCode.NONE:
            result.error_code = codes[result.name]
            if result.error_code == ErrorCode.POLICY_VIOLATION:
                result.error_message = PROTECTED
    return m.DeleteTopicsResponse(throttle_time_ms=quota.throttle_time_ms, responses=results)


async def _refuse_unauthorized(
    ctx: RequestContext, request: m.DeleteTopicsRequest, results: list[Result]
) -> None:
    if ctx.authorizer is None:
        return
    names = [result.name for result in results if result.name is not None]
    hidden = await refused_in_turns(ctx, Operation.DESCRIBE, ResourceType.TOPIC, names)
    refused = await refused_in_turns(ctx, Operation.DELETE, ResourceType.TOPIC, names)
    for asked, result in zip(_requested(ctx.version, request), results, strict=True):
        if result.name is None:
            continue
        if asked.name is None and result.name in hidden:
            # The id is no secret (KIP-516), the name is.
            result.name, result.error_code = None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif result.name in refused:
            result.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            if asked.name is not None:
                result.topic_id = ZERO_TOPIC_ID  # it would say that the topic exists


def _requested(
    version: int, request: m.DeleteTopicsRequest
) -> list[m.DeleteTopicsRequest.DeleteTopicState]:
    if version >= 6:
        return request.topics
    return [m.DeleteTopicsRequest.DeleteTopicState(name=name) for name in request.topic_names]


def _refuse_all(
    version: int, request: m.DeleteTopicsRequest, code: ErrorCode
) -> m.DeleteTopicsResponse:
    return m.DeleteTopicsResponse(
        responses=[
            Result(name=topic.name, topic_id=topic.topic_id, error_code=code)
            for topic in _requested(version, request)
        ]
    )
