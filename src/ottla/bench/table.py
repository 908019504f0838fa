"""The one form in which every benchmark shows its results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.errors import OttlaError

if TYPE_CHECKING:
    from rich.table import Table

# Columns that leave the names of the work enough room.
_WIDTH_OF_A_TABLE = 120


class Row(NamedTuple):
    """One piece of work, measured on our side and, in the same run, on the peer's."""

    work: str
    ours: float
    # None where the peer is not on this machine.
    peer: float | None
    unit: str
    # Our goal in words; empty for a row that only informs.
    goal: str = ""
    # None where there is no goal, or the peer that it needs is missing.
    holds: bool | None = None
    higher_is_better: bool = False

    @property
    def ratio(self) -> float | None:
        """How many times better ours is: 2.0 is twice as good as the peer, 0.5 half as good."""
        if self.peer is None or not self.ours or not self.peer:
            return None
        return self.ours / self.peer if self.higher_is_better else self.peer / self.ours

    def as_json(self) -> dict[str, Any]:
        return {
            "work": self.work,
            "ours": self.ours,
            "peer": self.peer,
            "unit": self.unit,
            "ratio": self.ratio,
            "goal": self.goal,
            "holds": self.holds,
        }


def print_rows(rows: Sequence[Row], output: str, title: str = "") -> None:
    """A table for people, or the same rows as JSON."""
    if output == "json":
        print(json.dumps([row.as_json() for row in rows], indent=2))
        return
    from rich.console import Console

    console = Console(highlight=False)
    if console.width < _WIDTH_OF_A_TABLE:
        console.print("\n".join(_lines(rows, title)), soft_wrap=True)
    else:
        console.print(_table(rows, title))


def _table(rows: Sequence[Row], title: str) -> Table:
    from rich.table import Table

    table = Table(title=title or None)
    table.add_column("work")
    for name in ("ours", "peer", "ratio"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("goal")
    table.add_column("holds")
    for row in rows:
        table.add_row(row.work, *_figures(row))
    return table


def _lines(rows: Sequence[Row], title: str) -> list[str]:
    """Two for each row, where a table would break its words apart."""
    lines = [f"[bold]{title}[/]"] if title else []
    for row in rows:
        ours, peer, ratio, goal, holds = _figures(row)
        beside = "" if row.peer is None else f"  peer {peer}  {ratio}"
        wanted = f"  goal {goal}: {holds}" if row.goal else ""
        lines += [row.work, f"    ours {ours}{beside}{wanted}"]
    return lines


def _figures(row: Row) -> tuple[str, str, str, str, str]:
    return (
        _quantity(row.ours, row.unit),
        _quantity(row.peer, row.unit),
        "–" if row.ratio is None else f"{row.ratio:.2f}×",
        row.goal or "–",
        {True: "yes", False: "[bold red]no[/]", None: "–"}[row.holds],
    )


def chosen_names(only: Sequence[str], there: Sequence[str]) -> set[str]:
    """What `--only` names, or all; raises OttlaError for an unknown name."""
    wanted = {key for part in only for key in part.split(",")} or set(there)
    unknown = wanted - set(there)
    if unknown:
        names = ", ".join(there)
        raise OttlaError(f"no such row: {', '.join(sorted(unknown))} (there are {names})")
    return wanted


def exit_code(rows: Sequence[Row]) -> int:
    """1 if a goal was missed; a goal that could not be measured is not missed."""
    return 1 if any(row.holds is False for row in rows) else 0


def _quantity(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {unit}".rstrip()
