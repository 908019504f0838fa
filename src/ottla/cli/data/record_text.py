"""Records as lines of text or JSON, for `ottla produce` and `ottla consume`.

What `consume` prints in JSON, `produce` reads: text is a string, other bytes are
`{"base64": "…"}`, nothing at all is null. Text lines are those of Kafka's console tools.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.errors import OttlaError
from ottla.wire.records import Record

if TYPE_CHECKING:
    from ottla.client.fetch import FetchedRecord

Headers = Sequence[tuple[str, bytes | None]]
_FIELD_END = b"\t"
# The difference of any two must fit in 64 bits: records carry that to the first of their batch.
_LAST_TIMESTAMP_MS = 2**62
_KNOWN_FIELDS = frozenset(
    {"key", "value", "headers", "partition", "timestamp"}
    # What `consume` adds and a new record cannot have.
    | {"topic", "offset", "timestamp_type"}
)


class BadLine(OttlaError):
    """A line of input that is not a record."""


class BadProperty(OttlaError):
    """A property of Kafka's formatter that has no meaning here."""


class TextFormat(NamedTuple):
    """How a line is taken apart; everything is the value where nothing is said."""

    key_separator: bytes | None = None
    has_headers: bool = False
    null_marker: bytes | None = None

    def parse(self, line: bytes, now_ms: int) -> tuple[Record, int | None]:
        """`h1:v1,h2:v2<tab>key<separator>value`, as LineMessageReader of Kafka's console."""
        headers: Headers = ()
        rest = line
        if self.has_headers:
            text, found, rest = line.partition(_FIELD_END)
            if not found:
                raise BadLine("no tab after the headers")
            headers = _parse_headers(text)
        key = None
        if self.key_separator is not None:
            key, found, rest = rest.partition(self.key_separator)
            if not found:
                raise BadLine(f"no key: {_shown(self.key_separator)} is not in it")
            key = self._or_null(key)
        return Record(key, self._or_null(rest), now_ms, headers), None

    def _or_null(self, data: bytes) -> bytes | None:
        return None if self.null_marker is not None and data == self.null_marker else data


