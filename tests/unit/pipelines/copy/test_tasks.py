"""Work of Spark's that somebody watches."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ottla.pipelines.copy import tasks

WAIT_S = 30


class Spark:
    """The first interrupt comes too early for the job."""

    def __init__(self) -> None:
        self.interrupts = 0
        self.interrupted = threading.Event()

    def interruptAll(self) -> None:
        self.interrupts += 1
        if self.interrupts > 1:
            self.interrupted.set()


class Enough(Exception):
    pass


def watched(spark: Any, work: Any, watch: Any = lambda: None) -> Any:
    return tasks.run_watched(spark, work, watch)


def test_what_the_work_returns_or_raises() -> None:
    spark = Spark()
    assert watched(spark, lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        watched(spark, lambda: 1 // 0)
    assert watched(spark, threading.get_ident) != threading.get_ident(), "somebody has to watch"
    assert not spark.interrupts


def test_whoever_watches_ends_it() -> None:
    spark = Spark()
    ended = threading.Event()

    def work() -> None:
        assert spark.interrupted.wait(WAIT_S)
        ended.set()
        raise RuntimeError("cancelled")

    def watch() -> None:
        raise Enough

    with pytest.raises(Enough):
        watched(spark, work, watch)
    assert ended.is_set(), "nothing goes on behind"
    assert spark.interrupts >= 2
