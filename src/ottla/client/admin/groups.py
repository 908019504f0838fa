"""Administration of consumer groups: on Ottla and on Apache Kafka alike.

Every call about one group goes to its coordinator, and again to the new one while it moves or
loads. Calls about several things answer with one result per thing, a KafkaError where it failed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.client.cluster import (
    DEFAULT_TIMEOUT_MS,
    Cluster,
    Node,
    response_error,
)
from ottla.client.groups.coordinator import Coordinators
from ottla.client.groups.protocol import CONSUMER, decode_assignment
from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicPartition
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.wire.codec import Message

# OffsetFetch v8 asks for several groups at once, in other fields.
_OFFSET_FETCH_VERSIONS = (2, 7)
_STATES_FROM_VERSION = 4
_COMMIT_VERSIONS = (2, 8)
# Of a commit by somebody who is not a member.
_NO_GENERATION = -1


class CommittedOffset(NamedTuple):
    offset: int
    metadata: str


class GroupListing(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
    # Classic, Consumer (KIP-848), Share, Streams; empty where the broker does not say.
    type: str = ""


class GroupMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


class GroupDescription(NamedTuple):
    group_id: str
    state: str
    protocol_type: str
    assignor: str
    members: tuple[GroupMember, ...]
    coordinator: Node


class GroupAdmin:
    """Calls about groups on a cluster that somebody else opens and closes."""

    def __init__(self, cluster: Cluster, *, timeout_ms: float = DEFAULT_TIMEOUT_MS) -> None:
        self._cluster = cluster
        self._timeout_ms = timeout_ms
        self._coordinators = Coordinators(cluster, timeout_ms=timeout_ms)

    async def list_groups(
        self, states: Sequence[str] = (), *, with_states: bool = False
    ) -> list[GroupListing]:
        """All groups of all brokers, by name; of the given states only where there are any."""
        request = m.ListGroupsRequest(states_filter=list(states))
        lowest = _STATES_FROM_VERSION if states or with_states else 0
        nodes = await self._cluster.nodes(timeout_ms=self._timeout_ms)
        answers = await asyncio.gather(*(self._list_at(node.id, request, lowest) for node in nodes))
        found = {
            group.group_id: GroupListing(
                group.group_id, group.protocol_type, group.group_state, group.group_type
            )
            for answer in answers
            for group in answer.groups
        }
        return [found[name] for name in sorted(found)]

    async def _list_at(self, broker_id: int, request: Message, lowest: int) -> Any:
        async def attempt(left_ms: float) -> Any:
            answer = await self._cluster.send_to_broker(
                broker_id, request, timeout_ms=left_ms, min_version=lowest
            )
            _raise_code(answer.error_code)
            return answer

        return await self._coordinators.retry(attempt)

    async def describe_group(self, group_id: str) -> GroupDescription:
        """A group that does not exist is described as `Dead`, without members."""

        def results(answer: Any) -> int:
            code: int = answer.groups[0].error_code
            return code

        request = m.DescribeGroupsRequest(groups=[group_id])
        answer, coordinator = await self._coordinators.send(group_id, request, results)
        group = answer.groups[0]
        # What DescribeGroups v6 says of an unknown group in an error, older versions say in Dead.
        if group.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
            _raise_code(group.error_code)
        return GroupDescription(
            group_id,
            group.group_state or "Dead",
            group.protocol_type,
            group.protocol_data,
            tuple(_member(member, group.protocol_type) for member in group.members),
            coordinator,
        )

    async def describe_consumer_group(self, group_id: str) -> GroupDescription:
        """A group of the new protocol (KIP-848), which DescribeGroups does not know; one that is
        not there, or not of this kind, is `Dead`."""
        request = m.ConsumerGroupDescribeRequest(group_ids=[group_id])
        answer, coordinator = await self._coordinators.send(
            group_id, request, lambda answer: answer.groups[0].error_code
        )
        group = answer.groups[0]
        if group.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
            _raise_code(group.error_code)
        return GroupDescription(
            group_id,
            group.group_state or "Dead",
            CONSUMER,
            group.assignor_name,
            tuple(
                GroupMember(
                    member.member_id,
                    member.instance_id,
                    member.client_id,
                    member.client_host,
                    tuple(
                        TopicPartition(topic.topic_name, index)
                        for topic in member.assignment.topic_partitions
                        for index in topic.partitions
                    ),
                )
                for member in group.members
            ),
            coordinator,
        )

    async def committed_offsets(self, group_id: str) -> dict[TopicPartition, int]:
        """The offsets that a group has committed, by topic and partition."""
        committed = await self.committed(group_id)
        return {partition: entry.offset for partition, entry in committed.items()}

    async def committed(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """As `committed_offsets`, with what was noted beside them."""
        low, high = _OFFSET_FETCH_VERSIONS
        answer, _ = await self._coordinators.send(
            group_id,
            m.OffsetFetchRequest(group_id=group_id, topics=None),
            lambda answer: answer.error_code,
            versions=(low, high),
        )
        _raise_code(answer.error_code)
        found = {}
        for topic in answer.topics:
            for partition in topic.partitions:
                _raise_code(partition.error_code)
                if partition.committed_offset >= 0:
                    key = TopicPartition(topic.name, partition.partition_index)
                    found[key] = CommittedOffset(
                        partition.committed_offset, partition.metadata or ""
                    )
        return dict(sorted(found.items()))

    async def commit_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int],
        *,
        metadata: str = "",
        once: bool = False,
    ) -> None:
        """For a group without members only; raises the first error. With `once` also one that
        might pass."""
        request_class = m.OffsetCommitRequest
        request = request_class(
            group_id=group_id,
            generation_id_or_member_epoch=_NO_GENERATION,
            member_id="",
            topics=[
                request_class.OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        request_class.OffsetCommitRequestPartition(
                            partition_index=partition.partition,
                            committed_offset=offsets[partition],
                            committed_metadata=metadata,
                        )
                        for partition in partitions
                    ],
                )
                for topic, partitions in _by_topic(offsets).items()
            ],
        )

        def codes(answer: Any) -> list[int]:
            return [p.error_code for topic in answer.topics for p in topic.partitions]

        answer, _ = await self._coordinators.send(
            group_id,
            request,
            lambda answer: next(filter(None, codes(answer)), 0),
            versions=_COMMIT_VERSIONS,
            once=once,
        )
        for code in codes(answer):
            _raise_code(code)

    async def delete_group(self, group_id: str) -> None:
        answer, _ = await self._coordinators.send(
            group_id,
            m.DeleteGroupsRequest(groups_names=[group_id]),
            lambda answer: answer.results[0].error_code,
        )
        _raise_code(answer.results[0].error_code)

    async def delete_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Raises what is wrong with the group; says of each partition what is wrong with it."""
        request_class = m.OffsetDeleteRequest
        request = request_class(
            group_id=group_id,
            topics=[
                request_class.OffsetDeleteRequestTopic(
                    name=topic,
                    partitions=[
                        request_class.OffsetDeleteRequestPartition(partition_index=tp.partition)
                        for tp in group
                    ],
                )
                for topic, group in _by_topic(partitions).items()
            ],
        )
        answer, _ = await self._coordinators.send(
            group_id, request, lambda answer: answer.error_code
        )
        _raise_code(answer.error_code)
        return {
            TopicPartition(topic.name, partition.partition_index): response_error(
                partition.error_code
            )
            if partition.error_code
            else None
            for topic in answer.topics
            for partition in topic.partitions
        }


def _raise_code(code: int) -> None:
    if code:
        raise response_error(code)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    found: dict[str, list[TopicPartition]] = {}
    for partition in sorted(partitions):
        found.setdefault(partition.topic, []).append(partition)
    return found


def _member(
    member: m.DescribeGroupsResponse.DescribedGroupMember, protocol_type: str
) -> GroupMember:
    partitions: tuple[TopicPartition, ...] = ()
    if protocol_type == CONSUMER:
        partitions = decode_assignment(member.member_assignment)
    return GroupMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        partitions,
    )
