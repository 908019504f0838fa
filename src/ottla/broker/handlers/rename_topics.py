"""RenameTopics (20006), version 0: Ottla's own, not known to Apache Kafka (ADR 51).

Behaviour: only the controller renames (NOT_CONTROLLER otherwise). One topic after the other, in the
order of the request; the answer waits until the last coordinator has carried the offsets over, at
most timeout_ms (REQUEST_TIMED_OUT: the rename goes on). A topic that has the new name already is
answered as renamed if the request names its id: asking again after a lost answer does no harm.
The answer tells how many offsets were carried, of which groups (those that the client may
DESCRIBE), and which ACLs name the old name: they stay.
Rights: ALTER and DELETE on the topic, CREATE on the new name (or on the cluster).
Versions: one.
Left out: more than 100 topics in one request (INVALID_REQUEST).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.broker.notes.topic_notes import Asker
from ottla.errors import ErrorCode, KafkaError
from ottla.security.acls import AclFilter, Operation, PatternType, Permission, ResourceType
from ottla.security.rights import allowed, allowed_on_cluster
from ottla.wire import messages as m

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.broker.context.request import RequestContext

_MAX_TOPICS = 100
_MAX_ACLS = 100
_NOT_CONTROLLER = KafkaError(ErrorCode.NOT_CONTROLLER)
_SLOW = KafkaError(
    ErrorCode.REQUEST_TIMED_OUT,
    "The rename takes longer than the request may: it goes on, and asking again waits for its end.",
)

Topic = m.RenameTopicsRequest.TopicRename
Result = m.RenameTopicsResponse.RenameResult


async def handle(ctx: RequestContext, request: m.RenameTopicsRequest) -> m.RenameTopicsResponse:
    if len(request.topics) > _MAX_TOPICS:
        text = f"At most {_MAX_TOPICS} topics can be renamed by one request."
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)
    loop = asyncio.get_running_loop()
    until = loop.time() + max(0, request.timeout_ms) / 1000
    results = []
    for topic in request.topics:
        try:
            async with asyncio.timeout_at(until):
                results.append(await _rename(ctx, topic, validate_only=request.validate_only))
        except TimeoutError:
            results.append(_refused(topic, _SLOW))
    return m.RenameTopicsResponse(results=results)


async def _rename(ctx: RequestContext, topic: Topic, *, validate_only: bool) -> Result:
    services = ctx.services
    if not services.controller.is_active:
        return _refused(topic, _NOT_CONTROLLER)
    refusal = _missing_right(ctx, topic)
    if refusal is not None:
        return _refused(topic, refusal)
    if not validate_only and services.metadata_cache.contains_topic(topic.name):
        services.topic_notes.asked(
            topic.name,
            services.metadata_cache.topic_partitions(topic.name),
            Asker(ctx.api_name, ctx.header.client_id, ctx.principal),
        )
    ended = await services.controller.renames.rename(
        topic.name, topic.new_name, topic.topic_id, validate_only=validate_only
    )
    if ended is None or isinstance(ended, KafkaError):
        return _refused(topic, ended or _NOT_CONTROLLER)
    return Result(
        name=topic.name,
        new_name=topic.new_name,
        topic_id=ended.topic_id,
        groups=ended.groups,
        offsets=ended.offsets,
        group_ids=_visible(ctx, ended.group_ids),
        acls=_left_behind(ctx, topic.name),
    )


def _missing_right(ctx: RequestContext, topic: Topic) -> KafkaError | None:
    kind = ResourceType.TOPIC
    may_create = allowed_on_cluster(ctx, Operation.CREATE, log_denied=False) or allowed(
        ctx, Operation.CREATE, kind, topic.new_name
    )
    may_change = allowed(ctx, Operation.ALTER, kind, topic.name) and allowed(
        ctx, Operation.DELETE, kind, topic.name
    )
    if may_create and may_change:
        return None
    return KafkaError(
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "A rename needs ALTER and DELETE on the topic and CREATE on its new name.",
    )


def _visible(ctx: RequestContext, group_ids: Iterable[str]) -> list[str]:
    """Whoever may rename a topic need not know who reads it."""
    kind, describe = ResourceType.GROUP, Operation.DESCRIBE
    return [each for each in group_ids if allowed(ctx, describe, kind, each, log_denied=False)]


def _left_behind(ctx: RequestContext, topic: str) -> list[str]:
    """ACLs for the old name, for those who may see ACLs."""
    if ctx.authorizer is None or not allowed_on_cluster(ctx, Operation.DESCRIBE, log_denied=False):
        return []
    literal = AclFilter(
        ResourceType.TOPIC, topic, PatternType.LITERAL, None, None, Operation.ANY, Permission.ANY
    )
    return [
        f"{entry.permission.name} {entry.operation.name} for {entry.principal} from {entry.host}"
        for entries in ctx.authorizer.describe(literal).values()
        for entry in entries
    ][:_MAX_ACLS]


def _refused(topic: Topic, error: KafkaError) -> Result:
    return Result(
        name=topic.name,
        new_name=topic.new_name,
        topic_id=topic.topic_id,
        error_code=error.code,
        error_message=str(error) or None,
    )
