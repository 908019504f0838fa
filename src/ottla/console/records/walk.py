"""Records of several partitions in the order of their timestamps, oldest or newest first, within a
budget of bytes and time. Within a partition the order is that of the offsets.

Backwards is harder, since brokers read forwards only: pieces are fetched from the end on, small
ones first, larger ones where records turn out to be small.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.client.fetch import RecordReader
from ottla.console.records.seen import Found, Reading, Seen, Wanted, decode
from ottla.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.client.fetch import FetchedData
    from ottla.types import TopicPartition

MAX_NOTES = 20
_MOST_CHUNK = 8192
_SMALL_BYTES = 256 * 1024
_LARGE_BYTES = 2 * 1024 * 1024
_MAX_FETCHES_AT_ONCE = 32
_ROUND_MS = 4000
_ATTEMPTS = 10


@dataclass(slots=True)
class Budget:
    """What may still be spent; `now_s` is a clock that never goes back."""

    bytes_left: int
    deadline_s: float
    now_s: Callable[[], float]
    bytes_read: int = 0
    looked: int = 0

    def spend(self, size: int, looked: int) -> None:
        self.bytes_left -= size
        self.bytes_read += size
        self.looked += looked

    @property
    def stopped(self) -> str | None:
        if self.bytes_left <= 0:
            return "bytes"
        return "time" if self.now_s() >= self.deadline_s else None


@dataclass(frozen=True, slots=True)
class Terms:
    """How to read, for all partitions alike."""

    cluster: Cluster
    budget: Budget
    most: int
    markers: bool = False
    committed_only: bool = False
    wanted: Wanted | None = None
    partition_bytes: int = 512 * 1024
    gate: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MAX_FETCHES_AT_ONCE))


class _Way(ABC):
    """One partition: `floor` and `top` bound what was not looked at yet; `buffer` holds records in
    the order of the walk."""

    def __init__(self, terms: Terms, partition: TopicPartition, floor: int, top: int) -> None:
        self._terms = terms
        self.partition = partition
        self.floor = floor
        self.top = top
        self.buffer: list[Seen] = []
        self.notes: list[str] = []

    @property
    def is_done(self) -> bool:
        return not self.buffer and self.floor >= self.top

    async def fill(self) -> None:
        """Looks further until there is a record, the end, or no budget."""
        while not self.buffer and self.floor < self.top and not self._terms.budget.stopped:
            try:
                async with self._terms.gate:
                    await self.look()
            except KafkaError as error:
                self.notes.append(f"Partition {self.partition.partition}: {error}")
                self.top = self.floor

    @abstractmethod
    async def look(self) -> None:
        """One step of the walk."""

    async def _fetch(self, position: int, end: int, *, keep_last: bool) -> tuple[Found, int, int]:
        """What one fetch brings, how many bytes that was, and how far the log may be read."""
        terms = self._terms
        reader = RecordReader(
            terms.cluster,
            {self.partition: position},
            timeout_ms=_ROUND_MS,
            max_bytes=max(min(terms.partition_bytes, terms.budget.bytes_left), 1),
            partition_bytes=terms.partition_bytes,
            committed_only=terms.committed_only,
        )
        data = await fetch_of(reader, self.partition)
        # Retention may have moved the beginning of the log meanwhile.
        begin = max(position, reader.positions[self.partition])
        size = len(data.records or b"")
        reading = Reading(
            self.floor if keep_last else begin,
            end,
            terms.most,
            keep_last,
            terms.markers,
            terms.committed_only,
            terms.wanted,
            is_over=lambda: terms.budget.stopped == "time",
        )
        found = await decode(data, reading)
        terms.budget.spend(size, found.looked)
        self.notes += found.notes
        return found, size, data.end


async def fetch_of(reader: RecordReader, partition: TopicPartition) -> FetchedData:
    """What the partition's leader has; a leader that moves, or a beginning, is looked for again."""
    for _ in range(_ATTEMPTS):
        for data in await reader.fetch(max_wait_ms=0):
            return data
    raise KafkaError(
        ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} cannot be read: its leader is about to change"
    )


class Upwards(_Way):
    @property
    def cursor(self) -> int:
        return self.buffer[0].offset if self.buffer else self.floor

    async def look(self) -> None:
        found, _, end = await self._fetch(self.floor, self.top, keep_last=False)
        self.buffer += found.records
        if found.next_offset is None or found.next_offset <= self.floor:
            self.floor = self.top = max(self.floor, min(self.top, end))
        else:
            self.floor = min(found.next_offset, self.top)


class Downwards(_Way):
    """`buffer` has the highest offset first."""

    _chunk = 1

    @property
    def cursor(self) -> int:
        """Exclusive: the next page has what is below."""
        return self.buffer[0].offset + 1 if self.buffer else self.top

    async def look(self) -> None:
        budget = self._terms.budget
        low = position = max(self.floor, self.top - self._chunk)
        kept: list[Seen] = []
        lowest = low
        spent = 0
        while position < self.top:
            found, size, end = await self._fetch(position, self.top, keep_last=True)
            spent += size
            if position == low and found.first_offset is not None:
                # The whole batch came: what precedes the piece is there for nothing.
                lowest = max(self.floor, min(low, found.first_offset))
            kept += found.records
            if found.next_offset is None or found.next_offset <= position:
                if end < self.top and end <= position:
                    # Not to be read yet: open transactions.
                    self.top = max(end, self.floor)
                    return
                break
            position = found.next_offset
            if budget.stopped and position < self.top:
                if self._chunk == 1:
                    break
                # Half a piece has no end to begin at: a smaller one next time.
                self._chunk = max(1, self._chunk // 8)
                return
        most = self._terms.most
        if len(kept) >= most:
            # Those that did not fit are looked at again with the next piece.
            kept = kept[-most:]
            lowest = kept[0].offset
        self.buffer += reversed(kept)
        self.top = lowest
        if spent < _SMALL_BYTES:
            self._chunk = min(self._chunk * 8, _MOST_CHUNK)
        elif spent > _LARGE_BYTES:
            self._chunk = max(1, self._chunk // 8)


Way = Upwards | Downwards


@dataclass(slots=True)
class Walked:
    records: list[Seen]
    # Where each partition goes on; empty where everything was seen.
    cursor: dict[int, int]
    stopped: str | None
    notes: list[str]


def ways(
    terms: Terms, bounds: Mapping[TopicPartition, tuple[int, int]], *, newest: bool
) -> list[Way]:
    kind = Downwards if newest else Upwards
    return [kind(terms, partition, low, high) for partition, (low, high) in bounds.items()]


async def walk(terms: Terms, all_ways: list[Way], limit: int, *, newest: bool) -> Walked:
    """The first `limit` records; fewer where the budget is spent or nothing is left."""
    taken: list[Seen] = []
    sign = -1 if newest else 1
    while len(taken) < limit:
        thirsty = [way for way in all_ways if not way.buffer and not way.is_done]
        if thirsty and not terms.budget.stopped:
            await asyncio.gather(*(way.fill() for way in thirsty))
        with_records = [way for way in all_ways if way.buffer]
        if not with_records:
            break
        first = min(
            with_records,
            key=lambda way: (sign * way.buffer[0].timestamp_ms, way.partition.partition),
        )
        taken.append(first.buffer.pop(0))
    cursor = {way.partition.partition: way.cursor for way in all_ways}
    if all(way.is_done for way in all_ways):
        cursor = {}
    notes = [note for way in all_ways for note in way.notes]
    stopped = terms.budget.stopped if cursor and len(taken) < limit else None
    return Walked(taken, cursor, stopped, notes[:MAX_NOTES])
