"""docs/architecture.md as data: its layers, its map, and the hops of its walks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "ottla"
PAGE = ROOT / "docs" / "architecture.md"
_HOP = re.compile(r"`([\w/]+\.py):([\w.]+)`")
_ROW = re.compile(r"^\| `([\w/]+(?:/|\.py))` \|", re.MULTILINE)
_STEP = re.compile(r"^\d+\. ", re.MULTILINE)
# A second list of steps in a walk: another way to take it.
_OTHER_WAY = "**The general lane**"
_MEANWHILE = "**Meanwhile"


class Hop(NamedTuple):
    """A function on the way: `broker/requests/dispatch.py` and `begin`, or `Class.method`."""

    file: str
    name: str

    def __str__(self) -> str:
        return f"{self.file}:{self.name}"


class Step(NamedTuple):
    hops: list[Hop]
    # On other brokers: the next step does not wait for this one.
    is_meanwhile: bool


def section(title: str) -> str:
    """The text under the first heading that starts so, up to the next heading of its level."""
    text = PAGE.read_text(encoding="utf-8")
    _, found, rest = text.partition(f"\n## {title}")
    assert found, f"{PAGE.name} has no section {title}"
    return rest.partition("\n## ")[0]


def layers() -> list[str]:
    """The lines of the picture without their remarks."""
    picture = section("Layers").split("```")[1]
    return [re.split(r"\s{2,}", line)[0] for line in picture.strip().splitlines()]


def mapped() -> list[str]:
    """Every folder (with a slash) and module of the map, relative to src/ottla."""
    found = []
    for table in section("The map").split("\n### ")[1:]:
        folder = ""
        for row in _ROW.findall(table):
            if row.endswith("/"):
                folder = row
                found.append(row)
            else:
                found.append(folder + row)
    return found


def walk(number: int, *, other_way: bool = False) -> list[Step]:
    text = section(f"Walk {number}").partition(_OTHER_WAY)[2 if other_way else 0]
    return [
        Step([Hop(*hop) for hop in _HOP.findall(step)], step.startswith(_MEANWHILE))
        for step in _STEP.split(text)[1:]
    ]


def all_hops() -> list[Hop]:
    return [Hop(*hop) for hop in _HOP.findall(PAGE.read_text(encoding="utf-8"))]
