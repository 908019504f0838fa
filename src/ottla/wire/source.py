"""Small helpers shared by the two code generators."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ottla.wire.primitives import FIXED_FORMATS
from ottla.wire.schema import Field, MessageSchema


class Source:
    """Python source under construction with the constants it refers to."""

    def __init__(self, schema: MessageSchema, version: int, constants: dict[str, Any]) -> None:
        self.schema = schema
        self.version = version
        self.flexible = version in schema.flexible
        self.constants = dict(constants)
        self._lines: list[str] = []
        self._depth = 1
        self._names = 0

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def constant(self, prefix: str, value: Any) -> str:
        """A name for a value; the same value keeps its name."""
        for name, known in self.constants.items():
            if known is value:
                return name
        name = self.fresh(prefix)
        self.constants[name] = value
        return name

    def is_compact(self, field: Field) -> bool:
        return self.flexible and not field.never_flexible

    def compile(self, signature: str) -> Callable[..., Any]:
        """The finished function."""
        name = f"{self.schema.name}_v{self.version}"
        text = f"def function{signature}:\n" + "\n".join(self._lines) + "\n"
        exec(compile(text, f"<{name}>", "exec"), self.constants)
        function: Callable[..., Any] = self.constants["function"]
        return function


def default_literal(field: Field, structs: dict[str, Any]) -> str | None:
    """A field's default as Python source; None for a struct, whose default is a fresh one."""
    if field.default == "null":
        return "None"
    if field.is_array:
        return "[]"
    if field.type in structs:
        return None
    match field.type:
        case "string":
            return "''" if field.default in (None, '""') else repr(field.default)
        case "bytes":
            return "b''"
        case "records":
            return "None"
        case "uuid":
            return repr(bytes(16))
        case "bool":
            return "True" if field.default == "true" else "False"
        case "float64":
            return repr(float(field.default or 0))
    return repr(int(field.default or 0))


def minimal_size(source: Source, field: Field) -> int:
    """The fewest bytes a field can take in the version; bounds array counts before allocation."""
    compact = source.is_compact(field)
    if field.is_array or field.type in ("bytes", "records"):
        return 1 if compact else 4
    if field.type == "string":
        return 1 if compact else 2
    if field.type in FIXED_FORMATS:
        return struct.calcsize(">" + FIXED_FORMATS[field.type])
    if source.version in field.nullable:
        return 1
    return minimal_struct_size(source, field.type)


def minimal_element_size(source: Source, field: Field) -> int:
    element = field._replace(type=field.element, nullable=field.nullable._replace(last=-1))
    return max(1, minimal_size(source, element))


def minimal_struct_size(source: Source, name: str) -> int:
    size = 1 if source.flexible else 0
    for field in source.schema.structs[name].fields:
        if source.version in field.versions and source.version not in field.tagged:
            size += minimal_size(source, field)
    return size
