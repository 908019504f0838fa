"""What this broker did about topics, in a bounded ring: requests taken, znodes written, folders
made and removed, leadership taken up. Nothing is noted per record.
BrokerView (ADR 41) hands it out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ottla.runtime import Clock
    from ottla.types import TopicPartition

RING_CAPACITY = 4_000
# Of a topic with thousands of partitions the first ones are named, the others counted.
PARTITIONS_NAMED = 20
# Partitions of one topic that come this close together share a note.
_TOGETHER_MS = 200
_LONGEST_NAME = 200

REQUEST = "request"
ZNODES = "znodes"
FOLDER_MADE = "folder-made"
FOLDER_RENAMED = "folder-renamed"
FOLDER_REMOVED = "folder-removed"
LEADER = "leader"
FOLLOWER = "follower"


class Asker(NamedTuple):
    """Who asked for a change, and by which request."""

    api: str
    client_id: str | None = None
    principal: str | None = None


@dataclass(slots=True)
class TopicNote:
    """`place` is where it happened: a znode, or the folder of the first partition."""

    sequence: int
    ts_ms: int
    kind: str
    topic: str
    count: int = 0
    partitions: list[int] = field(default_factory=list)
    asker: Asker | None = None
    place: str | None = None

    def add(self, partition: int) -> None:
        self.count += 1
        if len(self.partitions) < PARTITIONS_NAMED:
            self.partitions.append(partition)


class TopicNotes:
    """One per broker. Sequence numbers begin at 1 with the process; `started_ms` tells two
    processes of one broker apart."""

    def __init__(self, clock: Clock, capacity: int = RING_CAPACITY) -> None:
        self._clock = clock
        self._ring: deque[TopicNote] = deque(maxlen=capacity)
        self._last = 0
        # Notes that nobody has read yet, so that partitions can still join them.
        self._open: dict[tuple[str, str], TopicNote] = {}
        self.started_ms = clock.now_ms()

    @property
    def first(self) -> int:
        """The sequence number of the oldest note that is kept; older ones are lost."""
        return self._last - len(self._ring) + 1

    @property
    def last(self) -> int:
        return self._last

    def asked(self, topic: str, partitions: Iterable[int], asker: Asker) -> None:
        """A request to change a topic was found good."""
        client_id = None if asker.client_id is None else asker.client_id[:_LONGEST_NAME]
        principal = None if asker.principal is None else asker.principal[:_LONGEST_NAME]
        note = self._new(REQUEST, topic)
        note.asker = Asker(asker.api, client_id, principal)
        for partition in partitions:
            note.add(partition)

    def wrote(self, topic: str, path: str) -> None:
        self._new(ZNODES, topic).place = path

    def folder(self, kind: str, tp: TopicPartition, place: str) -> None:
        note = self._joined(kind, tp)
        if note.count == 1:
            note.place = place

    def role(self, kind: str, tp: TopicPartition) -> None:
        self._joined(kind, tp)

    def since(self, sequence: int, limit: int) -> list[TopicNote]:
        """The notes after a sequence number, the oldest first."""
        self._open.clear()
        skipped = min(max(sequence + 1 - self.first, 0), len(self._ring))
        end = min(len(self._ring), skipped + max(limit, 0))
        return [self._ring[number] for number in range(skipped, end)]

    def _joined(self, kind: str, tp: TopicPartition) -> TopicNote:
        key = (kind, tp.topic)
        note = self._open.get(key)
        if note is None or note.sequence < self.first or not self._is_fresh(note):
            note = self._open[key] = self._new(kind, tp.topic)
            if len(self._open) > RING_CAPACITY:
                del self._open[next(iter(self._open))]
        note.add(tp.partition)
        return note

    def _is_fresh(self, note: TopicNote) -> bool:
        return 0 <= self._clock.now_ms() - note.ts_ms < _TOGETHER_MS

    def _new(self, kind: str, topic: str) -> TopicNote:
        self._last += 1
        note = TopicNote(self._last, self._clock.now_ms(), kind, topic)
        self._ring.append(note)
        return note
