"""What a worker of Spark has imported is not walked by the collector again and again."""

from __future__ import annotations

import subprocess
import sys

_CODE = """
import gc
from ottla.spark.collector import spare_imports
before = gc.get_freeze_count()
spare_imports()
first = gc.get_freeze_count()
later = [[] for _ in range(5)]
spare_imports()
second = gc.get_freeze_count()
import colorsys
spare_imports()
# Python 3.12 spares some hundred objects of its own from the beginning.
print(first > before, first - before > 1000, second == first, gc.get_freeze_count() > first)
"""


def _in_a_process(runtime: dict[str, str]) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", _CODE],
        env={"PYTHONPATH": ":".join(sys.path), **runtime},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_a_worker_spares_its_imports_and_those_that_come_later() -> None:
    found = _in_a_process({"SPARK_PYTHON_RUNTIME": "PYTHON_WORKER"})
    assert found == ["True", "True", "True", "True"]


def test_other_processes_are_left_alone() -> None:
    assert _in_a_process({}) == ["False", "False", "True", "False"]
