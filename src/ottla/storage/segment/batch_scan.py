"""Walking over the batch headers of a segment file."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.errors import ErrorCode, KafkaError
from ottla.runtime import File
from ottla.wire import records
from ottla.wire.primitives import WireError
from ottla.wire.records import HEADER_BYTES, BatchHeader

# A lookup starts at an index entry, at most index.interval.bytes before its batch.
LOOKUP_WINDOW_BYTES = 8 * 1024
SCAN_WINDOW_BYTES = 256 * 1024
CHECK_WINDOW_BYTES = 1024 * 1024


class LogDamaged(KafkaError):
    """Bytes in a segment that are not a whole, plausible batch; `position` is where they start.

    Recovery cuts there; a client that reads such a place is answered CORRUPT_MESSAGE.
    """

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, f"{reason} at position {position}")
        self.position = position


def headers(
    file: File, start: int, end: int, *, window_bytes: int = SCAN_WINDOW_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each batch from `start` to `end`; raises LogDamaged."""
    position = start
    window, window_start = b"", start
    while position < end:
        if position + HEADER_BYTES > window_start + len(window):
            window = _window(file, position, end, window_bytes)
            window_start = position
        header = _header(window, position - window_start, position, end)
        yield position, header
        position += header.size


def checked_batches(
    file: File, start: int, end: int, *, window_bytes: int = CHECK_WINDOW_BYTES
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """As `headers`, with each batch whole and its CRC checked (recovery only)."""
    position = start
    window, window_start = b"", start
    while position < end:
        if position + HEADER_BYTES > window_start + len(window):
            window = _window(file, position, end, window_bytes)
            window_start = position
        header = _header(window, position - window_start, position, end)
        if position + header.size > window_start + len(window):
            window = _window(file, position, end, max(window_bytes, header.size))
            window_start = position
        at = position - window_start
        batch = memoryview(window)[at : at + header.size]
        if len(batch) != header.size or not records.crc_is_valid(batch):
            raise LogDamaged(position, "a batch fails its CRC")
        yield position, header, batch
        position += header.size


def _window(file: File, position: int, end: int, size: int) -> bytes:
    if position + HEADER_BYTES > end:
        raise LogDamaged(position, "a batch header is cut off")
    window = file.read_at(min(size, end - position), position)
    if len(window) < HEADER_BYTES:
        raise LogDamaged(position, "the file is shorter than its size")
    return window


def _header(window: bytes, at: int, position: int, end: int) -> BatchHeader:
    """The header of the batch at a position of the file, which is `at` in the window."""
    try:
        header = records.read_header(window, at)
    except WireError as error:
        raise LogDamaged(position, str(error)) from None
    if header.last_offset_delta < 0:
        raise LogDamaged(position, f"a last offset delta of {header.last_offset_delta}")
    if position + header.size > end:
        raise LogDamaged(position, "a batch is cut off")
    return header
