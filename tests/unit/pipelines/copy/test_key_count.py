from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from ottla.pipelines.copy.key_count import KeyCount
from ottla.spark.sink.digest import hashes_of


def hashes(start: int, end: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return hashes_of(pa.array([b"user-%d" % number for number in range(start, end)], pa.binary()))


@pytest.mark.parametrize("count", [0, 1, 10, 1_000, 50_000, 200_000])
def test_within_two_percent(count: int) -> None:
    counted = KeyCount()
    counted.add(hashes(0, count))
    counted.add(hashes(0, count // 2))
    assert abs(counted.estimate() - count) <= max(1, count // 50)


def test_those_of_two_tasks_are_merged() -> None:
    one, other = KeyCount(), KeyCount()
    one.add(hashes(0, 6_000))
    other.add(hashes(3_000, 9_000))
    merged = KeyCount(one.registers())
    merged.merge(other.registers())
    assert abs(merged.estimate() - 9_000) < 180
