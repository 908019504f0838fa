"""Message classes made from schemas: slots, defaults, and codecs compiled on first use."""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from typing import Any, ClassVar, Self

from ottla.wire.decoder import generate_decoder
from ottla.wire.encoder import generate_encoder
from ottla.wire.primitives import Buffer, TooLarge, UnsupportedVersion, WireError
from ottla.wire.schema import Field, MessageSchema
from ottla.wire.source import default_literal

__all__ = [
    "Message",
    "Struct",
    "TooLarge",
    "UnsupportedVersion",
    "WireError",
    "build_message_class",
]

_UNSET: Any = object()
# What a wrong value in a message raises inside a generated encoder.
_ENCODE_FAILURES = (
    struct.error,
    AttributeError,
    OverflowError,
    TypeError,
    UnicodeEncodeError,
)
# What bytes that end too early, or are no UTF-8, raise inside a generated decoder.
_DECODE_FAILURES = (struct.error, IndexError, UnicodeDecodeError)


class Struct:
    """Base of all message and struct classes: equality and a readable form."""

    __slots__ = ()
    FIELDS: ClassVar[tuple[str, ...]] = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.FIELDS)

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.FIELDS)
        return f"{type(self).__qualname__}({inside})"


class Message(Struct):
    """Base of all message classes."""

    __slots__ = ()
    SCHEMA: ClassVar[MessageSchema]
    API_KEY: ClassVar[int]
    MIN_VERSION: ClassVar[int]
    # The highest version that Kafka declared stable, -1 if it has none.
    MAX_VERSION: ClassVar[int]
    # First flexible version; above every version if there is none.
    FLEXIBLE_FROM: ClassVar[int]
    _structs: ClassVar[dict[str, type]]
    _has_records: ClassVar[bool]
    _encoders: ClassVar[dict[int, Callable[..., bytearray]]]
    _decoders: ClassVar[dict[int, Callable[..., tuple[Any, int]]]]
    _encoders_in_turns: ClassVar[dict[int, Callable[..., Any]]]
    _decoders_in_turns: ClassVar[dict[int, Callable[..., Any]]]

    def encode(self, version: int) -> bytes:
        """The message's bytes in a version, without any header."""
        chunks: list[Buffer] = []
        last = self.encode_after(version, bytearray(), chunks)
        if not chunks:
            return bytes(last)
        chunks.append(last)
        return b"".join(chunks)

    def encode_after(self, version: int, start: bytearray, out: list[Any]) -> bytearray:
        """Encodes behind what `start` holds. Whatever precedes uncopied records goes to `out`; the
        rest is returned."""
        encoder = self._encoders.get(version)
        if encoder is None:
            encoder = self._compile_encoder(version)
        try:
            return encoder(self, start, out)
        except _ENCODE_FAILURES as error:
            name = type(self).__name__
            raise WireError(f"cannot encode {name} version {version}: {error}") from error

    def encode_in_turns(
        self, version: int, start: bytearray, out: list[Any], max_bytes: int
    ) -> Generator[None, None, bytearray]:
        """As `encode_after`, but may be left at every `yield`; raises TooLarge where the bytes
        become more than `max_bytes`."""
        encoder = self._encoders_in_turns.get(version)
        if encoder is None:
            self._check_version(version)
            encoder = generate_encoder(self.SCHEMA, version, in_turns=True)
            self._encoders_in_turns[version] = encoder
        try:
            encoded: bytearray = yield from encoder(self, start, out, max_bytes)
        except _ENCODE_FAILURES as error:
            name = type(self).__name__
            raise WireError(f"cannot encode {name} version {version}: {error}") from error
        return encoded

    @classmethod
    def decode(cls, buffer: Buffer, version: int, offset: int = 0) -> tuple[Self, int]:
        """The message at an offset of a buffer and the position after it."""
        decoder = cls._decoders.get(version)
        if decoder is None:
            decoder = cls._compile_decoder(version)
        if cls._has_records:
            if type(buffer) is not memoryview:
                buffer = memoryview(buffer)
        elif type(buffer) is not bytes:
            buffer = bytes(buffer)
        try:
            return decoder(buffer, offset, len(buffer))
        except _DECODE_FAILURES as error:
            raise WireError(f"not a {cls.__name__} version {version}: {error}") from error

    @classmethod
    def decode_in_turns(
        cls, buffer: Buffer, version: int, offset: int, max_entries: int
    ) -> Generator[None, None, tuple[Self, int]]:
        """As `decode`, but may be left at every `yield`; raises TooLarge where the arrays of the
        message have more than `max_entries` elements in all."""
        decoder = cls._decoders_in_turns.get(version)
        if decoder is None:
            cls._check_version(version)
            classes = {**cls._structs, cls.__name__: cls}
            decoder = cls._decoders_in_turns[version] = generate_decoder(
                cls.SCHEMA, version, classes, cls._has_records, in_turns=True
            )
        view: Buffer = memoryview(buffer) if cls._has_records else bytes(buffer)
        try:
            decoded: tuple[Self, int] = yield from decoder(view, offset, len(view), max_entries)
        except _DECODE_FAILURES as error:
            raise WireError(f"not a {cls.__name__} version {version}: {error}") from error
        return decoded

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        return version >= cls.FLEXIBLE_FROM

    @classmethod
    def _check_version(cls, version: int) -> None:
        if version not in cls.SCHEMA.versions:
            raise UnsupportedVersion(f"{cls.__name__} has no version {version}")

    @classmethod
    def _compile_encoder(cls, version: int) -> Callable[..., bytearray]:
        cls._check_version(version)
        encoder = cls._encoders[version] = generate_encoder(cls.SCHEMA, version)
        return encoder

    @classmethod
    def _compile_decoder(cls, version: int) -> Callable[..., tuple[Any, int]]:
        cls._check_version(version)
        classes = {**cls._structs, cls.__name__: cls}
        decoder = generate_decoder(cls.SCHEMA, version, classes, cls._has_records)
        cls._decoders[version] = decoder
        return decoder


