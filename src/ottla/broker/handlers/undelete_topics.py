"""UndeleteTopics (20004), version 0: Ottla's own, not known to Apache Kafka (ADR 50).

Behaviour: only the controller brings topics back (NOT_CONTROLLER otherwise). Of several topics of
one name the one with `TopicId`, or (zeros) the one that was deleted last; under `NewName`, or
(null) its own. 3 or 100 where there is none in the trash, 36 where the name is taken, 17 for a name
that cannot be, 44 where a replica was on a broker that is not Ottla's any more, 55 where the topic
is on its way back already. The answer waits, at most TimeoutMs, for a deletion that is not finished
yet (55 after that), and for leaders in this broker's metadata cache (7 where some are missing: the
topic is back, and those partitions wait for their brokers).
Versions: one.
Rights: CREATE on the new name or the cluster, ALTER on the topic.
Left out: quotas on mutations.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.security.rights import Operation, ResourceType, allowed_on_cluster, refused_in_turns
from ottla.types import ZERO_TOPIC_ID, TopicId
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext

Result = m.UndeleteTopicsResponse.UndeletedTopic
Asked = m.UndeleteTopicsRequest.UndeletableTopic
_PAUSE_S = 0.1
_MAX_TOPICS = 1_000


async def handle(ctx: RequestContext, request: m.UndeleteTopicsRequest) -> m.UndeleteTopicsResponse:
    if len(request.topics) > _MAX_TOPICS:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"more than {_MAX_TOPICS} topics at once")
    deadline_ms = ctx.services.runtime.clock.monotonic_ms() + request.timeout_ms
    results = []
    async for topic in ctx.turns.each(request.topics):
        try:
            await _check_rights(ctx, topic)
            topic_id = await _undelete(ctx, topic, deadline_ms)
        except KafkaError as error:
            results.append(_refused(topic, error))
            continue
        results.append(Result(name=topic.name, topic_id=topic_id))
    await _await_leaders(ctx, request, results, deadline_ms)
    return m.UndeleteTopicsResponse(results=results)


async def _check_rights(ctx: RequestContext, topic: Asked) -> None:
    name = topic.name if topic.new_name is None else topic.new_name
    if await refused_in_turns(ctx, Operation.ALTER, ResourceType.TOPIC, [topic.name]):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    may_create = allowed_on_cluster(ctx, Operation.CREATE)
    if not may_create and await refused_in_turns(ctx, Operation.CREATE, ResourceType.TOPIC, [name]):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


async def _undelete(ctx: RequestContext, topic: Asked, deadline_ms: float) -> TopicId:
    clock = ctx.services.runtime.clock
    wanted = None if topic.topic_id == ZERO_TOPIC_ID else topic.topic_id
    while True:
        answer = await ctx.services.controller.trash.undelete_topic(
            topic.name, wanted, topic.new_name
        )
        if answer is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        if not isinstance(answer, KafkaError):
            return answer
        is_early = answer.code is ErrorCode.OPERATION_NOT_ATTEMPTED
        if not is_early or clock.monotonic_ms() >= deadline_ms:
            raise answer
        await asyncio.sleep(_PAUSE_S)


async def _await_leaders(
    ctx: RequestContext,
    request: m.UndeleteTopicsRequest,
    results: list[Result],
    deadline_ms: float,
) -> None:
    back = {
        (topic.name if topic.new_name is None else topic.new_name): result
        for topic, result in zip(request.topics, results, strict=True)
        if result.error_code == ErrorCode.NONE
    }
    left_ms = int(deadline_ms - ctx.services.runtime.clock.monotonic_ms())
    late = await ctx.services.topic_admin.await_existing(list(back), max(1, left_ms))
    for name in late:
        back[name].error_code = ErrorCode.REQUEST_TIMED_OUT
        back[
            name
        ].error_message = "The topic is back, but not all of its partitions have a leader yet."


def _refused(topic: Asked, error: KafkaError) -> Result:
    message = None if error.message == error.code.text else error.message
    return Result(
        name=topic.name, topic_id=topic.topic_id, error_code=error.code, error_message=message
    )
