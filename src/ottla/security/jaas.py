"""JAAS values as Kafka takes them in a property (JaasConfig, JaasContext).

`org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="p"
user_a="p";`: a module, a flag, options with or without quotes, a semicolon.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ottla.config.definitions import ConfigError

_FLAGS = ("required", "requisite", "sufficient", "optional")
# A quoted string, a sign of its own, or a word.
_TOKEN = re.compile(
    r"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([=;])|([^\s=;"']+))""", re.DOTALL
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class JaasModule(NamedTuple):
    name: str
    flag: str
    options: Mapping[str, str]


class _Token(NamedTuple):
    text: str
    is_sign: bool = False


def parse_jaas(text: str) -> JaasModule:
    """The one module of a value; raises ConfigError with Kafka's text where it has another count.
    What the text holds is never part of a message: it may be a password."""
    tokens = _tokens(text)
    modules = []
    while tokens:
        modules.append(_module(tokens))
    if len(modules) != 1:
        raise ConfigError(
            f"JAAS config property contains {len(modules)} login modules, should be 1 module"
        )
    return modules[0]


def _tokens(text: str) -> list[_Token]:
    """In reverse order, so that the next one is popped."""
    tokens = []
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise _malformed("a quote that is not closed")
        quoted = match[1] if match[1] is not None else match[2]
        if quoted is not None:
            tokens.append(_Token(_ESCAPE.sub(r"\1", quoted)))
        else:
            tokens.append(_Token(match[3] or match[4], is_sign=match[3] is not None))
        position = match.end()
    tokens.reverse()
    return tokens


def _module(tokens: list[_Token]) -> JaasModule:
    name = _word(tokens, "a login module")
    flag = _word(tokens, "a control flag").lower()
    if flag not in _FLAGS:
        raise ConfigError(f"Login module control flag is not one of {', '.join(_FLAGS)}")
    options: dict[str, str] = {}
    while tokens and tokens[-1] != _Token(";", is_sign=True):
        key = _word(tokens, "an option")
        if not tokens or tokens.pop() != _Token("=", is_sign=True):
            raise _malformed(f"option {key} has no value")
        options[key] = _word(tokens, f"the value of {key}")
    if not tokens:
        raise _malformed("the final ';' is missing")
    tokens.pop()
    return JaasModule(name, flag, options)


def _word(tokens: list[_Token], what: str) -> str:
    if not tokens or tokens[-1].is_sign:
        raise _malformed(f"{what} is missing")
    return tokens.pop().text


def _malformed(why: str) -> ConfigError:
    return ConfigError(f"Value not specified correctly in the JAAS config: {why}")
