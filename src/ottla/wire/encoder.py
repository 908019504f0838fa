"""Generates the encoder of one message in one version.

The generated function is `function(m, o, out) -> o`: it appends to the bytearray `o`; records from
1 kB on go to `out` uncopied, after the bytes before them, and a new bytearray is begun. All structs
are written inline, and neighbouring fixed-size fields in one `struct` call.

In turns it is a generator, `function(m, o, out, limit)`, that yields after every 64 elements of
arrays and refuses a message whose bytes in `o` become more than `limit`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from ottla.wire import primitives
from ottla.wire.primitives import FIXED_FORMATS, MAX_LENGTH, MAX_STRING_BYTES
from ottla.wire.schema import Field, MessageSchema
from ottla.wire.source import Source, default_literal

_Struct = TypeVar("_Struct")


class SharedList(list[_Struct]):
    """The structs of an array that several messages have: the first of them that is encoded pays
    for all. Whoever makes one changes it no more."""

    __slots__ = ("encoded",)

    def __init__(self, structs: Iterable[_Struct]) -> None:
        super().__init__(structs)
        # By the message's name and version.
        self.encoded: dict[tuple[str, int], bytes] = {}


_CONSTANTS: dict[str, Any] = {
    "SharedList": SharedList,
    "compact_length": primitives.compact_length,
    "pack_long_array": primitives.pack_long_array,
    "uvarint_bytes": primitives.uvarint_bytes,
    "unsupported_field": primitives.unsupported_field,
    "bad_value": primitives.bad_value,
    "error_text": primitives.error_text,
    "too_many_bytes": primitives.too_many_bytes,
}
_NULL_CLASSIC_STRING = r"b'\xff\xff'"
_NULL_CLASSIC_LENGTH = r"b'\xff\xff\xff\xff'"


def generate_encoder(
    schema: MessageSchema, version: int, *, in_turns: bool = False
) -> Callable[..., Any]:
    """The compiled encoder of a message's version."""
    writer = _EncoderWriter(schema, version, in_turns)
    if in_turns:
        writer.source.line("k = 0")
        writer.source.line("if False: yield")  # a message without arrays is a generator as well
    writer.write_fields(schema.fields, "m", schema.name)
    writer.flush()
    writer.source.line("return o")
    return writer.source.compile("(m, o, out, limit)" if in_turns else "(m, o, out)")


