"""Who may resize a topic: whoever may create, delete and alter it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.security.rights import Operation, ResourceType, allowed, allowed_on_cluster

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext


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


def message_of(error: KafkaError) -> str | None:
    return None if error.message == error.code.text else error.message
