"""CreateTopics (19), versions 0 to 7.

Behaviour: only the controller creates (NOT_CONTROLLER otherwise). Each topic is checked on its own,
in Kafka's order; good ones are written as znodes, then the answer waits until every partition has
a leader in this broker's metadata cache, at most timeout_ms.
Versions: 1 adds error messages and validate_only; 4 allows -1 for counts; 5 answers configs and
counts; 7 answers the topic id.
Left out: ACLs, quotas on mutations (version 6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.topic_admin import duplicates
from ottla.errors import ErrorCode
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context import RequestContext

Result = m.CreateTopicsResponse.CreatableTopicResult


async def handle(ctx: RequestContext, request: m.CreateTopicsRequest) -> m.CreateTopicsResponse:
    if not ctx.services.controller.is_active:
        return m.CreateTopicsResponse(
            topics=[
                Result(name=topic.name, error_code=ErrorCode.NOT_CONTROLLER, configs=[])
                for topic in request.topics
            ]
        )
    twice = duplicates([topic.name for topic in request.topics])
    results = {
        name: Result(
            name=name,
            error_code=ErrorCode.INVALID_REQUEST,
            error_message="Found multiple entries for this topic.",
            configs=[],
        )
        for name in twice
    }
    created = await ctx.services.topic_admin.create_topics(
        [topic for topic in request.topics if topic.name not in twice],
        timeout_ms=request.timeout_ms,
        validate_only=request.validate_only,
    )
    results.update((result.name, result) for result in created)
    return m.CreateTopicsResponse(
        topics=[results[name] for name in dict.fromkeys(topic.name for topic in request.topics)]
    )
