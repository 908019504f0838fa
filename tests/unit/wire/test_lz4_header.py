"""The checksum of lz4 headers: what libraries expect, and what format 0 has instead."""

from __future__ import annotations

import cramjam
import pytest

from ottla.wire import compression, lz4_header

_PLAIN = b"abc" * 100


def _with_content_size() -> bytes:
    """A frame whose header tells the size of its content, which cramjam leaves out."""
    frame = bytearray(compression.compress(compression.LZ4, _PLAIN))
    frame[4] |= 0x08
    frame[6:7] = len(_PLAIN).to_bytes(8, "little") + b"\0"
    return bytes(frame)


def test_a_right_header_stays_as_it_is() -> None:
    frame = compression.compress(compression.LZ4, _PLAIN)
    assert lz4_header.with_right_checksum(frame) == frame


def test_the_old_checksum_covers_the_magic_number_too() -> None:
    frame = compression.compress(compression.LZ4, _PLAIN)
    old = lz4_header.with_old_checksum(frame)
    assert (old[:6], old[7:]) == (frame[:6], frame[7:])
    # As KafkaLZ4BlockOutputStream(out, true) writes it for these flags.
    assert old[6] == 0xEC
    with pytest.raises(compression.CompressionError):
        compression.decompress(compression.LZ4, old)
    assert lz4_header.with_right_checksum(old) == frame


def test_a_header_with_the_size_of_its_content() -> None:
    frame = lz4_header.with_right_checksum(_with_content_size())
    assert bytes(cramjam.lz4.decompress(frame)) == _PLAIN
    old = lz4_header.with_old_checksum(frame)
    assert old != frame
    assert lz4_header.with_right_checksum(old) == frame


@pytest.mark.parametrize(
    "frame",
    [b"", b"\x04\x22\x4d\x18", b"\x04\x22\x4d\x18\x60", b"\x04\x22\x4d\x18\x68\x40" + bytes(8)],
)
def test_what_is_no_header(frame: bytes) -> None:
    for change in (lz4_header.with_right_checksum, lz4_header.with_old_checksum):
        with pytest.raises(compression.CompressionError):
            change(frame)
