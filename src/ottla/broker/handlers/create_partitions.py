"""CreatePartitions (37), versions 0 to 3.

Behaviour: only the controller expands topics (NOT_CONTROLLER otherwise). Each topic is checked on
its own; the answer waits until every partition has a leader in this broker's metadata cache, at
most timeout_ms.
Versions: the same fields in all; 2 is flexible; 3 refuses topics above the quota on mutations
(KIP-599), before that the client is only told to wait.
Left out: a throttled client is trusted to wait: its connection is still read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.admin.topics import duplicates
from ottla.broker.notes.topic_notes import Asker
from ottla.errors import ErrorCode
from ottla.security.rights import Operation, ResourceType, refused_in_turns
from ottla.topics.validation import check_total
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext

Result = m.CreatePartitionsResponse.CreatePartitionsTopicResult


async def handle(
    ctx: RequestContext, request: m.CreatePartitionsRequest
) -> m.CreatePartitionsResponse:
    controller = ctx.services.controller
    if not controller.is_active:
        return m.CreatePartitionsResponse(
            results=[
                Result(name=topic.name, error_code=ErrorCode.NOT_CONTROLLER)
                for topic in request.topics
            ]
        )
    present = ctx.services.metadata_cache.topic_partitions
    check_total(sum(max(1, topic.count - len(present(topic.name))) for topic in request.topics))
    twice = duplicates([topic.name for topic in request.topics])
    results: dict[str, Result] = {}
    wanted = []
    refused = await refused_in_turns(
        ctx,
        Operation.ALTER,
        ResourceType.TOPIC,
        (topic.name for topic in request.topics if topic.name not in twice),
    )
    for topic in request.topics:
        if topic.name in twice:
            results[topic.name] = Result(
                name=topic.name,
                error_code=ErrorCode.INVALID_REQUEST,
                error_message="Duplicate topic in request.",
            )
        elif topic.name in refused:
            results[topic.name] = Result(
                name=topic.name,
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                error_message="The topic authorization is failed.",
            )
        elif controller.is_queued_for_deletion(topic.name):
            results[topic.name] = Result(
                name=topic.name,
                error_code=ErrorCode.INVALID_TOPIC_EXCEPTION,
                error_message="The topic is queued for deletion.",
            )
        else:
            wanted.append(topic)
    quota = ctx.services.mutation_quotas.for_request(
        ctx, ctx.header.client_id, strict=ctx.version >= 3
    )
    expanded = await ctx.services.topic_admin.create_partitions(
        wanted,
        timeout_ms=request.timeout_ms,
        validate_only=request.validate_only,
        quota=quota,
        asker=Asker(ctx.api_name, ctx.header.client_id, ctx.principal),
    )
    results.update((result.name, result) for result in expanded)
    return m.CreatePartitionsResponse(
        throttle_time_ms=quota.throttle_time_ms,
        results=[results[name] for name in dict.fromkeys(topic.name for topic in request.topics)],
    )
