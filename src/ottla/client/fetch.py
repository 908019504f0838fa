"""A small consumer: records of given partitions from given offsets, without a group.

Positions are the caller's to choose; leaders are looked up and followed when they move. Control
batches (transaction markers) are passed over. Works on Ottla and Apache Kafka.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.client.cluster import (
    DEFAULT_TIMEOUT_MS,
    MOVED,
    RETRY_PAUSE_MS,
    response_error,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicPartition
from ottla.wire import messages as m
from ottla.wire import records

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster

MAX_WAIT_MS = 500
# Metadata is asked for so often, 0.1 s apart, before a committed epoch counts as one that is gone.
_MOST_BEHIND_ROUNDS = 100
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
        least_epochs: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """`least_epochs` come with committed offsets: a leader of an earlier epoch is not asked
        (KIP-320)."""
        self._cluster = cluster
        self._least_epochs = dict(least_epochs or {})
        self._behind_rounds = 0
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
        behind: set[TopicPartition] = set()
        for partition in self.positions:
            refresh = partition in self._moved or self._is_behind(partition)
            leader = await self._cluster.leader_of(
                partition, refresh=refresh, timeout_ms=self._timeout_ms
            )
            if self._is_behind(partition):
                behind.add(partition)
            else:
                by_leader.setdefault(leader, []).append(partition)
        self._moved = behind
        if behind:
            self._behind_rounds += 1
            if self._behind_rounds > _MOST_BEHIND_ROUNDS:
                # There is no such leader: a topic that was made again begins with epoch 0.
                self._least_epochs.clear()
        answers = await asyncio.gather(
            *(self._fetch(leader, group, max_wait_ms) for leader, group in by_leader.items())
        )
        found = [data for answer in answers for data in self._take(answer)]
        if self._moved:
            await asyncio.sleep(RETRY_PAUSE_MS / 1000)
        return found

    def _is_behind(self, partition: TopicPartition) -> bool:
        """Brokers that tell of no epochs are never behind."""
        return 0 <= self._cluster.known_epoch(partition) < self._least_epochs.get(partition, -1)

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
