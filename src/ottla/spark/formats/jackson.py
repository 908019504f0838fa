"""One JSON text as the parser inside Spark reads it (Jackson with the defaults of JSONOptions).

The differences to Python's `json`: 'single quotes' are quotes, NaN and +INF are numbers, members
keep their order and may come twice, numbers stay text, and what stands after the first value is not
looked at. No recursion: depth is bounded as Jackson bounds it.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

# StreamReadConstraints of Jackson.
MAX_DEPTH = 1000
MAX_NUMBER_LENGTH = 1000
_TOO_DEEP = f"more than {MAX_DEPTH} values inside each other"

_BLANK = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WORD = re.compile(r"(?:true|false|null|NaN|[+-]INF|[+-]?Infinity)(?![\w$])")
_PLAIN = {
    '"': re.compile(r'[^"\\\x00-\x1f]*'),
    "'": re.compile(r"[^'\\\x00-\x1f]*"),
}
_ESCAPES = {
    "b": "\b",
    "t": "\t",
    "n": "\n",
    "f": "\f",
    "r": "\r",
    '"': '"',
    "/": "/",
    "\\": "\\",
    "'": "'",
}
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_HEX = re.compile(r"[0-9a-fA-F]{4}")


class MalformedJson(ValueError):
    """The text is not JSON."""


class Number(NamedTuple):
    text: str
    is_whole: bool


class Members(list[tuple[str, Any]]):
    """An object."""


Node = None | bool | str | Number | Members | list[Any]


def parse(text: str) -> Any:
    """The first value of a text that is not blank. Raises MalformedJson."""
    first = _after_blank(text, 0)
    if text[first : first + 1] in ("{", "[") and "\\" not in text:
        # Python's own parser is in C and takes nothing that Jackson does not; what it refuses is
        # not malformed yet.
        try:
            value = _DECODER.raw_decode(text, first)[0]
        except (ValueError, RecursionError):
            return _parse(text)
        # Since Python 3.12 its parser goes deeper than Jackson's.
        if text.count("[") + text.count("{") > MAX_DEPTH and _is_too_deep(value):
            raise MalformedJson(_TOO_DEEP)
        return value
    return _parse(text)


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _containers(outer)]
        if not level:
            return False
    return True


def _containers(outer: list[Any]) -> list[Any]:
    values = (value for _, value in outer) if isinstance(outer, Members) else outer
    return [value for value in values if isinstance(value, list)]


def _number(text: str, is_whole: bool) -> Number:
    if len(text) > MAX_NUMBER_LENGTH:
        raise MalformedJson(f"a number of more than {MAX_NUMBER_LENGTH} characters")
    return Number(text, is_whole)


_DECODER = json.JSONDecoder(
    object_pairs_hook=Members,
    parse_int=lambda text: _number(text, True),
    parse_float=lambda text: _number(text, False),
    parse_constant=lambda text: Number(text, False),
)


def _parse(text: str) -> Any:
    position = _after_blank(text, 0)
    containers: list[Members | list[Any]] = []
    names: list[str] = []
    while True:
        value, position = _begin(text, position)
        if isinstance(value, list):
            if len(containers) >= MAX_DEPTH:
                raise MalformedJson(_TOO_DEEP)
            if not _closes(text, position, value):
                containers.append(value)
                position = _name(text, position, value, names)
                continue
            position += 1
        # A value is complete, and with it perhaps what it is in.
        while containers:
            container = containers[-1]
            container.append((names.pop(), value) if isinstance(container, Members) else value)
            position = _after_blank(text, position)
            if _closes(text, position, container):
                value = containers.pop()
                position += 1
            elif text[position : position + 1] == ",":
                position = _after_blank(text, position + 1)
                position = _name(text, position, container, names)
                break
            else:
                raise MalformedJson(f"neither a comma nor an end at character {position}")
        else:
            return value


def _after_blank(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return match.end() if match else position


def _closes(text: str, position: int, container: Members | list[Any]) -> bool:
    return text[position : position + 1] == ("}" if isinstance(container, Members) else "]")


def _begin(text: str, position: int) -> tuple[Any, int]:
    """A value without members or elements, or an empty container that is still open."""
    first = text[position : position + 1]
    if first == "{":
        return Members(), _after_blank(text, position + 1)
    if first == "[":
        return [], _after_blank(text, position + 1)
    if first and first in "\"'":
        return _string(text, position)
    word = _WORD.match(text, position)
    if word:
        return _word(word[0]), word.end()
    number = _NUMBER.match(text, position)
    if not number:
        raise MalformedJson(f"no value at character {position}")
    return _number(number[0], number[1] is None and number[2] is None), number.end()


def _word(word: str) -> Any:
    if word in ("true", "false"):
        return word == "true"
    return None if word == "null" else Number(word, False)


def _name(text: str, position: int, container: Members | list[Any], names: list[str]) -> int:
    """The name of the next member, where there is one, and where its value begins."""
    if not isinstance(container, Members):
        return position
    if text[position : position + 1] not in ('"', "'"):
        raise MalformedJson(f"no name in quotes at character {position}")
    name, position = _string(text, position)
    position = _after_blank(text, position)
    if text[position : position + 1] != ":":
        raise MalformedJson(f"no colon at character {position}")
    names.append(name)
    return _after_blank(text, position + 1)


def _string(text: str, position: int) -> tuple[str, int]:
    quote = text[position]
    position += 1
    parts = []
    escaped = False
    while True:
        plain = _PLAIN[quote].match(text, position)
        if plain:
            parts.append(plain[0])
            position = plain.end()
        if position >= len(text):
            raise MalformedJson("a string without an end")
        if text[position] == quote:
            break
        if text[position] != "\\":
            raise MalformedJson(f"a control character in a string at character {position}")
        part, position = _escape(text, position + 1)
        parts.append(part)
        escaped = True
    whole = "".join(parts)
    return (_without_halves(whole) if escaped else whole), position + 1


def _escape(text: str, position: int) -> tuple[str, int]:
    kind = text[position : position + 1]
    if kind == "u":
        digits = _HEX.match(text, position + 1)
        if not digits:
            raise MalformedJson(f"no four hexadecimal digits at character {position + 1}")
        return chr(int(digits[0], 16)), position + 5
    if kind not in _ESCAPES:
        raise MalformedJson(f"an unknown escape at character {position}")
    return _ESCAPES[kind], position + 1


def _without_halves(text: str) -> str:
    """Surrogates in pairs are one character; Java writes a lone one as a question mark."""
    paired = _PAIR.sub(
        lambda pair: pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le"), text
    )
    return paired.encode("utf-8", "replace").decode()


def render(node: Node) -> str:
    """As Jackson's generator writes it again: what a column of strings holds of other values."""
    parts: list[str] = []
    # What is still to be written, the next last: texts as they are, or nodes.
    waiting: list[tuple[bool, Any]] = [(False, node)]
    while waiting:
        ready, item = waiting.pop()
        if ready:
            parts.append(item)
        elif isinstance(item, Members):
            waiting.append((True, "}"))
            for index in range(len(item) - 1, -1, -1):
                name, value = item[index]
                comma = "," if index else ""
                waiting += [(False, value), (True, f"{comma}{_quoted(name)}:")]
            parts.append("{")
        elif isinstance(item, list):
            waiting.append((True, "]"))
            for index in range(len(item) - 1, -1, -1):
                waiting += [(False, item[index]), (True, "," if index else "")]
            parts.append("[")
        else:
            parts.append(_scalar_text(item))
    return "".join(parts)


