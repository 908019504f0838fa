"""Work on one batch that may be long, done in steps by whoever has the time.

A generator of pauses: between two of them lies a millisecond or two of work, except after a LONG
one, which may be a second. On the event loop only the first few steps are made, then the rest moves
to a thread (broker/replication/examiner.py).
"""

from __future__ import annotations

from collections.abc import Generator
from enum import Enum
from typing import TypeVar

T = TypeVar("T")


class Pause(Enum):
    """How long the next step may take, and how much memory."""

    SHORT = "short"
    LONG = "long"


Steps = Generator[Pause, None, T]


def finished(steps: Generator[object, None, T]) -> T:
    """All of them at once."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
