"""CreateTopics (19), versions 0 to 7.

Behaviour: only the controller creates (NOT_CONTROLLER otherwise). Each topic is checked on its own,
in Kafka's order; good ones are written as znodes, then the answer waits until every partition has
a leader in this broker's metadata cache, at most timeout_ms.
Versions: 1 adds error messages and validate_only; 4 allows -1 for counts; 5 answers configs and
counts; 6 refuses topics above the quota on mutations (KIP-599), before that the client is only
told to wait; 7 answers the topic id.
Rights: CREATE on the cluster or the topic; DESCRIBE_CONFIGS to see the new topic's configs and
counts (TopicConfigErrorCode 29 otherwise).
Left out: a throttled client is trusted to wait: its connection is still read.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from ottla.broker.admin.topics import duplicates
from ottla.broker.notes.topic_notes import Asker
from ottla.errors import ErrorCode
from ottla.security.rights import (
    Operation,
    ResourceType,
    allowed_on_cluster,
    refused_in_turns,
)
from ottla.topics.validation import NO_NUMBER, check_total
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext

Result = m.CreateTopicsResponse.CreatableTopicResult


async def handle(ctx: RequestContext, request: m.CreateTopicsRequest) -> m.CreateTopicsResponse:
    if not ctx.services.controller.is_active:
        return m.CreateTopicsResponse(
            topics=[
                Result(name=topic.name, error_code=ErrorCode.NOT_CONTROLLER, configs=[])
                for topic in request.topics
            ]
        )
    check_total(await _partitions(ctx, request))
    twice = duplicates([topic.name for topic in request.topics])
    refused, undescribed = await _missing_rights(ctx, request)
    results = {
        name: Result(
            name=name,
            error_code=ErrorCode.INVALID_REQUEST,
            error_message="Found multiple entries for this topic.",
            configs=[],
        )
        for name in twice
    }
    for name in refused:
        if name not in twice:
            results[name] = Result(
                name=name,
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                error_message="Authorization failed.",
                configs=[],
            )
    for name in undescribed:
        if name in results:
            results[name].topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    quota = ctx.services.mutation_quotas.for_request(
        ctx, ctx.header.client_id, strict=ctx.version >= 6
    )
    created = await ctx.services.topic_admin.create_topics(
        [topic for topic in request.topics if topic.name not in results],
        timeout_ms=request.timeout_ms,
        validate_only=request.validate_only,
        quota=quota,
        asker=Asker(ctx.api_name, ctx.header.client_id, ctx.principal),
    )
    for result in created:
        if result.name in undescribed and result.error_code == ErrorCode.NONE:
            result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            result.configs, result.num_partitions, result.replication_factor = [], -1, -1
        results[result.name] = result
    return m.CreateTopicsResponse(
        throttle_time_ms=quota.throttle_time_ms,
        # A name that came twice is answered twice.
        topics=[results[topic.name] for topic in request.topics],
    )


async def _partitions(ctx: RequestContext, request: m.CreateTopicsRequest) -> int:
    """All partitions that the request asks for; even a topic without any is work."""
    default = ctx.services.config.integer("num.partitions")
    total = 0
    async for topic in ctx.turns.each(request.topics):
        given = default if topic.num_partitions == NO_NUMBER else max(0, topic.num_partitions)
        total += max(1, len(topic.assignments) or given)
    return total


async def _missing_rights(
    ctx: RequestContext, request: m.CreateTopicsRequest
) -> tuple[Collection[str], Collection[str]]:
    """The topics that may not be created, and those whose configs may not be shown."""
    names = [topic.name for topic in request.topics]
    refused: Collection[str] = ()
    if not allowed_on_cluster(ctx, Operation.CREATE, log_denied=False):
        refused = await refused_in_turns(ctx, Operation.CREATE, ResourceType.TOPIC, names)
    undescribed = await refused_in_turns(
        ctx, Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, names, log_denied=False
    )
    return refused, undescribed
