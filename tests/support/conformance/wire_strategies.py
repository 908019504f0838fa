"""Hypothesis strategies for messages, made from the schemas."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from hypothesis import strategies as st

from ottla.wire.codec import Message
from ottla.wire.schema import Field

_INTS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_TEXTS = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(
    ["", "é" * 70, "x" * 200]
)
_BINARY = st.binary(max_size=20) | st.sampled_from([b"", b"\x00" * 130, b"r" * 3000])

# Gets a field (with its element's type) and may narrow its values.
Narrow = Callable[[str, Field], "st.SearchStrategy[Any] | None"]


def scalar(kind: str) -> st.SearchStrategy[Any]:
    if kind in _INTS:
        bound = 1 << (_INTS[kind] - 1)
        return st.integers(-bound, bound - 1) | st.sampled_from([-1, 0, 1])
    match kind:
        case "uint16":
            return st.integers(0, 65535)
        case "bool":
            return st.booleans()
        case "float64":
            return st.floats(allow_nan=False, allow_infinity=False)
        case "uuid":
            return st.binary(min_size=16, max_size=16) | st.just(bytes(16))
        case "string":
            return _TEXTS
        case "bytes" | "records":
            return _BINARY
    raise AssertionError(kind)


def messages_of(
    kind: type[Message], version: int, narrow: Narrow = lambda struct, field: None
) -> st.SearchStrategy[Any]:
    """Messages that a version can carry: what it does not carry has its default."""
    structs = kind.SCHEMA.structs

    def value(owner: str, field: Field) -> st.SearchStrategy[Any]:
        element = field.element
        one = objects(element) if element in structs else narrow(owner, field)
        if one is None:
            one = scalar(element)
        if field.is_array:
            one = st.lists(one, max_size=3)
        if version in field.nullable:
            one = st.none() | one
        return one

    @cache
    def objects(name: str) -> st.SearchStrategy[Any]:
        fields = kind.SCHEMA.fields if name == kind.__name__ else structs[name].fields
        target = kind if name == kind.__name__ else getattr(kind, name)
        present = {f.name: value(name, f) for f in fields if version in f.versions}
        return st.builds(target, **present)

    return objects(kind.__name__)
