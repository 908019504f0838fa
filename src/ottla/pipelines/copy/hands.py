"""Parts of a copy done by the driver itself. A Spark job takes a third of a second before its first
record; where a copy has caught up, and while a topic is fenced, that is most of the time."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, NamedTuple

from ottla.pipelines.copy.range_copy import RangeCopy
from ottla.spark.kafka import KafkaClient

if TYPE_CHECKING:
    from ottla.pipelines.copy.parts import Ends, RangePart, RangeResult
    from ottla.spark.options import Connect

# A part of few records waits for brokers most of its time.
_LANES = 4


class _Lane(NamedTuple):
    """Clients that one thread at a time uses."""

    reading: KafkaClient
    writing: KafkaClient


class Hands:
    """Connections stay open from one micro-batch to the next."""

    def __init__(self, read: Connect, write: Connect) -> None:
        self._lanes = [_Lane(KafkaClient(read), KafkaClient(write)) for _ in range(_LANES)]
        self._free: queue.SimpleQueue[_Lane] = queue.SimpleQueue()
        for lane in self._lanes:
            self._free.put(lane)
        self._pool = ThreadPoolExecutor(_LANES, "ottla-copy-hand")

    def run_ranges(self, ends: Ends, parts: Sequence[RangePart]) -> list[RangeResult]:
        """Raises the first failure, when nothing is written any more."""
        begun = [self._pool.submit(self._copy, ends, part) for part in parts]
        wait(begun)
        return [one.result() for one in begun]

    def close(self) -> None:
        """What is under way fails."""
        for lane in self._lanes:
            lane.reading.close()
            lane.writing.close()
        self._pool.shutdown(cancel_futures=True)

    def _copy(self, ends: Ends, part: RangePart) -> RangeResult:
        lane = self._free.get()
        try:
            return RangeCopy(lane.reading, lane.writing, ends, part).run()
        finally:
            self._free.put(lane)
