"""What a follower checks in its leader's batches: CRC and that offsets go up from its end."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.errors import ErrorCode, KafkaError
from ottla.storage.append import checks
from ottla.storage.append.checks import Batch
from ottla.topics.configs import LogConfig
from ottla.types import TopicPartition
from ottla.wire import records


def split_replicated(
    tp: TopicPartition, data: memoryview, end_offset: int, settings: LogConfig
) -> Iterator[tuple[memoryview, list[Batch]]]:
    """Checked batches in chunks of at most segment.bytes; a cut last batch is left out."""
    batches = checks.split(data)
    next_offset = end_offset
    for view, header in batches:
        if not records.crc_is_valid(view):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{tp}: a replicated batch fails its CRC")
        if header.base_offset < next_offset:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"{tp}: a replicated batch starts at {header.base_offset}, the log's end is "
                f"{next_offset}",
            )
        next_offset = header.base_offset + header.last_offset_delta + 1
    start = position = 0
    chunk: list[Batch] = []
    for batch in batches:
        size = len(batch.view)
        if chunk and position + size - start > settings.segment_bytes:
            yield data[start:position], chunk
            start, chunk = position, []
        chunk.append(batch)
        position += size
    if chunk:
        yield data[start:position], chunk
