"""What is wrong with a compressed block."""

from __future__ import annotations

from ottla.wire.primitives import WireError


class CompressionError(WireError):
    """A block that its codec cannot read, or an unknown codec."""


class OutputTooLarge(CompressionError):
    """A block that would decompress to more than the limit."""


class CutShort(CompressionError):
    """A gzip stream that ends before its time; `plain` is what it held up to there."""

    def __init__(self, plain: bytes) -> None:
        super().__init__(f"a gzip stream ends after {len(plain)} plain bytes")
        self.plain = plain
