"""What producers were told, what the logs hold and what readers saw, held against each other.

What must hold at every moment, whatever fails (within one data-losing crash at a time):
- an offset has one value, in every log below its high watermark and for every reader;
- a record of an idempotent producer is there once;
- nobody reads at or past the high watermark;
- what a group committed does not go back, and nothing is committed that no member was given.
In the end every acknowledged record is there, in the order of its producer.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from ottla.types import TopicPartition
from ottla.wire import records


class Place(NamedTuple):
    tp: TopicPartition
    offset: int


class GroupPlace(NamedTuple):
    group: str
    tp: TopicPartition


class Ledger:
    """`violated` hears of every broken rule."""

    def __init__(self, violated: Callable[[str], None]) -> None:
        self._violated = violated
        self._batches: dict[Place, int] = {}
        self._values: dict[Place, bytes] = {}
        self._places: dict[bytes, Place] = {}
        self._acknowledged: dict[bytes, TopicPartition] = {}
        self._committed: dict[GroupPlace, int] = {}
        self._given: dict[GroupPlace, int] = {}
        self.ends: dict[TopicPartition, int] = {}

    # producers

    def acknowledged(self, tp: TopicPartition, values: list[bytes]) -> None:
        for value in values:
            self._acknowledged[value] = tp

    # logs

    def in_log(self, who: str, tp: TopicPartition, position: int, data: memoryview) -> None:
        """Batches that a replica holds from `position` on, below its high watermark."""
        for header, batch in records.iter_batches(data):
            if header.base_offset > position:
                self._violated(f"{who} has nothing at {tp} offset {position}")
            position = header.next_offset
            place, checksum = Place(tp, header.base_offset), zlib.crc32(batch)
            known = self._batches.get(place)
            if known is None:
                self._batches[place] = checksum
                for record in records.iter_records(batch):
                    self.seen(who, tp, record.offset, record.value or b"")
                self.ends[tp] = max(self.ends.get(tp, 0), header.last_offset + 1)
            elif known != checksum:
                self._violated(f"{who} has other bytes at {tp} offset {header.base_offset}")

    # readers

    def seen(self, who: str, tp: TopicPartition, offset: int, value: bytes) -> None:
        place = Place(tp, offset)
        before = self._values.setdefault(place, value)
        if before != value:
            self._violated(f"{who} finds {value!r} at {tp} offset {offset}, it was {before!r}")
        first = self._places.setdefault(value, place)
        if first != place:
            self._violated(f"{who} finds {value!r} at {tp} offset {offset} and at {first}")

    def read(self, who: str, tp: TopicPartition, offset: int, high_watermark: int) -> None:
        """A record that a reader was given, with the high watermark of that answer."""
        if offset >= high_watermark:
            self._violated(f"{who} reads {tp} offset {offset}, high watermark {high_watermark}")

    # groups

    def given(self, group: str, tp: TopicPartition, position: int) -> None:
        """A member has been given everything below `position`."""
        key = GroupPlace(group, tp)
        self._given[key] = max(self._given.get(key, 0), position)

    def committed(self, who: str, group: str, tp: TopicPartition, offset: int, before: int) -> None:
        """A commit was acknowledged; `before` had been when it was sent."""
        if offset < before:
            self._violated(f"{who} takes {tp} of {group} back from {before} to {offset}")
        key = GroupPlace(group, tp)
        self._committed[key] = max(self._committed.get(key, 0), offset)

    def committed_offset(self, group: str, tp: TopicPartition) -> int:
        """The highest one that was acknowledged or read."""
        return self._committed.get(GroupPlace(group, tp), 0)

    def resumed(self, who: str, group: str, tp: TopicPartition, offset: int, least: int) -> None:
        """A member starts at a committed offset; `least` was acknowledged before it asked."""
        if offset < least:
            self._violated(f"{who} starts {tp} at {offset}, but {least} was committed")
        key = GroupPlace(group, tp)
        given = self._given.get(key, 0)
        if offset > given:
            self._violated(f"{who} starts {tp} at {offset}, but only {given} records were given")
        # The answer to a commit may be lost; one that is read is there.
        self._committed[key] = max(self._committed.get(key, 0), offset)

    # the end

    def problems(self, logs: Mapping[TopicPartition, Iterable[memoryview]]) -> Iterator[str]:
        """`logs` are whole logs as they are now."""
        present = {
            (tp, record.value)
            for tp, chunks in logs.items()
            for data in chunks
            for _, batch in records.iter_batches(data)
            for record in records.iter_records(batch)
        }
        lost = [value for value, tp in self._acknowledged.items() if (tp, value) not in present]
        if lost:
            yield f"{len(lost)} acknowledged records are gone, first {lost[0]!r}"
        yield from self._disorder()
        for tp, end in self.ends.items():
            missing = next((n for n in range(end) if Place(tp, n) not in self._values), None)
            if missing is not None:
                yield f"nothing was ever seen at {tp} offset {missing}"

    def _disorder(self) -> Iterator[str]:
        """Values are `producer/number`; each producer's numbers go up in every partition."""
        last: dict[tuple[TopicPartition, bytes], int] = {}
        for (tp, offset), value in sorted(self._values.items()):
            producer, _, number = value.rpartition(b"/")
            if int(number) <= last.get((tp, producer), -1):
                yield f"{value!r} at {tp} offset {offset} comes after a later record"
            last[tp, producer] = int(number)
