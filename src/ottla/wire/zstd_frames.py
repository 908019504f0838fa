"""Where the last whole zstd frame ends, for streams with a little more behind it (RFC 8878).

Java's reader takes bytes that begin a frame, or are too few to tell, for the end of the stream as
long as nothing came out of them. libzstd does not.
"""

from __future__ import annotations

from ottla.wire.primitives import Buffer

_MAGIC = b"\x28\xb5\x2f\xfd"
# What a reader has to have before it looks at the magic number.
_SHORTEST_START = 5
_HAS_CHECKSUM = 0x04
_IS_SINGLE_SEGMENT = 0x20
_DICTIONARY_BYTES = (0, 1, 2, 4)
_CONTENT_SIZE_BYTES = (0, 2, 4, 8)
_RLE, _RESERVED = 1, 3
_BLOCK_HEADER_BYTES = 3
# Of a stream that is wrong anyway; a frame of 128 MiB has 1,024 full blocks.
_MOST_BLOCKS = 4096


def last_frame_end(data: Buffer) -> int:
    """The end of the last whole frame, if what follows is no more than a start; 0 if it is."""
    view = memoryview(data)
    end = blocks = 0
    while end < len(view):
        position, count, is_whole = _walk(view, end, _MOST_BLOCKS - blocks)
        if not is_whole:
            is_start = position >= 0 and count == 0
            return end if end and is_start else 0
        end = position
        blocks += count
    return end


def _walk(view: memoryview, start: int, most_blocks: int) -> tuple[int, int, bool]:
    """How far a frame goes, -1 where it is none; how many blocks of it are whole; whether it is."""
    if len(view) - start < _SHORTEST_START:
        return start, 0, False
    if view[start : start + len(_MAGIC)] != _MAGIC:
        return -1, 0, False
    descriptor = view[start + len(_MAGIC)]
    is_single = bool(descriptor & _IS_SINGLE_SEGMENT)
    size_bytes = _CONTENT_SIZE_BYTES[descriptor >> 6] or is_single
    position = start + _SHORTEST_START + (not is_single)
    position += _DICTIONARY_BYTES[descriptor & 3] + size_bytes
    for count in range(most_blocks):
        if position + _BLOCK_HEADER_BYTES > len(view):
            return start, count, False
        header = int.from_bytes(view[position : position + _BLOCK_HEADER_BYTES], "little")
        kind, size = header >> 1 & 3, header >> 3
        if kind == _RESERVED:
            return -1, count, False
        position += _BLOCK_HEADER_BYTES + (1 if kind == _RLE else size)
        if position > len(view):
            return start, count, False
        if header & 1:
            position += 4 if descriptor & _HAS_CHECKSUM else 0
            return position, count + 1, position <= len(view)
    return -1, most_blocks, False
