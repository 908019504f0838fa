"""Logs in memory behind the interface of RecordReader, for tests of what reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.client.fetch import FetchedData
from ottla.types import TopicPartition
from ottla.wire.records import Record, build_batch, iter_batches


def batch(base_offset: int, records: Sequence[Record], **options: Any) -> bytes:
    return build_batch(records, base_offset=base_offset, **options)


class MemoryLogs:
    """`logs` are whole batches by partition; use `reader` in place of RecordReader. As a broker, it
    answers with the batch that holds the position, and with more while they fit."""

    def __init__(
        self,
        logs: Mapping[int, bytes],
        *,
        stable: Mapping[int, int] | None = None,
        absent: int = 0,
    ) -> None:
        self._logs = logs
        self._stable = stable or {}
        # How many fetches find no leader.
        self.absent = absent
        self.fetches = 0

    def end(self, partition: int) -> int:
        return max((h.next_offset for h, _ in iter_batches(self._logs[partition])), default=0)

    def windows(self) -> dict[TopicPartition, tuple[int, int]]:
        return {TopicPartition("t", p): (0, self.end(p)) for p in self._logs}

    def reader(self, _cluster: Any, positions: Mapping[TopicPartition, int], **options: Any) -> Any:
        return _Reader(self, positions, options)

    def read(self, tp: TopicPartition, position: int, most: int, committed: bool) -> FetchedData:
        self.fetches += 1
        end = self._stable.get(tp.partition, self.end(tp.partition)) if committed else (
            self.end(tp.partition)
        )  # fmt: skip
        found = b""
        for header, data in iter_batches(self._logs[tp.partition]):
            if header.last_offset < position or header.last_offset >= end:
                continue
            if found and len(found) + len(data) > most:
                break
            found += data
        return FetchedData(tp, found, end)


class _Reader:
    def __init__(
        self, logs: MemoryLogs, positions: Mapping[TopicPartition, int], options: dict[str, Any]
    ) -> None:
        self._logs = logs
        self.positions = dict(positions)
        self._options = options

    async def fetch(self, *, max_wait_ms: int) -> list[FetchedData]:
        if self._logs.absent:
            self._logs.absent -= 1
            return []
        most, committed = self._options["partition_bytes"], self._options["committed_only"]
        return [self._logs.read(tp, at, most, committed) for tp, at in self.positions.items()]