class _EncoderWriter:
    """Writes the source of one encoder, field by field; `flush` puts neighbours into one pack."""

    def __init__(self, schema: MessageSchema, version: int, in_turns: bool) -> None:
        self.source = Source(schema, version, _CONSTANTS)
        self._in_turns = in_turns
        self._version = version
        self._structs = schema.structs
        self._out = "o"
        # Where records leave uncopied, what was written last is not all in one bytearray.
        groups = [schema.fields, *(inner.fields for inner in schema.structs.values())]
        has_records = any(field.type == "records" for group in groups for field in group)
        self._shares = not (in_turns or has_records)
        # Fixed-size values not yet written: struct letter and expression.
        self._run: list[tuple[str, str]] = []

    def flush(self) -> None:
        if not self._run:
            return
        if self._run == [("B", "0")]:
            self.source.line(f"{self._out}.append(0)")
        else:
            pack = self._packer("".join(letter for letter, _ in self._run))
            values = ", ".join(value for _, value in self._run)
            self.source.line(f"{self._out} += {pack}({values})")
        self._run = []

    def write_fields(self, fields: tuple[Field, ...], owner: str, path: str) -> None:
        """All fields of a struct in wire order, then its tagged ones."""
        tagged = []
        for field in fields:
            if self._version not in field.versions:
                self._refuse_if_set(field, owner, path)
            elif self._version in field.tagged:
                tagged.append(field)
            else:
                self._write_field(field, f"{owner}.{field.name}", f"{path}.{field.name}")
        if self.source.flexible:
            self._write_tags(sorted(tagged, key=lambda field: field.tag), owner, path)

    def _packer(self, letters: str) -> str:
        return self.source.constant("pack", _packer(letters))

    def _refuse_if_set(self, field: Field, owner: str, path: str) -> None:
        # As Kafka's generated classes: data that would be lost is an error unless it may be lost.
        if field.ignorable:
            return
        condition = self._is_set(field, f"{owner}.{field.name}")
        call = f"unsupported_field({path + '.' + field.name!r}, {self._version})"
        self.source.line(f"if {condition}: {call}")

    def _is_set(self, field: Field, value: str) -> str:
        """An expression that tells whether a field differs from its default."""
        literal = default_literal(field, self._structs)
        if literal is None:
            parts = [
                self._is_set(inner, f"{value}.{inner.name}")
                for inner in self._structs[field.type].fields
            ]
            return "(" + " or ".join(parts) + ")"
        if literal == "None":
            return f"{value} is not None"
        if literal == "[]":
            return f"({value} is None or len({value}))"
        if literal == "False":
            return value
        return f"{value} != {literal}"

    def _write_field(self, field: Field, value: str, path: str) -> None:
        if field.type in FIXED_FORMATS:
            self._write_fixed(field.type, value, path)
            return
        if self._version not in field.nullable and field.type != "records":
            self._write_present(field, value, path)
            return
        local = self.source.fresh("v")
        self.flush()
        self.source.line(f"{local} = {value}")
        with self.source.block(f"if {local} is None:"):
            self._write_null(field, path)
        with self.source.block("else:"):
            if field.type in self._structs:
                self._run.append(("b", "1"))
            self._write_present(field, local, path)
            self.flush()

    def _write_null(self, field: Field, path: str) -> None:
        if self._version not in field.nullable:
            self.source.line(f"bad_value({path!r}, 'must not be null')")
        elif field.type in self._structs:
            self.source.line(f"{self._out}.append(255)")
        elif self.source.is_compact(field):
            self.source.line(f"{self._out}.append(0)")
        elif field.type == "string":
            self.source.line(f"{self._out} += {_NULL_CLASSIC_STRING}")
        else:
            self.source.line(f"{self._out} += {_NULL_CLASSIC_LENGTH}")

    def _write_present(self, field: Field, value: str, path: str) -> None:
        compact = self.source.is_compact(field)
        if field.is_array:
            self._write_array(field, value, path, compact)
        elif field.type == "string":
            self._write_string(value, path, compact)
        elif field.type == "bytes":
            self.source.line(f"b = {value}")
            self._write_length("len(b)", path, compact, "i", MAX_LENGTH)
            self.source.line(f"{self._out} += b")
        elif field.type == "records":
            self._write_records(value, path, compact)
        else:
            local = self.source.fresh("v")
            self.source.line(f"{local} = {value}")
            self.write_fields(self._structs[field.type].fields, local, path)

    def _write_fixed(self, kind: str, value: str, path: str) -> None:
        if kind == "uuid":
            # struct pads and cuts without a word.
            text = f"bad_value({path!r}, 'must have 16 bytes')"
            self.source.line(f"if len({value}) != 16: {text}")
        self._run.append((FIXED_FORMATS[kind], value))

    def _write_length(
        self, length: str, path: str, compact: bool, classic_letter: str, limit: int
    ) -> None:
        """A length after the pending run; both leave in one call where the length is short."""
        if not compact:
            self._run.append((classic_letter, length))
            self.flush()
            return
        self.source.line(f"n = {length}")
        pending = self._run
        with self.source.block("if n < 127:"):
            if pending:
                self._run = [*pending, ("B", "n + 1")]
                self.flush()
            else:
                self.source.line(f"{self._out}.append(n + 1)")
        with self.source.block("else:"):
            self._run = pending
            self.flush()
            self.source.line(f"{self._out} += compact_length({path!r}, n, {limit})")

    def _write_string(self, value: str, path: str, compact: bool) -> None:
        is_error = path.endswith(".error_message")
        self.source.line(f"b = error_text({value})" if is_error else f"b = {value}.encode()")
        self._write_length("len(b)", path, compact, "h", MAX_STRING_BYTES)
        self.source.line(f"{self._out} += b")

    def _write_records(self, value: str, path: str, compact: bool) -> None:
        self.source.line(f"b = {value}")
        self._write_length("len(b)", path, compact, "i", MAX_LENGTH)
        with self.source.block(f"if len(b) < {primitives.MIN_UNCOPIED_BYTES}:"):
            self.source.line("o += b")
        with self.source.block("else:"):
            self.source.line("out.append(memoryview(o))")
            self.source.line("out.append(b)")
            self.source.line("o = bytearray()")

    def _write_array(self, field: Field, value: str, path: str, compact: bool) -> None:
        element = field.element
        if element in FIXED_FORMATS and element != "uuid":
            self._write_numbers(FIXED_FORMATS[element], value, path, compact)
            return
        array, item = self.source.fresh("a"), self.source.fresh("e")
        self.source.line(f"{array} = {value}")
        self._write_length(f"len({array})", path, compact, "i", MAX_LENGTH)
        if self._shares and value == f"m.{field.name}" and element in self._structs:
            with self._written_once(array):
                self._write_elements(field, array, item, path)
        else:
            self._write_elements(field, array, item, path)

    @contextmanager
    def _written_once(self, array: str) -> Iterator[None]:
        """The elements of the array, unless a message before this one has written them."""
        key = (self.source.schema.name, self._version)
        known, at = self.source.fresh("s"), self.source.fresh("s")
        self.source.line(f"{known} = {array}.encoded if type({array}) is SharedList else None")
        with self.source.block(f"if {known} and {key!r} in {known}:"):
            self.source.line(f"{self._out} += {known}[{key!r}]")
        with self.source.block("else:"):
            self.source.line(f"{at} = len({self._out})")
            yield
            with self.source.block(f"if {known} is not None:"):
                self.source.line(f"{known}[{key!r}] = bytes({self._out}[{at}:])")

    def _write_elements(self, field: Field, array: str, item: str, path: str) -> None:
        element = field.element
        with self.source.block(f"for {item} in {array}:"):
            if element in self._structs:
                self.write_fields(self._structs[element].fields, item, path)
            else:
                plain = Field(field.name, element, field.versions)
                self._write_field(plain, item, path)
            self.flush()
            if self._in_turns:
                self.source.line("if len(o) > limit: too_many_bytes(limit)")
                self.source.line("k += 1")
                self.source.line("if not k & 63: yield")
            self.source.line("pass")

    def _write_numbers(self, letter: str, value: str, path: str, compact: bool) -> None:
        self.flush()
        packers = primitives.int_array_packers(letter, compact)
        table = self.source.constant("packers", packers)
        self.source.line(f"a = {value}; n = len(a)")
        prefix = "n + 1" if compact else "n"
        self.source.line(
            f"{self._out} += {table}[n]({prefix}, *a) if n < {len(packers)} "
            f"else pack_long_array({path!r}, {letter!r}, {compact}, a)"
        )

    def _write_tags(self, tagged: list[Field], owner: str, path: str) -> None:
        if not tagged:
            self._run.append(("B", "0"))
            return
        self.flush()
        conditions = [self._is_set(field, f"{owner}.{field.name}") for field in tagged]
        with self.source.block(f"if not ({' or '.join(conditions)}):"):
            self.source.line(f"{self._out}.append(0)")
        count, section = self.source.fresh("c"), self.source.fresh("t")
        with self.source.block("else:"):
            self.source.line(f"{count} = 0; {section} = bytearray()")
            for field, condition in zip(tagged, conditions, strict=True):
                with self.source.block(f"if {condition}:"):
                    self.source.line(f"{count} += 1")
                    self._write_tagged_field(field, owner, path, section)
            self.source.line(f"{self._out} += uvarint_bytes({count}) + {section}")

    def _write_tagged_field(self, field: Field, owner: str, path: str, section: str) -> None:
        content = self.source.fresh("t")
        self.source.line(f"{content} = bytearray()")
        with self._writing_to(content):
            self._write_field(field, f"{owner}.{field.name}", f"{path}.{field.name}")
            self.flush()
        tag = primitives.uvarint_bytes(field.tag)
        self.source.line(f"{section} += {tag!r} + uvarint_bytes(len({content})) + {content}")

    @contextmanager
    def _writing_to(self, name: str) -> Iterator[None]:
        before, self._out = self._out, name
        yield
        self._out = before


_PACKERS: dict[str, Callable[..., bytes]] = {}


def _packer(letters: str) -> Callable[..., bytes]:
    pack = _PACKERS.get(letters)
    if pack is None:
        pack = _PACKERS[letters] = struct.Struct(">" + letters).pack
    return pack
