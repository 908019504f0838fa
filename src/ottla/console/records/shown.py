"""Records as the HTTP API tells them: text where bytes are text, else base64."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from ottla.console.records.seen import Part, Seen


class Data(msgspec.Struct, omit_defaults=True):
    """Bytes of a record: `text` where they are UTF-8, `base64` else; cut where there are more."""

    size: int
    text: str | None = None
    base64: str | None = None
    is_cut: bool = False


class Header(msgspec.Struct):
    name: str
    value: Data | None


class Message(msgspec.Struct):
    """A record; `marker` is commit or abort for the end of a transaction in a partition."""

    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: str
    key: Data | None
    value: Data | None
    headers: list[Header]
    header_count: int
    size: int
    compression: str
    is_transactional: bool
    producer_id: int | None
    marker: str | None = None


def message(seen: Seen) -> Message:
    return Message(
        seen.partition,
        seen.offset,
        seen.timestamp_ms,
        seen.timestamp_type,
        data(seen.key),
        data(seen.value),
        [Header(name, data(value)) for name, value in seen.headers],
        seen.header_count,
        seen.size,
        seen.compression,
        seen.is_transactional,
        seen.producer_id if seen.producer_id >= 0 else None,
        seen.marker,
    )


def data(part: Part | None) -> Data | None:
    if part is None:
        return None
    text = _text(part)
    if text is not None:
        return Data(part.size, text=text, is_cut=part.is_cut)
    return Data(part.size, base64=base64.b64encode(part.data).decode(), is_cut=part.is_cut)


def _text(part: Part) -> str | None:
    try:
        return part.data.decode()
    except UnicodeDecodeError as error:
        # A cut may go through a character.
        if part.is_cut and error.start >= len(part.data) - 3 and error.reason.startswith("unexp"):
            return part.data[: error.start].decode()
        return None
