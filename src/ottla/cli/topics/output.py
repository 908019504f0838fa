"""The lines of `ottla topics --describe`, as kafka-topics prints them (TopicCommand)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ottla.cli.java_order import hash_map_order
from ottla.cli.topics.options import TopicOptions
from ottla.client.admin.types import (
    ConfigItem,
    PartitionDescription,
    Reassignment,
    TopicDescription,
)
from ottla.types import ZERO_TOPIC_ID, TopicPartition, format_topic_id

_MARKED = "MarkedForDeletion: true"


class Described(NamedTuple):
    """All that is shown of the topics."""

    topics: Sequence[TopicDescription]
    configs: Mapping[str, Sequence[ConfigItem]]
    live_brokers: frozenset[int]
    reassignments: Mapping[TopicPartition, Reassignment]
    # Topics that wait for their deletion; None where only brokers were asked.
    marked: frozenset[str] | None = None

    def is_marked(self, topic: str) -> bool:
        return self.marked is not None and topic in self.marked


def text_lines(shown: Described, options: TopicOptions) -> Iterator[str]:
    for topic in shown.topics:
        overrides = _overrides(shown.configs[topic.name])
        if not options.reports and (overrides or not options.topics_with_overrides):
            yield _topic_line(topic, overrides, shown)
        if options.topics_with_overrides:
            continue
        for partition in topic.partitions:
            if _is_wanted(topic.name, partition, shown, options):
                move = shown.reassignments.get(TopicPartition(topic.name, partition.partition))
                yield _partition_line(topic.name, partition, move, shown.is_marked(topic.name))


def json_value(shown: Described, options: TopicOptions) -> list[dict[str, Any]]:
    """The same facts and the same selection for programs."""
    result = []
    for topic in shown.topics:
        overrides = _overrides(shown.configs[topic.name])
        partitions = [
            _partition_value(topic.name, partition, shown.reassignments)
            for partition in topic.partitions
            if _is_wanted(topic.name, partition, shown, options)
        ]
        if (options.reports and not partitions) or (
            options.topics_with_overrides and not overrides
        ):
            continue
        value: dict[str, Any] = {
            "topic": topic.name,
            "topic_id": format_topic_id(topic.topic_id)
            if topic.topic_id != ZERO_TOPIC_ID
            else None,
            "partition_count": len(topic.partitions),
            "replication_factor": _first_factor(topic, shown.reassignments),
            "configs": overrides,
        }
        if shown.marked is not None:
            value["marked_for_deletion"] = shown.is_marked(topic.name)
        if not options.topics_with_overrides:
            value["partitions"] = partitions
        result.append(value)
    return result


def _overrides(configs: Sequence[ConfigItem]) -> dict[str, str | None]:
    """In the order in which Kafka's tool prints them."""
    by_name = {config.name: config for config in configs}
    ordered = (by_name[name] for name in hash_map_order(by_name))
    return {config.name: config.value for config in ordered if not config.is_default}


def _topic_line(
    topic: TopicDescription,
    overrides: Mapping[str, str | None],
    shown: Described,
) -> str:
    parts = [f"Topic: {topic.name}"]
    if topic.topic_id != ZERO_TOPIC_ID:
        parts.append(f"TopicId: {format_topic_id(topic.topic_id)}")
    parts.append(f"PartitionCount: {len(topic.partitions)}")
    parts.append(f"ReplicationFactor: {_first_factor(topic, shown.reassignments)}")
    # Java prints a value it is not allowed to see as null.
    texts = (f"{name}={'null' if value is None else value}" for name, value in overrides.items())
    parts.append(f"Configs: {','.join(texts)}")
    if shown.is_marked(topic.name):
        parts.append(_MARKED)
    return "\t".join(parts)


def _partition_line(
    topic: str, partition: PartitionDescription, move: Reassignment | None, is_marked: bool
) -> str:
    parts = [
        "",
        f"Topic: {topic}",
        f"Partition: {partition.partition}",
        f"Leader: {partition.leader if partition.leader >= 0 else 'none'}",
        f"Replicas: {_ids(partition.replicas)}",
        f"Isr: {_ids(partition.isr)}",
    ]
    if move is not None:
        parts.append(f"Adding Replicas: {_ids(move.adding)}")
        parts.append(f"Removing Replicas: {_ids(move.removing)}")
    if is_marked:
        parts.append(_MARKED)
    return "\t".join(parts)


def _partition_value(
    topic: str, partition: PartitionDescription, moves: Mapping[TopicPartition, Reassignment]
) -> dict[str, Any]:
    value: dict[str, Any] = {
        "partition": partition.partition,
        "leader": partition.leader if partition.leader >= 0 else None,
        "replicas": partition.replicas,
        "isr": partition.isr,
    }
    move = moves.get(TopicPartition(topic, partition.partition))
    if move is not None:
        value |= {"adding_replicas": move.adding, "removing_replicas": move.removing}
    return value


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))


def _first_factor(topic: TopicDescription, moves: Mapping[TopicPartition, Reassignment]) -> int:
    if not topic.partitions:
        return 0
    first = topic.partitions[0]
    return _factor(first, moves.get(TopicPartition(topic.name, first.partition)))


def _factor(partition: PartitionDescription, move: Reassignment | None) -> int:
    """Replicas on their way in do not count, unless the move ended in the meantime."""
    if move is not None and set(partition.replicas) & {*move.adding, *move.removing}:
        return len([broker for broker in move.replicas if broker not in move.adding])
    return len(partition.replicas)


def _is_wanted(
    topic: str, partition: PartitionDescription, shown: Described, options: TopicOptions
) -> bool:
    if not options.reports:
        return True
    if options.unavailable_partitions:
        return partition.leader not in shown.live_brokers
    if options.under_replicated_partitions:
        move = shown.reassignments.get(TopicPartition(topic, partition.partition))
        return _factor(partition, move) > len(partition.isr)
    needed = next(
        int(config.value or 1)
        for config in shown.configs[topic]
        if config.name == "min.insync.replicas"
    )
    if options.under_min_isr_partitions:
        return partition.leader < 0 or len(partition.isr) < needed
    return len(partition.isr) == needed
