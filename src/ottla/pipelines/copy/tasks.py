"""Parts of a copy as tasks of one Spark job. The records never enter the JVM: a task fetches them,
encodes them and sends them from its own process."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ottla.pipelines.copy.parts import Ends, RangePart, RangeResult, ScanPart, ScanResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Part = RangePart | ScanPart
_RESULT = pa.schema([("result", pa.binary())])


def run_ranges(
    spark: SparkSession, ends: Ends, groups: Sequence[Sequence[RangePart]]
) -> list[RangeResult]:
    return _run(spark, ends, groups)


def run_scans(
    spark: SparkSession, ends: Ends, groups: Sequence[Sequence[ScanPart]]
) -> list[ScanResult]:
    return _run(spark, ends, groups)


def _run(spark: SparkSession, ends: Ends, groups: Sequence[Sequence[Part]]) -> list[Any]:
    """One task for each group, which does its parts one after the other."""
    if not groups:
        return []
    payload = pickle.dumps((ends, [list(group) for group in groups]))
    frame = spark.range(0, len(groups), 1, len(groups))
    rows = frame.mapInArrow(partial(_work, payload), "result binary").collect()
    # Made by `_work` in this very job: nobody else can have written them.
    return [pickle.loads(row["result"]) for row in rows]


def _work(payload: bytes, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from ottla.pipelines.copy.range_copy import AheadOfUs, RangeCopy
    from ottla.pipelines.copy.range_scan import scan
    from ottla.spark.collector import spare_imports
    from ottla.spark.kafka import kept_client

    spare_imports()
    ends, groups = pickle.loads(payload)
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            for part in groups[number]:
                result: RangeResult | ScanResult
                with kept_client(ends.write) as writing:
                    if isinstance(part, ScanPart):
                        result = scan(writing, ends, part)
                    elif _attempt():
                        raise AheadOfUs("a task ran again: the driver looks first what is there")
                    else:
                        with kept_client(ends.read.connect) as reading:
                            result = RangeCopy(reading, writing, ends, part).run()
                yield pa.RecordBatch.from_arrays(
                    [pa.array([pickle.dumps(result)], pa.binary())], schema=_RESULT
                )


def _attempt() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.attemptNumber()
