"""A small consumer: records of given partitions from given offsets, without a group.

Positions are the caller's to choose; leaders are looked up and followed when they move. Control
batches (transaction markers) are passed over. Works on Ottla and Apache Kafka.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

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
from ottla.wire import records

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster

EARLIEST = -2
LATEST = -1
# KIP-734 and KIP-405: the record with the largest timestamp, the first that is on a broker's disk,
# the last that is in tiered storage; each with the version of ListOffsets that brought it.
MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -3, -4, -5
_LIST_VERSIONS = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
MAX_WAIT_MS = 500
MAX_BYTES = 8 * 1024 * 1024
MAX_PARTITION_BYTES = 1024 * 1024
# From 13 on topics are named by id; batches of format 2 come from 4 on.
_FETCH_VERSIONS = (4, 12)


class FetchedRecord(NamedTuple):
    partition: TopicPartition
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
    is_append_time: bool = False


async def list_offsets(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    timestamp: int,
    *,
    timeout_ms: float = DEFAULT_TIMEOUT_MS,
) -> dict[TopicPartition, int]:
    """The offset of the first record at or after `timestamp` (-1 where there is none), or at
    EARLIEST or LATEST; raises the first error."""
    found = {}
    answers = await try_list_offsets(cluster, partitions, timestamp, timeout_ms=timeout_ms)
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
) -> dict[TopicPartition, int | KafkaError]:
    """As `list_offsets`, with one result per partition. One request per leader; partitions whose
    leader has moved are asked for again."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_ms / 1000
    wanted = list(partitions)
    found: dict[TopicPartition, int | KafkaError] = {}
    pending = wanted
    while pending:
        left_ms = max((deadline - loop.time()) * 1000, 1)
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in pending:
            try:
                leader = await cluster.leader_of(
                    partition, refresh=partition in found, timeout_ms=left_ms
                )
                by_leader.setdefault(leader, []).append(partition)
            except KafkaError as error:
                found[partition] = error
        for leader, group in by_leader.items():
            found |= await _list_offsets_of(cluster, leader, group, timestamp, left_ms)
        pending = [p for group in by_leader.values() for p in group if _has_moved(found[p])]
        if loop.time() + RETRY_PAUSE_MS / 1000 > deadline:
            break
        if pending:
            await asyncio.sleep(RETRY_PAUSE_MS / 1000)
    return {partition: found[partition] for partition in wanted}


def _has_moved(answer: int | KafkaError) -> bool:
    return isinstance(answer, KafkaError) and (
        answer.code in MOVED or answer.code is ErrorCode.REQUEST_TIMED_OUT
    )


async def _list_offsets_of(
    cluster: Cluster, leader: int, group: list[TopicPartition], timestamp: int, timeout_ms: float
) -> dict[TopicPartition, int | KafkaError]:
    request_class = m.ListOffsetsRequest
    topics: dict[str, list[int]] = {}
    for partition in group:
        topics.setdefault(partition.topic, []).append(partition.partition)
    request = request_class(
        replica_id=-1,
        topics=[
            request_class.ListOffsetsTopic(
                name=topic,
                partitions=[
                    request_class.ListOffsetsPartition(partition_index=index, timestamp=timestamp)
                    for index in indexes
                ],
            )
            for topic, indexes in topics.items()
        ],
    )
    request_ms = min(timeout_ms, cluster.request_timeout_ms)
    try:
        channel = await cluster.channel_to(leader, timeout_ms=request_ms)
        answer = await channel.send(
            request, timeout_ms=request_ms, min_version=_LIST_VERSIONS.get(timestamp, 1)
        )
    except OSError as error:
        # Another broker may lead soon.
        return dict.fromkeys(group, unreachable("listOffsets", error))
    except KafkaError as error:  # the broker is too old for this timestamp
        return dict.fromkeys(group, error)
    return {
        TopicPartition(topic.name, p.partition_index): response_error(p.error_code)
        if p.error_code
        else p.offset
        for topic in answer.topics
        for p in topic.partitions
    }


class FetchedData(NamedTuple):
    """What a leader has from a position on: batches as they are stored, and how far it may be
    read. `aborted` are the transactions whose records read_committed passes over."""

    partition: TopicPartition
    records: Any
    end: int
    aborted: Sequence[tuple[int, int]] = ()  # producer id, first offset


