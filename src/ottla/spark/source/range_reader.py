"""Reads one range of offsets of one partition as Arrow record batches.

Answers are fetched on the client's thread (`range_fetcher.py`), up to two ahead, and decoded here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.spark.errors import SourceError
from ottla.spark.kafka import KafkaClient
from ottla.spark.options import SourceOptions
from ottla.spark.source.losses import accept
from ottla.spark.source.offsets import Loss
from ottla.spark.source.range_fetcher import Fetched, RangeFetcher, corrupt
from ottla.spark.source.read_ahead import NothingCame, ReadAhead
from ottla.spark.source.shape import Shape
from ottla.wire import columnar
from ottla.wire.primitives import WireError

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.spark.source.offsets import OffsetRange

# Each of up to `fetch_bytes`, besides the one that is being decoded.
ANSWERS_AHEAD = 2


class RangeReader:
    """Iterate once; the client stays open."""

    def __init__(self, client: KafkaClient, task: OffsetRange, options: SourceOptions) -> None:
        self._client = client
        self._task = task
        self._options = options
        self._fetcher = RangeFetcher(client, task, options)
        self._shape = Shape(options, str(task.topic_partition))

    def batches(self) -> Iterator[pa.RecordBatch]:
        for fetched in self.answers():
            yield from self.decode(fetched)

    def answers(self) -> Iterator[Fetched]:
        """For whoever needs the headers of batches too."""
        ahead: ReadAhead[Fetched] = ReadAhead(self._client.thread, ANSWERS_AHEAD)
        ahead.begin(self._fetcher.answers(ahead.pause))
        try:
            while (fetched := self._next(ahead)) is not None:
                yield fetched
        finally:
            ahead.close()

    def _next(self, ahead: ReadAhead[Fetched]) -> Fetched | None:
        """The deadline counts while something is waited for here, and only then: how long rows are
        worked on is nobody's business."""
        timeout_ms = self._client.connect.timeout_ms
        try:
            with self._client.plain_errors():
                return ahead.take(timeout_ms / 1000)
        except NothingCame:
            problem = self._fetcher.problem
        if problem is None or not problem.is_loss:
            why = "no broker answered" if problem is None else problem.why
            raise SourceError(
                f"{self._task.topic_partition}: nothing came for {timeout_ms} ms: {why}"
            )
        accept(Loss(self._task.topic, problem.why), self._options)
        return None

    def decode(self, fetched: Fetched) -> Iterator[pa.RecordBatch]:
        try:
            rows = columnar.decode(
                fetched.batches,
                topic=self._task.topic,
                partition=self._task.partition,
                start=fetched.start,
                end=self._task.end,
                columns=self._shape.needed,
            )
            yield from self._shape.shaped(rows)
        except WireError as error:
            raise corrupt(self._task, fetched.start, error) from error
