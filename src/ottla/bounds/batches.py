"""How many changes one request may ask for, and long lists in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from ottla.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping

_Item = TypeVar("_Item")
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

# Of ACLs, quotas or configs: each is a write to the store. The bound, the code and the text are
# those of Kafka's own controller since 3.5 (KAFKA-14996); Kafka 2.8 has none.
MAX_CHANGES = 10_000
# What the controller looks at in one event, during which nothing else happens.
PARTITIONS_PER_EVENT = 2_000
_SHOWN = 10


def check_changes(count: int) -> None:
    """Raises POLICY_VIOLATION."""
    if count > MAX_CHANGES:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation."
        )


def first_of(items: Sequence[object]) -> str:
    """For one line of a log, however many things a client has made up."""
    shown = ", ".join(map(str, items[:_SHOWN]))
    return f"{shown} and {len(items) - _SHOWN} more" if len(items) > _SHOWN else shown


def pieces(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    """The list in parts that fit an event; one empty part where it is empty."""
    for start in range(0, max(1, len(items)), PARTITIONS_PER_EVENT):
        yield items[start : start + PARTITIONS_PER_EVENT]


def pieces_of_mapping(items: Mapping[_Key, _Value]) -> Iterator[dict[_Key, _Value]]:
    """The same for a mapping."""
    left = iter(items.items())
    for _ in range(0, max(1, len(items)), PARTITIONS_PER_EVENT):
        yield dict(islice(left, PARTITIONS_PER_EVENT))
