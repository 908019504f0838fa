"""The tables of kafka-consumer-groups 2.8 (ConsumerGroupCommand), line by line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.cli.java_errors import java_exception
from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin.groups import GroupDescription, GroupListing

MISSING = "-"
NOT_PROVIDED = -1
_NARROWEST = 15
_UNQUOTED_CHARACTERS = 24


class OffsetRow(NamedTuple):
    """One partition of a group; without a member where nobody reads it now."""

    partition: TopicPartition
    committed: int | None
    end: int | None
    consumer_id: str = MISSING
    host: str = MISSING
    client_id: str = MISSING

    @property
    def lag(self) -> int | None:
        if self.committed is None or self.end is None:
            return None
        return self.end - self.committed


def state_lines(listings: Sequence[GroupListing]) -> list[str]:
    width = _width((group.group_id for group in listings), _NARROWEST)
    rows = [("GROUP", "STATE"), *((group.group_id, group.state) for group in listings)]
    return [f"{name:{width}} {state}" for name, state in rows]


def offset_lines(group_id: str, rows: Sequence[OffsetRow]) -> list[str]:
    widths = (
        _width([group_id], _NARROWEST),
        _width((row.partition.topic for row in rows), _NARROWEST),
        10, 15, 15, 15,
        _width((row.consumer_id for row in rows), _NARROWEST),
        _width((row.host for row in rows), _NARROWEST),
        0,
    )  # fmt: skip
    heads = ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG",
             "CONSUMER-ID", "HOST", "CLIENT-ID")  # fmt: skip
    cells = [
        (
            group_id,
            row.partition.topic,
            str(row.partition.partition),
            _number(row.committed),
            _number(row.end),
            _number(row.lag),
            row.consumer_id,
            row.host,
            row.client_id,
        )
        for row in rows
    ]
    return ["", *(_columns(widths, line) for line in [heads, *cells])]


def member_lines(group: GroupDescription, *, verbose: bool) -> list[str]:
    """The instance ids of static members (KIP-345) only where there are some."""
    members = sorted(group.members, key=lambda member: -len(member.partitions))
    has_instances = any(member.instance_id for member in members)
    heads = ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", ""]
    widths = [
        _width([group.group_id], _NARROWEST),
        _width((member.member_id for member in members), _NARROWEST),
        _width((member.host for member in members), _NARROWEST),
        _width((member.client_id for member in members), _NARROWEST),
        _NARROWEST,
        0,
    ]
    if has_instances:
        heads.insert(2, "GROUP-INSTANCE-ID")
        widths.insert(2, _width((m.instance_id or "" for m in members), len(heads[2])))
    if verbose:
        heads[-1] = "ASSIGNMENT"
    lines = [_columns(widths, heads)]
    for member in members:
        cells = [
            group.group_id,
            member.member_id,
            member.host,
            member.client_id,
            str(len(member.partitions)),
            _assignment(member.partitions) if verbose else "",
        ]
        if has_instances:
            cells.insert(2, member.instance_id or "")
        lines.append(_columns(widths, cells))
    return ["", *lines]


def group_state_lines(group: GroupDescription) -> list[str]:
    node = group.coordinator
    coordinator = f"{node.host}:{node.port} ({node.id})"
    # Kafka 2.8 widens the first column, not the second, for a long address.
    widths = (max(25, len(coordinator)), 25, 20, 15, 0)
    heads = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")
    cells = (group.group_id, coordinator, group.assignor, group.state, str(len(group.members)))
    return ["", _columns(widths, heads), _columns(widths, cells)]


def reset_lines(plans: Mapping[str, Mapping[TopicPartition, int]]) -> list[str]:
    widths = (30, 30, 10, 15)
    rows = [("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")]
    rows += [
        (group_id, partition.topic, str(partition.partition), str(offset))
        for group_id, plan in plans.items()
        for partition, offset in plan.items()
    ]
    return ["", *(_columns(widths, row) for row in rows)]


def export_lines(
    plans: Mapping[str, Mapping[TopicPartition, int]], *, names_groups: bool
) -> list[str]:
    """CSV that `--from-file` reads."""
    return [
        ",".join([_csv(group_id)] * names_groups + [_csv(tp.topic), str(tp.partition), str(offset)])
        for group_id, plan in plans.items()
        for tp, offset in plan.items()
    ]


def _csv(name: str) -> str:
    """In quotes where Jackson's CsvEncoder, which Kafka's tool uses, puts it: where it is long or
    has a character up to the comma."""
    if len(name) <= _UNQUOTED_CHARACTERS and all(character > "," for character in name):
        return name
    return '"' + name.replace('"', '""') + '"'


def deleted_offset_lines(results: Mapping[TopicPartition, KafkaError | None]) -> list[str]:
    widths = (30, 15, 15)
    lines = [_columns(widths, ("TOPIC", "PARTITION", "STATUS"))]
    for partition in sorted(results):
        error = results[partition]
        index = partition.partition
        cells = (
            partition.topic,
            str(index) if index != NOT_PROVIDED else "Not Provided",
            f"Error: {java_error(error)}" if error else "Successful",
        )
        lines.append(_columns(widths, cells))
    return ["", *lines]


def java_error(error: KafkaError) -> str:
    """An exception of Kafka's client as a string, class included."""
    name = java_exception(error.code)
    if error.code is ErrorCode.NON_EMPTY_GROUP:
        name = "GroupNotEmptyException"
    elif error.code is ErrorCode.GROUP_AUTHORIZATION_FAILED:
        name = "GroupAuthorizationException"
    return f"org.apache.kafka.common.errors.{name}: {error}"


def quoted(names: Iterable[str]) -> str:
    return "'" + "', '".join(names) + "'"


def _assignment(partitions: Sequence[TopicPartition]) -> str:
    """`topic(0,1), other(2)`"""
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    if not topics:
        return MISSING
    return ", ".join(f"{topic}({','.join(map(str, ids))})" for topic, ids in topics.items())


def _width(texts: Iterable[str], narrowest: int) -> int:
    return max(narrowest, *map(len, texts), 0)


def _columns(widths: Sequence[int], cells: Sequence[str]) -> str:
    return " ".join(
        f"{cell:{width}}" if width else cell for cell, width in zip(cells, widths, strict=True)
    )


def _number(value: int | None) -> str:
    return MISSING if value is None else str(value)
