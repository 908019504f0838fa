"""The same work on Apache Kafka and on Ottla at the same time: most of it is waiting."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Side = TypeVar("Side")
Found = TypeVar("Found")


def side_by_side(work: Callable[[Side], Found], *sides: Side) -> list[Found]:
    """What was found on each; a failure of one is raised when all have ended."""
    with ThreadPoolExecutor(len(sides)) as pool:
        return list(pool.map(work, sides))
