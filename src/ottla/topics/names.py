"""Topic names: what is legal, what collides, what is internal (Kafka's Topic class)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicId, format_topic_id, parse_topic_id

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC})
MAX_NAME_LENGTH = 249
# Topics that Ottla keeps for itself, such as the lifecycle topic.
OWN_PREFIX = "__ottla_"
# Those that a resize fills (ADR 53): the id of the old topic and a number follow.
SHADOW_PREFIX = f"{OWN_PREFIX}resize."

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def validate(name: str) -> None:
    """Raises KafkaError(INVALID_TOPIC_EXCEPTION) with Kafka's text for an illegal name."""
    if not name:
        raise _invalid("Topic name is illegal, it can't be empty")
    if name in (".", ".."):
        raise _invalid('Topic name cannot be "." or ".."')
    # Java counts UTF-16 units; every character outside ASCII is refused right below anyway.
    if len(name) > MAX_NAME_LENGTH:
        raise _invalid(
            f"Topic name is illegal, it can't be longer than {MAX_NAME_LENGTH} characters, "
            f"topic name: {name}"
        )
    if not _LEGAL.fullmatch(name):
        raise _invalid(
            f'Topic name "{name}" is illegal, it contains a character other than ASCII '
            "alphanumerics, '.', '_' and '-'"
        )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)


def is_internal(name: str) -> bool:
    return name in INTERNAL_TOPICS


def is_reserved(name: str) -> bool:
    """Internal, or one of Ottla's own: no other topic may get such a name."""
    return is_internal(name) or name.startswith(OWN_PREFIX)


def shadow_name(topic_id: TopicId, number: int) -> str:
    """By the id: the topic's own name may be as long as a name can be."""
    return f"{SHADOW_PREFIX}{format_topic_id(topic_id)}.{number}"


def shadowed_id(name: str) -> TopicId | None:
    """The id of the topic whose records a shadow has; None for a name that only looks like one."""
    text, dot, number = name.removeprefix(SHADOW_PREFIX).partition(".")
    try:
        return parse_topic_id(text) if dot and number.isdigit() else None
    except ValueError:
        return None


def has_collision_chars(name: str) -> bool:
    """Metric names cannot tell '.' from '_', so names with either may collide."""
    return "." in name or "_" in name


def collides(first: str, second: str) -> bool:
    return first.replace(".", "_") == second.replace(".", "_")


class TopicNames:
    """The names in a cluster. Collisions are looked up, not searched for: a request may create
    thousands of topics beside a hundred thousand."""

    __slots__ = ("_by_metric_name", "_names")

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = set(names)
        self._by_metric_name: dict[str, list[str]] | None = None

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def add(self, name: str) -> None:
        if name in self._names:
            return
        self._names.add(name)
        if self._by_metric_name is not None:
            self._by_metric_name.setdefault(name.replace(".", "_"), []).append(name)

    def colliding_with(self, name: str) -> list[str]:
        """Names that differ from `name` only in '.' and '_', sorted."""
        if not has_collision_chars(name):
            return []
        if self._by_metric_name is None:
            self._by_metric_name = {}
            for known in self._names:
                self._by_metric_name.setdefault(known.replace(".", "_"), []).append(known)
        found = self._by_metric_name.get(name.replace(".", "_"), ())
        return sorted(known for known in found if known != name)
