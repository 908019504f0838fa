"""Generates the decoder of one message in one version.

The generated function is `function(b, p, end) -> (message, position)`. Every length and count is
held against the bytes left before anything is allocated for it. Reading past the end shows as
IndexError or struct.error, which `Message.decode` turns into WireError.

In turns it is a generator, `function(b, p, end, limit)`, that yields after every 64 elements of an
array and refuses a message with more than `limit` elements of arrays in all, eight numbers being
one of them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from ottla.wire import primitives
from ottla.wire.primitives import FIXED_FORMATS, MAX_STRING_BYTES
from ottla.wire.schema import Field, MessageSchema
from ottla.wire.source import Source, default_literal, minimal_element_size

_CONSTANTS: dict[str, Any] = {
    "read_uvarint": primitives.read_uvarint,
    "skip_tags": primitives.skip_tags,
    "check_tag_count": primitives.check_tag_count,
    "bad_length": primitives.bad_length,
    "too_many_entries": primitives.too_many_entries,
    "bad_tag_size": primitives.bad_tag_size,
    "bad_value": primitives.bad_value,
    "unpack_long_array": primitives.unpack_long_array,
    "new": object.__new__,
}


def generate_decoder(
    schema: MessageSchema,
    version: int,
    classes: dict[str, type],
    takes_view: bool,
    *,
    in_turns: bool = False,
) -> Callable[..., Any]:
    """The compiled decoder; `classes` has the class of the message and of each struct by name."""
    reader = _DecoderWriter(schema, version, classes, takes_view, in_turns)
    if in_turns:
        reader.source.line("k = 0")
        reader.source.line("if False: yield")  # a message without arrays is a generator as well
    reader.read_struct(schema.name, schema.fields, "m", schema.name)
    reader.flush()
    reader.source.line("return m, p")
    return reader.source.compile("(b, p, end, limit)" if in_turns else "(b, p, end)")


class _DecoderWriter:
    """Writes the source of one decoder, field by field; `flush` reads neighbours at once."""

    def __init__(
        self,
        schema: MessageSchema,
        version: int,
        classes: dict[str, type],
        takes_view: bool,
        in_turns: bool,
    ) -> None:
        self.source = Source(schema, version, _CONSTANTS)
        self._in_turns = in_turns
        self._version = version
        self._structs = schema.structs
        self._classes = classes
        # Messages with records are read from a memoryview, all others from bytes (faster).
        self._takes_view = takes_view
        # Fixed-size values not yet read: struct letter and target.
        self._run: list[tuple[str, str]] = []

    def flush(self) -> None:
        run, self._run = self._run, []
        if not run:
            return
        if len(run) == 1 and run[0][0] == "B":
            self.source.line(f"{run[0][1]} = b[p]; p += 1")
            return
        letters = "".join(letter for letter, _ in run)
        unpack = self.source.constant("unpack", _unpacker(letters))
        targets = ", ".join(target for _, target in run)
        comma = "," if len(run) == 1 else ""
        self.source.line(
            f"{targets}{comma} = {unpack}(b, p); p += {struct.calcsize('>' + letters)}"
        )

    def read_struct(self, name: str, fields: tuple[Field, ...], local: str, path: str) -> None:
        """A fresh object in `local` with every field read or set to its default."""
        self._make(name, local)
        tagged = []
        for field in fields:
            target = f"{local}.{field.name}"
            if self._version not in field.versions or self._version in field.tagged:
                self._set_default(field, target)
                if self._version in field.tagged and self._version in field.versions:
                    tagged.append(field)
        for field in fields:
            if self._version in field.versions and field not in tagged:
                self._read_field(field, f"{local}.{field.name}", f"{path}.{field.name}")
        if self.source.flexible:
            self._read_tags(tagged, local, path)

    def _make(self, name: str, local: str) -> None:
        self.source.line(f"{local} = new({self.source.constant('Class', self._classes[name])})")

    def _set_default(self, field: Field, target: str) -> None:
        literal = default_literal(field, self._structs)
        if literal is not None:
            self.source.line(f"{target} = {literal}")
            return
        local = self.source.fresh("d")
        self._make(field.type, local)
        for inner in self._structs[field.type].fields:
            self._set_default(inner, f"{local}.{inner.name}")
        self.source.line(f"{target} = {local}")

    def _read_field(self, field: Field, target: str, path: str) -> None:
        if field.type in FIXED_FORMATS:
            self._run.append((FIXED_FORMATS[field.type], target))
            return
        compact = self.source.is_compact(field)
        nullable = self._version in field.nullable
        if field.is_array:
            self._read_array(field, target, path, compact, nullable)
        elif field.type in self._structs:
            self._read_inner_struct(field, target, path, nullable)
        else:
            self._read_bytes_like(field.type, target, path, compact, nullable)

    def _read_length(self, letter: str, compact: bool) -> str:
        """Reads a length into `n` together with the pending run; returns n's real value."""
        self._run.append(("B" if compact else letter, "n"))
        self.flush()
        if not compact:
            return "n"
        self.source.line("if n > 127: n, p = read_uvarint(b, p - 1)")
        return "n - 1"

    def _read_bytes_like(
        self, kind: str, target: str, path: str, compact: bool, nullable: bool
    ) -> None:
        length = self._read_length("h" if kind == "string" else "i", compact)
        if nullable:
            null = "n == 0" if compact else "n == -1"
            self.source.line(f"if {null}: {target} = None")
            with self.source.block("else:"):
                self._read_content(kind, target, path, length)
        else:
            self._read_content(kind, target, path, length)

    def _read_content(self, kind: str, target: str, path: str, length: str) -> None:
        self.source.line(f"q = p + {length}")
        too_long = f" or n > {MAX_STRING_BYTES + 1}" if kind == "string" else ""
        negative = "n < 1" if length == "n - 1" else "n < 0"
        with self.source.block(f"if q > end or {negative}{too_long}:"):
            self.source.line(f"bad_length({path!r}, {length}, end - p)")
        if kind == "records":
            value = "b[p:q]"
        elif kind == "bytes":
            value = "bytes(b[p:q])" if self._takes_view else "b[p:q]"
        else:
            value = "str(b[p:q], 'utf-8')" if self._takes_view else "b[p:q].decode()"
        self.source.line(f"{target} = {value}; p = q")

    def _read_inner_struct(self, field: Field, target: str, path: str, nullable: bool) -> None:
        local = self.source.fresh("v")
        fields = self._structs[field.type].fields
        if not nullable:
            self.read_struct(field.type, fields, local, path)
            self.flush()
            self.source.line(f"{target} = {local}")
            return
        self._run.append(("b", "n"))
        self.flush()
        self.source.line(f"if n < 0: {target} = None")
        with self.source.block("else:"):
            self.read_struct(field.type, fields, local, path)
            self.flush()
            self.source.line(f"{target} = {local}")

    def _read_array(
        self, field: Field, target: str, path: str, compact: bool, nullable: bool
    ) -> None:
        length = self._read_length("i", compact)
        if nullable:
            null = "n == 0" if compact else "n == -1"
            self.source.line(f"if {null}: {target} = None")
            with self.source.block("else:"):
                self._read_elements(field, target, path, length)
        else:
            self._read_elements(field, target, path, length)

    def _read_elements(self, field: Field, target: str, path: str, length: str) -> None:
        if length != "n":
            self.source.line(f"n = {length}")
        minimum = minimal_element_size(self.source, field)
        with self.source.block(f"if n < 0 or n * {minimum} > end - p:"):
            self.source.line(f"bad_length({path!r}, n, end - p)")
        if self._in_turns:
            # A number takes much less memory than a struct or a string.
            is_number = field.element in FIXED_FORMATS and field.element != "uuid"
            self.source.line("k += n >> 3" if is_number else "k += n")
            self.source.line(f"if k > limit: too_many_entries({path!r}, limit)")
        element = field.element
        if element in FIXED_FORMATS and element != "uuid":
            self._read_numbers(FIXED_FORMATS[element], target)
            return
        array, item = self.source.fresh("a"), self.source.fresh("e")
        self.source.line(f"{target} = {array} = []")
        with self.source.block("for _ in range(n):"):
            if element in self._structs:
                self.read_struct(element, self._structs[element].fields, item, path)
            else:
                self._read_field(Field(field.name, element, field.versions), item, path)
            self.flush()
            self.source.line(f"{array}.append({item})")
            if self._in_turns:
                self.source.line(f"if not len({array}) & 63: yield")

    def _read_numbers(self, letter: str, target: str) -> None:
        unpackers = primitives.int_array_unpackers(letter)
        table = self.source.constant("unpackers", unpackers)
        self.source.line(
            f"{target} = list({table}[n](b, p) if n < {len(unpackers)} "
            f"else unpack_long_array({letter!r}, n, b, p)); "
            f"p += n * {struct.calcsize('>' + letter)}"
        )

    def _read_tags(self, tagged: list[Field], local: str, path: str) -> None:
        self._run.append(("B", "n"))
        self.flush()
        if not tagged:
            self.source.line("if n: p = skip_tags(b, p - 1, end)")
            return
        limit = self.source.fresh("q")
        with self.source.block("if n:"):
            self.source.line("n, p = read_uvarint(b, p - 1)")
            self.source.line("check_tag_count(n, end - p)")
            with self.source.block("for _ in range(n):"):
                self.source.line("n, p = read_uvarint(b, p)")
                self.source.line(f"{limit}, p = read_uvarint(b, p)")
                self.source.line(f"{limit} += p")
                self.source.line(f"if {limit} > end: bad_tag_size({path!r})")
                keyword = "if"
                for field in tagged:
                    with self.source.block(f"{keyword} n == {field.tag}:"):
                        name = f"{path}.{field.name}"
                        self._read_field(field, f"{local}.{field.name}", name)
                        self.flush()
                        self.source.line(f"if p != {limit}: bad_tag_size({name!r})")
                    keyword = "elif"
                self.source.line(f"else: p = {limit}")


_UNPACKERS: dict[str, Callable[..., tuple[Any, ...]]] = {}


def _unpacker(letters: str) -> Callable[..., tuple[Any, ...]]:
    unpack = _UNPACKERS.get(letters)
    if unpack is None:
        unpack = _UNPACKERS[letters] = struct.Struct(">" + letters).unpack_from
    return unpack