def parse_json_line(line: bytes, now_ms: int) -> tuple[Record, int | None]:
    """The record, and the partition where one is named."""
    try:
        item = json.loads(line, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise BadLine(f"not JSON: {error}") from None
    if not isinstance(item, dict):
        raise BadLine("not a JSON object")
    unknown = sorted(item.keys() - _KNOWN_FIELDS)
    if unknown:
        raise BadLine(f"unknown field {unknown[0]!r}")
    partition, timestamp = item.get("partition"), item.get("timestamp", now_ms)
    if not _is_int(timestamp) or not (partition is None or _is_int(partition)):
        raise BadLine("partition and timestamp are whole numbers")
    if not -1 <= timestamp <= _LAST_TIMESTAMP_MS:
        raise BadLine("a timestamp is in milliseconds since 1970, or -1 for none")
    headers = _json_headers(item.get("headers"))
    record = Record(_bytes_of(item.get("key")), _bytes_of(item.get("value")), timestamp, headers)
    return record, partition


def _json_headers(given: object) -> Headers:
    pairs = list(given.items()) if isinstance(given, dict) else given or []
    if not isinstance(pairs, list) or not all(map(_is_pair, pairs)):
        raise BadLine("headers are an object, or a list of pairs")
    return [(name, _bytes_of(value)) for name, value in pairs]


def _is_pair(item: object) -> bool:
    return isinstance(item, list | tuple) and len(item) == 2 and isinstance(item[0], str)


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is not a JSON number")


def json_line(record: FetchedRecord) -> bytes:
    item = {
        "topic": record.partition.topic,
        "partition": record.partition.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "timestamp_type": "LogAppendTime" if record.is_append_time else "CreateTime",
        "key": json_data(record.key),
        "value": json_data(record.value),
        "headers": [[name, json_data(value)] for name, value in record.headers],
    }
    return json.dumps(item, ensure_ascii=False).encode() + b"\n"


class Columns(NamedTuple):
    """What is printed, in the order of Kafka's console consumer (DefaultMessageFormatter)."""

    timestamps: bool = False
    partitions: bool = False
    offsets: bool = False
    headers: bool = False
    keys: bool = False
    values: bool = True
    separator: bytes = b"\t"
    line_end: bytes = b"\n"
    header_separator: bytes = b","
    null: bytes = b"null"

    def line(self, record: FetchedRecord) -> bytes:
        cells = []
        if self.timestamps:
            kind = "LogAppendTime" if record.is_append_time else "CreateTime"
            cells.append(f"{kind}:{record.timestamp_ms}".encode())
        if self.partitions:
            cells.append(f"Partition:{record.partition.partition}".encode())
        if self.offsets:
            cells.append(f"Offset:{record.offset}".encode())
        if self.headers:
            pairs = [name.encode() + b":" + self._or_null(value) for name, value in record.headers]
            cells.append(self.header_separator.join(pairs) or b"NO_HEADERS")
        if self.keys:
            cells.append(self._or_null(record.key))
        if self.values:
            cells.append(self._or_null(record.value))
        return self.separator.join(cells) + self.line_end if cells else b""

    def _or_null(self, data: bytes | None) -> bytes:
        return self.null if data is None else data


# Kafka's properties of the formatter, by the column they turn on or the bytes they set.
_SWITCHES = {
    "print.timestamp": "timestamps",
    "print.partition": "partitions",
    "print.offset": "offsets",
    "print.headers": "headers",
    "print.key": "keys",
    "print.value": "values",
}
_BYTES = {
    "key.separator": "separator",
    "line.separator": "line_end",
    "headers.separator": "header_separator",
    "null.literal": "null",
}
_DESERIALIZERS = ("key.deserializer", "value.deserializer", "headers.deserializer")
_AS_IS = ("StringDeserializer", "ByteArrayDeserializer")


def with_properties(columns: Columns, given: Sequence[str]) -> Columns:
    """`--property print.key=true`, as kafka-console-consumer takes it."""
    changes: dict[str, Any] = {}
    for item in given:
        name, _, value = item.partition("=")
        if name in _SWITCHES:
            changes[_SWITCHES[name]] = value.strip().lower() == "true"
        elif name in _BYTES:
            changes[_BYTES[name]] = value.encode()
        elif name not in _DESERIALIZERS:
            known = ", ".join((*_SWITCHES, *_BYTES))
            raise BadProperty(f"--property: there is no {name!r}, only {known}")
        elif not value.endswith(_AS_IS):
            raise BadProperty(f"--property {item}: keys, values and headers are shown as text only")
    return columns._replace(**changes)


def unescaped(text: str) -> bytes:
    r"""A separator from the command line: `\t` and `\n` are a tab and a new line."""
    return text.replace("\\t", "\t").replace("\\n", "\n").encode()


def _parse_headers(text: bytes) -> Headers:
    if text in (b"", b"NO_HEADERS"):
        return ()
    headers = []
    for item in text.split(b","):
        name, colon, value = item.partition(b":")
        if not colon:
            raise BadLine(f"the header {_shown(item)} is not name:value")
        try:
            headers.append((name.decode(), value))
        except UnicodeDecodeError:
            raise BadLine("the name of a header is not UTF-8") from None
    return headers


def _shown(data: bytes) -> str:
    return repr(data[:40].decode(errors="replace"))


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _bytes_of(value: Any) -> bytes | None:
    if value is None or isinstance(value, str):
        try:
            return None if value is None else value.encode()
        except UnicodeEncodeError:
            raise BadLine("a string holds half of a surrogate pair") from None
    if isinstance(value, dict) and list(value) == ["base64"] and isinstance(value["base64"], str):
        try:
            return base64.b64decode(value["base64"], validate=True)
        except (binascii.Error, ValueError):
            raise BadLine("not base64") from None
    # Any other JSON is a value in itself.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def json_data(data: bytes | None) -> object:
    """Text as text, anything else in base64."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
