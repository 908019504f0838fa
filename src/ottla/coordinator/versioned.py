"""How keys and values in both coordinators' logs begin: the version of their format as an int16."""

from __future__ import annotations

from ottla.errors import OttlaError
from ottla.wire.codec import Message

# Where the message starts, behind its version.
VERSION_BYTES = 2


class RecordFormatError(OttlaError):
    """Bytes that are not a key, value or subscription of a known version."""


def encode_versioned(message: Message, version: int) -> bytes:
    return version.to_bytes(VERSION_BYTES, "big") + message.encode(version)


def read_version(data: bytes) -> int:
    if len(data) < VERSION_BYTES:
        raise RecordFormatError("no version in front")
    return int.from_bytes(data[:VERSION_BYTES], "big", signed=True)
