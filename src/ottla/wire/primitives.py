"""What generated encoders and decoders call: variable-length integers, limits, failures."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NoReturn

from ottla.errors import OttlaError

Buffer = bytes | bytearray | memoryview

# struct's letter for each fixed-size type of the schemas.
FIXED_FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
# Kafka refuses longer strings in both encodings, although the compact one could say more.
MAX_STRING_BYTES = 0x7FFF
MAX_LENGTH = 0x7FFFFFFF
# Kafka's own schemas stay below ten; a section with more is an attack, not a newer version.
MAX_TAGS = 1000
# Records from this size on travel as a chunk of their own, uncopied.
MIN_UNCOPIED_BYTES = 1024
# Arrays of integers up to this length have a precompiled struct.
_MAX_TABLE = 64


class WireError(OttlaError):
    """Bytes that are not such a message, or a message that cannot be such bytes."""


class UnsupportedVersion(WireError):
    """A version that the schema does not know, or a field that the version does not carry."""


class TooLarge(WireError):
    """A message with more entries or bytes than whoever reads or writes it allows."""


def uvarint_bytes(value: int) -> bytes:
    """An unsigned varint, least significant group first."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """An unsigned varint of at most five bytes that fits a positive Java int, and its end."""
    value = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 28:
            raise WireError("a varint has more than five bytes")
    # One above the largest int: compact lengths are sent plus one.
    if value > MAX_LENGTH + 1:
        raise WireError(f"a varint holds {value}, more than an int")
    return value, position


def skip_tags(buffer: Buffer, position: int, end: int) -> int:
    """The end of a tagged-field section, of which no field is known, from its count on."""
    count, position = read_uvarint(buffer, position)
    check_tag_count(count, end - position)
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        position += size
        if position > end:
            raise WireError("a tagged field reaches past the end of the message")
    return position


def check_tag_count(count: int, bytes_left: int) -> None:
    # A tag takes two bytes at least: its number and its size.
    if count > bytes_left // 2 or count > MAX_TAGS:
        raise WireError(f"{count} tagged fields in {bytes_left} bytes")


def bad_length(field: str, length: int, bytes_left: int) -> NoReturn:
    """Refuses a string, bytes or array length: below none, null where null is not allowed, or too
    long for what is left."""
    if length < 0:
        raise WireError(f"{field} is null or has a negative length")
    raise WireError(f"{field} has length {length} with {bytes_left} bytes left")


def too_many_entries(field: str, limit: int) -> NoReturn:
    raise TooLarge(f"it has more than {limit} entries, counted up to {field}")


def too_many_bytes(limit: int) -> NoReturn:
    raise TooLarge(f"it has more than {limit} bytes")


def bad_tag_size(field: str) -> NoReturn:
    raise WireError(f"the size of tagged field {field} does not fit its content")


def bad_value(field: str, what: str) -> NoReturn:
    raise WireError(f"{field} {what}")


def unsupported_field(field: str, version: int) -> NoReturn:
    raise UnsupportedVersion(f"{field} is set, but version {version} does not carry it")


def error_text(text: str) -> bytes:
    """An error message as bytes. One that repeats what a client sent may be longer than a string
    can be; its beginning says enough."""
    raw = text.encode()
    if len(raw) <= MAX_STRING_BYTES:
        return raw
    return raw[:MAX_STRING_BYTES].decode(errors="ignore").encode()


def compact_length(field: str, length: int, limit: int) -> bytes:
    """The prefix of a compact string, bytes or array that does not fit one byte."""
    if length > limit:
        raise WireError(f"{field} has length {length}, at most {limit} can be sent")
    return uvarint_bytes(length + 1)


@cache
def int_array_packers(letter: str, compact: bool) -> list[Callable[..., bytes]]:
    """Packers of (length prefix, *numbers) by count."""
    prefix = "B" if compact else "i"
    return [struct.Struct(f">{prefix}{n}{letter}").pack for n in range(_MAX_TABLE)]


@cache
def int_array_unpackers(letter: str) -> list[Callable[..., tuple[Any, ...]]]:
    """unpack_from of n numbers by n."""
    return [struct.Struct(f">{n}{letter}").unpack_from for n in range(_MAX_TABLE)]


def pack_long_array(field: str, letter: str, compact: bool, values: Sequence[Any]) -> bytes:
    """The same as the packers for a count beyond their table."""
    count = len(values)
    prefix = compact_length(field, count, MAX_LENGTH) if compact else struct.pack(">i", count)
    return prefix + struct.pack(f">{count}{letter}", *values)


def unpack_long_array(letter: str, count: int, buffer: Buffer, position: int) -> tuple[Any, ...]:
    return struct.unpack_from(f">{count}{letter}", buffer, position)
