"""Metadata (3), versions 0 to 12.

Behaviour: brokers, controller and partitions from this broker's metadata cache, as seen on the
request's listener. Unknown topics are created where the request and auto.create.topics.enable
allow it (see `TopicAdmin.missing_topics`), otherwise they get UNKNOWN_TOPIC_OR_PARTITION, bad names
INVALID_TOPIC_EXCEPTION.
Versions: 0 lists all topics for an empty list, hides replicas that are down and says
REPLICA_NOT_AVAILABLE; from 1 null means all topics and an empty list none; from 6 a leader without
the listener is LISTENER_NOT_FOUND, before that LEADER_NOT_AVAILABLE; 8 to 10 carry the cluster's
authorized operations; 10 shows topic ids; 12 takes them in requests (unknown: UNKNOWN_TOPIC_ID,
never created). In 10 and 11 a topic must be asked for by name (INVALID_REQUEST).
Rights: DESCRIBE on a topic; CREATE on it or the cluster to have it created. Without them a topic
that is asked for is TOPIC_AUTHORIZATION_FAILED, there or not, and left out of a list of all.
Left out: nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from ottla.broker.membership.metadata_cache import BrokerInfo
from ottla.broker.membership.registration import registrations
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.store import StoreError
from ottla.metadata.znodes import BadZnodeError, BrokerIdZnode
from ottla.security.rights import (
    NOT_ASKED_FOR,
    Operation,
    ResourceType,
    allowed,
    allowed_on_cluster,
    authorized_operations,
    cluster_operations,
    refused_in_turns,
)
from ottla.topics.names import INTERNAL_TOPICS
from ottla.types import ZERO_TOPIC_ID
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext
    from ottla.broker.membership.metadata_cache import MetadataCache, PartitionState

logger = logging.getLogger(__name__)
_NO_LEADER = -1

Topic = m.MetadataResponse.MetadataResponseTopic
Partition = m.MetadataResponse.MetadataResponsePartition


async def handle(ctx: RequestContext, request: m.MetadataRequest) -> m.MetadataResponse:
    cache = ctx.services.metadata_cache
    if request.topics is None or (ctx.version == 0 and not request.topics):
        topics = await _all_topics(ctx, request)
    elif ctx.version >= 12 and any(t.topic_id != ZERO_TOPIC_ID for t in request.topics):
        # An id that is named twice is answered once, as names are (ADR 36).
        ids = dict.fromkeys(topic.topic_id for topic in request.topics)
        topics = [_topic_by_id(ctx, request, topic_id) async for topic_id in ctx.turns.each(ids)]
    else:
        names = await _requested_names(ctx, request.topics)
        topics = await _topics_by_name(ctx, request, names)
    known = cache.alive_brokers()
    if topics and not known:
        known = await _brokers_of_the_store(ctx)
    brokers = [
        m.MetadataResponse.MetadataResponseBroker(
            node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack
        )
        for broker in known
        if (endpoint := broker.endpoints.get(ctx.listener)) is not None
    ]
    # A controller that is not among the brokers would send clients round in circles.
    listed = any(broker.node_id == cache.controller_id for broker in brokers)
    return m.MetadataResponse(
        brokers=brokers,
        cluster_id=ctx.services.cluster_id,
        controller_id=cache.controller_id if listed else -1,
        topics=topics,
        cluster_authorized_operations=(
            cluster_operations(ctx)
            if request.include_cluster_authorized_operations
            else NOT_ASKED_FOR
        ),
    )


async def _brokers_of_the_store(ctx: RequestContext) -> list[BrokerInfo]:
    """For a broker that no controller has told of any yet. An answer that names topics but no
    brokers makes librdkafka take leave of every broker it knows; if that happens again while it
    looks for them anew, it never sends anything to anybody any more."""
    known = []
    try:
        for broker_id, data in (await registrations(ctx.services.store)).items():
            with suppress(BadZnodeError):  # nothing that anybody could connect to
                info = BrokerIdZnode.decode(broker_id, data)
                endpoints = {endpoint.listener: endpoint for endpoint in info.endpoints}
                known.append(BrokerInfo(broker_id, endpoints, info.rack))
    except StoreError as error:
        logger.info("the store could not be asked for brokers: %r", error)
    return known


async def _all_topics(ctx: RequestContext, request: m.MetadataRequest) -> list[Topic]:
    """All topics that are there; other requests get their turn in between."""
    cache = ctx.services.metadata_cache
    topics = []
    async for name in ctx.turns.each(cache.topics()):
        if not cache.contains_topic(name):
            continue  # deleted while others had their turn
        if not allowed(ctx, Operation.DESCRIBE, ResourceType.TOPIC, name, log_denied=False):
            continue
        topics.append(_known_topic(ctx, request, name))
    return topics


async def _requested_names(
    ctx: RequestContext, topics: list[m.MetadataRequest.MetadataRequestTopic]
) -> list[str]:
    version = ctx.version
    names = []
    async for topic in ctx.turns.each(topics):
        if topic.topic_id != ZERO_TOPIC_ID and version < 12:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Topic IDs are not supported in requests for version {version}",
            )
        if topic.name is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Topic name can not be null for version {version}"
            )
        names.append(topic.name)
    return list(dict.fromkeys(names))


async def _topics_by_name(
    ctx: RequestContext, request: m.MetadataRequest, names: list[str]
) -> list[Topic]:
    cache = ctx.services.metadata_cache
    hidden = await refused_in_turns(ctx, Operation.DESCRIBE, ResourceType.TOPIC, names)
    missing = [name for name in names if name not in hidden and not cache.contains_topic(name)]
    errors: dict[str, ErrorCode] = {}
    if missing:
        # Versions below 4 cannot say; they always allow it.
        wanted = request.allow_auto_topic_creation or ctx.version < 4
        uncreatable = await _uncreatable(ctx, missing) if wanted else ()
        errors = await ctx.services.topic_admin.missing_topics(
            [name for name in missing if name not in uncreatable], create=wanted
        )
        errors.update(dict.fromkeys(uncreatable, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    return [
        # Whether it exists is not even looked up.
        Topic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
        if name in hidden
        else _failed_topic(ctx, request, name, errors[name])
        if name in errors
        else _known_topic(ctx, request, name)
        async for name in ctx.turns.each(names)
    ]


async def _uncreatable(ctx: RequestContext, missing: list[str]) -> Collection[str]:
    if ctx.authorizer is None or not ctx.services.config.boolean("auto.create.topics.enable"):
        return ()
    if allowed_on_cluster(ctx, Operation.CREATE, log_denied=False):
        return ()
    return await refused_in_turns(ctx, Operation.CREATE, ResourceType.TOPIC, missing)


def _failed_topic(
    ctx: RequestContext, request: m.MetadataRequest, name: str, code: ErrorCode
) -> Topic:
    topic = Topic(error_code=code, name=name, is_internal=name in INTERNAL_TOPICS)
    if code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        topic.topic_authorized_operations = _operations(ctx, request, name)
    return topic


def _operations(ctx: RequestContext, request: m.MetadataRequest, name: str) -> int:
    if not request.include_topic_authorized_operations:
        return NOT_ASKED_FOR
    return authorized_operations(ctx, ResourceType.TOPIC, name)


def _topic_by_id(ctx: RequestContext, request: m.MetadataRequest, topic_id: bytes) -> Topic:
    name = ctx.services.metadata_cache.topic_name(topic_id)
    if name is None:
        return Topic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
    if not allowed(ctx, Operation.DESCRIBE, ResourceType.TOPIC, name):
        # The id is no secret (KIP-516), the name is.
        refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return Topic(error_code=refused, name=None, topic_id=topic_id)
    return _known_topic(ctx, request, name)


def _known_topic(ctx: RequestContext, request: m.MetadataRequest, name: str) -> Topic:
    cache = ctx.services.metadata_cache
    return Topic(
        error_code=0,
        name=name,
        topic_id=cache.topic_id(name),
        is_internal=name in INTERNAL_TOPICS,
        partitions=_partitions(cache, name, ctx.listener, ctx.version),
        topic_authorized_operations=_operations(ctx, request, name),
    )


def _partitions(cache: MetadataCache, name: str, listener: str, version: int) -> list[Partition]:
    # Answers differ before version 1 and before version 6, otherwise only by listener.
    form = 0 if version == 0 else 1 if version < 6 else 6
    return cache.derived(
        name, (listener, form), lambda states: _build(cache, states, listener, form)
    )


def _build(
    cache: MetadataCache, states: Mapping[int, PartitionState], listener: str, version: int
) -> list[Partition]:
    """MetadataCache.getPartitionMetadata."""
    partitions = []
    for index, state in states.items():
        replicas, isr = state.replicas, state.isr
        code = ErrorCode.NONE
        leader = state.leader
        if version == 0:
            replicas = [b for b in replicas if cache.endpoint(b, listener) is not None]
            isr = [b for b in isr if cache.endpoint(b, listener) is not None]
            if len(replicas) < len(state.replicas) or len(isr) < len(state.isr):
                code = ErrorCode.REPLICA_NOT_AVAILABLE
        if cache.endpoint(leader, listener) is None:
            code = _leader_error(cache, state, version)
            leader = _NO_LEADER
        partitions.append(
            Partition(
                error_code=code,
                partition_index=index,
                leader_id=leader,
                leader_epoch=state.leader_epoch,
                replica_nodes=replicas,
                isr_nodes=isr,
                offline_replicas=state.offline_replicas,
            )
        )
    return partitions


def _leader_error(cache: MetadataCache, state: PartitionState, version: int) -> ErrorCode:
    if version >= 6 and cache.broker(state.leader) is not None:
        return ErrorCode.LISTENER_NOT_FOUND
    return ErrorCode.LEADER_NOT_AVAILABLE
