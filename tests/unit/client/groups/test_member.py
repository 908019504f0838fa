"""A member joins, hears of rebalances, commits and leaves: requests and answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ottla.client.cluster import Cluster
from ottla.client.groups import member as member_module
from ottla.client.groups.member import Member, Rebalanced
from ottla.client.groups.protocol import decode_assignment, encode_assignment, encode_subscription
from ottla.errors import ErrorCode, KafkaError
from ottla.runtime import system_runtime
from ottla.types import TopicPartition
from ottla.wire import messages as m
from tests.support.client.fake_kafka import RANGES, FakeKafka, topic

ALL = RANGES | {8: (0, 8), 9: (0, 7), 10: (0, 2), 11: (0, 7), 12: (0, 4), 13: (0, 4), 14: (0, 5)}
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
WAIT_S = 10.0
BEAT_S = 0.01


class FakeGroup:
    """A coordinator with one more member, "other", of which it knows no heartbeat."""

    def __init__(self, kafka: FakeKafka) -> None:
        self.leader = "me"
        self.generation = 0
        self.heartbeats: list[int] = []  # codes to answer with, then none
        self.join_codes: list[int] = []
        self.commit_codes: list[int] = []
        self.assigned: dict[str, tuple[TopicPartition, ...]] = {}
        self.left: list[str] = []
        self.kafka = kafka
        for request_class, answer in (
            (m.FindCoordinatorRequest, self.find),
            (m.JoinGroupRequest, self.join),
            (m.SyncGroupRequest, self.sync),
            (m.HeartbeatRequest, self.heartbeat),
            (m.OffsetCommitRequest, self.commit),
            (m.OffsetFetchRequest, self.fetch),
            (m.LeaveGroupRequest, self.leave),
        ):
            kafka.on(request_class, answer)

    def find(self, _: Any) -> m.FindCoordinatorResponse:
        node = self.kafka
        return m.FindCoordinatorResponse(node_id=node.node_id, host="127.0.0.1", port=node.port)

    def join(self, request: Any) -> m.JoinGroupResponse:
        if not request.member_id:
            return m.JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="me")
        if self.join_codes:
            return m.JoinGroupResponse(error_code=self.join_codes.pop(0))
        self.generation += 1
        member = m.JoinGroupResponse.JoinGroupResponseMember
        members = [
            member(member_id="me", metadata=request.protocols[0].metadata),
            member(member_id="other", metadata=encode_subscription(["t"])),
        ]
        return m.JoinGroupResponse(
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name="range",
            leader=self.leader,
            member_id=request.member_id,
            members=members if self.leader == "me" else [],
        )

    def sync(self, request: Any) -> m.SyncGroupResponse:
        assert request.generation_id == self.generation
        given = {
            each.member_id: decode_assignment(bytes(each.assignment))
            for each in request.assignments
        }
        self.assigned = given or {"me": (T1,)}
        return m.SyncGroupResponse(assignment=encode_assignment(self.assigned["me"]))

    def heartbeat(self, _: Any) -> m.HeartbeatResponse:
        return m.HeartbeatResponse(error_code=self.heartbeats.pop(0) if self.heartbeats else 0)

    def commit(self, request: Any) -> m.OffsetCommitResponse:
        assert (request.member_id, request.generation_id_or_member_epoch) == ("me", self.generation)
        code = self.commit_codes.pop(0) if self.commit_codes else 0
        response = m.OffsetCommitResponse
        return response(
            topics=[
                response.OffsetCommitResponseTopic(
                    name=each.name,
                    partitions=[
                        response.OffsetCommitResponsePartition(
                            partition_index=part.partition_index, error_code=code
                        )
                        for part in each.partitions
                    ],
                )
                for each in request.topics
            ]
        )

    def fetch(self, request: Any) -> m.OffsetFetchResponse:
        assert request.require_stable
        response = m.OffsetFetchResponse
        part = response.OffsetFetchResponsePartition
        parts = [
            part(partition_index=0, committed_offset=5),
            part(partition_index=1, committed_offset=-1),
        ]
        found = response.OffsetFetchResponseTopic(name="t", partitions=parts)
        return response(topics=[found])

    def leave(self, request: Any) -> m.LeaveGroupResponse:
        self.left += [each.member_id for each in request.members]
        return m.LeaveGroupResponse()


@pytest.fixture
async def kafka() -> AsyncIterator[FakeKafka]:
    fake = await FakeKafka(1, ALL).start()
    fake.topics = [topic("t", 1, 1)]
    yield fake
    await fake.stop()


@pytest.fixture
def group(kafka: FakeKafka) -> FakeGroup:
    return FakeGroup(kafka)


@pytest.fixture
async def member(kafka: FakeKafka, group: FakeGroup) -> AsyncIterator[Member]:
    async with Cluster(system_runtime(), kafka.address) as cluster:
        member = Member(cluster, "g", ["t"], heartbeat_interval_s=BEAT_S)
        yield member
        await member.leave()


async def news(member: Member) -> None:
    async with asyncio.timeout(WAIT_S):
        while True:
            member.check()
            await asyncio.sleep(BEAT_S)


async def test_a_leader_shares_out(member: Member, group: FakeGroup) -> None:
    assert await member.join() == [T0]
    assert group.assigned == {"me": (T0,), "other": (T1,)}
    await member.leave()
    assert group.left == ["me"]
    await member.leave()
    assert group.left == ["me"], "once"


async def test_the_others_take_what_they_get(member: Member, group: FakeGroup) -> None:
    group.leader = "other"
    assert await member.join() == [T1]


async def test_offsets(member: Member, group: FakeGroup) -> None:
    await member.join()
    assert await member.committed([T0, T1]) == {T0: 5}
    assert await member.committed([]) == {}
    await member.commit({T0: 7})
    for code in (
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ):
        await member.join()
        group.commit_codes = [code]
        with pytest.raises(Rebalanced):
            await member.commit({T0: 7})
    await member.join()
    group.commit_codes = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(KafkaError, match="authorization failed"):
        await member.commit({T0: 7})


async def test_a_rebalance_is_heard_of(member: Member, group: FakeGroup) -> None:
    await member.join()
    group.heartbeats = [0, 0, ErrorCode.REBALANCE_IN_PROGRESS]
    with pytest.raises(Rebalanced):
        await news(member)
    await member.join()
    member.check()
    assert group.generation == 2
    group.heartbeats = [ErrorCode.GROUP_AUTHORIZATION_FAILED]
    with pytest.raises(KafkaError, match="authorization failed"):
        await news(member)


async def test_the_leader_sees_new_partitions(
    member: Member, group: FakeGroup, kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_module, "_HEARTBEATS_BETWEEN_LOOKS", 2)
    await member.join()
    kafka.topics = [topic("t", 1, 1, 1, 1)]
    with pytest.raises(Rebalanced, match="other partitions"):
        await news(member)
    assert await member.join() == [T0, T1]
    assert len(group.assigned["other"]) == 2


async def test_joining_again_and_not_at_all(member: Member, group: FakeGroup) -> None:
    group.join_codes = [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    assert await member.join() == [T0]
    group.join_codes = [ErrorCode.INCONSISTENT_GROUP_PROTOCOL]
    with pytest.raises(KafkaError, match="do not know the assignor 'range'"):
        await member.join()
    group.join_codes = [ErrorCode.GROUP_AUTHORIZATION_FAILED]
    with pytest.raises(KafkaError):
        await member.join()
    group.join_codes = [ErrorCode.REBALANCE_IN_PROGRESS] * 3
    assert await member.join() == [T0]
