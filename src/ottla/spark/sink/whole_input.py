"""Rows that end because there are no more, told from rows that are cut short.

When Spark ends a task, or what a task reads fails, it closes the connection to the Python process.
PySpark takes that for the end of the rows, and a writer would commit those it has as if they were
all. After the last row Spark says so on the same connection, in every version from 4.0 on: only
where something follows the rows are they whole (BasePythonRunner: END_OF_STREAM).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Protocol, TypeVar

from ottla.spark.errors import SourceError

T = TypeVar("T")


class Peekable(Protocol):
    """As io.BufferedReader."""

    def peek(self, size: int = ..., /) -> bytes: ...


class InputCutShort(SourceError):
    """A task whose rows ended before their end."""


def spark_input() -> Peekable | None:
    """What PySpark reads this task from, an argument of `pyspark.worker.main`, which has called
    whoever calls this; None where that is not so."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        code = frame.f_code
        if code.co_name == "main" and code.co_filename.endswith("worker.py"):
            found = frame.f_locals.get("infile")
            return found if hasattr(found, "peek") else None
        frame = frame.f_back
    return None


def whole(rows: Iterator[T], source: Peekable | None) -> Iterator[T]:
    """The rows; raises InputCutShort at their end where they were cut short."""
    yield from rows
    if source is not None and not source.peek(1):
        raise InputCutShort(
            "the rows of this task were cut short: Spark has ended it, or what it reads has failed"
        )
