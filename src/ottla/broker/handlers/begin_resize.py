"""BeginResize (20008), version 0: Ottla's own, not known to Apache Kafka (ADR 53).

Behaviour: only the controller resizes (41, NOT_CONTROLLER, otherwise). Notes the wish and makes the
shadow: a topic with the wanted shape, the topic's configs and nothing that would spoil a copy. The
answer waits, at most TimeoutMs, for the shadow's leaders. Asked for again with the same shape, it
goes on with what is there (`IsResumed`); with another one it is refused (42). ReplicationFactor -1
keeps the topic's. 3 for a topic that is not there, 44 for one that is protected, 35 where a broker
does not know of resizes, 60 while partitions are being moved, 73 where topics cannot be deleted, 37
and 38 for a shape that cannot be.
Versions: one.
Rights: ALTER, DELETE and CREATE on the topic.
Left out: quotas on mutations.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ottla.broker.context.resize_rights import answer_of, check_rights, message_of
from ottla.broker.notes.topic_notes import Asker
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.resizes import ResizeZnode
from ottla.metadata.store import NodeExistsError, NoNodeError
from ottla.metadata.znodes import ConfigZnode, DeleteTopicZnode, TopicZnode
from ottla.types import ZERO_TOPIC_ID, TopicId
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext
    from ottla.metadata.resizes import StoredResize

# While records are copied, nothing is thrown away and times stay as they are. Afterwards the name's
# own configs hold. A shadow that is given up does not go to the trash.
_COPYING = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.difference.max.ms": str(2**63 - 1),
    "ottla.delete.retention.ms": "0",
    "ottla.delete.protect": "false",
    "ottla.key.guard": "",
}


async def handle(ctx: RequestContext, request: m.BeginResizeRequest) -> m.BeginResizeResponse:
    try:
        return await _begin(ctx, request)
    except KafkaError as error:
        return m.BeginResizeResponse(error_code=error.code, error_message=message_of(error))


async def _begin(ctx: RequestContext, request: m.BeginResizeRequest) -> m.BeginResizeResponse:
    check_rights(ctx, request.topic)
    begun = await answer_of(ctx.services.controller.resizes.begin(request))
    resize = begun.resize
    if request.validate_only:
        await _make_shadow(ctx, resize, request)
    else:
        if await _shadow_id(ctx, resize) is None:
            try:
                await _make_shadow(ctx, resize, request)
            except KafkaError:
                if not begun.is_resumed:
                    await ctx.services.controller.resizes.abort(request.topic)
                raise
        late = await ctx.services.topic_admin.await_existing([resize.shadow], request.timeout_ms)
        if await _is_over(ctx, resize):
            await _remove_shadow(ctx, resize)
            raise KafkaError(ErrorCode.OPERATION_NOT_ATTEMPTED, "It was aborted.")
        if late:
            text = "The shadow has not all of its leaders yet: try again."
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text)
    return m.BeginResizeResponse(
        topic_id=resize.topic_id,
        shadow=resize.shadow,
        shadow_id=await _shadow_id(ctx, resize) or ZERO_TOPIC_ID,
        old_partitions=begun.old_partitions,
        replication_factor=resize.replication_factor,
        is_resumed=begun.is_resumed,
        retention_ms=begun.retention_ms,
    )


async def _is_over(ctx: RequestContext, resize: StoredResize) -> bool:
    """Whether the resize ended, by an abort or because somebody else was faster, while its shadow
    was made: nobody would ever remove that one."""
    path = ResizeZnode.path(resize.topic_id)
    try:
        await ctx.services.store.sync(path)
        data, _ = await ctx.services.store.get(path)
    except NoNodeError:
        return True
    known = ResizeZnode.decode(data)
    return known is not None and known.shadow != resize.shadow


async def _remove_shadow(ctx: RequestContext, resize: StoredResize) -> None:
    with suppress(NodeExistsError):
        await ctx.services.store.create(DeleteTopicZnode.path(resize.shadow))


async def _shadow_id(ctx: RequestContext, resize: StoredResize) -> TopicId | None:
    try:
        data, _ = await ctx.services.store.get(TopicZnode.path(resize.shadow))
    except NoNodeError:
        return None
    return TopicZnode.decode(data).topic_id


async def _make_shadow(
    ctx: RequestContext, resize: StoredResize, request: m.BeginResizeRequest
) -> None:
    """Raises KafkaError."""
    try:
        path = ConfigZnode.path(ConfigZnode.TOPICS, resize.topic)
        data, _ = await ctx.services.store.get(path)
        configs = ConfigZnode.decode(data)
    except NoNodeError:
        configs = {}
    wanted = m.CreateTopicsRequest.CreatableTopic(
        name=resize.shadow,
        num_partitions=resize.partitions,
        replication_factor=resize.replication_factor,
        configs=[
            m.CreateTopicsRequest.CreatableTopicConfig(name=name, value=value)
            for name, value in {**configs, **_COPYING}.items()
        ],
    )
    results = await ctx.services.topic_admin.create_topics(
        [wanted],
        timeout_ms=request.timeout_ms,
        validate_only=request.validate_only,
        asker=Asker(ctx.api_name, ctx.header.client_id, ctx.principal),
    )
    code = ErrorCode(results[0].error_code)
    if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.REQUEST_TIMED_OUT):
        raise KafkaError(code, results[0].error_message)
