"""The checksum in the header of an lz4 frame, right or as messages of format 0 have it.

Kafka's first lz4 writer hashed the frame's magic number along with the descriptor. Format 0 stays
with that: its readers do not look at the checksum, its writers write the wrong one (KIP-57).
"""

from __future__ import annotations

from ottla.wire.codec_errors import CompressionError
from ottla.wire.primitives import Buffer

FRAME_MAGIC = b"\x04\x22\x4d\x18"
_FLAGS_AT = len(FRAME_MAGIC)
_HAS_CONTENT_SIZE = 0x08
_MASK = 0xFFFFFFFF
_PRIME_1, _PRIME_2, _PRIME_3, _PRIME_4, _PRIME_5 = (
    0x9E3779B1,
    0x85EBCA77,
    0xC2B2AE3D,
    0x27D4EB2F,
    0x165667B1,
)


def with_right_checksum(frame: Buffer) -> bytes:
    """The frame as every lz4 library reads it, whatever its header's checksum was."""
    end = _descriptor_end(frame)
    return _with_checksum(frame, end, bytes(frame[_FLAGS_AT:end]))


def with_old_checksum(frame: Buffer) -> bytes:
    """The frame as the first Kafka clients with lz4 wrote and expected it."""
    end = _descriptor_end(frame)
    return _with_checksum(frame, end, bytes(frame[:end]))


def _descriptor_end(frame: Buffer) -> int:
    """Where the checksum stands: after flags, block size and the content's size if it is told."""
    if bytes(frame[:_FLAGS_AT]) != FRAME_MAGIC or len(frame) <= _FLAGS_AT:
        raise CompressionError("not an lz4 frame")
    end = _FLAGS_AT + 2
    if frame[_FLAGS_AT] & _HAS_CONTENT_SIZE:
        end += 8
    if len(frame) <= end:
        raise CompressionError("an lz4 frame ends inside its header")
    return end


def _with_checksum(frame: Buffer, at: int, hashed: bytes) -> bytes:
    return b"".join((frame[:at], bytes((checksum_of(hashed),)), frame[at + 1 :]))


def checksum_of(hashed: bytes) -> int:
    """The one byte of it that a header has."""
    return _short_xxhash32(hashed) >> 8 & 0xFF


def _short_xxhash32(data: bytes) -> int:
    """XXH32 with seed 0 of less than 16 bytes, where its stripes would begin."""
    value = (_PRIME_5 + len(data)) & _MASK
    words_end = len(data) & ~3
    for at in range(0, words_end, 4):
        word = int.from_bytes(data[at : at + 4], "little")
        value = _rotated((value + word * _PRIME_3) & _MASK, 17) * _PRIME_4 & _MASK
    for byte in data[words_end:]:
        value = _rotated((value + byte * _PRIME_5) & _MASK, 11) * _PRIME_1 & _MASK
    value = (value ^ value >> 15) * _PRIME_2 & _MASK
    value = (value ^ value >> 13) * _PRIME_3 & _MASK
    return value ^ value >> 16


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _MASK
