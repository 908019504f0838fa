"""Frames and headers: a length of four bytes, a request or response header, then the message."""

from __future__ import annotations

import struct
from collections.abc import Generator
from functools import lru_cache
from typing import NamedTuple

from ottla.wire import messages
from ottla.wire.codec import Message
from ottla.wire.primitives import Buffer, WireError, skip_tags

Chunks = list[bytes | memoryview]

API_VERSIONS_KEY = 18
_CONTROLLED_SHUTDOWN_KEY = 7
_LENGTH_BYTES = 4
_LENGTH = struct.Struct(">i")
_REQUEST_HEAD = struct.Struct(">hhi")
_REQUEST_HEAD_WITH_CLIENT = struct.Struct(">hhih")
_FRAMED_REQUEST_HEAD = struct.Struct(">ihhi")
_FRAMED_RESPONSE_HEAD = struct.Struct(">ii")


class FrameTooLarge(WireError):
    """A frame length that is negative or beyond the limit; the connection cannot go on."""


class RequestHeader(NamedTuple):
    """What precedes every request."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


@lru_cache(maxsize=256)
def request_header_version(api_key: int, api_version: int) -> int:
    """0, 1 or 2 (ApiMessageType.requestHeaderVersion)."""
    # The first ControlledShutdown is older than client ids.
    if api_key == _CONTROLLED_SHUTDOWN_KEY and api_version == 0:
        return 0
    return 2 if messages.request_class(api_key).is_flexible(api_version) else 1


@lru_cache(maxsize=256)
def response_header_version(api_key: int, api_version: int) -> int:
    """0 or 1 (ApiMessageType.responseHeaderVersion)."""
    # KIP-511: a client must be able to read the answer to an ApiVersions request whose version
    # the broker does not know, so its header never became flexible.
    if api_key == API_VERSIONS_KEY:
        return 0
    return 1 if messages.response_class(api_key).is_flexible(api_version) else 0


def decode_request_header(buffer: Buffer) -> tuple[RequestHeader, int]:
    """The header of a frame (without its length) and the offset of the message."""
    try:
        api_key, version, correlation_id = _REQUEST_HEAD.unpack_from(buffer)
        header_version = request_header_version(api_key, version)
        if header_version == 0:
            return RequestHeader(api_key, version, correlation_id, None), _REQUEST_HEAD.size
        length = _REQUEST_HEAD_WITH_CLIENT.unpack_from(buffer)[3]
        position = _REQUEST_HEAD_WITH_CLIENT.size
        client_id = None
        if length >= 0:
            end = position + length
            if end > len(buffer):
                raise WireError(f"a client id of {length} bytes reaches past the frame")
            client_id = str(buffer[position:end], "utf-8")
            position = end
        elif length != -1:
            raise WireError(f"a client id has length {length}")
        if header_version == 2:
            position = skip_tags(buffer, position, len(buffer))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise WireError(f"not a request header: {error}") from error
    return RequestHeader(api_key, version, correlation_id, client_id), position


def decode_response_header(buffer: Buffer, api_key: int, api_version: int) -> tuple[int, int]:
    """The correlation id of a response frame (without its length) and the message's offset."""
    try:
        (correlation_id,) = _LENGTH.unpack_from(buffer)
        position = _LENGTH.size
        if response_header_version(api_key, api_version) == 1:
            position = skip_tags(buffer, position, len(buffer))
    except (struct.error, IndexError) as error:
        raise WireError(f"not a response header: {error}") from error
    return correlation_id, position


def encode_request(
    message: Message, version: int, correlation_id: int, client_id: str | None
) -> Chunks:
    """A whole request frame."""
    key = message.API_KEY
    header_version = request_header_version(key, version)
    start = bytearray(_FRAMED_REQUEST_HEAD.pack(0, key, version, correlation_id))
    if header_version >= 1:
        if client_id is None:
            start += b"\xff\xff"
        else:
            text = client_id.encode()
            if len(text) > 0x7FFF:
                raise WireError(f"a client id of {len(text)} bytes is too long")
            start += len(text).to_bytes(2, "big") + text
    if header_version == 2:
        start.append(0)
    return _frame(message, version, start)


def encode_response(message: Message, version: int, correlation_id: int) -> Chunks:
    """A whole response frame."""
    return _frame(message, version, _response_start(message, version, correlation_id))


