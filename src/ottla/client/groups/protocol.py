"""What members of a consumer group tell each other (ConsumerProtocol), and the range assignor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.types import TopicPartition
from ottla.wire import messages as m
from ottla.wire.codec import WireError

CONSUMER = "consumer"
RANGE = "range"
_VERSION_BYTES = 2


class Subscriber(NamedTuple):
    """A member as the leader of its group sees it."""

    member_id: str
    topics: frozenset[str]
    instance_id: str | None = None


def encode_subscription(topics: Iterable[str]) -> bytes:
    """In version 0, which says all there is to say without owned partitions."""
    message = m.ConsumerProtocolSubscription(topics=sorted(topics))
    return bytes(_VERSION_BYTES) + message.encode(0)


def decode_subscription(data: bytes) -> frozenset[str]:
    """The topics; none where the bytes are of another kind."""
    highest = m.ConsumerProtocolSubscription.MAX_VERSION
    try:
        version = min(_version(data), highest)
        message, _ = m.ConsumerProtocolSubscription.decode(data, version, _VERSION_BYTES)
    except WireError:
        return frozenset()
    return frozenset(message.topics)


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    topics: dict[str, list[int]] = {}
    for partition in sorted(partitions):
        topics.setdefault(partition.topic, []).append(partition.partition)
    topic_class = m.ConsumerProtocolAssignment.TopicPartition
    message = m.ConsumerProtocolAssignment(
        assigned_partitions=[
            topic_class(topic=topic, partitions=indexes) for topic, indexes in topics.items()
        ]
    )
    return bytes(_VERSION_BYTES) + message.encode(0)


def decode_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """ConsumerProtocol.deserializeAssignment: a version, the topics with their partitions, and
    what else the assignor adds. Bytes of another kind say nothing about partitions."""
    if not data:
        return ()
    try:
        version = min(_version(data), m.ConsumerProtocolAssignment.MAX_VERSION)
        assignment, _ = m.ConsumerProtocolAssignment.decode(data, version, _VERSION_BYTES)
    except WireError:
        return ()
    return tuple(
        sorted(
            TopicPartition(topic.topic, index)
            for topic in assignment.assigned_partitions
            for index in topic.partitions
        )
    )


def _version(data: bytes) -> int:
    return int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)


def assign_ranges(
    subscribers: Iterable[Subscriber], partition_counts: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """RangeAssignor: of every topic each of its subscribers, in order, gets a run of partitions,
    the first ones one more where they do not divide."""
    # MemberInfo.compareTo: static members first, by their own names.
    ordered = sorted(
        subscribers, key=lambda s: (s.instance_id is None, s.instance_id or "", s.member_id)
    )
    shares: dict[str, list[TopicPartition]] = {each.member_id: [] for each in ordered}
    for topic, count in sorted(partition_counts.items()):
        takers = [each.member_id for each in ordered if topic in each.topics]
        for number, member_id in enumerate(takers):
            length, more = divmod(count, len(takers))
            start = length * number + min(number, more)
            end = start + length + (number < more)
            shares[member_id] += [TopicPartition(topic, index) for index in range(start, end)]
    return shares
