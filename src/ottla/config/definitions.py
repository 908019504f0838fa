"""Typed configuration definitions with Kafka's own error texts (ConfigDef, ConfigException)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, cast

from ottla.errors import OttlaError

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

ConfigValue = bool | int | float | str | tuple[str, ...] | None


class ConfigError(OttlaError):
    """A configuration that cannot be used; the text is Kafka's where Kafka has one."""


class InvalidConfigValue(ConfigError):
    """One value that does not parse or is out of its range."""

    def __init__(self, name: str, value: object, reason: str) -> None:
        super().__init__(f"Invalid value {value} for configuration {name}: {reason}")
        self.name = name
        self.reason = reason


class ConfigType(IntEnum):
    """Types with the codes of DescribeConfigs v3+."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSource(IntEnum):
    """Where a value comes from, with the codes of DescribeConfigs v1+."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6


class UpdateMode(IntEnum):
    """When a change of a broker config takes effect."""

    READ_ONLY = 0
    PER_BROKER = 1
    CLUSTER_WIDE = 2


_INTEGER_BITS = {ConfigType.INT: 31, ConfigType.SHORT: 15, ConfigType.LONG: 63}


def java_integer(text: str, bits: int) -> int:
    """Integer.parseInt and its siblings: ASCII or Unicode digits with an optional sign."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    # Python would also take underscores and inner spaces; 20 digits hold any long.
    if not digits.isdecimal() or len(digits) > 4096:
        raise ValueError(text)
    number = int(text)
    if not -(1 << bits) <= number < 1 << bits:
        raise ValueError(text)
    return number


def java_double(text: str) -> float:
    """Double.parseDouble, but for hexadecimal numbers; raises ValueError."""
    if "_" in text:
        raise ValueError(text)
    return float(text[:-1] if text[-1:] in ("d", "D", "f", "F") and len(text) > 1 else text)


def format_double(value: float) -> str:
    """Double.toString: plain between 1e-3 and 1e7, otherwise as 1.5E10."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(value))
    if value != value or value in (float("inf"), float("-inf")):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[repr(value)]
    from decimal import Decimal  # rare: keeps a broker's start short

    # repr holds the shortest digits that read back as the same number, as Java's text does.
    negative, digits, exponent = Decimal(repr(float(value))).as_tuple()
    text = "".join(map(str, digits))
    power = len(text) - 1 + int(exponent)
    text = text.rstrip("0")
    return f"{'-' if negative else ''}{text[0]}.{text[1:] or '0'}E{power}"


class AtLeast(NamedTuple):
    minimum: int
    maximum: int | None = None

    def check(self, name: str, value: ConfigValue) -> None:
        if value is None:
            raise InvalidConfigValue(name, "null", "Value must be non-null")
        number = cast("float", value)
        if number < self.minimum:
            raise InvalidConfigValue(name, to_text(value), f"Value must be at least {self.minimum}")
        if self.maximum is not None and number > self.maximum:
            raise InvalidConfigValue(
                name, to_text(value), f"Value must be no more than {self.maximum}"
            )


class OneOf(NamedTuple):
    """ConfigDef.ValidString for strings, ValidList for lists."""

    choices: tuple[str, ...]

    def check(self, name: str, value: ConfigValue) -> None:
        for item in value if isinstance(value, tuple) else (value,):
            if item not in self.choices:
                raise InvalidConfigValue(
                    name, item, f"String must be one of: {', '.join(self.choices)}"
                )


class ThrottledReplicas(NamedTuple):
    """ThrottledReplicaListValidator: `*` or partition:broker pairs."""

    def check(self, name: str, value: ConfigValue) -> None:
        items = cast("tuple[str, ...]", value)
        if not items or items == ("*",):
            return
        if not all(_is_pair_of_numbers(item) for item in items):
            raise InvalidConfigValue(
                name,
                ",".join(items),
                f"{name} must be the literal '*' or a list of replicas in the following format: "
                "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
            )


class KeyGuardForm(NamedTuple):
    """Nothing, or a partitioner and a moment (ottla.topics.key_guard)."""

    def check(self, name: str, value: ConfigValue) -> None:
        if not re.fullmatch(r"((murmur2|crc32|consistent_random|fnv1a)@[0-9]{1,18})?", str(value)):
            raise InvalidConfigValue(
                name,
                value,
                "it must be empty, or one of murmur2, crc32, consistent_random and fnv1a, '@' and "
                "milliseconds since 1970",
            )


