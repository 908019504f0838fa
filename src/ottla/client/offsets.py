"""Offsets by time (ListOffsets), asked of the leaders of partitions, wherever they move."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.client.cluster import (
    DEFAULT_TIMEOUT_MS,
    MOVED,
    RETRY_PAUSE_MS,
    response_error,
    unreachable,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicPartition
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster

EARLIEST = -2
LATEST = -1
# KIP-734 and KIP-405: the record with the largest timestamp, the first that is on a broker's disk,
# the last that is in tiered storage; each with the version of ListOffsets that brought it.
MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -3, -4, -5
_LIST_VERSIONS = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
# The first with an isolation level.
_ISOLATION_VERSION = 2
# Another broker leads, or soon will; one that cannot be reached may be followed by another.
PASSING = MOVED | {ErrorCode.REQUEST_TIMED_OUT}


async def list_offsets(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    timestamp: int,
    *,
    timeout_ms: float = DEFAULT_TIMEOUT_MS,
    read_committed: bool = False,
) -> dict[TopicPartition, int]:
    """The offset of the first record at or after `timestamp` (-1 where there is none), or at
    EARLIEST or LATEST; raises the first error. With `read_committed` the log ends where the first
    open transaction begins."""
    found = {}
    answers = await try_list_offsets(
        cluster, partitions, timestamp, timeout_ms=timeout_ms, read_committed=read_committed
    )
    for partition, answer in answers.items():
        if isinstance(answer, KafkaError):
            raise answer
        found[partition] = answer
    return found


async def try_list_offsets(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    timestamp: int,
    *,
    timeout_ms: float = DEFAULT_TIMEOUT_MS,
    read_committed: bool = False,
) -> dict[TopicPartition, int | KafkaError]:
    """As `list_offsets`, with one result per partition."""
    times = dict.fromkeys(partitions, timestamp)
    return await find_offsets(cluster, times, read_committed=read_committed, timeout_ms=timeout_ms)


async def find_offsets(
    cluster: Cluster,
    times: Mapping[TopicPartition, int],
    *,
    read_committed: bool = False,
    passing: Collection[ErrorCode] = PASSING,
    timeout_ms: float = DEFAULT_TIMEOUT_MS,
    on_request: Callable[[], None] = lambda: None,
) -> dict[TopicPartition, int | KafkaError]:
    """A time of its own for each partition, and a result for each. One request per leader, to all
    of them at once; what fails with a `passing` error is asked for again."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_ms / 1000
    found: dict[TopicPartition, int | KafkaError] = {}
    pending = list(times)
    while pending:
        left_ms = max((deadline - loop.time()) * 1000, 1)
        by_leader = await _by_leader(cluster, pending, found, left_ms)
        requests = [
            _ask(cluster, leader, {p: times[p] for p in group}, read_committed, left_ms)
            for leader, group in by_leader.items()
        ]
        for _ in requests:
            on_request()
        for answer in await asyncio.gather(*requests):
            found |= answer
        pending = [
            p for group in by_leader.values() for p in group if _is_passing(found[p], passing)
        ]
        if loop.time() + RETRY_PAUSE_MS / 1000 > deadline:
            break
        if pending:
            await asyncio.sleep(RETRY_PAUSE_MS / 1000)
    return {partition: found[partition] for partition in times}


async def _by_leader(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    found: dict[TopicPartition, int | KafkaError],
    timeout_ms: float,
) -> dict[int, list[TopicPartition]]:
    """Whom to ask; metadata is fresh for those that were asked before. Those without a leader get
    their error."""
    groups: dict[int, list[TopicPartition]] = {}
    refreshed: set[str] = set()
    for partition in partitions:
        # One metadata request tells of all partitions of a topic.
        anew = partition in found and partition.topic not in refreshed
        try:
            leader = await cluster.leader_of(partition, refresh=anew, timeout_ms=timeout_ms)
        except KafkaError as error:
            found[partition] = error
            continue
        if anew:
            refreshed.add(partition.topic)
        groups.setdefault(leader, []).append(partition)
    return groups


def _is_passing(answer: int | KafkaError, passing: Collection[ErrorCode]) -> bool:
    return isinstance(answer, KafkaError) and answer.code in passing


async def _ask(
    cluster: Cluster,
    leader: int,
    times: Mapping[TopicPartition, int],
    read_committed: bool,
    timeout_ms: float,
) -> dict[TopicPartition, int | KafkaError]:
    request_class = m.ListOffsetsRequest
    topics: dict[str, list[m.ListOffsetsRequest.ListOffsetsPartition]] = {}
    for partition, moment in times.items():
        topics.setdefault(partition.topic, []).append(
            request_class.ListOffsetsPartition(
                partition_index=partition.partition, timestamp=moment
            )
        )
    request = request_class(
        replica_id=-1,
        isolation_level=int(read_committed),
        topics=[
            request_class.ListOffsetsTopic(name=name, partitions=asked)
            for name, asked in topics.items()
        ],
    )
    versions = [_LIST_VERSIONS.get(moment, 1) for moment in times.values()]
    request_ms = min(timeout_ms, cluster.request_timeout_ms)
    try:
        channel = await cluster.channel_to(leader, timeout_ms=request_ms)
        answer = await channel.send(
            request,
            timeout_ms=request_ms,
            min_version=max(*versions, _ISOLATION_VERSION if read_committed else 1),
        )
    except OSError as error:
        # Another broker may lead soon.
        return dict.fromkeys(times, unreachable("listOffsets", error))
    except KafkaError as error:  # the broker is too old for this timestamp
        return dict.fromkeys(times, error)
    left_out = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The broker's answer leaves it out.")
    found: dict[TopicPartition, int | KafkaError] = dict.fromkeys(times, left_out)
    for topic in answer.topics:
        for p in topic.partitions:
            partition = TopicPartition(topic.name, p.partition_index)
            found[partition] = response_error(p.error_code) if p.error_code else p.offset
    return found