def encode_response_in_turns(
    message: Message, version: int, correlation_id: int, max_bytes: int
) -> Generator[None, None, Chunks]:
    """The same, but may be left at every `yield`; raises TooLarge beyond `max_bytes`."""
    start = _response_start(message, version, correlation_id)
    chunks: Chunks = []
    last = yield from message.encode_in_turns(version, start, chunks, max_bytes)
    return _with_length(start, chunks, last)


def _response_start(message: Message, version: int, correlation_id: int) -> bytearray:
    start = bytearray(_FRAMED_RESPONSE_HEAD.pack(0, correlation_id))
    if response_header_version(message.API_KEY, version) == 1:
        start.append(0)
    return start


def _frame(message: Message, version: int, start: bytearray) -> Chunks:
    chunks: Chunks = []
    return _with_length(start, chunks, message.encode_after(version, start, chunks))


def _with_length(start: bytearray, chunks: Chunks, last: bytearray) -> Chunks:
    if last:
        chunks.append(memoryview(last))
    size = sum(map(len, chunks)) - _LENGTH_BYTES
    try:
        _LENGTH.pack_into(start, 0, size)
    except struct.error as error:
        raise WireError(f"a message of {size} bytes does not fit a frame") from error
    return chunks


class FrameReader:
    """Cuts a byte stream into frames.

    A frame is handed out as a writable view on memory of its own, or memory shared with other
    frames of the same read. Each byte is copied once; a partial frame grows with what arrives, so
    that a length alone allocates nothing.
    """

    def __init__(self, max_bytes: int) -> None:
        # May be raised later: a peer that has not said who it is is allowed less.
        self.max_bytes = max_bytes
        # A frame still incomplete, with its length prefix; not to be changed from outside.
        self.partial = bytearray()

    @property
    def missing_bytes(self) -> int:
        """What the incomplete frame lacks, as far as one can tell; 0 without one."""
        partial = self.partial
        if len(partial) < _LENGTH_BYTES:
            return _LENGTH_BYTES - len(partial) if partial else 0
        size: int = _LENGTH.unpack_from(partial)[0]
        return _LENGTH_BYTES + size - len(partial)

    def feed(self, data: Buffer) -> list[memoryview]:
        """The frames that `data` completes, without their length prefixes."""
        frames: list[memoryview] = []
        position = self._complete_partial(data, frames) if self.partial else 0
        end = self._end_of_whole_frames(data, position)
        with memoryview(data) as view:
            if end > position:
                self._cut(memoryview(bytearray(view[position:end])), frames)
            if end < len(data):
                self.partial = bytearray(view[end:])
        return frames

    def _complete_partial(self, data: Buffer, frames: list[memoryview]) -> int:
        """Moves bytes into the partial frame; how many were taken."""
        partial = self.partial
        position = 0
        if len(partial) < _LENGTH_BYTES:
            position = min(_LENGTH_BYTES - len(partial), len(data))
            partial += data[:position]
            if len(partial) < _LENGTH_BYTES:
                return position
        wanted = _LENGTH_BYTES + self._frame_size(partial, 0) - len(partial)
        with memoryview(data) as view:
            partial += view[position : position + wanted]
        if len(data) - position >= wanted:
            frames.append(memoryview(partial)[_LENGTH_BYTES:])
            self.partial = bytearray()
            return position + wanted
        return len(data)

    def _end_of_whole_frames(self, data: Buffer, position: int) -> int:
        while len(data) - position >= _LENGTH_BYTES:
            end = position + _LENGTH_BYTES + self._frame_size(data, position)
            if end > len(data):
                break
            position = end
        return position

    def _cut(self, view: memoryview, frames: list[memoryview]) -> None:
        position = 0
        while position < len(view):
            start = position + _LENGTH_BYTES
            position = start + _LENGTH.unpack_from(view, position)[0]
            frames.append(view[start:position])

    def _frame_size(self, buffer: Buffer, position: int) -> int:
        size: int = _LENGTH.unpack_from(buffer, position)[0]
        if 0 <= size <= self.max_bytes:
            return size
        raise FrameTooLarge(
            f"a frame of {size} bytes (allowed: 0 to {self.max_bytes})"
            f"{_foreign_protocol(bytes(buffer[position : position + _LENGTH_BYTES]))}"
        )


def _foreign_protocol(prefix: bytes) -> str:
    """What a wrong length most likely is: someone speaks another protocol to this port."""
    if prefix in (b"GET ", b"POST", b"PUT ", b"HEAD", b"HTTP", b"OPTI", b"DELE"):
        return "; this looks like HTTP"
    if prefix[:2] == b"\x16\x03":
        return "; this looks like TLS on a plaintext port"
    return ""
