"""What the driver of a copy gives its tasks, and what they bring back. Plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.sender import ProducerIdentity
from ottla.pipelines.copy.order import OrderDigest
from ottla.pipelines.copy.spans import Span

if TYPE_CHECKING:
    from ottla.pipelines.copy.placement import Placement
    from ottla.spark.options import Connect, SourceOptions
    from ottla.spark.source.offsets import OffsetRange


class Ends(NamedTuple):
    """Both ends of a copy, as tasks need them."""

    read: SourceOptions
    # The target, for whoever looks what is there.
    read_back: SourceOptions
    write: Connect
    target: str
    target_id: str
    placement: Placement
    batch_bytes: int


class Found(NamedTuple):
    """Records of one source partition that lie in one target partition already: their hashes (64
    bits each), and where the first and the last lie."""

    hashes: bytes
    first: int
    last: int


class RangePart(NamedTuple):
    """One range of one source partition. `sequences` are the next ones of its producer, by target
    partition; `found` is what an attempt that was cut short has written of this range."""

    source: OffsetRange
    identity: ProducerIdentity
    sequences: dict[int, int]
    found: dict[int, Found]


class ScanPart(NamedTuple):
    """What was written to a target partition since an offset, by whom."""

    target: OffsetRange
    # Source partition by producer id.
    producers: dict[int, int]
    # Hashes are for a copy that goes on, digests for the check of a whole one.
    with_hashes: bool


@dataclass
class Tally:
    """Counts of records that were copied."""

    records: int = 0
    without_key: int = 0
    tombstones: int = 0
    misplaced: int = 0

    def add(self, other: Tally) -> None:
        self.records += other.records
        self.without_key += other.without_key
        self.tombstones += other.tombstones
        self.misplaced += other.misplaced


@dataclass
class PairResult:
    """What one range has brought to one target partition."""

    order: OrderDigest = field(default_factory=OrderDigest)
    spans: list[Span] = field(default_factory=list)


@dataclass
class RangeResult:
    source: int
    tally: Tally
    keys: bytes
    pairs: dict[int, PairResult]


@dataclass
class ScanResult:
    """By source partition. `foreign` records are of other producers."""

    target: int
    found: dict[int, Found]
    orders: dict[int, OrderDigest]
    foreign: int
