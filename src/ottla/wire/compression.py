"""The four codecs of record batches, with a limit on what a decompressed block may hold.

cramjam is imported on first use: a broker that meets no compressed batch never loads it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from mmap import mmap
from types import ModuleType
from typing import Any

from ottla.wire.codec_errors import CompressionError, CutShort, OutputTooLarge
from ottla.wire.lz4_frame import decompress_frame
from ottla.wire.primitives import Buffer
from ottla.wire.zstd_frames import last_frame_end

__all__ = [
    "CODEC_NAMES",
    "DEFAULT_MAX_OUTPUT_BYTES",
    "GZIP",
    "LZ4",
    "NONE",
    "SNAPPY",
    "ZSTD",
    "CompressionError",
    "CutShort",
    "OutputTooLarge",
    "Plain",
    "compress",
    "decompress",
]

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

# Kafka has no limit; a batch of max.message.bytes (1 MiB) rarely holds more than this.
DEFAULT_MAX_OUTPUT_BYTES = 128 * 1024 * 1024
_FIRST_OUTPUT_BYTES = 64 * 1024
_LARGE_OUTPUT_BYTES = 1024 * 1024
# What comes out; an mmap where it is large.
Plain = bytes | memoryview | mmap

# Kafka's Java client writes snappy in the stream format of the xerial library.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_BLOCK_SIZE = struct.Struct(">i")
_LZ4_FAST = 1
# Three bytes of a snappy block stand for 64 at most.
_MOST_SNAPPY_EXPANSION = 22
# zlib's sign for a gzip header and trailer around its data.
_GZIP_WINDOW = 31
_GZIP_HEADER_BYTES = 10
_GZIP_MAGIC = b"\x1f\x8b\x08"
# GZIPInputStream looks for another member only where more bytes than these follow.
_IGNORED_GZIP_BYTES = 18


def compress(codec: int, data: Buffer) -> bytes:
    """`data` in the given codec, in the framing that Kafka's clients read."""
    match codec:
        case 0:
            return bytes(data)
        case 1:
            return bytes(_cramjam().gzip.compress(data))
        case 2:
            return _compress_xerial(data)
        case 3:
            # Kafka's lz4 reader refuses frames whose blocks depend on each other. Without a level
            # cramjam takes the slow compressor (HC); Kafka's own default is the fast one.
            compressor = _cramjam().lz4.Compressor(
                level=_LZ4_FAST, content_checksum=False, block_linked=False
            )
            compressor.compress(bytes(data))
            return bytes(compressor.finish())
        case 4:
            return bytes(_cramjam().zstd.compress(data))
    raise CompressionError(f"unknown compression codec {codec}")


def decompress(codec: int, data: Buffer, max_bytes: int = DEFAULT_MAX_OUTPUT_BYTES) -> Plain:
    """The plain bytes of a block; OutputTooLarge before more than `max_bytes` are made."""
    match codec:
        case 0:
            return memoryview(data)
        case 1:
            return _decompress_gzip(data, max_bytes)
        case 2:
            return _decompress_snappy(data, max_bytes)
        case 3:
            return decompress_frame(_cramjam(), data, max_bytes)
        case 4:
            return _decompress_zstd(data, max_bytes)
    raise CompressionError(f"unknown compression codec {codec}")


def _cramjam() -> ModuleType:
    import cramjam

    return cramjam


def _decompress_growing(
    into: Callable[[Any, Any], int], data: Buffer, max_bytes: int
) -> memoryview | mmap:
    """Tries ever larger outputs: none of these formats must say its plain size."""
    size = min(max(_FIRST_OUTPUT_BYTES, 4 * len(data)), max_bytes)
    while True:
        try:
            return _decompress_to(into, data, size)
        except Exception as error:
            # cramjam has one error class; the text tells a full output from broken input.
            if "failed to write whole buffer" not in str(error):
                raise CompressionError(f"undecodable compressed block: {error}") from error
        if size >= max_bytes:
            raise OutputTooLarge(f"a block of {len(data)} bytes holds more than {max_bytes}")
        # Pages that are not written to cost nothing.
        size = max_bytes if 4 * size > _LARGE_OUTPUT_BYTES else min(4 * size, max_bytes)


