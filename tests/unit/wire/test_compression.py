"""What codecs take and refuse, as Kafka's readers do; and how much they unpack."""

from __future__ import annotations

import gzip
from mmap import mmap

import cramjam
import pytest

from ottla.wire.compression import (
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    CompressionError,
    CutShort,
    OutputTooLarge,
    compress,
    decompress,
)

_PLAIN = b"some bytes, and some more; " * 40
_CODECS = [GZIP, SNAPPY, LZ4, ZSTD]


@pytest.mark.parametrize("codec", _CODECS)
@pytest.mark.parametrize("size", [0, 1, 5000, 70_000, 3_000_000])
def test_round_trip(codec: int, size: int) -> None:
    plain = (b"%d" % size * 7 + bytes(9)) * (size // 9 + 1)
    assert bytes(decompress(codec, compress(codec, plain[:size]))) == plain[:size]


@pytest.mark.parametrize("codec", _CODECS)
def test_a_bomb_is_refused_before_it_is_unpacked(codec: int) -> None:
    bomb = compress(codec, bytes(2_000_000))
    assert len(decompress(codec, bomb, 2_000_000)) == 2_000_000
    with pytest.raises(OutputTooLarge):
        decompress(codec, bomb, 1_999_999)


def test_much_goes_to_pages_of_its_own() -> None:
    assert isinstance(decompress(ZSTD, compress(ZSTD, bytes(5_000_000))), mmap)


@pytest.mark.parametrize(
    ("codec", "behind"),
    [
        (GZIP, b"x"),
        (GZIP, bytes(100)),
        (GZIP, compress(GZIP, b"x")[:18]),
        (LZ4, b"x"),
        (LZ4, compress(LZ4, b"another frame")),
        (SNAPPY, b"xyz"),
        (ZSTD, b"wxyz"),
        (ZSTD, compress(ZSTD, b"a frame without a block")[:8]),
    ],
)
def test_bytes_behind_the_end_that_kafka_takes(codec: int, behind: bytes) -> None:
    assert bytes(decompress(codec, compress(codec, _PLAIN) + behind)) == _PLAIN


@pytest.mark.parametrize(
    ("codec", "behind"),
    [
        (GZIP, compress(GZIP, bytes(1000))[:25]),
        (SNAPPY, bytes(4)),
        (ZSTD, b"vwxyz"),
        (ZSTD, compress(ZSTD, bytes(300_000))[:-1]),
    ],
)
def test_bytes_behind_the_end_that_kafka_refuses(codec: int, behind: bytes) -> None:
    with pytest.raises(CompressionError):
        decompress(codec, compress(codec, _PLAIN) + behind)


def test_streams_that_follow_each_other() -> None:
    for codec in (GZIP, SNAPPY, ZSTD):
        both = compress(codec, b"one ") + compress(codec, b"and another")
        assert bytes(decompress(codec, both)) == b"one and another"
    with_garbage = gzip.compress(b"one ") + gzip.compress(b"and another") + bytes(50)
    assert bytes(decompress(GZIP, with_garbage)) == b"one and another"


def test_a_cut_gzip_stream_says_how_far_it_goes() -> None:
    stream = gzip.compress(_PLAIN, mtime=0)
    with pytest.raises(CutShort) as raised:
        decompress(GZIP, stream[:-8])
    assert raised.value.plain == _PLAIN
    with pytest.raises(CompressionError, match="ends inside its header"):
        decompress(GZIP, stream[:6])


def test_a_snappy_block_that_says_more_than_it_can_hold() -> None:
    with pytest.raises(CompressionError, match="cannot hold") as raised:
        decompress(SNAPPY, b"\xff\xff\xff\xff\x07\x00")
    assert not isinstance(raised.value, OutputTooLarge)
    assert bytes(decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(_PLAIN)))) == _PLAIN
