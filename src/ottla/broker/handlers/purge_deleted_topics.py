"""PurgeDeletedTopics (20005), version 0: Ottla's own, not known to Apache Kafka (ADR 50).

Behaviour: only the controller purges (NOT_CONTROLLER otherwise). Of several topics of one name in
the trash the one with `TopicId`, or (zeros) the one that was deleted last, goes for good: brokers
remove its folders as soon as they see that, those that are away when they come back. 3 or 100 where
there is none, 55 while its deletion is not finished or it is on its way back; 42 for more than
1,000 topics, which is what the trash holds.
Versions: one.
Rights: DELETE on the topic.
Left out: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.security.rights import Operation, ResourceType, refused_in_turns
from ottla.types import ZERO_TOPIC_ID, TopicId
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext

_MAX_TOPICS = 1_000

Result = m.PurgeDeletedTopicsResponse.PurgedTopic


async def handle(
    ctx: RequestContext, request: m.PurgeDeletedTopicsRequest
) -> m.PurgeDeletedTopicsResponse:
    if len(request.topics) > _MAX_TOPICS:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"more than {_MAX_TOPICS} topics at once")
    names = [topic.name for topic in request.topics]
    refused = await refused_in_turns(ctx, Operation.DELETE, ResourceType.TOPIC, names)
    results = []
    async for topic in ctx.turns.each(request.topics):
        wanted = None if topic.topic_id == ZERO_TOPIC_ID else topic.topic_id
        answer: TopicId | KafkaError | None = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if topic.name not in refused:
            answer = await ctx.services.controller.trash.purge_deleted_topic(topic.name, wanted)
        result = Result(name=topic.name, topic_id=topic.topic_id)
        if answer is None:
            result.error_code = ErrorCode.NOT_CONTROLLER
        elif isinstance(answer, KafkaError):
            result.error_code = answer.code
            result.error_message = answer.message if answer.message != answer.code.text else None
        else:
            result.topic_id = answer
        results.append(result)
    return m.PurgeDeletedTopicsResponse(results=results)