def _decompress_to(into: Callable[[Any, Any], int], data: Buffer, size: int) -> memoryview | mmap:
    if size <= _LARGE_OUTPUT_BYTES:
        output = bytearray(size)
        return memoryview(output)[: into(data, output)]
    # Pages that are made as they are written, by the library, which lets other threads run. To make
    # a bytearray of that size, or to copy one, takes the interpreter for a tenth of a second.
    pages = mmap(-1, size)
    with memoryview(pages) as view:
        used = into(data, view)
    if not used:
        return memoryview(b"")
    pages.resize(used)
    return pages


def _decompress_gzip(data: Buffer, max_bytes: int) -> Plain:
    try:
        return _decompress_growing(_cramjam().gzip.decompress_into, data, max_bytes)
    except OutputTooLarge:
        raise
    except CompressionError:
        return _gunzip_as_java(data, max_bytes)


def _gunzip_as_java(data: Buffer, max_bytes: int) -> bytes:
    """Takes what GZIPInputStream takes and the library does not: bytes behind the last member that
    are no member; and says how far a stream goes that is cut."""
    parts: list[bytes] = []
    total = 0
    rest = bytes(data)
    while True:
        member = zlib.decompressobj(_GZIP_WINDOW)
        try:
            part = member.decompress(rest, max_bytes - total + 1)
        except zlib.error as error:
            raise CompressionError(f"undecodable gzip stream: {error}") from None
        parts.append(part)
        total += len(part)
        if total > max_bytes:
            raise OutputTooLarge(f"a block of {len(data)} bytes holds more than {max_bytes}")
        if not member.eof:
            if len(rest) < _GZIP_HEADER_BYTES:
                raise CompressionError("a gzip stream ends inside its header")
            raise CutShort(b"".join(parts))
        rest = member.unused_data
        if len(rest) <= _IGNORED_GZIP_BYTES or not rest.startswith(_GZIP_MAGIC):
            return b"".join(parts)


def _decompress_zstd(data: Buffer, max_bytes: int) -> Plain:
    if not len(data):
        return b""
    into = _cramjam().zstd.decompress_into
    try:
        return _decompress_growing(into, data, max_bytes)
    except OutputTooLarge:
        raise
    except CompressionError:
        end = last_frame_end(data)
        if end in (0, len(data)):
            raise
        return _decompress_growing(into, data[:end], max_bytes)


def _compress_xerial(data: Buffer) -> bytes:
    raw = _cramjam().snappy.compress_raw
    parts = [_XERIAL_HEADER]
    with memoryview(data) as view:
        for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
            block = bytes(raw(bytes(view[start : start + _XERIAL_BLOCK_BYTES])))
            parts += [_BLOCK_SIZE.pack(len(block)), block]
    return b"".join(parts)


def _decompress_snappy(data: Buffer, max_bytes: int) -> bytes:
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _decompress_raw_snappy(data, max_bytes)
    if len(data) < len(_XERIAL_HEADER):
        raise CompressionError("a snappy stream ends inside its header")
    parts = []
    position, total = len(_XERIAL_HEADER), 0
    # As SnappyInputStream: too few bytes for another size are its end, and streams may follow each
    # other.
    while len(data) - position >= _BLOCK_SIZE.size:
        if data[position : position + len(_XERIAL_MAGIC)] == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)
            if position > len(data):
                raise CompressionError("a snappy stream ends inside its header")
            continue
        (size,) = _BLOCK_SIZE.unpack_from(data, position)
        position += _BLOCK_SIZE.size
        if not 0 < size <= len(data) - position:
            raise CompressionError(f"a snappy block of {size} bytes does not fit its stream")
        block = _decompress_raw_snappy(data[position : position + size], max_bytes - total)
        parts.append(block)
        total += len(block)
        position += size
    return b"".join(parts)


def _decompress_raw_snappy(block: Buffer, max_bytes: int) -> bytes:
    snappy = _cramjam().snappy
    try:
        size = snappy.decompress_raw_len(block)
        if size > _MOST_SNAPPY_EXPANSION * len(block):
            raise CompressionError(f"a snappy block of {len(block)} bytes cannot hold {size}")
        if size > max_bytes:
            raise OutputTooLarge(f"a block of {len(block)} bytes holds more than allowed")
        return bytes(snappy.decompress_raw(block))
    except CompressionError:
        raise
    except Exception as error:
        raise CompressionError(f"undecodable snappy block: {error}") from error
