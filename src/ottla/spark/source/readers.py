"""What Spark reads with: a batch, or a stream from one micro-batch to the next.

Spark pickles readers to its workers, so they hold options only; connections are made where they
are used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)

from ottla.spark.collector import spare_imports
from ottla.spark.options import SourceOptions
from ottla.spark.versions import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter

    from ottla.spark.source.filters import Pruning
    from ottla.spark.source.offsets import OffsetRange
    from ottla.spark.source.stream import StreamPlanner


class RangePartition(InputPartition):
    """One task: ranges that are read one after the other."""

    def __init__(self, task: tuple[OffsetRange, ...]) -> None:
        super().__init__(task)


def _tasks(options: SourceOptions, ranges: list[OffsetRange]) -> list[InputPartition]:
    from ottla.spark.source.offsets import gather

    tasks = gather(
        ranges,
        min_records=options.min_records_per_partition,
        min_partitions=options.min_partitions,
    )
    return [RangePartition(task) for task in tasks]


def _read(options: SourceOptions, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
    # Spark's own, where there is nothing to read; no partition at all before 4.2.
    if partition is None or partition.value is None:
        return
    from ottla.spark.kafka import kept_client
    from ottla.spark.source.range_reader import RangeReader

    spare_imports()
    with kept_client(options.connect) as client:
        for one in partition.value:
            yield from RangeReader(client, one, options).batches()


class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._pruning: Pruning | None = None

    def partitions(self) -> Sequence[InputPartition]:
        from ottla.spark.kafka import KafkaClient
        from ottla.spark.source.planner import Planner

        client = KafkaClient(self._options.connect)
        try:
            return _tasks(self._options, Planner(client, self._options).batch(self._pruning))
        finally:
            client.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition)


class FilteringReader(BatchReader):
    """Spark refuses sources that can do this where its own switch for it is off, so this one is
    for those who ask (pushFilters)."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        from ottla.spark.source.filters import sort_out

        self._pruning, left = sort_out(filters)
        return left


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """On the driver it plans micro-batches; its pickled copies in workers only read."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._planner: StreamPlanner | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_planner": None}

    def _stream(self) -> StreamPlanner:
        if self._planner is None:
            from ottla.spark.source.stream import StreamPlanner

            self._planner = StreamPlanner(self._options)
        return self._planner

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return self._stream().initial()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._options.max_offsets is not None:
            return ReadMaxRows(self._options.max_offsets)
        if self._options.min_offsets is not None:
            return ReadMinRows(self._options.min_offsets)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        if isinstance(limit, ReadAllAvailable):
            return self._stream().latest(start, None, None)
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return self._stream().latest(start, rows, self._options.min_offsets)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._stream().stop_at_present()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return self._stream().last_seen()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return _tasks(self._options, self._stream().ranges(start, end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition)

    def stop(self) -> None:
        if self._planner is not None:
            self._planner.close()
            self._planner = None
