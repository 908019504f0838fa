"""A Python source and sink that do nothing, in micro-batches: what Spark itself takes for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


TASKS = 4


class EmptySource(DataSource):
    """Takes the options of the others, and counts micro-batches with `batches`."""

    @classmethod
    def name(cls) -> str:
        return "ottla-bench-empty"

    def schema(self) -> str:
        return "key BINARY, value BINARY"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return _Reader(int(self.options["batches"]))

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        return _Writer()


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, batches: int) -> None:
        self._batches = batches

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"batch": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        return {"batch": min(start["batch"] + 1, self._batches)}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        pass

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [InputPartition(index) for index in range(TASKS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        column = pa.array([b"record"], pa.binary())
        yield pa.record_batch([column, column], names=["key", "value"])


class _Writer(DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()
