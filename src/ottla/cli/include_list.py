"""Topics by pattern, as Kafka's tools take them (IncludeList): a comma means "or"."""

from __future__ import annotations

import re

from ottla.errors import OttlaError


class InvalidPattern(OttlaError):
    """Not a regular expression, with Kafka's text."""


def compile_include_list(given: str) -> re.Pattern[str]:
    """What the whole name of a topic has to match."""
    pattern = given.strip().replace(",", "|").replace(" ", "").strip("\"'")
    try:
        return re.compile(pattern)
    except re.error:
        raise InvalidPattern(f"{pattern} is an invalid regex.") from None
