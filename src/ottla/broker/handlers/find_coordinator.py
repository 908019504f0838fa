"""FindCoordinator (10), versions 0 to 6.

Behaviour: a group's coordinator is the leader of its partition of `__consumer_offsets`, that of a
transactional id (key type 1) the leader of its partition of `__transaction_state`, as the metadata
cache knows it, on the listener that the request came in on. While the topic does not exist it is
created, and until its leader can be reached the answer is COORDINATOR_NOT_AVAILABLE, which clients
retry.
Versions: 0 knows groups only; 1 adds the key type and a message; from 4 on many keys are asked for
at once and answered one by one (KIP-699); key type 2 (share groups) is COORDINATOR_NOT_AVAILABLE
in 6 and INVALID_REQUEST before.
Left out: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode
from ottla.security.rights import Operation, ResourceType, allowed
from ottla.topics.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.types import Endpoint, TopicPartition
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext

_GROUP, _TRANSACTION, _SHARE = 0, 1, 2
_NO_NODE, _NO_PORT = -1, -1


async def handle(
    ctx: RequestContext, request: m.FindCoordinatorRequest
) -> m.FindCoordinatorResponse:
    if ctx.version >= 4:
        return m.FindCoordinatorResponse(
            coordinators=[
                await _find(ctx, request.key_type, key)
                # One that is named twice is answered once (ADR 36).
                async for key in ctx.turns.each(dict.fromkeys(request.coordinator_keys))
            ]
        )
    found = await _find(ctx, request.key_type, request.key)
    return m.FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message or ErrorCode.NONE.name,  # a word even where all is well
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


async def _find(
    ctx: RequestContext, key_type: int, key: str
) -> m.FindCoordinatorResponse.Coordinator:
    if key_type == _GROUP and not allowed(ctx, Operation.DESCRIBE, ResourceType.GROUP, key):
        return _failed(key, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if key_type == _TRANSACTION and not allowed(
        ctx, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key
    ):
        return _failed(key, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if key_type == _SHARE and ctx.version >= 6:
        return _failed(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if key_type not in (_GROUP, _TRANSACTION):
        return _failed(key, ErrorCode.INVALID_REQUEST, f"Unknown coordinator type {key_type}.")
    services = ctx.services
    topic = OFFSETS_TOPIC if key_type == _GROUP else TRANSACTIONS_TOPIC
    if not services.metadata_cache.contains_topic(topic):
        await services.topic_admin.ensure_internal_topic(topic)
        return _failed(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    coordinator = services.groups if key_type == _GROUP else services.transactions
    tp = TopicPartition(topic, coordinator.partition_for(key))
    leader, endpoint = _leader_of(ctx, tp)
    if endpoint is None:
        return _failed(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return m.FindCoordinatorResponse.Coordinator(
        key=key,
        node_id=leader,
        host=endpoint.host,
        port=endpoint.port,
        error_code=ErrorCode.NONE,
        error_message="",
    )


def _leader_of(ctx: RequestContext, tp: TopicPartition) -> tuple[int, Endpoint | None]:
    cache = ctx.services.metadata_cache
    state = cache.partition_state(tp)
    leader = _NO_NODE if state is None else state.leader
    return leader, cache.endpoint(leader, ctx.listener)


def _failed(
    key: str, error: ErrorCode, message: str | None = None
) -> m.FindCoordinatorResponse.Coordinator:
    return m.FindCoordinatorResponse.Coordinator(
        key=key,
        node_id=_NO_NODE,
        host="",
        port=_NO_PORT,
        error_code=error,
        error_message=message or error.text,
    )