def _is_pair_of_numbers(item: str) -> bool:
    left, colon, right = item.strip().partition(":")
    return bool(colon) and all(side.isascii() and side.isdigit() for side in (left, right))


# Kafka's ApiVersion names by their short form, each with its number of internal versions.
_RELEASES = {
    "0.10.0": 2, "0.10.1": 3, "0.10.2": 1, "0.11.0": 3, "1.0": 1, "1.1": 1, "2.0": 2, "2.1": 3,
    "2.2": 2, "2.3": 2, "2.4": 2, "2.5": 1, "2.6": 1, "2.7": 3, "2.8": 2,
}  # fmt: skip


class ProtocolVersion(NamedTuple):
    """ApiVersionValidator: releases such as 2.8, 2.8.2, 2.8-IV1, 0.10.1-IV2."""

    def check(self, name: str, value: ConfigValue) -> None:
        if protocol_release(str(value)) is None:
            raise InvalidConfigValue(name, value, f"Version `{value}` is not a valid version")


def protocol_release(version: str) -> tuple[int, ...] | None:
    """The release as numbers, (2, 8) for `2.8-IV1`; None where Kafka 2.8 knows no such one."""
    key = ".".join(version.split(".")[: 3 if version.startswith("0.") else 2])
    short, dash, internal = key.partition("-IV")
    if short in ("0.8.0", "0.8.1", "0.8.2", "0.9.0"):
        known = not dash
    else:
        known = short in _RELEASES and (
            not dash or (internal.isdigit() and int(internal) < _RELEASES[short])
        )
    return tuple(int(part) for part in short.split(".")) if known else None


Validator = AtLeast | OneOf | ThrottledReplicas | KeyGuardForm | ProtocolVersion


@dataclass(frozen=True, slots=True)
class ConfigDef:
    """One configuration: `default` is parsed already, None where Kafka's is null."""

    name: str
    type: ConfigType
    default: ConfigValue
    validator: Validator | None = None
    mode: UpdateMode = UpdateMode.READ_ONLY
    documentation: str = ""

    def parse(self, text: str) -> ConfigValue:
        """The typed, checked value; raises InvalidConfigValue with Kafka's text."""
        value = parse_type(self.name, text, self.type)
        if self.validator is not None:
            self.validator.check(self.name, value)
        return value

    @property
    def is_sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD


def parse_type(name: str, text: str, type_: ConfigType) -> ConfigValue:
    """ConfigDef.parseType: values are trimmed, errors show the text as it was given."""
    trimmed = text.strip()
    try:
        if type_ in _INTEGER_BITS:
            return java_integer(trimmed, _INTEGER_BITS[type_])
        if type_ is ConfigType.DOUBLE:
            return java_double(trimmed)
    except ValueError:
        raise InvalidConfigValue(name, text, f"Not a number of type {type_.name}") from None
    if type_ is ConfigType.BOOLEAN:
        if trimmed.lower() not in ("true", "false"):
            raise InvalidConfigValue(name, text, "Expected value to be either true or false")
        return trimmed.lower() == "true"
    if type_ is ConfigType.LIST:
        return tuple(item.strip() for item in trimmed.split(",")) if trimmed else ()
    return trimmed


def to_text(value: ConfigValue) -> str | None:
    """ConfigDef.convertToString."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return format_double(value) if isinstance(value, float) else str(value)


class Synonym(NamedTuple):
    """A config that a value is taken from, in order of precedence."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One config as DescribeConfigs answers it."""

    name: str
    value: str | None
    source: ConfigSource
    type: ConfigType
    is_sensitive: bool
    read_only: bool
    synonyms: list[Synonym]
    documentation: str


_TYPE_TOKENS = {
    "I": ConfigType.INT, "L": ConfigType.LONG, "S": ConfigType.SHORT, "D": ConfigType.DOUBLE,
    "B": ConfigType.BOOLEAN, "Str": ConfigType.STRING, "List": ConfigType.LIST,
    "Cls": ConfigType.CLASS, "Pwd": ConfigType.PASSWORD,
}  # fmt: skip
_MODE_TOKENS = {"cw": UpdateMode.CLUSTER_WIDE, "pb": UpdateMode.PER_BROKER}
_NUMBER_TOKENS = {"IMAX": str(INT_MAX), "LMAX": str(LONG_MAX)}


