"""Names of offsets that nobody sees: those of topics in the trash (ADR 50).

`ottla-trash:<topic id>:<time after which nobody needs them>`; no topic can be called so.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.types import TopicId, format_topic_id, parse_topic_id

_PREFIX = "ottla-trash:"
# The controller that ends a topic's time may be late.
_SPARE_MS = 86_400_000
_LAST_MS = 2**63 - 1


class Hidden(NamedTuple):
    """What the name of a hidden topic tells."""

    topic_id: TopicId
    until_ms: int


def hidden_name(topic_id: TopicId, until_ms: int) -> str:
    return f"{_PREFIX}{format_topic_id(topic_id)}:{min(until_ms + _SPARE_MS, _LAST_MS)}"


def read_hidden(topic: str) -> Hidden | None:
    """None for the name of a topic, and for what only looks like a hidden one."""
    if not topic.startswith(_PREFIX):
        return None
    text, _, until = topic[len(_PREFIX) :].rpartition(":")
    try:
        return Hidden(parse_topic_id(text), int(until))
    except ValueError:
        return None


def is_hidden(topic: str) -> bool:
    return topic.startswith(_PREFIX)
