"""Configs of topics: what they mean, what they are, where a value comes from."""

from __future__ import annotations

from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ottla.client.admin.types import ConfigEdit, ConfigItem, ConfigResource
from ottla.config.definitions import (
    AtLeast,
    ConfigDef,
    ConfigSource,
    ConfigType,
    OneOf,
    ProtocolVersion,
    ThrottledReplicas,
    to_text,
)
from ottla.config.resources import ConfigOperation
from ottla.console import commands
from ottla.console.api.topics import LongText, ShortText, config_field
from ottla.console.web.failures import from_exception, invalid
from ottla.console.web.routes import Call, Feed, Route
from ottla.errors import ErrorCode, KafkaError
from ottla.topics import names
from ottla.topics.configs import topic_definitions

_WORDS_OF_SOURCES = {
    ConfigSource.TOPIC: "set on this topic",
    ConfigSource.DYNAMIC_BROKER: "set on the broker, while it runs",
    ConfigSource.DYNAMIC_DEFAULT_BROKER: "set on all brokers, while they run",
    ConfigSource.STATIC_BROKER: "from the broker's file",
    ConfigSource.DEFAULT: "default",
    ConfigSource.BROKER_LOGGER: "the broker's loggers",
}


class KnownConfig(msgspec.Struct):
    """A config of the catalogue; `bounds` in words, `choices` where only these are valid."""

    name: str
    type: str
    default: str | None
    bounds: str | None
    choices: list[str] | None
    documentation: str


class Origin(msgspec.Struct):
    """One that could give the value, the first wins."""

    name: str
    value: str | None
    source: str
    words: str


class TopicConfig(msgspec.Struct):
    name: str
    value: str | None
    source: str
    words: str
    is_own: bool
    sensitive: bool
    read_only: bool
    type: str
    default: str | None
    bounds: str | None
    choices: list[str] | None
    documentation: str
    synonyms: list[Origin]


class ConfigChange(msgspec.Struct):
    """Configs to set, and names of those that go back to what they would be without."""

    set: Annotated[dict[ShortText, LongText], Meta(max_length=100)] = {}
    reset: Annotated[list[ShortText], Meta(max_length=100)] = []


class ChangedValue(msgspec.Struct):
    name: str
    before: str | None
    after: str | None
    after_words: str


class ChangedConfigs(msgspec.Struct):
    changes: list[ChangedValue]


async def catalogue(_call: Call) -> list[KnownConfig]:
    return [
        KnownConfig(
            name,
            entry.type.name,
            to_text(entry.default),
            bounds(entry),
            choices(entry),
            entry.documentation,
        )
        for name, entry in sorted(topic_definitions().items())
    ]


def bounds(entry: ConfigDef | None) -> str | None:
    match entry and entry.validator:
        case AtLeast(low, None):
            return f"at least {low}"
        case AtLeast(low, high):
            return f"{low} to {high}"
        case OneOf(some) if entry is not None:
            several = " (or several, with commas)" if entry.type is ConfigType.LIST else ""
            return f"one of {', '.join(some)}{several}"
        case ThrottledReplicas():
            return "* or partition:broker pairs with commas"
        case ProtocolVersion():
            return "a release of Kafka up to 2.8"
    return None


def choices(entry: ConfigDef | None) -> list[str] | None:
    """For a list to choose from: a config that takes several values at once has none."""
    if entry is None or entry.type is ConfigType.LIST:
        return None
    if entry.type is ConfigType.BOOLEAN:
        return ["true", "false"]
    return list(entry.validator.choices) if isinstance(entry.validator, OneOf) else None


async def configs(call: Call) -> list[TopicConfig]:
    return [_told(item) for item in await _items(call, _name(call))]


async def _items(call: Call, name: str) -> list[ConfigItem]:
    resource = ConfigResource.topic(name)
    answers = await call.admin.describe_configs(
        [resource], include_synonyms=True, include_documentation=True
    )
    found = answers.get(resource)
    if found is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if isinstance(found, KafkaError):
        raise found
    return sorted(found, key=lambda item: item.name)


