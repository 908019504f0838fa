"""lz4 frames as Kafka reads them (KafkaLZ4BlockInputStream).

One frame counts, and bytes behind it do not. Blocks do not depend on each other. The content's size
and checksum, where they are told, are not looked at.
"""

from __future__ import annotations

import struct
from types import ModuleType

from ottla.wire.codec_errors import CompressionError, OutputTooLarge
from ottla.wire.lz4_header import FRAME_MAGIC, checksum_of
from ottla.wire.primitives import Buffer

_HAS_BLOCK_CHECKSUMS = 0x10
_HAS_CONTENT_SIZE = 0x08
_HAS_CONTENT_CHECKSUM = 0x04
# The version, independent blocks, neither a dictionary nor the reserved bit.
_FIXED_FLAGS, _FIXED_MASK = 0x60, 0xE3
# By the descriptor's second byte.
_LARGEST_BLOCKS = {0x40: 1 << 16, 0x50: 1 << 18, 0x60: 1 << 20, 0x70: 1 << 22}
_SIZE = struct.Struct("<I")
_IS_PLAIN = 1 << 31
_CHECKSUM_BYTES = 4
# Of a byte in a block, which can stand for so many more of the same; keeps small ones cheap.
_MOST_EXPANSION = 256
# The magic number, flags, block size.
_SHORTEST_HEADER = 6


def decompress_frame(cramjam: ModuleType, frame: Buffer, max_bytes: int) -> bytes | memoryview:
    """The content of the first frame; blocks with checksums are left to the library."""
    data = memoryview(frame)
    position, largest, flags = _read_header(data)
    blocks, end = _blocks(data, position, largest, flags)
    if flags & _HAS_BLOCK_CHECKSUMS:
        return _by_library(cramjam, data[:end], largest * len(blocks), max_bytes)
    into = cramjam.lz4.decompress_block_into
    parts: list[bytes | memoryview] = []
    total = 0
    for block, is_plain in blocks:
        if is_plain:
            part = block
        else:
            output = bytearray(min(largest, _MOST_EXPANSION * len(block)))
            try:
                part = memoryview(output)[: into(block, output)]
            except Exception as error:  # cramjam has one error class
                raise CompressionError(f"undecodable lz4 block: {error}") from None
        total += len(part)
        if total > max_bytes:
            raise OutputTooLarge(f"a block of {len(data)} bytes holds more than {max_bytes}")
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _read_header(data: memoryview) -> tuple[int, int, int]:
    """Where the blocks begin, how large they may be, and the flags."""
    if len(data) < _SHORTEST_HEADER or data[: len(FRAME_MAGIC)] != FRAME_MAGIC:
        raise CompressionError("not an lz4 frame")
    flags = data[4]
    largest = _LARGEST_BLOCKS.get(data[5])
    end = _SHORTEST_HEADER + (8 if flags & _HAS_CONTENT_SIZE else 0)
    if flags & _FIXED_MASK != _FIXED_FLAGS or largest is None:
        raise CompressionError("an lz4 frame of a kind that Kafka does not read")
    if len(data) <= end or data[end] != checksum_of(bytes(data[4:end])):
        raise CompressionError("the checksum of an lz4 frame's header is wrong")
    return end + 1, largest, flags


def _blocks(
    data: memoryview, position: int, largest: int, flags: int
) -> tuple[list[tuple[memoryview, bool]], int]:
    """The blocks, whether each is plain, and the end of the frame."""
    blocks: list[tuple[memoryview, bool]] = []
    between = _CHECKSUM_BYTES if flags & _HAS_BLOCK_CHECKSUMS else 0
    while len(data) - position >= _SIZE.size:
        (size,) = _SIZE.unpack_from(data, position)
        position += _SIZE.size
        if size & ~_IS_PLAIN == 0:
            end = position + (_CHECKSUM_BYTES if flags & _HAS_CONTENT_CHECKSUM else 0)
            if end > len(data):
                break
            return blocks, end
        start, position = position, position + (size & ~_IS_PLAIN) + between
        if position > len(data) or size & ~_IS_PLAIN > largest:
            break
        blocks.append((data[start : position - between], bool(size & _IS_PLAIN)))
    raise CompressionError("an lz4 frame is cut short, or a block does not fit it")


def _by_library(
    cramjam: ModuleType, frame: memoryview, plain_bytes: int, max_bytes: int
) -> memoryview:
    output = bytearray(min(plain_bytes, max_bytes))
    try:
        return memoryview(output)[: cramjam.lz4.decompress_into(frame, output)]
    except Exception as error:
        if plain_bytes > max_bytes and "failed to write whole buffer" in str(error):
            raise OutputTooLarge(f"more than {max_bytes} bytes") from None
        raise CompressionError(f"undecodable lz4 frame: {error}") from None
