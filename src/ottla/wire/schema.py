"""The compact schema files: what a message looks like in each version.

A file holds one message or a request with its response:

    request MetadataRequest 0-12 key 3 flexible 9+
      Topics []MetadataRequestTopic 0+ null 1+
        TopicId uuid 10+ ignorable
        Name string 0+ null 10+

Two blanks of indentation are one level of nesting. After name, type and versions follow, in any
order, `null VERSIONS`, `tag N VERSIONS`, `default WORD`, `flexible VERSIONS` and `ignorable`.
`struct NAME VERSIONS` declares a struct that several fields of the message share.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

SCHEMA_FOLDER = Path(__file__).with_name("schemas")
_NO_UPPER_BOUND = 32767
_WORD_START = re.compile(r"(?<=[a-z0-9])([A-Z])")


class Versions(NamedTuple):
    """An inclusive range of versions; `NO_VERSIONS` holds none."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


NO_VERSIONS = Versions(0, -1)


class Field(NamedTuple):
    """One field of a struct over all versions."""

    name: str
    type: str
    versions: Versions
    nullable: Versions = NO_VERSIONS
    tag: int = -1
    tagged: Versions = NO_VERSIONS
    default: str | None = None
    # The request header's client id stays a classic string in flexible versions.
    never_flexible: bool = False
    ignorable: bool = False
    kafka_name: str = ""

    @property
    def is_array(self) -> bool:
        return self.type.startswith("[]")

    @property
    def element(self) -> str:
        return self.type.removeprefix("[]")


class Struct(NamedTuple):
    """A named group of fields."""

    name: str
    versions: Versions
    fields: tuple[Field, ...]


class MessageSchema(NamedTuple):
    """A message: its fields and every struct below it by Kafka's name."""

    kind: str
    name: str
    api_key: int
    versions: Versions
    flexible: Versions
    unstable: bool
    fields: tuple[Field, ...]
    structs: dict[str, Struct]


def snake_case(name: str) -> str:
    """`ThrottleTimeMs` -> `throttle_time_ms`."""
    return _WORD_START.sub(r"_\1", name).lower()


def parse_versions(text: str) -> Versions:
    if text == "none":
        return NO_VERSIONS
    if text.endswith("+"):
        return Versions(int(text[:-1]), _NO_UPPER_BOUND)
    first, _, last = text.partition("-")
    return Versions(int(first), int(last or first))


def _parse_field(words: list[str]) -> Field:
    field = Field(snake_case(words[0]), words[1], parse_versions(words[2]), kafka_name=words[0])
    options = iter(words[3:])
    for option in options:
        match option:
            case "null":
                field = field._replace(nullable=parse_versions(next(options)))
            case "tag":
                tag = int(next(options))
                field = field._replace(tag=tag, tagged=parse_versions(next(options)))
            case "default":
                field = field._replace(default=next(options))
            case "flexible":
                field = field._replace(never_flexible=next(options) == "none")
            case "ignorable":
                field = field._replace(ignorable=True)
            case _:
                raise ValueError(f"unknown option {option!r} of field {words[0]}")
    return field


class _Block:
    """A line with the lines indented below it."""

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.children: list[_Block] = []


def _blocks(text: str) -> list[_Block]:
    root = _Block([])
    stack = [root]
    for line in text.splitlines():
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        depth = (len(line) - len(line.lstrip())) // 2
        block = _Block(words)
        del stack[depth + 1 :]
        stack[depth].children.append(block)
        stack.append(block)
    return root.children


def _collect_fields(block: _Block, structs: dict[str, Struct]) -> tuple[Field, ...]:
    """The block's fields; inline structs go to `structs` under the field's element type."""
    fields = []
    for child in block.children:
        if child.words[0] == "struct":
            name, versions = child.words[1], parse_versions(child.words[2])
            structs[name] = Struct(name, versions, _collect_fields(child, structs))
            continue
        field = _parse_field(child.words)
        fields.append(field)
        if child.children:
            nested = _collect_fields(child, structs)
            structs[field.element] = Struct(field.element, field.versions, nested)
    return tuple(fields)


def parse_messages(text: str) -> Iterator[MessageSchema]:
    """The messages of one schema file."""
    for block in _blocks(text):
        kind, name, versions, *rest = block.words
        unstable = "unstable" in rest
        options = dict(zip(rest[::2], rest[1::2], strict=False))
        structs: dict[str, Struct] = {}
        fields = _collect_fields(block, structs)
        yield MessageSchema(
            kind=kind,
            name=name,
            api_key=int(options.get("key", "-1")),
            versions=parse_versions(versions),
            flexible=parse_versions(options.get("flexible", "none")),
            unstable=unstable,
            fields=fields,
            structs=structs,
        )


def load_message(name: str, folder: Path = SCHEMA_FOLDER) -> MessageSchema | None:
    """The schema of a message by name, None if there is no such message."""
    stem = name.removesuffix("Request").removesuffix("Response")
    for candidate in (name, stem):
        text = _read(folder / f"{candidate}.schema") if candidate.isalnum() else None
        if text is not None:
            for message in parse_messages(text):
                if message.name == name:
                    return message
    return None


def load_api_names(folder: Path = SCHEMA_FOLDER) -> dict[int, str]:
    """API key -> name without the Request or Response at the end."""
    names = {}
    for line in (_read(folder / "api_keys.index") or "").splitlines():
        key, name = line.split()
        names[int(key)] = name
    return names


def _read(path: Path) -> str | None:
    """None where there is no such file. The loader also reads out of a zip file, in which the
    package reaches Spark's executors."""
    loader: Any = __spec__.loader
    try:
        data: bytes = loader.get_data(str(path))
    except OSError:
        return None
    return data.decode()
