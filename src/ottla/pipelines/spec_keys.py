"""What a pipeline file may say: the kinds of values, and a field of a job that says its kind.

A job is a frozen dataclass whose fields carry the kind of value and a line of help. The reader of
files, the options of `ottla pipeline <job>` and the documentation are all made from these fields.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple

from ottla.errors import OttlaError

LOOPBACK = "127.0.0.1"


class SpecError(OttlaError):
    """A pipeline file, or a job made in Python, that cannot be run; one line, naming the place."""


class SpecErrors(SpecError):
    """Several of them, each one line."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)


class Kind(Enum):
    TEXT = "text"
    TEXTS = "text, or a list of texts"
    INTEGER = "a whole number"
    FLAG = "true or false"
    PATH = "a path"
    DURATION = "a duration such as '500 ms', '10 seconds' or '2 minutes'"
    TRIGGER = "available_now, or a duration such as '2 seconds'"
    TOPIC = "a topic's name, or {name, partitions, replication_factor, configs}"
    SOURCES = "a topic's name, a list of names, or {view: topic}"
    SETTINGS = "names with values"
    SCHEMA = (
        "text, bytes, a list of columns as in SQL ('user string, at timestamp'), or {column: type}"
    )
    RESTART = "never, or {attempts, pause}"
    FUNCTION = "module:function or file.py:function"
    ADDRESS = "a port, HOST:PORT, or {listen, hosts}"
    ZONE = "a time zone such as UTC or Europe/Berlin"


class TopicSpec(NamedTuple):
    """A topic to be made where it is missing; -1 takes the cluster's default."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: tuple[tuple[str, str], ...] = ()


class Address(NamedTuple):
    """Where to listen, and the names by which others may ask."""

    host: str
    port: int
    hosts: tuple[str, ...] = ()


class Source(NamedTuple):
    """A topic and the name under which SQL sees it."""

    view: str
    topic: str


class Restart(NamedTuple):
    """How often a job that fails is started again, and after which pause."""

    attempts: int = 3
    pause_s: float = 5.0


_UNITS_S = {
    "ms": 0.001,
    "millisecond": 0.001,
    "s": 1.0,
    "second": 1.0,
    "min": 60.0,
    "minute": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
    "d": 86400.0,
    "day": 86400.0,
}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*")


def key(
    kind: Kind,
    help_text: str,
    *,
    default: Any = dataclasses.MISSING,
    choices: Sequence[str] = (),
    least: int | None = None,
    is_identity: bool = True,
) -> Any:
    """A field of a job; without a default the file must name it. A job whose fields are others is
    another job, but for those that are no part of its identity."""
    metadata = {
        "kind": kind,
        "help": help_text,
        "choices": tuple(choices),
        "least": least,
        "is_identity": is_identity,
    }
    # Settings may hold passwords: a job shows itself without them.
    return dataclasses.field(default=default, metadata=metadata, repr=kind is not Kind.SETTINGS)


def yaml_name(field: dataclasses.Field[Any]) -> str:
    """`from` is a word of Python: the field is called `from_`."""
    return field.name.removesuffix("_")


def is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING


def parse_duration_s(text: str) -> float:
    """Raises ValueError for what is not a duration."""
    found = _DURATION.fullmatch(text.lower())
    unit = found[2] if found else ""
    scale = _UNITS_S.get(unit, _UNITS_S.get(unit.removesuffix("s")))
    if found is None or scale is None:
        raise ValueError(text)
    return float(found[1]) * scale


def view_name(topic: str) -> str:
    """The name of a topic as SQL can say it: `page-views.v1` is `page_views_v1`."""
    name = re.sub(r"\W", "_", topic, flags=re.ASCII)
    return f"_{name}" if name[:1].isdigit() else name
