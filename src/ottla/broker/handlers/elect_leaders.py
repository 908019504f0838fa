"""ElectLeaders (43), versions 0 to 2.

Behaviour: the controller elects the preferred leader (type 0) or, where nobody in the ISR is alive,
an unclean one (type 1). The answer waits until this broker's metadata cache shows the new leaders,
at most timeout_ms (REQUEST_TIMED_OUT). A null list means all partitions; those that need no
election are then left out of the answer.
Versions: 0 knows preferred elections only and has no error code at the top.
Left out: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.bounds.batches import pieces
from ottla.errors import ErrorCode, KafkaError
from ottla.security.rights import Operation, require_cluster
from ottla.types import TopicPartition
from ottla.wire import messages as m

if TYPE_CHECKING:
    from collections.abc import Collection

    from ottla.broker.context.request import RequestContext
    from ottla.broker.membership.metadata_cache import MetadataCache

_PREFERRED = 0
_UNCLEAN = 1

# Code and message of each partition.
Results = dict[TopicPartition, tuple[ErrorCode, str | None]]


async def handle(ctx: RequestContext, request: m.ElectLeadersRequest) -> m.ElectLeadersResponse:
    require_cluster(ctx, Operation.ALTER)
    if request.election_type not in (_PREFERRED, _UNCLEAN):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    asked = request.topic_partitions
    cache, clock = ctx.services.metadata_cache, ctx.services.runtime.clock
    partitions = _all_partitions(cache) if asked is None else await _listed(ctx, asked)
    deadline_ms = clock.monotonic_ms() + request.timeout_ms
    elections: dict[TopicPartition, int | KafkaError] = {}
    for some in pieces(partitions):
        outcomes = await ctx.services.controller.elect_leaders(
            some, unclean=request.election_type == _UNCLEAN
        )
        if outcomes is None:
            # Kafka has nothing to say of partitions that were not named.
            named = [] if asked is None else partitions
            return _response(dict.fromkeys(named, (ErrorCode.NOT_CONTROLLER, None)))
        elections.update(outcomes)
    results: Results = {}
    expected: dict[TopicPartition, int] = {}
    for tp, outcome in elections.items():
        if isinstance(outcome, int):
            expected[tp] = outcome
        elif asked is not None or outcome.code is not ErrorCode.ELECTION_NOT_NEEDED:
            results[tp] = outcome.code, str(outcome)
    waiting = await _await_leaders(cache, expected, deadline_ms - clock.monotonic_ms())
    for tp in expected:
        timed_out = tp in waiting
        results[tp] = (ErrorCode.REQUEST_TIMED_OUT if timed_out else ErrorCode.NONE), None
    return _response(results)


def _all_partitions(cache: MetadataCache) -> list[TopicPartition]:
    return [
        TopicPartition(topic, partition)
        for topic in cache.topics()
        for partition in cache.topic_partitions(topic)
    ]


async def _listed(
    ctx: RequestContext, asked: list[m.ElectLeadersRequest.TopicPartitions]
) -> list[TopicPartition]:
    listed = [
        TopicPartition(entry.topic, index)
        async for entry in ctx.turns.each(asked)
        async for index in ctx.turns.each(entry.partitions)
    ]
    return list(dict.fromkeys(listed))


async def _await_leaders(
    cache: MetadataCache, expected: dict[TopicPartition, int], timeout_ms: float
) -> Collection[TopicPartition]:
    """The partitions whose new leader did not show in time."""
    waiting = set(expected)

    def all_shown() -> bool:
        for tp in tuple(waiting):
            state = cache.partition_state(tp)
            if state is not None and state.leader == expected[tp]:
                waiting.discard(tp)
        return not waiting

    if not all_shown() and timeout_ms > 0:
        topics = frozenset(tp.topic for tp in waiting)
        await cache.wait_until(topics, all_shown, int(timeout_ms))
    return waiting


def _response(results: Results) -> m.ElectLeadersResponse:
    response = m.ElectLeadersResponse
    topics: dict[str, list[m.ElectLeadersResponse.PartitionResult]] = {}
    for tp, (code, message) in results.items():
        topics.setdefault(tp.topic, []).append(
            response.PartitionResult(
                partition_id=tp.partition, error_code=code, error_message=message
            )
        )
    return response(
        replica_election_results=[
            response.ReplicaElectionResult(topic=topic, partition_result=partitions)
            for topic, partitions in topics.items()
        ]
    )
