"""A member of a consumer group: it joins, gets its share of partitions, commits and leaves.

The classic protocol with the range assignor, which every client knows. Heartbeats run beside
whatever the member does; `check` tells it what they were told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.client.cluster import RETRY_PAUSE_MS, Cluster, response_error
from ottla.client.groups.coordinator import Coordinators
from ottla.client.groups.protocol import (
    CONSUMER,
    RANGE,
    Subscriber,
    assign_ranges,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.errors import ErrorCode, KafkaError, OttlaError
from ottla.types import TopicPartition
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.wire.codec import Message

# Kafka 2.8's session.timeout.ms and heartbeat.interval.ms.
SESSION_TIMEOUT_MS = 10_000
HEARTBEAT_INTERVAL_S = 3.0
# How long the others are waited for in a rebalance.
REBALANCE_TIMEOUT_MS = 60_000
# The leader looks for new partitions after as many heartbeats.
_HEARTBEATS_BETWEEN_LOOKS = 10
_ANSWER_MARGIN_MS = 5_000
_JOIN_ATTEMPTS = 100
_JOIN_VERSIONS = (2, None)
_LEAVE_VERSIONS = (3, None)
# OffsetCommit v10 and OffsetFetch v8 name things in other fields.
_COMMIT_VERSIONS = (2, 8)
_FETCH_VERSIONS = (2, 7)
# Of these a member that joins again is cured.
_REJOIN = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.MEMBER_ID_REQUIRED,
    }
)


class Rebalanced(OttlaError):
    """The partitions are shared out anew: join again."""


class Member:
    """`join` again whenever something raises Rebalanced; `leave` at the end."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        topics: Iterable[str],
        *,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        heartbeat_interval_s: float = HEARTBEAT_INTERVAL_S,
    ) -> None:
        self._cluster = cluster
        self._coordinators = Coordinators(cluster)
        self._group_id = group_id
        self._topics = frozenset(topics)
        self._session_timeout_ms = session_timeout_ms
        self._heartbeat_interval_s = heartbeat_interval_s
        self._member_id = ""
        self._generation = -1
        # Of the leaders of what was committed, as asked for last (KIP-320).
        self.committed_epochs: dict[TopicPartition, int] = {}
        # What the leader shared out last; None where another member leads.
        self._counts: dict[str, int] | None = None
        self._heart: asyncio.Task[None] | None = None
        self._news: OttlaError | None = None

    def check(self) -> None:
        """Raises what a heartbeat was answered with: Rebalanced, or a failure."""
        if self._news is not None:
            raise self._news

    async def join(self) -> list[TopicPartition]:
        """This member's share; waits until the others have joined, too."""
        await self._stop_heart()
        for attempt in range(_JOIN_ATTEMPTS):
            if attempt > 1:  # the second is the rule: the first brings the member's id
                await asyncio.sleep(RETRY_PAUSE_MS / 1000)
            try:
                share = await self._sync(await self._ask_to_join())
            except Rebalanced:
                continue  # with the id it was given, or without one
            self._news = None
            self._heart = asyncio.ensure_future(self._beat())
            return share
        raise KafkaError(
            ErrorCode.REBALANCE_IN_PROGRESS, f"the group {self._group_id} does not come to rest"
        )

    async def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Where the group stopped; partitions of which it never committed an offset are left out.
        Offsets of a transaction that is about to end are waited for (KIP-447)."""
        if not partitions:
            return {}
        request_class = m.OffsetFetchRequest
        request = request_class(
            group_id=self._group_id,
            topics=[
                request_class.OffsetFetchRequestTopic(name=topic, partition_indexes=indexes)
                for topic, indexes in _by_topic(partitions).items()
            ],
            require_stable=True,
        )
        answer = await self._ask(
            request,
            lambda answer: next(filter(None, [answer.error_code, *_codes(answer)]), 0),
            versions=_FETCH_VERSIONS,
        )
        known = {
            TopicPartition(topic.name, found.partition_index): found
            for topic in answer.topics
            for found in topic.partitions
            if found.committed_offset >= 0
        }
        self.committed_epochs = {tp: found.committed_leader_epoch for tp, found in known.items()}
        return {tp: found.committed_offset for tp, found in known.items()}

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Raises the first error, Rebalanced where this member's time is over."""
        if not offsets:
            return
        request_class = m.OffsetCommitRequest
        request = request_class(
            group_id=self._group_id,
            generation_id_or_member_epoch=self._generation,
            member_id=self._member_id,
            topics=[
                request_class.OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        request_class.OffsetCommitRequestPartition(
                            partition_index=index,
                            committed_offset=offsets[TopicPartition(topic, index)],
                            committed_metadata="",
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in _by_topic(offsets).items()
            ],
        )
        await self._ask(
            request, lambda answer: next(filter(None, _codes(answer)), 0), versions=_COMMIT_VERSIONS
        )

    async def leave(self) -> None:
        """The others share out this member's partitions at once, not after its session."""
        await self._stop_heart()
        if not self._member_id:
            return
        identity = m.LeaveGroupRequest.MemberIdentity(member_id=self._member_id)
        self._generation = -1
        try:
            await self._ask(
                m.LeaveGroupRequest(group_id=self._group_id, members=[identity]),
                lambda answer: answer.error_code,
                versions=_LEAVE_VERSIONS,
            )
        except Rebalanced:
            pass  # it was thrown out before
        self._member_id = ""

    # joining

    async def _ask_to_join(self) -> m.JoinGroupResponse:
        request_class = m.JoinGroupRequest
        protocol = request_class.JoinGroupRequestProtocol(
            name=RANGE, metadata=encode_subscription(self._topics)
        )
        answer, _ = await self._coordinators.send(
            self._group_id,
            request_class(
                group_id=self._group_id,
                session_timeout_ms=self._session_timeout_ms,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                member_id=self._member_id,
                protocol_type=CONSUMER,
                protocols=[protocol],
            ),
            lambda answer: answer.error_code,
            versions=_JOIN_VERSIONS,
            answer_ms=REBALANCE_TIMEOUT_MS + _ANSWER_MARGIN_MS,
        )
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = answer.member_id  # KIP-394: to be said the next time
        self._raise(answer.error_code)
        self._member_id, self._generation = answer.member_id, answer.generation_id
        joined: m.JoinGroupResponse = answer
        return joined

    async def _sync(self, joined: m.JoinGroupResponse) -> list[TopicPartition]:
        shares: dict[str, list[TopicPartition]] = {}
        self._counts = None
        if joined.leader == self._member_id:
            subscribers = [
                Subscriber(
                    each.member_id, decode_subscription(each.metadata), each.group_instance_id
                )
                for each in joined.members
            ]
            topics = frozenset[str]().union(*(each.topics for each in subscribers))
            self._counts = await self._partition_counts(topics)
            shares = assign_ranges(subscribers, self._counts)
        request_class = m.SyncGroupRequest
        answer = await self._ask(
            request_class(
                group_id=self._group_id,
                generation_id=self._generation,
                member_id=self._member_id,
                protocol_type=CONSUMER,
                protocol_name=RANGE,
                assignments=[
                    request_class.SyncGroupRequestAssignment(
                        member_id=member_id, assignment=encode_assignment(share)
                    )
                    for member_id, share in shares.items()
                ],
            ),
            lambda answer: answer.error_code,
            answer_ms=REBALANCE_TIMEOUT_MS + _ANSWER_MARGIN_MS,
        )
        return list(decode_assignment(bytes(answer.assignment)))

    async def _partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        answer = await self._cluster.metadata(sorted(topics))
        return {topic.name or "": len(topic.partitions) for topic in answer.topics}

    # staying

    async def _beat(self) -> None:
        beats = 0
        try:
            while True:
                await asyncio.sleep(self._heartbeat_interval_s)
                beats += 1
                if beats % _HEARTBEATS_BETWEEN_LOOKS == 0 and await self._has_grown():
                    raise Rebalanced("there are other partitions than before")
                await self._ask(
                    m.HeartbeatRequest(
                        group_id=self._group_id,
                        generation_id=self._generation,
                        member_id=self._member_id,
                    ),
                    lambda answer: answer.error_code,
                )
        except OttlaError as news:
            self._news = news

    async def _has_grown(self) -> bool:
        """Only the leader has to look: joining again, it makes all others join."""
        if self._counts is None:
            return False
        return await self._partition_counts(self._counts) != self._counts

    async def _stop_heart(self) -> None:
        heart, self._heart = self._heart, None
        if heart is not None:
            heart.cancel()
            await asyncio.gather(heart, return_exceptions=True)

    # asking

    async def _ask(
        self,
        request: Message,
        code_of: Any,
        *,
        versions: tuple[int, int | None] = (0, None),
        answer_ms: float | None = None,
    ) -> Any:
        answer, _ = await self._coordinators.send(
            self._group_id, request, code_of, versions=versions, answer_ms=answer_ms
        )
        self._raise(code_of(answer))
        return answer

    def _raise(self, code: int) -> None:
        if not code:
            return
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""
        if code in _REJOIN:
            raise Rebalanced(f"the group {self._group_id} is being rebalanced")
        if code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"the members of group {self._group_id} are no consumers, or do not know the "
                f"assignor {RANGE!r}",
            )
        raise response_error(code)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for partition in sorted(partitions):
        topics.setdefault(partition.topic, []).append(partition.partition)
    return topics


def _codes(answer: Any) -> list[int]:
    return [found.error_code for topic in answer.topics for found in topic.partitions]