class RecordReader:
    """`positions` are the offsets to read next and move as records are handed out."""

    def __init__(
        self,
        cluster: Cluster,
        positions: Mapping[TopicPartition, int],
        *,
        timeout_ms: float = DEFAULT_TIMEOUT_MS,
        max_bytes: int = MAX_BYTES,
        partition_bytes: int = MAX_PARTITION_BYTES,
        committed_only: bool = False,
    ) -> None:
        self._cluster = cluster
        self.positions = dict(positions)
        self._timeout_ms = timeout_ms
        self._max_bytes = max_bytes
        self._partition_bytes = partition_bytes
        self._committed_only = committed_only
        self._moved: set[TopicPartition] = set()
        self._unreachable: dict[int, float] = {}

    async def poll(self, *, max_wait_ms: int = MAX_WAIT_MS) -> list[FetchedRecord]:
        """What one round of fetches brings; empty where nothing came within `max_wait_ms`. Records
        of aborted transactions are among them, whatever `committed_only` says."""
        data = await self.fetch(max_wait_ms=max_wait_ms)
        return [
            record
            for part in data
            if part.records
            for record in self._records(part.partition, part.records)
        ]

    async def fetch(self, *, max_wait_ms: int = MAX_WAIT_MS) -> list[FetchedData]:
        """One round of fetches, undecoded: moving `positions` on is the caller's part."""
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in self.positions:
            leader = await self._cluster.leader_of(
                partition, refresh=partition in self._moved, timeout_ms=self._timeout_ms
            )
            by_leader.setdefault(leader, []).append(partition)
        self._moved.clear()
        answers = await asyncio.gather(
            *(self._fetch(leader, group, max_wait_ms) for leader, group in by_leader.items())
        )
        found = [data for answer in answers for data in self._take(answer)]
        if self._moved:
            await asyncio.sleep(RETRY_PAUSE_MS / 1000)
        return found

    async def read_until(self, ends: Mapping[TopicPartition, int]) -> AsyncIterator[FetchedRecord]:
        """Records up to, not including, the given offset of each partition."""
        while any(self.positions[partition] < end for partition, end in ends.items()):
            for record in await self.poll():
                if record.offset < ends[record.partition]:
                    yield record

    async def follow(self) -> AsyncIterator[FetchedRecord]:
        """Records as they come, without an end."""
        while True:
            for record in await self.poll():
                yield record

    async def _fetch(self, leader: int, group: list[TopicPartition], max_wait_ms: int) -> Any:
        request_class = m.FetchRequest
        topics: dict[str, list[TopicPartition]] = {}
        for partition in group:
            topics.setdefault(partition.topic, []).append(partition)
        request = request_class(
            replica_id=-1,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=self._max_bytes,
            isolation_level=int(self._committed_only),
            session_epoch=-1,  # no fetch session: every request names all partitions
            topics=[
                request_class.FetchTopic(
                    topic=topic,
                    partitions=[
                        request_class.FetchPartition(
                            partition=partition.partition,
                            fetch_offset=self.positions[partition],
                            partition_max_bytes=self._partition_bytes,
                        )
                        for partition in partitions
                    ],
                )
                for topic, partitions in topics.items()
            ],
        )
        low, high = _FETCH_VERSIONS
        loop = asyncio.get_running_loop()
        request_ms = min(self._timeout_ms, self._cluster.request_timeout_ms)
        try:
            channel = await self._cluster.channel_to(leader, timeout_ms=request_ms)
            answer = await channel.send(
                request, timeout_ms=request_ms, min_version=low, max_version=high
            )
        except OSError as error:
            # The leader is gone: another one is looked for, as long as a call may take.
            since = self._unreachable.setdefault(leader, loop.time())
            if (loop.time() - since) * 1000 > self._timeout_ms:
                raise KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT, f"broker {leader} cannot be reached: {error}"
                ) from error
            self._moved.update(group)
            return None
        self._unreachable.pop(leader, None)
        return answer

    def _take(self, answer: m.FetchResponse | None) -> list[FetchedData]:
        if answer is None:
            return []
        if answer.error_code:
            raise response_error(answer.error_code)
        found = []
        for topic in answer.responses:
            for data in topic.partitions:
                partition = TopicPartition(topic.topic, data.partition_index)
                if data.error_code:
                    self._meet(partition, data)
                    continue
                aborted = [(a.producer_id, a.first_offset) for a in data.aborted_transactions or ()]
                end = data.last_stable_offset if self._committed_only else data.high_watermark
                found.append(FetchedData(partition, data.records, end, aborted))
        return found

    def _meet(self, partition: TopicPartition, data: Any) -> None:
        """An error of one partition: what passes is tried again, the rest is raised."""
        error = response_error(data.error_code)
        if error.code in MOVED:
            self._moved.add(partition)
        elif error.code is ErrorCode.OFFSET_OUT_OF_RANGE and (
            0 <= data.log_start_offset > self.positions[partition]
        ):
            # What was to be read next is gone by retention: go on with the oldest there is.
            self.positions[partition] = data.log_start_offset
        else:
            raise KafkaError(error.code, f"{partition}: {error}")

    def _records(self, partition: TopicPartition, data: Any) -> list[FetchedRecord]:
        found = []
        for header, batch in records.iter_batches(data):
            if not header.is_control:
                found += [
                    FetchedRecord(
                        partition,
                        r.offset,
                        r.timestamp,
                        r.key,
                        r.value,
                        r.headers,
                        header.is_log_append_time,
                    )
                    for r in records.iter_records(batch)
                    # The first batch may begin before the position.
                    if r.offset >= self.positions[partition]
                ]
            self.positions[partition] = max(self.positions[partition], header.last_offset + 1)
        return found