def _told(item: ConfigItem) -> TopicConfig:
    entry = topic_definitions().get(item.name)
    return TopicConfig(
        item.name,
        None if item.is_sensitive else item.value,
        item.source.name,
        words_of(item.source),
        item.source is ConfigSource.TOPIC,
        item.is_sensitive,
        item.read_only,
        item.type.name,
        default_of(item),
        bounds(entry),
        choices(entry) or (["true", "false"] if item.type is ConfigType.BOOLEAN else None),
        plain_text(item.documentation or "") or (entry.documentation if entry else ""),
        [Origin(s.name, s.value, s.source.name, words_of(s.source)) for s in item.synonyms],
    )


def default_of(item: ConfigItem) -> str | None:
    """Kafka's own; the last synonym is it, where the server tells of synonyms."""
    for synonym in reversed(item.synonyms):
        if synonym.source is ConfigSource.DEFAULT:
            return synonym.value
    entry = topic_definitions().get(item.name)
    return item.value if item.is_default else to_text(entry.default) if entry else None


def words_of(source: ConfigSource) -> str:
    return _WORDS_OF_SOURCES.get(source, "from elsewhere")


class _TextOnly(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []

    def handle_data(self, data: str) -> None:
        self.parts.append(data)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag in ("p", "br", "li", "ul"):
            self.parts.append(" ")


def plain_text(documentation: str) -> str:
    """Apache Kafka's documentation comes as HTML."""
    if "<" not in documentation and "&" not in documentation:
        return documentation
    reader = _TextOnly()
    reader.feed(documentation)
    reader.close()
    return " ".join("".join(reader.parts).split())


def _name(call: Call) -> str:
    name = call.path["name"]
    names.validate(name)
    return name


async def _alter(call: Call, *, validate_only: bool) -> None:
    resource = ConfigResource.topic(_name(call))
    change: ConfigChange = call.body
    if not change.set and not change.reset:
        raise invalid("Name a config to set or to reset.", "set")
    both = sorted(set(change.set) & set(change.reset))
    if both:
        raise invalid(f"{both[0]} cannot be set and reset at once.", f"configs.{both[0]}")
    edits = [
        *(ConfigEdit(name, value) for name, value in change.set.items()),
        *(ConfigEdit(name, None, ConfigOperation.DELETE) for name in change.reset),
    ]
    answers = await call.admin.incremental_alter_configs(
        {resource: edits}, validate_only=validate_only
    )
    error = answers.get(resource)
    if error is not None:
        named = {**change.set, **dict.fromkeys(change.reset, "")}
        if len(named) == 1:
            (only,) = named
            raise from_exception(error, f"configs.{only}") or error
        raise from_exception(error, config_field(str(error), named)) or error


async def check_change(call: Call) -> ChangedConfigs:
    """What would change, after the cluster itself has checked it."""
    await _alter(call, validate_only=True)
    present = {item.name: item for item in await _items(call, _name(call))}
    change: ConfigChange = call.body
    changes = []
    for name, value in change.set.items():
        changes.append(ChangedValue(name, _value(present.get(name)), value, "set on this topic"))
    for name in change.reset:
        item = present.get(name)
        below = [s for s in item.synonyms if s.source is not ConfigSource.TOPIC] if item else []
        after = below[0].value if below else None if item is None else default_of(item)
        words = words_of(below[0].source) if below else "default"
        changes.append(ChangedValue(name, _value(item), after, words))
    return ChangedConfigs(changes)


def _value(item: ConfigItem | None) -> str | None:
    return None if item is None or item.is_sensitive else item.value


async def change(call: Call) -> list[TopicConfig]:
    await _alter(call, validate_only=False)
    return await configs(call)


def _change_commands(call: Call) -> Sequence[str]:
    wanted: ConfigChange = call.body
    return commands.alter_configs(call.settings, _name(call), wanted.set, wanted.reset)


ROUTES: list[Any] = [
    Route(
        "GET", "/topic-configs", catalogue, "All configs a topic can have",
        answer=list[KnownConfig],
    ),
    Route(
        "GET", "/topics/{name}/configs", configs, "Its configs, and where they come from",
        answer=list[TopicConfig],
    ),
    Route(
        "PUT", "/topics/{name}/configs", change, "Set and reset configs of it", body=ConfigChange,
        answer=list[TopicConfig], commands=_change_commands, preview=check_change,
    ),
]  # fmt: skip
FEEDS: list[Feed] = []