def build_message_class(schema: MessageSchema, module: str) -> type[Message]:
    """The class of a message; its structs are attributes under Kafka's names."""
    structs: dict[str, type] = {}
    for name, inner in schema.structs.items():
        qualified = f"{schema.name}.{name}"
        structs[name] = _build_class(
            name, qualified, module, inner.fields, structs, schema, Struct, {}
        )
    last = schema.versions.last
    attributes: dict[str, Any] = {
        **structs,
        "SCHEMA": schema,
        "API_KEY": schema.api_key,
        "MIN_VERSION": schema.versions.first,
        "MAX_VERSION": last - 1 if schema.unstable else last,
        "FLEXIBLE_FROM": schema.flexible.first if schema.flexible.last >= 0 else last + 1,
        "_structs": structs,
        "_has_records": _has_records(schema),
        "_encoders": {},
        "_decoders": {},
        "_encoders_in_turns": {},
        "_decoders_in_turns": {},
    }
    return _build_class(
        schema.name, schema.name, module, schema.fields, structs, schema, Message, attributes
    )


def _has_records(schema: MessageSchema) -> bool:
    groups = [schema.fields, *(inner.fields for inner in schema.structs.values())]
    return any(field.type == "records" for group in groups for field in group)


def _build_class(
    name: str,
    qualified: str,
    module: str,
    fields: tuple[Field, ...],
    structs: dict[str, type],
    schema: MessageSchema,
    base: type[Struct],
    attributes: dict[str, Any],
) -> type[Any]:
    names = tuple(field.name for field in fields)
    namespace = {
        **attributes,
        "__slots__": names,
        "__module__": module,
        "__qualname__": qualified,
        "FIELDS": names,
        "__init__": _build_init(fields, structs, schema),
    }
    return type(name, (base,), namespace)


def _build_init(
    fields: tuple[Field, ...], structs: dict[str, type], schema: MessageSchema
) -> Callable[..., None]:
    """A keyword-only __init__; lists and structs are made afresh for each object."""
    parameters, lines = [], []
    for field in fields:
        literal = default_literal(field, schema.structs)
        if literal is None:
            literal = f"structs[{field.type!r}]()"
        if literal == "[]" or literal.startswith("structs["):
            parameters.append(f"{field.name}=UNSET")
            lines.append(
                f"self.{field.name} = {literal} if {field.name} is UNSET else {field.name}"
            )
        else:
            parameters.append(f"{field.name}={literal}")
            lines.append(f"self.{field.name} = {field.name}")
    signature = "self, *, " + ", ".join(parameters) if parameters else "self"
    body = "\n    ".join(lines) or "pass"
    constants: dict[str, Any] = {"UNSET": _UNSET, "structs": structs}
    exec(f"def __init__({signature}):\n    {body}\n", constants)
    init: Callable[..., None] = constants["__init__"]
    return init
