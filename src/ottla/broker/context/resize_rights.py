"""Who may resize a topic: whoever may create, delete and alter it; and what becomes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypeVar

from ottla.errors import ErrorCode, KafkaError
from ottla.security.rights import Operation, ResourceType, allowed, allowed_on_cluster

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext

T = TypeVar("T")


def check_rights(ctx: RequestContext, topic: str) -> None:
    """Raises KafkaError. Only the controller resizes, so it is asked first whether this is it."""
    if not ctx.services.controller.is_active:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)
    kind = ResourceType.TOPIC
    may_create = allowed_on_cluster(ctx, Operation.CREATE, log_denied=False) or allowed(
        ctx, Operation.CREATE, kind, topic
    )
    may_change = allowed(ctx, Operation.ALTER, kind, topic) and allowed(
        ctx, Operation.DELETE, kind, topic
    )
    if not may_create or not may_change:
        raise KafkaError(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "A resize needs ALTER, DELETE and CREATE on the topic.",
        )


async def answer_of(
    asked: Awaitable[T | KafkaError | None], timeout_ms: int | None = None, late: str = ""
) -> T:
    """What the controller has done; raises KafkaError where it refuses, is none any more, or has
    not done it in time, which is told as `late`."""
    try:
        async with asyncio.timeout(None if timeout_ms is None else max(0, timeout_ms) / 1000):
            found = await asked
    except TimeoutError:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, late) from None
    if found is None:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)
    if isinstance(found, KafkaError):
        raise found
    return found


def message_of(error: KafkaError) -> str | None:
    return None if error.message == error.code.text else error.message
