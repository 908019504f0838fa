"""lz4 frames by hand: which of them Kafka reads."""

from __future__ import annotations

import struct

import cramjam
import pytest

from ottla.wire.codec_errors import CompressionError, OutputTooLarge
from ottla.wire.lz4_frame import decompress_frame
from ottla.wire.lz4_header import with_right_checksum

_PLAIN = b"plain bytes"
_BLOCK = struct.pack("<I", len(_PLAIN) | 1 << 31) + _PLAIN


def _frame(flags: int = 0x60, sizes: int = 0x40, rest: bytes = _BLOCK + bytes(4)) -> bytes:
    size = bytes(8) if flags & 0x08 else b""
    return with_right_checksum(b"\x04\x22\x4d\x18" + bytes((flags, sizes)) + size + b"\x00" + rest)


@pytest.mark.parametrize(
    "frame",
    [
        _frame(),
        _frame(sizes=0x70),
        _frame(0x68),
        _frame(0x64, rest=_BLOCK + bytes(4) + b"what"),
        _frame() + b"behind it",
    ],
)
def test_taken(frame: bytes) -> None:
    assert bytes(decompress_frame(cramjam, frame, 100)) == _PLAIN


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x04\x22\x4d\x18\x60",
        _frame(0x40),
        _frame(0x20),
        _frame(0x62),
        _frame(0x61),
        _frame(sizes=0x30),
        _frame(0x64),
        _frame(rest=_BLOCK),
        _frame(rest=_BLOCK[:-1]),
        _frame(rest=struct.pack("<I", 70_000 | 1 << 31) + bytes(70_004)),
        _frame(0x70, rest=_BLOCK + b"what" + bytes(4)),
        _frame(rest=struct.pack("<I", 3) + b"\xff\xff\xff" + bytes(4)),
        _frame()[:6] + b"\x00" + _frame()[7:],
    ],
)
def test_refused(frame: bytes) -> None:
    with pytest.raises(CompressionError):
        decompress_frame(cramjam, frame, 100)


def test_blocks_with_checksums() -> None:
    compressor = cramjam.lz4.Compressor(block_linked=False)
    compressor.compress(_PLAIN * 9)
    frame = bytes(compressor.finish())
    assert bytes(decompress_frame(cramjam, frame, 1000)) == _PLAIN * 9


def test_the_limit_holds_over_all_blocks() -> None:
    with pytest.raises(OutputTooLarge):
        decompress_frame(cramjam, _frame(rest=_BLOCK * 10 + bytes(4)), 100)
