"""Who a certificate stands for: `ssl.principal.mapping.rules` (KIP-371, SslPrincipalMapper).

Rules are tried in order, the first that fits wins. `RULE:pattern/replacement/` with L or U behind
it for lower and upper case, `DEFAULT` for the name as it is.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ottla.config.definitions import ConfigError
from ottla.errors import OttlaError

ANONYMOUS = "User:ANONYMOUS"
_RULE = r"(DEFAULT)|RULE:((\\.|[^\\/])*)/((\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER = re.compile(rf"\s*({_RULE})\s*(,\s*|$)")
_PARSER = re.compile(_RULE)
_REFERENCE = re.compile(r"\\(.)|\$(\d+)", re.DOTALL)


class NoMatchingRule(OttlaError):
    """The rules name nobody: the connection is refused."""


class _Rule(NamedTuple):
    """`pattern` is None for DEFAULT."""

    pattern: re.Pattern[str] | None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        match = self.pattern.fullmatch(name)
        if match is None:
            return None
        # Java replaces every match it finds in the name, which may be more than the whole.
        result = self.pattern.sub(self._expand, name)
        if self.case == "L":
            return result.lower()
        return result.upper() if self.case == "U" else result

    def _expand(self, match: re.Match[str]) -> str:
        return _REFERENCE.sub(lambda found: _group(found, match), self.replacement)

    def __str__(self) -> str:
        if self.pattern is None:
            return "DEFAULT"
        return "/".join((f"RULE:{self.pattern.pattern}", self.replacement, self.case)).rstrip("/")


def _group(found: re.Match[str], match: re.Match[str]) -> str:
    """One `$n` of a replacement. Digits that name no group are text, so that `$12` is group 1 and
    a 2 where there are fewer than 12; a `$4` that is no group stands for itself."""
    if found[2] is None:
        return found[1]
    groups = match.re.groups
    digits = found[2]
    number, used = int(digits[0]), 1
    if groups == 0 and number > 0:
        # Kafka hands these to Java unescaped, which then finds no group.
        raise NoMatchingRule(f"No group {number}")
    if number > groups:
        return found[0]
    while used < len(digits) and number * 10 + int(digits[used]) <= groups:
        number = number * 10 + int(digits[used])
        used += 1
    return (match[number] or "") + digits[used:]


class PrincipalMapper:
    """The rules of one listener. Raises ConfigError with Kafka's text for rules that are none."""

    def __init__(self, rules: str) -> None:
        self._rules = [rule for text in _split(rules) if (rule := _parse(text)) is not None]

    def principal(self, name: str) -> str:
        """The principal of a distinguished name; raises NoMatchingRule."""
        for rule in self._rules:
            mapped = rule.apply(name)
            if mapped is not None:
                return f"User:{mapped}"
        shown = ", ".join(map(str, self._rules))
        raise NoMatchingRule(f"No rules apply to {name}, rules [{shown}]")


def _split(rules: str) -> list[str]:
    return [match[1] for match in _SPLITTER.finditer(rules.strip())]


def _parse(text: str) -> _Rule | None:
    """None for an empty one, which counts for nothing."""
    match = _PARSER.match(text)
    if match is None:
        raise ConfigError(f"Invalid rule: {text}")
    if match.end() != len(text):
        raise ConfigError(f"Invalid rule: `{text}`, unmatched substring: `{text[match.end() :]}`")
    if match[1] is not None:
        return _Rule(None)
    if match[2] is None:
        return None
    try:
        return _Rule(re.compile(match[2]), match[4], match[6])
    except re.error as error:
        raise ConfigError(
            f"Invalid rule: `{text}` in ssl.principal.mapping.rules: {error}"
        ) from None