def parse_table(table: str) -> dict[str, ConfigDef]:
    """Definitions from a compact table: `name type default [valid] [mode]`, then an indented
    line of documentation. `null` and `""` are the null and the empty default."""
    definitions: dict[str, ConfigDef] = {}
    lines = iter(table.strip().splitlines())
    for head in lines:
        definition = _parse_row(head.split(), next(lines).strip())
        definitions[definition.name] = definition
    return definitions


def _parse_row(words: list[str], documentation: str) -> ConfigDef:
    name, type_token, default_token = words[:3]
    validator: Validator | None = None
    mode = UpdateMode.READ_ONLY
    for word in words[3:]:
        if word in _MODE_TOKENS:
            mode = _MODE_TOKENS[word]
        else:
            validator = _parse_validator(word)
    type_ = _TYPE_TOKENS[type_token]
    default: ConfigValue = None
    if default_token != "null":
        text = "" if default_token == '""' else _NUMBER_TOKENS.get(default_token, default_token)
        default = parse_type(name, text, type_)
    return ConfigDef(name, type_, default, validator, mode, documentation)


def _parse_validator(word: str) -> Validator:
    if word == "version":
        return ProtocolVersion()
    if word == "replicas":
        return ThrottledReplicas()
    if word == "guard":
        return KeyGuardForm()
    if word.startswith(">="):
        return AtLeast(int(word[2:]))
    if word.startswith("in:"):
        return OneOf(tuple(word[3:].split(",")))
    low, _, high = word.partition("..")
    return AtLeast(int(low), int(high))


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` was probably meant to be."""
    import difflib  # only on the way to an error message

    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def parse_properties(text: str) -> dict[str, str]:
    """Java's Properties.load: comments, continuation lines, escapes; the last value wins."""
    properties: dict[str, str] = {}
    pending = ""
    for raw in text.splitlines():
        line = pending + raw.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending = line[:-1]
            continue
        pending = ""
        _add_property(properties, line)
    if pending:
        _add_property(properties, pending)
    return properties


def _add_property(properties: dict[str, str], line: str) -> None:
    position = 0
    while position < len(line) and line[position] not in "=: \t\f":
        position += 2 if line[position] == "\\" else 1
    rest = line[position:].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    properties[_unescape(line[:position])] = _unescape(rest)


_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char != "\\" or position == len(text):
            out.append(char)
            continue
        char = text[position]
        position += 1
        if char == "u":
            try:
                out.append(chr(int(text[position : position + 4], 16)))
            except ValueError:
                raise ConfigError("Malformed \\uxxxx encoding.") from None
            position += 4
        else:
            out.append(_ESCAPES.get(char, char))
    plain = "".join(out)
    if not any("\ud800" <= char <= "\udfff" for char in plain):
        return plain
    # \u names UTF-16 units, two of them where one character needs it.
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def format_properties(properties: Mapping[str, str]) -> str:
    """The inverse of `parse_properties`: Properties.store without its date, in the given order."""
    return "".join(
        f"{_escape(key, is_key=True)}={_escape(value, is_key=False)}\n"
        for key, value in properties.items()
    )


_ESCAPED = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}


def _escape(text: str, *, is_key: bool) -> str:
    out = []
    for position, char in enumerate(text):
        if char in _ESCAPED:
            out.append(_ESCAPED[char])
        elif (char == " " and (is_key or position == 0)) or (is_key and char in "=:#!"):
            out.append("\\" + char)
        elif char.isprintable() and char.isascii():
            out.append(char)
        else:
            # Java reads these files as Latin-1: everything else goes as UTF-16 units.
            units = char.encode("utf-16-be", "surrogatepass").hex()
            out += [f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4)]
    return "".join(out)


def describe_broker_synonyms(
    name: str,
    names: Iterable[str],
    levels: Iterable[tuple[ConfigSource, Mapping[str, str]]],
    *,
    is_sensitive: bool,
) -> list[Synonym]:
    """ConfigHelper.configSynonyms: by level, then by name; whatever comes before the config
    itself is dropped (so hours alone are not a synonym of a `.ms` config that is not set)."""
    ordered = list(names)
    found = [
        Synonym(candidate, None if is_sensitive else values[candidate], source)
        for source, values in levels
        for candidate in ordered
        if candidate in values
    ]
    while found and found[0].name != name:
        found.pop(0)
    return found