def _scalar_text(value: bool | str | Number | None) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    if value.is_whole:
        return str(int(value.text))
    number = java_double(value.text)
    return number if number[-1].isdigit() else f'"{number}"'


_TO_ESCAPE = re.compile(r'["\\\x00-\x1f]')
_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def _quoted(text: str) -> str:
    escaped = _TO_ESCAPE.sub(lambda found: _SHORT.get(found[0]) or f"\\u{ord(found[0]):04X}", text)
    return f'"{escaped}"'


def to_float(text: str) -> float:
    """Also of the words; too large is infinite, as in Java."""
    return float(text.replace("INF", "Infinity"))


def java_double(text: str) -> str:
    """A number as Double.toString writes it."""
    value = to_float(text)
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if str(value).startswith("-") else "0.0"
    sign = "-" if value < 0 else ""
    mantissa, exponent = f"{abs(value)!r}", 0
    if "e" in mantissa:
        mantissa, power = mantissa.split("e")
        exponent = int(power)
    whole, _, fraction = mantissa.partition(".")
    if fraction == "0":
        fraction = ""
    digits = (whole + fraction).lstrip("0")
    # The value is 0.digits times ten to this power.
    point = exponent + len(whole) - (len(whole + fraction) - len((whole + fraction).lstrip("0")))
    digits = digits.rstrip("0") or "0"
    if 1e-3 <= abs(value) < 1e7:
        if point <= 0:
            return f"{sign}0.{'0' * -point}{digits}"
        padded = digits.ljust(point, "0")
        return f"{sign}{padded[:point]}.{padded[point:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"
