"""A deleted topic is wanted back, or is to go for good (ADR 50)."""

from __future__ import annotations

from ottla.controller.context import ControllerContext
from ottla.controller.decisions.topics import read_topics
from ottla.controller.events import PurgeDeletedTopic, TrashExpiry, UndeleteTopic
from ottla.controller.steps import Steps
from ottla.controller.trash import keeping, undelete
from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicId


def on_undelete(ctx: ControllerContext, event: UndeleteTopic) -> Steps[TopicId | KafkaError]:
    choice = undelete.choose(ctx, event.topic, event.topic_id, event.new_name)
    if isinstance(choice, KafkaError):
        return choice
    error = yield from undelete.bring_back(ctx, choice)
    if error is not None:
        return error
    yield from read_topics(ctx, [choice.name])
    yield from undelete.take_in(ctx, choice)
    return choice.topic_id


def on_purge(ctx: ControllerContext, event: PurgeDeletedTopic) -> Steps[TopicId | KafkaError]:
    found = undelete.find(ctx, event.topic, event.topic_id)
    if isinstance(found, KafkaError):
        return found
    if keeping.is_being_deleted(ctx, found, ctx.trash[found]):
        text = f"The deletion of topic '{event.topic}' is not finished yet."
        return KafkaError(ErrorCode.OPERATION_NOT_ATTEMPTED, text)
    yield from keeping.purge(ctx, [found], "asked for")
    if found in ctx.trash:
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the store did not take it")
    return found


def on_expiry(ctx: ControllerContext, event: TrashExpiry) -> Steps[None]:
    yield from keeping.purge(ctx, keeping.due(ctx, event.now_ms), "its time is over")
