"""Parts of a copy as tasks of one Spark job. The records never enter the JVM: a task fetches them,
encodes them and sends them from its own process."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from ottla.pipelines.copy.parts import Ends, RangePart, RangeResult, ScanPart, ScanResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

Part = RangePart | ScanPart
_POLL_S = 0.2
_RESULT = pa.schema([("result", pa.binary())])


def run_ranges(
    spark: SparkSession, ends: Ends, groups: Sequence[Sequence[RangePart]]
) -> list[RangeResult]:
    return _run(spark, ends, groups)


def run_scans(
    spark: SparkSession, ends: Ends, groups: Sequence[Sequence[ScanPart]]
) -> list[ScanResult]:
    return _run(spark, ends, groups)


def end_thread(spark: SparkSession, thread: threading.Thread) -> None:
    """By the end of all jobs of a session."""
    # Again and again: a job that was about to begin has not heard it.
    while thread.is_alive():
        spark.interruptAll()
        thread.join(_POLL_S)


def run_watched(spark: SparkSession, work: Callable[[], T], watch: Callable[[], None]) -> T:
    """What `work` returns. `watch` is called now and then meanwhile; what it raises ends all jobs
    of the session. On a thread of its own: one that waits for Spark hears of nothing, and a
    signal's handler cannot ask Spark for anything on the connection that its thread waits at."""
    results: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, name="ottla-copy-watched", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            watch()
            thread.join(_POLL_S)
    finally:
        end_thread(spark, thread)
    if failures:
        raise failures[0]
    return results[0]


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
