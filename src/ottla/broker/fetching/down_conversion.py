"""Records for consumers older than 0.11, made from stored batches (LazyDownConversionRecords)."""

from __future__ import annotations

import asyncio

from ottla.broker.fetching.reads import CUT_BATCH
from ottla.broker.replication.examiner import Examiner
from ottla.broker.replication.fetch_protocol import FetchResult
from ottla.errors import ErrorCode
from ottla.storage.append.steps import Pause, Steps
from ottla.storage.segment.segment import EMPTY
from ottla.storage.segment.slices import RecordSlice
from ottla.wire import message_sets
from ottla.wire.compression import ZSTD, OutputTooLarge
from ottla.wire.primitives import WireError
from ottla.wire.records import LOG_OVERHEAD_BYTES, iter_batches

_NEWEST_WITH_FORMAT_0 = 1
# What one answer converts beyond the first batch of each partition.
MOST_CONVERTED_BYTES = 8 * 1024 * 1024
# What is unpacked of a batch on the event loop.
_QUICK_PLAIN_BYTES = 256 * 1024


class DownConversion:
    """Converts what one answer carries, partition by partition, and knows how much is left."""

    def __init__(self, version: int, examiner: Examiner) -> None:
        self._examiner = examiner
        self._magic = 0 if version <= _NEWEST_WITH_FORMAT_0 else 1
        self._left = MOST_CONVERTED_BYTES

    async def convert(self, result: FetchResult, fetch_offset: int) -> FetchResult:
        """At least one batch of messages if there is one. Other requests are served between two
        batches, and between the records of a large one."""
        if result.error is not ErrorCode.NONE or not result.size:
            return result
        limit = min(result.size, self._left)
        found = bytearray()
        next_offset = -1
        try:
            for header, batch in iter_batches(_records(result, self._left)):
                if found and len(found) >= limit:
                    break
                if header.codec == ZSTD and not header.is_control:
                    if not found:
                        return FetchResult(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
                    break
                found += await self._converted(batch, fetch_offset)
                next_offset = header.next_offset
                await asyncio.sleep(0)
        except WireError:
            if not found:
                return FetchResult(ErrorCode.CORRUPT_MESSAGE)
        except OSError:
            # They left the log while others were converted: the client asks again.
            return FetchResult(ErrorCode.KAFKA_STORAGE_ERROR)
        self._left = max(0, self._left - len(found))
        if not found and next_offset < result.high_watermark:
            # Markers only, or a batch that the client's limit has cut: more is behind it. At the
            # log's end Kafka sends this as well, and consumers take it for too large a message.
            found += CUT_BATCH
        return result._replace(records=memoryview(found))

    async def _converted(self, batch: memoryview, fetch_offset: int) -> bytes:
        return await self._examiner.finish(_steps(batch, self._magic, fetch_offset))


def _steps(batch: memoryview, magic: int, fetch_offset: int) -> Steps[bytes]:
    steps = message_sets.down_convert_in_steps(batch, magic, fetch_offset, _QUICK_PLAIN_BYTES)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return bytes(done.value)
        except OutputTooLarge:
            yield Pause.LONG
            steps = message_sets.down_convert_in_steps(batch, magic, fetch_offset)
        else:
            yield Pause.SHORT


def _records(result: FetchResult, most_bytes: int) -> memoryview:
    """What may be converted: the first batch at least, and not much more than `most_bytes`."""
    records = result.records
    if not isinstance(records, RecordSlice):
        return records or EMPTY
    found = records.read(0, max(most_bytes, LOG_OVERHEAD_BYTES))
    first_batch = LOG_OVERHEAD_BYTES + int.from_bytes(found[8:12], "big")
    if first_batch > len(found):
        found = records.read(0, first_batch)
    return memoryview(found)
