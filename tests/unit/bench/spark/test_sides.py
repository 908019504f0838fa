"""The workbench of `ottla bench spark` without Spark: turns, medians, and what was not written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ottla.bench.spark import sides
from ottla.bench.spark.sides import OURS, TUNED, Side, Taken
from ottla.errors import OttlaError


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    nobody: Any = None
    monkeypatch.setattr("confluent_kafka.admin.AdminClient", lambda _: nobody)
    made = sides.Workbench(nobody, "localhost:1", Path(), scale=1.0)
    monkeypatch.setattr(made, "note_workers", lambda: None)
    return made


def test_the_first_of_a_round_changes_and_the_warm_up_does_not_count(bench: Any) -> None:
    order = []
    seconds = {"ottla": iter([100.0, 1.0, 3.0]), "kafka": iter([200.0, 5.0, 7.0])}

    def work(side: Side) -> Taken:
        order.append(side.format)
        return Taken(next(seconds[side.format]), 1.0)

    found = bench.in_turns(work, rounds=2, sides=(OURS, TUNED))
    assert found == [Taken(2.0, 1.0), Taken(6.0, 1.0)]
    assert order == ["ottla", "kafka", "kafka", "ottla", "ottla", "kafka"]


def test_one_slow_round_of_five_does_not_count(bench: Any) -> None:
    taken = iter([9.0, 2.0, 8.0, 2.0, 3.0, 2.0])
    found = bench.in_turns(lambda _: Taken(next(taken), 0.0), rounds=5, sides=(OURS,))
    assert found == [Taken(2.0, 0.0)]


def test_what_was_not_written_is_no_result(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "topic", lambda prefix, **_: prefix)
    monkeypatch.setattr(bench, "record_count", lambda _: 999)
    words = "written has 999 records, it should have 1,000"
    with pytest.raises(OttlaError, match=words), bench.target("written", 1_000):
        pass


def test_the_work_of_other_processes_is_counted(bench: Any) -> None:
    children: list[Any] = []

    def work() -> None:
        # The child is alive, and idle, when its time is looked at.
        code = "import sys\nsum(range(10**7))\nprint('done', flush=True)\nsys.stdin.read()"
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        children.append(subprocess.Popen([sys.executable, "-c", code], **pipes))
        children[0].stdout.readline()

    try:
        assert bench.timed(work).cpu_s >= 0.05
    finally:
        children[0].communicate()
