"""What a clone was, in words and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.pipelines.copy.clone_groups import GroupOutcome
from ottla.pipelines.copy.copier import Check, Progress
from ottla.pipelines.copy.parts import Tally

_BAR_CELLS = 24
_MAX_NAMED = 5


@dataclass
class CloneReport:
    source: str
    target: str
    partitioner: str
    seconds: float
    tally: Tally
    keys: int
    by_partition: Mapping[int, int]
    source_partitions: int
    aged_out: int = 0
    check: Check | None = None
    groups: list[GroupOutcome] | None = None
    left_out: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        return self.check is None or self.check.is_sound

    def lines(self) -> Iterator[str]:
        records = self.tally.records
        rate = f" ({records / self.seconds:,.0f} records/s)" if self.seconds else ""
        yield f"{self.source} -> {self.target}: {records:,} records in {self.seconds:.1f} s{rate}"
        yield (
            f"{self.source_partitions} partitions -> {len(self.by_partition)}, "
            + (f"by {self.partitioner}" if self.partitioner else "each record in its own")
        )
        yield (
            f"about {self.keys:,} keys; {self.tally.without_key:,} records without a key, "
            f"{self.tally.tombstones:,} tombstones"
        )
        for partition, count in sorted(self.by_partition.items()):
            yield f"  partition {partition:>4}  {count:>14,} records"
        yield from self._doubts()
        yield self._order()
        for outcome in self.groups or ():
            yield _group_line(outcome)
        if self.groups == []:
            yield "no group has positions in the source"

    def _doubts(self) -> Iterator[str]:
        if self.aged_out:
            yield f"{self.aged_out:,} offsets aged out of {self.source} before they were copied"
        if self.partitioner and self.tally.misplaced:
            yield (
                f"{self.tally.misplaced:,} records are not where {self.partitioner} puts their key "
                f"in {self.source}: it has grown, or others have written it. Where a key lies in "
                "two partitions, the order between the two is not defined"
            )
        if self.left_out:
            names = ", ".join(self.left_out)
            yield f"configs that the brokers of {self.target} do not take: {names}"

    def _order(self) -> str:
        if self.check is None:
            return "order: not checked"
        if self.check.differing:
            pairs = ", ".join(f"{s} -> {t}" for s, t in self.check.differing[:_MAX_NAMED])
            return (
                f"order: WRONG in {len(self.check.differing)} pairs of partitions ({pairs}): what "
                f"{self.target} holds is not what was copied"
            )
        others = f"; {self.check.foreign:,} records of others" if self.check.foreign else ""
        later = self.tally.records - self.check.records
        rest = f"; the last {later:,} came behind them" if later > 0 else ""
        return f"order: {self.check.records:,} records read back, each pair in order{rest}{others}"

    def to_json(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "target": self.target,
            "partitioner": self.partitioner or None,
            "records": self.tally.records,
            "seconds": round(self.seconds, 3),
            "keys": self.keys,
            "withoutKey": self.tally.without_key,
            "tombstones": self.tally.tombstones,
            "misplaced": self.tally.misplaced,
            "agedOut": self.aged_out,
            "partitions": {str(p): n for p, n in sorted(self.by_partition.items())},
            "order": None if self.check is None else self.check.is_sound,
            "groups": None
            if self.groups is None
            else [
                {"group": one.group, "readAgain": one.again, "error": one.trouble}
                for one in self.groups
            ],
        }


def _group_line(outcome: GroupOutcome) -> str:
    if outcome.trouble is not None:
        return f"group {outcome.group}: not carried over: {outcome.trouble}"
    if outcome.again:
        return f"group {outcome.group}: carried over, up to {outcome.again:,} records read again"
    return f"group {outcome.group}: carried over exactly"


def progress_line(progress: Progress, total: int) -> str:
    """`total` offsets are copied at the end; where some hold no record it gets there with fewer."""
    share = 1.0 if not total else max(0.0, min(1.0, 1 - progress.lag / total))
    bar = ("#" * round(share * _BAR_CELLS)).ljust(_BAR_CELLS, ".")
    return (
        f"[{bar}] {share:4.0%}  {progress.records:,} records  {progress.records_per_s:,.0f}/s  "
        f"lag {progress.lag:,}"
    )
