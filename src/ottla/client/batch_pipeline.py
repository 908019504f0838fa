"""Several batches of a partition under way at once, stored in their order and each one once.

Up to five are sent before the first is acknowledged, as many as a leader remembers of a producer
(ProducerStateEntry.NumBatchesToRetain). Where one fails, those behind it are refused for
their sequence numbers. The partition then rests until every answer is there, and what was not
stored is sent again one after the other. Batches without sequence numbers go
one at a time: a second attempt of the first would come after the second.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.client.cluster import RETRY_PAUSE_MS
from ottla.client.sender import NOBODY, PASSING, BatchSender, NotStored
from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster

IN_FLIGHT_PER_PARTITION = 5
DEFAULT_ROOM_BYTES = 8 * 1024 * 1024
# As the Java producer's request.timeout.ms: a request waits behind those that were sent before it.
_REQUEST_TIMEOUT_MS = 30_000


class _Entry(NamedTuple):
    number: int  # within the partition
    batch: memoryview


Entries = dict[TopicPartition, _Entry]


@dataclass(slots=True)
class _Lane:
    """One partition. Nothing new is sent while something is in `failed`."""

    partition: TopicPartition
    waiting: deque[_Entry] = field(default_factory=deque)
    in_flight: dict[int, _Entry] = field(default_factory=dict)
    failed: dict[int, _Entry] = field(default_factory=dict)
    failing_since_s: float | None = None
    count: int = 0

    def append(self, batch: memoryview) -> None:
        self.waiting.append(_Entry(self.count, batch))
        self.count += 1

    def may_send(self, window: int) -> bool:
        """Counted from the oldest that is under way: its leader must know it when it comes again,
        though answers may overtake each other while leaders move."""
        if not self.waiting or self.failed:
            return False
        return not self.in_flight or self.waiting[0].number < min(self.in_flight) + window

    def is_behind(self, entry: _Entry) -> bool:
        """Is an earlier batch not stored, as far as one knows?"""
        return any(number < entry.number for number in (*self.in_flight, *self.failed))


class BatchPipeline:
    """Of one producer. After a failure that is final every call raises it."""

    def __init__(
        self,
        cluster: Cluster,
        sender: BatchSender,
        *,
        room_bytes: int = DEFAULT_ROOM_BYTES,
        on_stored: Callable[[TopicPartition, int, int], None] = lambda partition, number, base: (
            None
        ),
    ) -> None:
        """`put` waits while more than `room_bytes` are not stored. `on_stored` is told which batch
        of a partition is stored, counted from 0, and at which offset; -1 where nobody knows."""
        self._on_stored = on_stored
        self._cluster = cluster
        self._sender = sender
        self._room_bytes = room_bytes
        self._lanes: dict[TopicPartition, _Lane] = {}
        self._unstored_bytes = 0
        self._failure: Exception | None = None
        self._work: set[asyncio.Task[None]] = set()
        self._is_recovering = False
        self._request_ms = min(sender.timeout_ms, _REQUEST_TIMEOUT_MS)
        self._changed = asyncio.Event()

    async def put(self, batches: Iterable[tuple[TopicPartition, memoryview]]) -> None:
        """Sends them, and returns when there is room for more."""
        self._check()
        for partition, batch in batches:
            lane = self._lanes.setdefault(partition, _Lane(partition))
            lane.append(batch)
            self._unstored_bytes += len(batch)
        self._pump()
        while self._unstored_bytes > self._room_bytes and self._failure is None:
            await self._next_change()
        self._check()

    async def drain(self) -> None:
        """Returns when everything is stored."""
        while self._unstored_bytes and self._failure is None:
            await self._next_change()
        self._check()

    async def give_up(self) -> None:
        """Sends nothing more; returns when nothing is under way any more."""
        self._fail(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the producer has given up"))
        await asyncio.gather(*self._work, return_exceptions=True)

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def _next_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _pump(self) -> None:
        """Sends all that may be sent now: one batch per partition in a request, one request after
        the other."""
        while self._failure is None and (requests := self._next_requests()):
            for leader, entries in requests.items():
                self._begin(self._send(leader, entries))

    def _next_requests(self) -> dict[int, Entries]:
        """By leader. A partition that nobody leads is looked up as one that failed."""
        window = 1 if self._sender.identity == NOBODY else IN_FLIGHT_PER_PARTITION
        requests: dict[int, Entries] = {}
        for partition, lane in self._lanes.items():
            if not lane.may_send(window):
                continue
            entry = lane.waiting.popleft()
            leader = self._cluster.known_leader(partition)
            if leader < 0:
                lane.failed[entry.number] = entry
                continue
            lane.in_flight[entry.number] = entry
            requests.setdefault(leader, {})[partition] = entry
        self._recover_soon()
        return requests

    async def _send(self, leader: int, entries: Entries) -> None:
        failed = await self._attempt(leader, entries)
        for partition, entry in entries.items():
            lane = self._lanes[partition]
            del lane.in_flight[entry.number]
            if partition in failed:
                self._take_failure(lane, entry, failed[partition])
            else:
                self._take_stored(lane, entry)
        self._changed.set()
        self._pump()

    async def _attempt(self, leader: int, entries: Entries) -> dict[TopicPartition, KafkaError]:
        batches = {partition: entry.batch for partition, entry in entries.items()}
        try:
            return await self._sender.send_to(leader, batches, self._request_ms)
        except KafkaError as error:
            return dict.fromkeys(entries, error)

    def _take_stored(self, lane: _Lane, entry: _Entry) -> None:
        """At once after the answer: nothing else of this partition can have been answered since."""
        self._unstored_bytes -= len(entry.batch)
        base_offset = self._sender.base_offsets.get(lane.partition, -1)
        self._on_stored(lane.partition, entry.number, base_offset)

    def _take_failure(self, lane: _Lane, entry: _Entry, error: KafkaError) -> None:
        """A sequence number is out of order behind a batch that is not stored, and only there."""
        now_s = asyncio.get_running_loop().time()
        out_of_order = error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        passing = error.code in PASSING or (out_of_order and lane.is_behind(entry))
        lane.failed[entry.number] = entry
        lane.failing_since_s = now_s if lane.failing_since_s is None else lane.failing_since_s
        if not passing or now_s > lane.failing_since_s + self._sender.timeout_ms / 1000:
            self._fail(NotStored(lane.partition, error, len(entry.batch)))

    def _fail(self, failure: Exception) -> None:
        if self._failure is None:
            self._failure = failure
        self._changed.set()

    def _recover_soon(self) -> None:
        if not self._is_recovering and any(lane.failed for lane in self._lanes.values()):
            self._is_recovering = True
            self._begin(self._recover())

    async def _recover(self) -> None:
        """Stores what failed. A partition whose answers are not all there has its turn later."""
        stored = 0
        while self._failure is None:
            failing = [lane for lane in self._lanes.values() if lane.failed]
            if not failing:
                break
            if not stored:
                await asyncio.sleep(RETRY_PAUSE_MS / 1000)
            heads = {
                lane.partition: lane.failed[min(lane.failed)]
                for lane in failing
                if not lane.in_flight
            }
            stored = await self._retry(heads) if heads and self._failure is None else 0
            self._changed.set()
        self._is_recovering = False
        self._pump()

    async def _retry(self, heads: Entries) -> int:
        """One attempt at the first failed batch of each partition; how many were stored."""
        failed = await self._look_up(heads)
        requests: dict[int, Entries] = {}
        for partition in heads.keys() - failed.keys():
            leader = self._cluster.known_leader(partition)
            requests.setdefault(leader, {})[partition] = heads[partition]
        for answer in await asyncio.gather(*(self._attempt(*one) for one in requests.items())):
            failed |= answer
        for partition, entry in heads.items():
            lane = self._lanes[partition]
            del lane.failed[entry.number]
            if partition in failed:
                self._take_failure(lane, entry, failed[partition])
            else:
                lane.failing_since_s = None
                self._take_stored(lane, entry)
        return len(heads) - len(failed)

    async def _look_up(self, heads: Entries) -> dict[TopicPartition, KafkaError]:
        """Asks who leads now; those that nobody leads cannot be tried yet."""
        topics = sorted({partition.topic for partition in heads})
        try:
            await self._cluster.metadata(topics, timeout_ms=self._request_ms)
        except KafkaError as error:
            return dict.fromkeys(heads, error)
        return {
            partition: KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
            for partition in heads
            if self._cluster.known_leader(partition) < 0
        }

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self._fail(error)
