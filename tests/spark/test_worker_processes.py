"""Spark's Python workers as `session()` starts them: what they begin with, and how they talk."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and Unix sockets")


def _look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a worker has when it has done nothing but this."""
    import pyarrow

    for _ in batches:
        pass
    modules = "pandas" in sys.modules and "ottla.spark.source.range_reader" in sys.modules
    row = {"modules": modules, "frozen": gc.get_freeze_count(), "random": _numpy_number()}
    yield pyarrow.RecordBatch.from_pylist([row])


def _numpy_number() -> float:
    import numpy as np

    return float(np.random.rand())


def test_workers_begin_with_everything_imported_and_numbers_of_their_own(
    spark: SparkSession,
) -> None:
    frame = spark.range(0, 8, 1, 2).mapInArrow(
        _look, "modules BOOLEAN, frozen BIGINT, random DOUBLE"
    )
    rows = frame.collect()
    assert [row.modules for row in rows] == [True, True]
    assert min(row.frozen for row in rows) > 10_000, "the collector would walk all of it"
    assert len({row.random for row in rows}) == 2


def test_the_jvm_and_its_workers_talk_over_unix_sockets_of_this_user_alone(
    spark: SparkSession,
) -> None:
    folder = Path(spark.conf.get("spark.python.unix.domain.socket.dir") or "")
    spark.range(1).mapInArrow(lambda batches: batches, "id BIGINT").collect()
    assert list(folder.iterdir()), "the daemon's socket"
    assert folder.stat().st_mode & 0o077 == 0


def test_what_else_goes_between_python_and_the_jvm_works(spark: SparkSession) -> None:
    counted = spark.sparkContext.accumulator(0)

    def add(rows: Iterable[int]) -> Iterator[int]:
        for row in rows:
            counted.add(1)
            yield row

    assert spark.sparkContext.parallelize(range(10), 2).mapPartitions(add).sum() == 45
    assert counted.value == 10
    assert len(spark.range(5).toPandas()) == 5
    assert spark.createDataFrame([(1, "a")], "n INT, t STRING").first() == (1, "a")
