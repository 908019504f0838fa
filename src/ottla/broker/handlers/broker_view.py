"""BrokerView (20001), version 0: Ottla's own, not known to Apache Kafka (ADR 41).

Behaviour: this broker's clock, its counters since it started, and what it did about topics after
a sequence number (`Since`; below 0: nothing, only where to go on), at most `Limit` notes.
`StartedMs` changes with the process, and sequence numbers begin again with it.
Versions: one.
Rights: DESCRIBE on the cluster.
Left out: figures per topic; `/metrics` has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode
from ottla.security.rights import Operation, allowed_on_cluster
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext
    from ottla.broker.notes.topic_notes import TopicNote

MAX_NOTES = 1_000


async def handle(ctx: RequestContext, request: m.BrokerViewRequest) -> m.BrokerViewResponse:
    if not allowed_on_cluster(ctx, Operation.DESCRIBE):
        return m.BrokerViewResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    services = ctx.services
    replicas, notes = services.replica_manager, services.topic_notes
    tally = await services.partition_tally.get(replicas.partitions, ctx.turns)
    limit = min(max(request.limit, 0), MAX_NOTES)
    found = notes.since(request.since, limit) if request.since >= 0 else []
    if found:
        next_since = found[-1].sequence
    else:
        next_since = notes.last if limit or request.since < 0 else request.since
    return m.BrokerViewResponse(
        broker_id=services.broker_id,
        started_ms=notes.started_ms,
        clock_ms=services.runtime.clock.now_ms(),
        bytes_in=replicas.appends.taken_bytes,
        bytes_out=services.fetches.sent_bytes,
        messages_in=replicas.appends.taken_records,
        replication_bytes_in=replicas.fetchers.taken_bytes,
        replication_bytes_out=services.fetches.sent_to_followers_bytes,
        requests=services.handled_requests() + replicas.appends.direct_requests,
        connections=services.connection_count(),
        under_replicated=tally.under_replicated,
        leaders=tally.leaders,
        partitions=tally.partitions,
        max_lag=replicas.fetchers.max_lag,
        first_sequence=notes.first,
        next_since=next_since,
        notes=[_as_message(note) for note in found],
    )


def _as_message(note: TopicNote) -> m.BrokerViewResponse.TopicNote:
    message = m.BrokerViewResponse.TopicNote(
        sequence=note.sequence,
        timestamp_ms=note.ts_ms,
        kind=note.kind,
        topic=note.topic,
        count=note.count,
        partitions=list(note.partitions),
        place=note.place,
    )
    if note.asker is not None:
        message.api, message.client_id, message.principal = note.asker
    return message
