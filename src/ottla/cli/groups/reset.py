"""What `ottla groups --reset-offsets` is given: topics, times, files."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from ottla.cli.options import read_text_file
from ottla.client.groups.resets import ResetFailed, Scenario
from ottla.types import TopicPartition


class Reset(NamedTuple):
    scenario: Scenario
    number: int = 0
    timestamp_ms: int = 0
    file: Path | None = None
    # Lines of CSV begin with the group, unless just one was named.
    names_groups: bool = False


def parse_topics(topics: Iterable[str]) -> tuple[list[TopicPartition], list[str]]:
    """`topic:0,1` names partitions, `topic` all that it has: the former, and the names of the
    latter. What follows a second colon is passed over, as Kafka 2.8 does."""
    partitions, whole = [], []
    for item in topics:
        name, *rest = item.split(":")
        if not rest:
            whole.append(name)
            continue
        for index in rest[0].split(","):
            if not re.fullmatch(r"\d{1,9}", index):
                raise ResetFailed(f'For input string: "{index}"')
            partitions.append(TopicPartition(name, int(index)))
    return partitions, whole


def parse_datetime(text: str) -> int:
    """ISO 8601 to milliseconds since the epoch; without a zone it is UTC (Utils.getDateTime)."""
    if "T" not in text:
        raise ResetFailed(
            "Error parsing timestamp. It does not contain a 'T' according to ISO8601 format"
        )
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        # Kafka's tool tries it with a zone.
        zone = "" if re.search(r"(?:Z|[+-][\d:]+)$", text.partition("T")[2]) else "Z"
        raise ResetFailed(f'Unparseable date: "{text}{zone}"') from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


_DURATION = re.compile(
    r"(?P<sign>[-+]?)P(?:(?P<days>[-+]?\d{1,9})D)?"
    r"(?P<time>T(?:(?P<hours>[-+]?\d{1,9})H)?(?:(?P<minutes>[-+]?\d{1,9})M)?"
    r"(?:(?P<seconds>[-+]?\d{1,9}(?:\.\d{0,9})?)S)?)?",
    re.IGNORECASE | re.ASCII,
)


def parse_duration(text: str) -> int:
    """`P1DT2H3M4.5S` in milliseconds, as java.time.Duration.parse."""
    match = _DURATION.fullmatch(text)
    names = ("days", "hours", "minutes", "seconds")
    if match is None or match["time"] in ("T", "t") or not any(match[name] for name in names):
        raise ResetFailed("Text cannot be parsed to a Duration")
    try:
        length = timedelta(**{name: float(match[name] or 0) for name in names})
        return (-length if match["sign"] == "-" else length) // timedelta(milliseconds=1)
    except OverflowError:
        raise ResetFailed("Exceeds capacity of Duration") from None


def read_plan(
    path: Path, group_ids: Sequence[str], *, names_groups: bool
) -> dict[str, dict[TopicPartition, int]]:
    """Lines `topic,partition,offset`, with the group in front where lines name groups: they may
    also where just one is reset, as the first line shows. Lines of other groups are passed over,
    groups without a line are left out."""
    columns = 4 if names_groups else 0
    plans: dict[str, dict[TopicPartition, int]] = {}
    for number, line in enumerate(read_text_file(path).splitlines(), start=1):
        if not line.strip():
            continue
        try:
            # Names may stand in quotes: Kafka's tool writes long ones so.
            [cells] = csv.reader([line], skipinitialspace=True, strict=True)
            columns = columns or (4 if len(cells) == 4 else 3)
            *group, topic, index, offset = [cell.strip() for cell in cells]
            if len(cells) != columns:
                raise ValueError
            partition, wanted = TopicPartition(topic, int(index)), int(offset)
        except (ValueError, csv.Error):
            raise ResetFailed(
                f"{path}, line {number}: expected {columns or 3} values separated by commas"
            ) from None
        if wanted < 0:
            raise ResetFailed(f"{path}, line {number}: Invalid negative offset")
        plans.setdefault(group[0] if group else group_ids[0], {})[partition] = wanted
    return {group_id: plans[group_id] for group_id in group_ids if group_id in plans}
