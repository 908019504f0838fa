"""Writes the tables and diagrams of docs/lifecycle.md from the controller's transition tables.

Usage: python tools/derive_lifecycle.py
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from ottla.controller import partition_states, replica_states
from ottla.controller.partition_states import PartitionState
from ottla.controller.replica_states import ReplicaState

PAGE = Path(__file__).resolve().parent.parent / "docs" / "lifecycle.md"

State = TypeVar("State", PartitionState, ReplicaState)


def table(valid_previous: Mapping[State, Iterable[State]]) -> list[str]:
    rows = [
        f"| {target.title} | {', '.join(source.title for source in sorted(sources))} |"
        for target, sources in valid_previous.items()
    ]
    return ["| to | from |", "|---|---|", *rows]


def diagram(valid_previous: Mapping[State, Iterable[State]]) -> list[str]:
    arrows = [
        f"    {source.title} --> {target.title}"
        for target, sources in valid_previous.items()
        for source in sorted(sources)
    ]
    return ["```mermaid", "stateDiagram-v2", *arrows, "```"]


def derive(page: str) -> str:
    """The page with what lies between its marks made anew."""
    for name, part in (
        ("partition", _section(partition_states.VALID_PREVIOUS)),
        ("replica", _section(replica_states.VALID_PREVIOUS)),
    ):
        begin = f"<!-- {name} states: written by tools/derive_lifecycle.py -->\n"
        end = f"<!-- end of {name} states -->\n"
        before, found, rest = page.partition(begin)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise SystemExit(f"{PAGE} has no marks for the {name} states")
        page = before + begin + part + end + after
    return page


def _section(valid_previous: Mapping[State, Iterable[State]]) -> str:
    return "\n".join([*table(valid_previous), "", *diagram(valid_previous)]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(derive(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
