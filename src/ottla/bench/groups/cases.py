"""The rows of `ottla bench data` on many groups: how they join, commit and stay alive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ottla.bench.data_cases import Case, Sample, at_most, scaled
from ottla.bench.data_clients import run_apart
from ottla.bench.data_sides import DataSide
from ottla.bench.groups.crowd import Storm
from ottla.bench.table import Row
from ottla.bench.topic_sides import Work

GROUPS, MEMBERS = 1_000, 10
# A broker of Ottla keeps three eighths of its descriptors for connections; 20,000 is a usual limit.
MEMBERS_ON_A_CONNECTION = 2
STORM_S = 8.0
CALM_S = 4.0
CALM_RATE = 2_000
CPU_GOAL = 1.0
TOPIC = "committed"
TIMEOUT_S = 400.0
# Long enough for all members of a group to come together; the default is three seconds.
DELAY_MS = "500"


class Groups(Case):
    """Every round has new groups; those before have left."""

    key = "groups"
    overrides: ClassVar[Mapping[str, str]] = {"group.initial.rebalance.delay.ms": DELAY_MS}

    def prepare(self, side: DataSide, scale: float) -> None:
        side.start()
        with Work(side.bootstrap_servers) as work:
            work.create([TOPIC], MEMBERS)
        self._run(side, scale, "warm-up", 0.5)

    def measure(self, side: DataSide, scale: float, number: int) -> Sample:
        found = self._run(side, scale, f"round-{number}", 1.0)
        usage = side.usage()
        storm, calm, beats = (Storm(*found[key]) for key in ("storm", "calm", "beats"))
        return Sample(
            (
                *(storm.per_second, storm.p50_ms, storm.p99_ms, storm.cpu_us, storm.own_share),
                *(calm.p50_ms, calm.p99_ms),
                *(beats.per_second, beats.cpu_us),
                *(found["joined_s"], 1e6 * found["join_cpu_s"] / (groups(scale) * MEMBERS)),
            ),
            usage.cpu_s,
            usage.memory_mb,
        )

    def _run(self, side: DataSide, scale: float, prefix: str, span: float) -> dict[str, Any]:
        orders = {
            "prefix": prefix,
            "topic": TOPIC,
            "groups": groups(scale),
            "members": MEMBERS,
            "waves": MEMBERS_ON_A_CONNECTION,
            "storm_s": STORM_S * span,
            "calm_s": CALM_S * span,
            "calm_rate": CALM_RATE,
        }
        found: dict[str, Any] = run_apart(side, "ottla.bench.groups.crowd", orders, TIMEOUT_S)
        return found

    def rows(self, scale: float, ours: Sample, peer: Sample) -> list[Row]:
        def row(
            work: str, place: int, unit: str, goal: float | None = None, *, rate: bool = False
        ) -> Row:
            mine, theirs = ours.values[place], peer.values[place]
            holds = None if goal is None else mine <= goal * theirs
            wanted = "" if goal is None else at_most(goal)
            return Row(work, mine, theirs, unit, wanted, holds, higher_is_better=rate)

        count = groups(scale)
        return [
            row(f"{count:,} groups of {MEMBERS}, all commit at once", 0, "commits/s", rate=True),
            row("  p50", 1, "ms"),
            row("  p99", 2, "ms", 1.0),
            row("  broker CPU of a commit", 3, "µs", CPU_GOAL),
            row("  the generator's share of a core", 4, ""),
            row(f"  {CALM_RATE:,} commits/s, p50", 5, "ms"),
            row("  p99", 6, "ms", 1.0),
            row("  heartbeats, all at once", 7, "/s", rate=True),
            row("  broker CPU of a heartbeat", 8, "µs", CPU_GOAL),
            row("  from the first JoinGroup until all are stable", 9, "s"),
            row("  broker CPU of a member that joins", 10, "µs", CPU_GOAL),
            Row("  resident memory", ours.memory_mb, peer.memory_mb, "MB"),
        ]


def groups(scale: float) -> int:
    """An even number, since two members share a connection."""
    return 2 * scaled(GROUPS / 2, scale, least=1)


CASES: tuple[Case, ...] = (Groups(),)
