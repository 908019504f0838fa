"""The ledger of topics that are replaced by others of the same name.

A topic id is one life of a name, with its own number of partitions. A resizer notes with every
record that it copies where it comes from, and where it was first written: its origin. What must
hold:
- in a log, an offset of one life has one value, below the high watermark of every replica;
- a record of an idempotent producer is written once in a life. One whose answer got lost may be
  written again in the next life, as another record: nothing tells the new leader;
- no reader is given a record at or past the high watermark of the answer.
In the end the name has one of the lives that it can have. There every acknowledged record is, and
every other one that was seen in a log of the name before; each origin once; the records of a key,
by one producer, in its order; and every group was given every one of them. No group goes on before
the place that was carried over for it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from ottla.client.partitioner import partition_of_key
from ottla.simulation.ledger import Ledger
from ottla.types import TopicId, TopicPartition, format_topic_id
from ottla.wire import records
from ottla.wire.records import Record

# Headers of a record that was copied.
FROM, ORIGIN = "from", "origin"


class Spot(NamedTuple):
    """A place in one life of a topic."""

    life: TopicId
    partition: int
    offset: int

    def encode(self) -> bytes:
        return f"{self.life.hex()}/{self.partition}/{self.offset}".encode()

    @classmethod
    def decode(cls, data: bytes) -> Spot:
        life, partition, offset = data.decode().split("/")
        return cls(TopicId.fromhex(life), int(partition), int(offset))


class LivesLedger(Ledger):
    """`violated` hears of every broken rule; values tell records apart, as offsets do not here."""

    def __init__(self, violated: Callable[[str], None]) -> None:
        super().__init__(violated)
        self._stored: dict[str, set[bytes]] = {}
        self._checksums: dict[Spot, int] = {}
        # Records that were first written in this life.
        self._own: dict[tuple[TopicId, bytes], Spot] = {}
        self._given_to: dict[str, set[bytes]] = {}
        self._carried: dict[tuple[str, TopicId, int], int] = {}
        # What the store says now.
        self.life_of: Callable[[str], TopicId | None] = lambda topic: None
        self.ends_of: dict[tuple[TopicId, int], int] = {}
        # By name: its lives so far; by life: how many partitions it has.
        self.chain: dict[str, list[TopicId]] = {}
        self.shapes: dict[TopicId, int] = {}
        # Lives that were told to be given up.
        self.given_up: set[TopicId] = set()

    # producers

    def stored(self, topic: str, values: Iterable[bytes]) -> None:
        self._stored.setdefault(topic, set()).update(values)

    # the store

    def lives(self, topic: str, life: TopicId, partitions: int) -> None:
        """The name belongs to this life, now."""
        chain = self.chain.setdefault(topic, [])
        if not chain or chain[-1] != life:
            if life in chain:
                self._violated(f"{topic} is back in its life {format_topic_id(life)}")
            chain.append(life)
        self.has_shape(life, partitions)

    def has_shape(self, life: TopicId, partitions: int) -> None:
        before = self.shapes.setdefault(life, partitions)
        if before != partitions:
            self._violated(f"{format_topic_id(life)} had {before} partitions, now {partitions}")

    # logs

    def in_life(
        self, who: str, life: TopicId, partition: int, position: int, data: memoryview
    ) -> None:
        """Batches that a replica holds from `position` on, below its high watermark."""
        for header, batch in records.iter_batches(data):
            spot = Spot(life, partition, header.base_offset)
            if header.base_offset > position:
                self._violated(f"{who} has nothing at {_text(spot)} but from {position} on")
            position = header.next_offset
            checksum = zlib.crc32(batch)
            known = self._checksums.get(spot)
            if known is None:
                self._checksums[spot] = checksum
                for record in records.iter_records(batch):
                    self._is_in_log(who, spot._replace(offset=record.offset), record)
                end = self.ends_of.get((life, partition), 0)
                self.ends_of[life, partition] = max(end, header.last_offset + 1)
            elif known != checksum:
                self._violated(f"{who} has other bytes at {_text(spot)}")

    def _is_in_log(self, who: str, spot: Spot, record: Record) -> None:
        if is_copied(record):
            return
        first = self._own.setdefault((spot.life, record.value or b""), spot)
        if first != spot:
            self._violated(f"{who} has {record.value!r} at {_text(spot)} and at {_text(first)}")

    # groups: members say what they were given, by the values

    def seen(self, who: str, tp: TopicPartition, offset: int, value: bytes) -> None:
        self._given_to.setdefault(who.rpartition("-")[0], set()).add(value)

    def given(self, group: str, tp: TopicPartition, position: int) -> None:
        """An offset alone says nothing where topics are replaced."""

    def committed(self, who: str, group: str, tp: TopicPartition, offset: int, before: int) -> None:
        """What was skipped shows in the end."""

    def committed_offset(self, group: str, tp: TopicPartition) -> int:
        """What was carried over to the life that the topic has now."""
        life = self.life_of(tp.topic)
        return 0 if life is None else self._carried.get((group, life, tp.partition), 0)

    def carried_over(self, life: TopicId, groups: Mapping[str, Mapping[int, int]]) -> None:
        """A resize was answered: groups go on at these offsets, or later ones."""
        for group, offsets in groups.items():
            for partition, offset in offsets.items():
                self._carried[group, life, partition] = offset

    def resumed(self, who: str, group: str, tp: TopicPartition, offset: int, least: int) -> None:
        """`least` was carried over before the member asked; another life may have come since."""
        if offset < least and self.committed_offset(group, tp) == least:
            self._violated(f"{who} starts {tp} at {offset}, but {least} was carried over")

    # the end

    def problems_of(
        self, topic: str, groups: Iterable[str], logs: Mapping[int, Iterable[memoryview]]
    ) -> Iterator[str]:
        """`logs` are those of the topic's partitions, whole, as they are now."""
        life = self.chain[topic][-1]
        found = [
            (Spot(life, partition, record.offset), record)
            for partition, chunks in sorted(logs.items())
            for data in chunks
            for _, batch in records.iter_batches(data)
            for record in records.iter_records(batch)
        ]
        values = {record.value or b"" for _, record in found}
        lost = self._stored.get(topic, set()) - values
        if lost:
            yield f"{len(lost)} acknowledged records of {topic} are gone, first {min(lost)!r}"
        yield from self._strays(topic, found)
        yield from self._disorder_of(found)
        for group in groups:
            skipped = values - self._given_to.get(group, set())
            if skipped:
                yield f"{group} was never given {len(skipped)} records, first {min(skipped)!r}"
        given_up = self.given_up.intersection(self.chain[topic])
        if given_up:
            yield f"{topic} got a life that was given up: {sorted(given_up)}"

    def _strays(self, topic: str, found: list[tuple[Spot, Record]]) -> Iterator[str]:
        """Every origin once, and none that is missing."""
        origins: dict[Spot, Spot] = {}
        for spot, record in found:
            origin = origin_of(spot, record)
            first = origins.setdefault(origin, spot)
            if first != spot:
                yield f"{record.value!r} was copied to {_text(first)} and to {_text(spot)}"
            if origin.life not in self.chain[topic]:
                yield f"{record.value!r} at {_text(spot)} is from nowhere"
        for (life, value), spot in self._own.items():
            if life in self.chain[topic] and spot not in origins:
                yield f"{value!r} was written at {_text(spot)} and is gone"

    def _disorder_of(self, found: list[tuple[Spot, Record]]) -> Iterator[str]:
        """Values are `producer/number`. Keys that were sent somewhere else by a producer that did
        not know of the new number of partitions yet are left aside (ADR 53)."""
        astray = {
            record.key
            for spot, record in found
            if not self._is_at_home(origin_of(spot, record), record.key)
        }
        last: dict[tuple[int, bytes | None, bytes], int] = {}
        seen: set[bytes | None] = set()
        for spot, record in found:
            if record.key in astray or record.value in seen:
                continue
            seen.add(record.value)
            producer, _, number = (record.value or b"").rpartition(b"/")
            key = (spot.partition, record.key, producer)
            if int(number) <= last.get(key, -1):
                yield f"{record.value!r} at {_text(spot)} comes after a later record of its key"
            last[key] = int(number)

    def _is_at_home(self, origin: Spot, key: bytes | None) -> bool:
        partitions = self.shapes.get(origin.life)
        if key is None or partitions is None:
            return False
        return partition_of_key(key, partitions) == origin.partition


def is_copied(record: Record) -> bool:
    return any(name == ORIGIN for name, _ in record.headers)


def origin_of(spot: Spot, record: Record) -> Spot:
    noted = dict(record.headers).get(ORIGIN)
    return spot if noted is None else Spot.decode(noted)


def _text(spot: Spot) -> str:
    return f"{format_topic_id(spot.life)}-{spot.partition} offset {spot.offset}"
