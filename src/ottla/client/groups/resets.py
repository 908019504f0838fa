"""Which offsets a reset of a group's offsets sets: the scenarios of KIP-122."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from ottla.errors import OttlaError
from ottla.types import TopicPartition


class ResetFailed(OttlaError):
    """A reset that cannot be planned, with Kafka's text."""


class Scenario(Enum):
    """In the order in which Kafka's tool looks for two of them at once."""

    TO_OFFSET = "to-offset"
    TO_DATETIME = "to-datetime"
    BY_DURATION = "by-duration"
    TO_EARLIEST = "to-earliest"
    TO_LATEST = "to-latest"
    TO_CURRENT = "to-current"
    SHIFT_BY = "shift-by"
    FROM_FILE = "from-file"


class Range(NamedTuple):
    """The offsets that a log holds."""

    start: int
    end: int


def shifted(
    partitions: Iterable[TopicPartition], committed: Mapping[TopicPartition, int], by: int
) -> dict[TopicPartition, int]:
    wanted = {}
    for partition in partitions:
        if partition not in committed:
            raise ResetFailed(
                f"Cannot shift offset for partition {partition} since there is no current "
                "committed offset"
            )
        wanted[partition] = committed[partition] + by
    return wanted


def within(
    wanted: Mapping[TopicPartition, int], ranges: Mapping[TopicPartition, Range]
) -> tuple[dict[TopicPartition, int], list[str]]:
    """The offsets moved into what each log holds, and a warning for each that was moved."""
    plan, warnings = {}, []
    for partition, offset in wanted.items():
        start, end = ranges[partition]
        plan[partition] = min(max(offset, start), end)
        if offset != plan[partition]:
            than = "higher than latest" if offset > end else "lower than earliest"
            warnings.append(
                f"New offset ({offset}) is {than} offset for topic partition {partition}. "
                f"Value will be set to {plan[partition]}"
            )
    return plan, warnings
