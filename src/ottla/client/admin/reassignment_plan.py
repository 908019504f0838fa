"""kafka-reassign-partitions' JSON, its checks, and what a throttle has to name
(kafka.admin.ReassignPartitionsCommand)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from ottla.client.admin.types import Reassignment
from ottla.errors import OttlaError
from ottla.types import TopicPartition, TopicPartitionReplica

ANY_LOG_DIR = "any"
_VERSION = 1
T = TypeVar("T")

Assignment = Mapping[TopicPartition, Sequence[int]]


class ReassignmentError(OttlaError):
    """Shown after `Error: `."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a reassignment file asks for, in its order and with what it says twice."""

    partitions: list[tuple[TopicPartition, list[int]]]
    log_dirs: dict[TopicPartitionReplica, str]

    @property
    def targets(self) -> dict[TopicPartition, list[int]]:
        return dict(self.partitions)


class Move(NamedTuple):
    """Where a partition's data comes from and where it goes."""

    sources: frozenset[int]
    destinations: frozenset[int]


def parse_plan(text: str) -> Plan:
    value = _load(text)
    partitions = []
    log_dirs: dict[TopicPartitionReplica, str] = {}
    for entry in _entries(value, "partitions"):
        tp = TopicPartition(_field(entry, "topic", str), _field(entry, "partition", int))
        replicas = _list_of(entry, "replicas", int)
        dirs = (
            _list_of(entry, "log_dirs", str)
            if "log_dirs" in entry
            else [ANY_LOG_DIR] * len(replicas)
        )
        if len(replicas) != len(dirs):
            raise ReassignmentError(
                f"Size of replicas list {_scala(replicas)} is different from size of log dirs list "
                f"{_scala(dirs)} for partition {tp}"
            )
        partitions.append((tp, replicas))
        for broker, path in zip(replicas, dirs, strict=True):
            if path != ANY_LOG_DIR:
                log_dirs[TopicPartitionReplica(tp.topic, tp.partition, broker)] = path
    return Plan(partitions, log_dirs)


def check_executable(plan: Plan) -> None:
    """parseExecuteAssignmentArgs: what --execute does not take."""
    if not plan.partitions:
        raise ReassignmentError("Partition reassignment list cannot be empty")
    if any(not replicas for _, replicas in plan.partitions):
        raise ReassignmentError("Partition replica list cannot be empty")
    repeated = duplicates(tp for tp, _ in plan.partitions)
    if repeated:
        raise ReassignmentError(
            "Partition reassignment contains duplicate topic partitions: "
            + ",".join(map(str, repeated))
        )
    twice = [(tp, duplicates(replicas)) for tp, replicas in plan.partitions]
    texts = [
        f"{tp} contains multiple entries for {','.join(map(str, brokers))}"
        for tp, brokers in twice
        if brokers
    ]
    if texts:
        raise ReassignmentError(
            f"Partition replica lists may not contain duplicate entries: {'. '.join(texts)}"
        )


def parse_topics_to_move(text: str) -> list[str]:
    topics = [_field(entry, "topic", str) for entry in _entries(_load(text), "topics")]
    repeated = duplicates(topics)
    if repeated:
        raise ReassignmentError(
            f"List of topics to reassign contains duplicate entries: {','.join(repeated)}"
        )
    return topics


def parse_partition_list(text: str) -> list[TopicPartition] | None:
    """The partitions of an election file; None where the field is missing."""
    value = _load(text)
    if "partitions" not in value:
        return None
    return [
        TopicPartition(_field(entry, "topic", str), _field(entry, "partition", int))
        for entry in _entries(value, "partitions")
    ]


def parse_broker_list(text: str) -> list[int]:
    from ottla.config.definitions import java_integer

    brokers = []
    for item in text.split(","):
        try:
            brokers.append(java_integer(item, 31))
        except ValueError:
            raise ReassignmentError(f'For input string: "{item}"') from None
    repeated = duplicates(brokers)
    if repeated:
        raise ReassignmentError(
            f"Broker list contains duplicate entries: {','.join(map(str, repeated))}"
        )
    return brokers


def to_value(assignment: Assignment) -> dict[str, Any]:
    """The form that --execute takes again."""
    return {
        "version": _VERSION,
        "partitions": [
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "replicas": list(replicas),
                "log_dirs": [ANY_LOG_DIR] * len(replicas),
            }
            for tp, replicas in sorted(assignment.items())
        ],
    }


def to_json(assignment: Assignment) -> str:
    return json.dumps(to_value(assignment), separators=(",", ":"), ensure_ascii=False)


def moves(
    current: Mapping[TopicPartition, Reassignment], proposed: Assignment, present: Assignment
) -> dict[TopicPartition, Move]:
    """All moves there will be: those under way and those proposed (calculateProposedMoveMap)."""
    found = {
        tp: Move(frozenset(move.replicas) - frozenset(move.adding), frozenset(move.adding))
        for tp, move in current.items()
    }
    for tp, replicas in proposed.items():
        if tp in found:
            sources = found[tp].sources
        elif tp in present:
            sources = frozenset(present[tp])
        else:
            raise ReassignmentError(f"Trying to reassign a topic partition {tp} with 0 replicas")
        found[tp] = Move(sources, frozenset(replicas) - sources)
    return found


def leader_throttles(found: Mapping[TopicPartition, Move]) -> dict[str, str]:
    """By topic: replicas whose reading is held back, as the topic config lists them."""
    return _throttles({tp: move.sources for tp, move in found.items()})


def follower_throttles(found: Mapping[TopicPartition, Move]) -> dict[str, str]:
    return _throttles({tp: move.destinations for tp, move in found.items()})


def _throttles(brokers: Mapping[TopicPartition, Iterable[int]]) -> dict[str, str]:
    pairs: dict[str, set[str]] = {}
    for tp, ids in brokers.items():
        pairs.setdefault(tp.topic, set()).update(f"{tp.partition}:{broker}" for broker in ids)
    return {topic: ",".join(sorted(found)) for topic, found in pairs.items()}


def involved_brokers(found: Mapping[TopicPartition, Move]) -> list[int]:
    return sorted({b for move in found.values() for b in (*move.sources, *move.destinations)})


def duplicates(items: Iterable[T]) -> list[T]:
    """What is there more than once, each once, in order of appearance."""
    seen: dict[T, int] = {}
    for item in items:
        seen[item] = seen.get(item, 0) + 1
    return [item for item, count in seen.items() if count > 1]


def plural(word: str, items: Collection[object]) -> str:
    return word if len(items) == 1 else f"{word}s"


def _load(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ReassignmentError(f"The input string is not a valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise ReassignmentError("The input string is not a JSON object")
    version = value.get("version", _VERSION)
    if version != _VERSION:
        raise ReassignmentError(f"Not supported version field value {version}")
    return value


def _entries(value: dict[str, Any], name: str) -> list[dict[str, Any]]:
    entries = value.get(name, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ReassignmentError(f'"{name}" is not a list of objects')
    return entries


def _field(entry: dict[str, Any], name: str, kind: type[T]) -> T:
    value = entry.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ReassignmentError(f'No such field exists, or it has another type: "{name}"')
    return value


def _list_of(entry: dict[str, Any], name: str, kind: type[T]) -> list[T]:
    values: list[Any] = _field(entry, name, list)
    if not all(isinstance(value, kind) and not isinstance(value, bool) for value in values):
        raise ReassignmentError(f'"{name}" holds something of another type')
    return values


def _scala(items: Sequence[object]) -> str:
    return f"List({', '.join(map(str, items))})"
