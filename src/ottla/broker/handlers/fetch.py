"""Fetch (1), versions 0 to 17.

Behaviour: reads from the leader, or from v11 on from any replica; followers (replica id 0 or more)
move high watermarks and ISRs by their fetches. Waits up to max_wait_ms for min_bytes. Incremental
sessions from v7 on (KIP-227), topic ids instead of names from v13 on (KIP-516).
Versions: 0 and 1 get messages of format 0, 2 and 3 of format 1, converted down from the stored
batches unless message.downconversion.enable is off (UNSUPPORTED_VERSION). v12 has lastFetchedEpoch
and divergingEpoch, v15 moves the replica id into a tag, v16 adds the current leader's endpoint
beside errors 6 and 74 (KIP-951).
Readers of committed records (isolation level 1, v4) see up to the last stable offset and are told
which transactions in the records were aborted.
A leader names a follower in the client's rack where replica.selector.class says so (v11, KIP-392);
followers out of the ISR that are listed for it are throttled (KIP-73). A consumer above its quota
gets an empty answer.
Left out: tiered storage.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple, cast

from ottla.broker.context.breadth import check_breadth
from ottla.broker.fetching.down_conversion import DownConversion
from ottla.broker.fetching.params import READ_COMMITTED, FetchParams, check_isolation_level
from ottla.broker.fetching.reads import CUT_BATCH
from ottla.broker.fetching.sessions import (
    FetchSession,
    Identity,
    Results,
    SessionEntry,
    identity,
)
from ottla.broker.quotas.clients import FetchAllowance
from ottla.broker.replication.fetch_protocol import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchPartition,
    FetchResult,
)
from ottla.errors import ErrorCode
from ottla.security.rights import (
    Operation,
    ResourceType,
    allowed_on_cluster,
    refused_names,
)
from ottla.storage.segment.segment import EMPTY
from ottla.types import ZERO_TOPIC_ID, TopicPartition
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext

_OLDEST_WITH_BATCHES = 4
_OLDEST_WITH_STORAGE_ERROR = 6
_OLDEST_WITH_SESSIONS = 7
_OLDEST_WITH_ZSTD = 10
_OLDEST_WITH_ANY_REPLICA = 11
_OLDEST_WITH_IDS = 13
_OLDEST_WITH_REPLICA_STATE = 15
_OLDEST_WITH_ENDPOINTS = 16
_LEADER_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class _Scope(NamedTuple):
    """Which partitions a request is about, and in which session."""

    wanted: list[SessionEntry]
    session: FetchSession | None
    # A full answer lists everything, an incremental one what is new.
    full: bool
    error: ErrorCode = ErrorCode.NONE


async def handle(ctx: RequestContext, request: m.FetchRequest) -> m.FetchResponse:
    check_isolation_level(request.isolation_level)
    named = sum([len(topic.partitions) for topic in request.topics])
    check_breadth(named, ctx.services.replica_manager.partitions)
    scope = _scope(ctx, request)
    if scope.error is not ErrorCode.NONE:
        return m.FetchResponse(error_code=scope.error, session_id=NO_SESSION)
    allowed = _allowance(ctx, request)
    if allowed.wait_ms:
        return _throttled(ctx, scope, allowed.wait_ms)
    results = await _read(ctx, request, scope, allowed.max_bytes)
    if ctx.version < _OLDEST_WITH_BATCHES:
        results = await _in_old_format(ctx, request, results)
    session_id = NO_SESSION
    if scope.session is not None:
        session_id = scope.session.id
        results = scope.session.news(results, full=scope.full)
    return _response(ctx, request, results, session_id)


# --- sessions -----------------------------------------------------------------------------------


def _scope(ctx: RequestContext, request: m.FetchRequest) -> _Scope:
    """FetchManager.newContext."""
    named = _named(ctx, request)
    if ctx.version < _OLDEST_WITH_SESSIONS:
        return _Scope(named, None, True)
    sessions = ctx.services.fetches.sessions
    now_ms = ctx.services.runtime.clock.monotonic_ms()
    uses_ids = ctx.version >= _OLDEST_WITH_IDS
    session_id, epoch = request.session_id, request.session_epoch
    replica_id = _replica_id(ctx, request)
    if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
        if session_id != NO_SESSION:
            sessions.close(session_id)
        if epoch == FINAL_EPOCH or _are_strangers(ctx, named, replica_id):
            return _Scope(named, None, True)
        session = sessions.create(
            len(named),
            uses_ids=uses_ids,
            privileged=ctx.is_from_peers and replica_id >= 0,
            now_ms=now_ms,
            weight=sum(entry.weight for entry in named),
        )
        if session is None:
            return _Scope(named, None, True)
        session.update(named)
        # What the session knows: a partition that was named twice has one entry, and no other may
        # watch it.
        return _Scope(list(session.dirty), session, True)
    found = sessions.continued(session_id, epoch, uses_ids=uses_ids, now_ms=now_ms)
    if isinstance(found, ErrorCode):
        return _Scope([], None, True, found)
    new = found.new_among(named)
    if new and (
        _are_strangers(ctx, new, replica_id)
        or not sessions.has_room_for(
            sum(entry.weight for entry in new), privileged=found.privileged
        )
    ):
        # The client begins again, with a full fetch.
        sessions.close(session_id)
        return _Scope([], None, True, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    found.update(named, _forgotten(ctx, request))
    if len(found) == 0:
        sessions.close(session_id)
        return _Scope([], None, True)
    return _Scope(_resolve(ctx, found), found, False)


def _named(ctx: RequestContext, request: m.FetchRequest) -> list[SessionEntry]:
    uses_ids = ctx.version >= _OLDEST_WITH_IDS
    cache = ctx.services.metadata_cache
    named: list[SessionEntry] = []
    for topic in request.topics:
        name = cache.topic_name(topic.topic_id) if uses_ids else topic.topic
        topic_id = topic.topic_id if uses_ids else ZERO_TOPIC_ID
        for part in topic.partitions:
            want = FetchPartition(
                part.fetch_offset,
                part.partition_max_bytes,
                part.log_start_offset,
                part.current_leader_epoch,
                part.last_fetched_epoch,
                topic_id,
            )
            named.append(SessionEntry(topic_id, name, part.partition, want))
    return _without_repetition(named)


def _without_repetition(named: list[SessionEntry]) -> list[SessionEntry]:
    """FetchRequest.fetchData: of a partition that is named twice the last one counts."""
    found: dict[Identity, SessionEntry] = {}
    for entry in named:
        found[entry.identity] = entry
    return named if len(found) == len(named) else list(found.values())


def _are_strangers(ctx: RequestContext, named: list[SessionEntry], replica_id: int) -> bool:
    """Whether some of the partitions do not exist, or not for this client: a session keeps nothing
    of them. Followers may be ahead of what the leader was told."""
    # What is refused is logged once, when it is answered.
    if ctx.authorizer is not None and _refused_topics(ctx, replica_id, named, log_denied=False):
        return True
    is_known = ctx.services.replica_manager.partitions.is_known
    return replica_id < 0 and not all(entry.is_known and is_known(entry.tp) for entry in named)


def _forgotten(ctx: RequestContext, request: m.FetchRequest) -> list[Identity]:
    uses_ids = ctx.version >= _OLDEST_WITH_IDS
    return [
        identity(topic.topic_id if uses_ids else ZERO_TOPIC_ID, topic.topic, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]


def _resolve(ctx: RequestContext, session: FetchSession) -> list[SessionEntry]:
    """The partitions to look at; ids that were unknown are looked up again."""
    entries = list(session.dirty)
    if session.uses_ids:
        for entry in entries:
            if not entry.is_known:
                name = ctx.services.metadata_cache.topic_name(entry.topic_id)
                if name is not None:
                    entry.resolve(name)
    return entries


# --- reading ------------------------------------------------------------------------------------


def _replica_id(ctx: RequestContext, request: m.FetchRequest) -> int:
    if ctx.version >= _OLDEST_WITH_REPLICA_STATE:
        return request.replica_state.replica_id
    return request.replica_id


def _allowance(ctx: RequestContext, request: m.FetchRequest) -> FetchAllowance:
    quotas = ctx.services.client_quotas
    if quotas is None or _replica_id(ctx, request) >= 0:
        return FetchAllowance()
    return quotas.before_fetch(ctx.principal, ctx.header.client_id)


def _throttled(ctx: RequestContext, scope: _Scope, wait_ms: int) -> m.FetchResponse:
    """FetchContext.getThrottledResponse: a session goes on as it was, a new one does not begin."""
    session_id = NO_SESSION
    if scope.session is not None and scope.full:
        ctx.services.fetches.sessions.close(scope.session.id)
    elif scope.session is not None:
        session_id = scope.session.id
    return m.FetchResponse(throttle_time_ms=wait_ms, session_id=session_id)


async def _read(
    ctx: RequestContext, request: m.FetchRequest, scope: _Scope, allowed_bytes: int
) -> Results:
    wanted, fetches = scope.wanted, ctx.services.fetches
    replica_id = _replica_id(ctx, request)
    max_bytes = min(request.max_bytes, allowed_bytes)
    if replica_id < 0:
        max_bytes = min(max_bytes, ctx.services.config.integer("fetch.max.bytes"))
    params = FetchParams(
        replica_id=replica_id,
        max_wait_ms=request.max_wait_ms,
        min_bytes=min(request.min_bytes, max_bytes),
        max_bytes=max_bytes,
        isolation_level=request.isolation_level,
        hard_max_bytes=ctx.version <= 2,
        any_replica=ctx.version >= _OLDEST_WITH_ANY_REPLICA,
        client_rack=request.rack_id or "",
        listener=ctx.listener,
    )
    refused = {entry: FetchResult(error) for entry, error in _objections(ctx, wanted, replica_id)}
    readable = [entry for entry in wanted if entry not in refused] if refused else wanted
    if scope.session is not None:
        results = await fetches.fetch_in_session(params, scope.session, readable)
        if ctx.authorizer is not None:
            # Others of the session may have moved meanwhile; rights can be gone since they were
            # looked at.
            late = [entry for entry, _ in results]
            lost = {entry: FetchResult(err) for entry, err in _objections(ctx, late, replica_id)}
            results = [(entry, lost.get(entry, result)) for entry, result in results]
    else:
        read = await fetches.fetch(params, [(entry.tp, entry.want) for entry in readable])
        results = [(entry, result) for entry, (_, result) in zip(readable, read, strict=True)]
    fetches.count_sent(results, is_follower=params.is_follower)
    if not refused:
        return results
    if scope.session is not None and not scope.full:
        return [*refused.items(), *results]
    by_entry = refused | dict(results)
    return [(entry, by_entry[entry]) for entry in wanted]


def _objections(
    ctx: RequestContext, wanted: list[SessionEntry], replica_id: int
) -> list[tuple[SessionEntry, ErrorCode]]:
    """Partitions that are not even looked for."""
    found = [(entry, ErrorCode.UNKNOWN_TOPIC_ID) for entry in wanted if not entry.is_known]
    if ctx.version < _OLDEST_WITH_ZSTD:
        for entry in wanted:
            error = _format_objection(ctx, entry.tp)
            if error is not ErrorCode.NONE:
                found.append((entry, error))
    if replica_id >= 0 and not ctx.is_from_peers:
        # Whoever poses as a follower moves high watermarks; followers connect elsewhere.
        return [(entry, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for entry in wanted]
    if ctx.authorizer is not None:
        hidden = _refused_topics(ctx, replica_id, wanted)
        refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        found += [(entry, refused) for entry in wanted if entry.tp.topic in hidden]
    return found


def _refused_topics(
    ctx: RequestContext,
    replica_id: int,
    wanted: list[SessionEntry],
    *,
    log_denied: bool = True,
) -> Collection[str]:
    """Followers need the right of brokers, and read all topics with it or none."""
    topics = {entry.tp.topic for entry in wanted if entry.is_known}
    if replica_id < 0:
        return refused_names(ctx, Operation.READ, ResourceType.TOPIC, topics, log_denied=log_denied)
    allowed = allowed_on_cluster(ctx, Operation.CLUSTER_ACTION, log_denied=log_denied)
    return () if allowed else topics


def _format_objection(ctx: RequestContext, tp: TopicPartition) -> ErrorCode:
    """What a client of this (old) version cannot be sent."""
    log = ctx.services.replica_manager.partitions.log(tp)
    if log is not None and log.settings.compression_type == "zstd":
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    return ErrorCode.NONE


async def _in_old_format(ctx: RequestContext, request: m.FetchRequest, results: Results) -> Results:
    """KafkaApis.maybeConvertFetchedData; followers have their records converted in any case."""
    conversion = DownConversion(ctx.version, ctx.services.replica_manager.examiner)
    is_client = _replica_id(ctx, request) < 0
    converted = []
    for entry, result in results:
        log = ctx.services.replica_manager.partitions.log(entry.tp)
        forbidden = log is not None and not log.settings.message_downconversion_enable
        if is_client and forbidden and result.size and result.records is not CUT_BATCH:
            result = FetchResult(ErrorCode.UNSUPPORTED_VERSION)
        converted.append((entry, await conversion.convert(result, entry.want.fetch_offset)))
    return converted


# --- the answer ---------------------------------------------------------------------------------


def _response(
    ctx: RequestContext, request: m.FetchRequest, results: Results, session_id: int
) -> m.FetchResponse:
    response = m.FetchResponse
    topics: list[m.FetchResponse.FetchableTopicResponse] = []
    aborted = request.isolation_level == READ_COMMITTED
    leaders: set[int] = set()
    last: tuple[bytes, str] | None = None
    for entry, result in results:
        if last != (entry.topic_id, entry.tp.topic):
            last = (entry.topic_id, entry.tp.topic)
            topics.append(
                response.FetchableTopicResponse(
                    topic=entry.tp.topic, topic_id=entry.topic_id, partitions=[]
                )
            )
        data = _partition_data(ctx, entry.tp.partition, result)
        if aborted and result.error is ErrorCode.NONE:
            data.aborted_transactions = [
                response.AbortedTransaction(
                    producer_id=transaction.producer_id, first_offset=transaction.first_offset
                )
                for transaction in result.aborted
            ]
        if ctx.version >= _OLDEST_WITH_ENDPOINTS and result.error in _LEADER_ERRORS:
            leaders.add(_set_current_leader(ctx, entry.tp, data))
        topics[-1].partitions.append(data)
    answered = response(session_id=session_id, responses=topics)
    if leaders:
        answered.node_endpoints = [
            response.NodeEndpoint(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in ctx.services.replica_manager.partitions.leader_nodes(leaders, ctx.listener)
        ]
    return answered


def _partition_data(
    ctx: RequestContext, partition: int, result: FetchResult
) -> m.FetchResponse.PartitionData:
    response = m.FetchResponse
    error = result.error
    if error is ErrorCode.KAFKA_STORAGE_ERROR and ctx.version < _OLDEST_WITH_STORAGE_ERROR:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    data = response.PartitionData(
        partition_index=partition,
        error_code=error,
        high_watermark=result.high_watermark,
        last_stable_offset=result.last_stable_offset,
        log_start_offset=result.log_start_offset,
        aborted_transactions=None,
        preferred_read_replica=result.preferred_read_replica,
        # A slice of a file has a length, which is all that the encoder asks of large records.
        records=EMPTY if result.records is None else cast("memoryview", result.records),
    )
    if result.diverging_epoch is not None:
        epoch, end_offset = result.diverging_epoch
        data.diverging_epoch = response.EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return data


def _set_current_leader(
    ctx: RequestContext, tp: TopicPartition, data: m.FetchResponse.PartitionData
) -> int:
    leader, epoch = ctx.services.replica_manager.partitions.current_leader(tp)
    data.current_leader = m.FetchResponse.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
    return leader
