"""JSON to values of given types, record by record, with the meaning of Spark's `from_json`.

The slow way, for records that the fast one (`json_columns.py`) does not take: those that are
malformed, and those that Arrow reads in another way than Spark's JacksonParser. A field that does
not fit its type is null and makes its record a bad one; the other fields keep their values.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable
from datetime import tzinfo
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import types as kinds

from ottla.spark.formats import datetimes, jackson
from ottla.spark.formats.jackson import MalformedJson, Members, Node, Number

_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,9})?")
# JacksonParser takes these for numbers, also in quotes.
_INFINITE = {
    "NaN": float("nan"),
    "+INF": float("inf"),
    "+Infinity": float("inf"),
    "Infinity": float("inf"),
    "-INF": float("-inf"),
    "-Infinity": float("-inf"),
}

Convert = Callable[[Any], Any]


class Unfit(ValueError):
    """A value that is not of the type that its column has."""


class Row(NamedTuple):
    """`values` by field, None for a record that says nothing; `fault` is None in a good record."""

    values: dict[str, Any] | None
    fault: str | None


class RowReader:
    """Reads texts as values of one struct."""

    def __init__(self, struct: pa.StructType, zone: tzinfo) -> None:
        self._zone = zone
        self._fault: str | None = None
        self._root = self._struct(struct)

    def read(self, text: str) -> Row:
        if not text.strip(" \t\n\r"):
            return Row(None, None)
        self._fault = None
        try:
            node = jackson.parse(text)
            if not isinstance(node, Members):
                raise MalformedJson("not an object")
            values = self._root(node)
        except MalformedJson as error:
            return Row({}, f"it is not a JSON object: {error}")
        return Row(values, self._fault)

    def _converter(self, kind: pa.DataType) -> Convert:
        if kinds.is_struct(kind):
            return self._struct(kind)
        if kinds.is_map(kind):
            return self._map(kind)
        if kinds.is_list(kind):
            return self._list(kind)
        if kinds.is_timestamp(kind):
            return self._timestamp
        if kinds.is_integer(kind):
            return _whole(kind)
        if kinds.is_decimal(kind):
            return _decimal(kind.precision, kind.scale)
        return _SIMPLE[kind]

    def _struct(self, kind: pa.StructType) -> Convert:
        converters = {field.name: self._converter(field.type) for field in kind}

        def convert(node: Any) -> Any:
            if not isinstance(node, Members):
                raise Unfit("is not an object")
            values: dict[str, Any] = {}
            for name, child in node:
                converter = converters.get(name)
                if converter is None:
                    continue
                try:
                    values[name] = None if child is None else converter(child)
                except Unfit as error:
                    # A second member of the name that does not fit leaves the first as it is.
                    self._fault = self._fault or f"field {name} {error}"
            return values

        return convert

    def _list(self, kind: pa.ListType) -> Convert:
        converter = self._converter(kind.value_type)

        def convert(node: Any) -> Any:
            if not isinstance(node, list) or isinstance(node, Members):
                raise Unfit("is not an array")
            return [None if child is None else converter(child) for child in node]

        return convert

    def _map(self, kind: pa.MapType) -> Convert:
        converter = self._converter(kind.item_type)

        def convert(node: Any) -> Any:
            if not isinstance(node, Members):
                raise Unfit("is not an object")
            return [(name, None if child is None else converter(child)) for name, child in node]

        return convert

    def _timestamp(self, node: Node) -> int:
        found = None
        if isinstance(node, Number) and node.is_whole:
            # Seconds. Java multiplies without a look at the bounds of the result.
            seconds = _bounded(node.text, 64)
            found = (seconds * 1_000_000 + 2**63) % 2**64 - 2**63
        elif isinstance(node, str):
            found = datetimes.microseconds(node, self._zone)
        if found is None or not -(2**63) <= found < 2**63:
            raise Unfit("is not a timestamp")
        return found


def _string(node: Node) -> str:
    return node if isinstance(node, str) else jackson.render(node)


def _boolean(node: Node) -> bool:
    if not isinstance(node, bool):
        raise Unfit("is neither true nor false")
    return node


def _double(node: Node) -> float:
    if isinstance(node, Number):
        number = jackson.to_float(node.text)
        return number + 0.0 if node.is_whole else number  # -0 is 0, -0.0 stays what it is
    if isinstance(node, str) and node in _INFINITE:
        return _INFINITE[node]
    raise Unfit("is not a number")


def _date(node: Node) -> int:
    found = datetimes.days(node) if isinstance(node, str) else None
    if found is None or not -(2**31) <= found < 2**31:
        raise Unfit("is not a date")
    return found


_SIMPLE: dict[pa.DataType, Convert] = {
    pa.string(): _string,
    pa.bool_(): _boolean,
    pa.float32(): _double,
    pa.float64(): _double,
    pa.date32(): _date,
}


def _bounded(text: str, bits: int) -> int:
    value = int(text)
    # Jackson takes bytes up to 255, and Java keeps eight bits of them.
    if bits == 8 and 127 < value <= 255:
        return value - 256
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise Unfit(f"is a number of more than {bits} bits")
    return value


def _whole(kind: pa.DataType) -> Convert:
    bits = kind.bit_width

    def convert(node: Node) -> int:
        if not isinstance(node, Number) or not node.is_whole:
            raise Unfit("is not a whole number")
        return _bounded(node.text, bits)

    return convert


def _decimal(precision: int, scale: int) -> Convert:
    # Digits enough for any number that is read; more than the type's are refused below.
    context = decimal.Context(
        prec=jackson.MAX_NUMBER_LENGTH + precision,
        rounding=decimal.ROUND_HALF_UP,
        Emin=decimal.MIN_EMIN,
        Emax=decimal.MAX_EMAX,
    )
    unit = decimal.Decimal(1).scaleb(-scale)

    def convert(node: Node) -> decimal.Decimal:
        text = node.text if isinstance(node, Number) else node
        text = text.replace(",", "") if isinstance(text, str) else ""
        if not _DECIMAL.fullmatch(text):
            raise Unfit("is not a number")
        try:
            value = context.create_decimal(text).quantize(unit, context=context)
        except decimal.DecimalException:
            raise Unfit(f"does not fit into decimal({precision},{scale})") from None
        if len(value.as_tuple().digits) > precision and value:
            raise Unfit(f"does not fit into decimal({precision},{scale})")
        return value

    return convert
