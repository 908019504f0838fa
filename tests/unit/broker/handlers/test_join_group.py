"""The group APIs through their handlers: every version is encoded and decoded on the way."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.bounds.turns import Turns
from ottla.broker.context.request import RequestContext
from ottla.broker.handlers import ROUTES_BY_KEY
from ottla.errors import ErrorCode, KafkaError
from ottla.types import Endpoint, TopicPartition
from ottla.wire import messages as m
from ottla.wire.framing import RequestHeader
from tests.support.coordinator.coordinator_fakes import OFFSETS, Rig, turns

ADDRESS = Endpoint("PLAINTEXT", "broker-1", 9092)


class Cache:
    """The metadata cache as these handlers use it."""

    def __init__(self) -> None:
        self.leader: int | None = 1
        self.known = {TopicPartition("clicks", 0), TopicPartition("clicks", 1)}

    def contains(self, tp: TopicPartition) -> bool:
        return tp in self.known

    def contains_topic(self, name: str) -> bool:
        return self.leader is not None

    def partition_state(self, tp: TopicPartition) -> object:
        assert tp == OFFSETS
        return SimpleNamespace(leader=self.leader)

    def endpoint(self, broker_id: int, listener: str) -> Endpoint | None:
        return ADDRESS if (broker_id, listener) == (1, "PLAINTEXT") else None


class TopicAdmin:
    def __init__(self) -> None:
        self.ensured: list[str] = []

    async def ensure_internal_topic(self, name: str) -> None:
        self.ensured.append(name)


class ProducerIds:
    def __init__(self) -> None:
        self.failure: KafkaError | None = None

    async def next_id(self) -> int:
        if self.failure is not None:
            raise self.failure
        return 77


class Client:
    """Sends messages to handlers in a version's own bytes, and reads the answers likewise."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.services: Any = SimpleNamespace(
            turns=Turns(),
            groups=rig.coordinator,
            runtime=rig.runtime,
            metadata_cache=Cache(),
            topic_admin=TopicAdmin(),
            producer_ids=ProducerIds(),
        )

    async def send(self, module: str, request: Any, version: int) -> Any:
        decoded, _ = type(request).decode(request.encode(version), version)
        header = RequestHeader(request.API_KEY, version, 1, "client")
        name = ROUTES_BY_KEY[request.API_KEY].name
        context = RequestContext(self.services, header, name, "PLAINTEXT", "127.0.0.1")
        handler = import_module(f"ottla.broker.handlers.{module}")
        response = await handler.handle(context, decoded)
        return type(response).decode(response.encode(version), version)[0]

    async def join(self, version: int, **fields: Any) -> m.JoinGroupResponse:
        given = {
            "group_id": "g",
            "session_timeout_ms": 10_000,
            "protocol_type": "consumer",
            "protocols": [
                m.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"meta")
            ],
            **fields,
        }
        if version >= 1:
            given.setdefault("rebalance_timeout_ms", 60_000)
        response: m.JoinGroupResponse = await self.send(
            "join_group", m.JoinGroupRequest(**given), version
        )
        return response

    async def sync(self, joined: m.JoinGroupResponse, version: int, **fields: Any) -> Any:
        assignment = m.SyncGroupRequest.SyncGroupRequestAssignment(
            member_id=joined.member_id, assignment=b"mine"
        )
        given: dict[str, Any] = {
            "group_id": "g",
            "generation_id": joined.generation_id,
            "member_id": joined.member_id,
            "assignments": [assignment],
        }
        if version >= 5:
            given |= {"protocol_type": "consumer", "protocol_name": "range"}
        return await self.send("sync_group", m.SyncGroupRequest(**(given | fields)), version)

    async def commit(self, version: int, partitions: dict[int, int], **fields: Any) -> list[int]:
        each = m.OffsetCommitRequest.OffsetCommitRequestPartition
        topic = m.OffsetCommitRequest.OffsetCommitRequestTopic(
            name="clicks",
            partitions=[
                each(partition_index=number, committed_offset=offset, committed_metadata=None)
                for number, offset in partitions.items()
            ],
        )
        request = m.OffsetCommitRequest(group_id="g", topics=[topic], **fields)
        response = await self.send("offset_commit", request, version)
        return [part.error_code for part in response.topics[0].partitions]


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    rig = await Rig().start()
    yield Client(rig)
    await rig.coordinator.shutdown()


@pytest.mark.parametrize("version", range(4))
async def test_find_coordinator_single(client: Client, version: int) -> None:
    request = m.FindCoordinatorRequest(key="g")
    found = await client.send("find_coordinator", request, version)
    assert (found.error_code, found.node_id, found.host, found.port) == (0, 1, "broker-1", 9092)
    assert found.error_message == ("NONE" if version else "")


@pytest.mark.parametrize("version", range(4, 7))
async def test_find_coordinator_of_many_keys(client: Client, version: int) -> None:
    request = m.FindCoordinatorRequest(coordinator_keys=["a", "b"])
    found = await client.send("find_coordinator", request, version)
    assert [(each.key, each.node_id, each.error_code) for each in found.coordinators] == [
        ("a", 1, 0),
        ("b", 1, 0),
    ]


async def test_find_coordinator_creates_the_topic_and_asks_for_patience(client: Client) -> None:
    client.services.metadata_cache.leader = None
    found = await client.send("find_coordinator", m.FindCoordinatorRequest(key="g"), 2)
    assert (found.error_code, found.node_id, found.host, found.port) == (15, -1, "", -1)
    assert client.services.topic_admin.ensured == ["__consumer_offsets"]
    client.services.metadata_cache.leader = 2  # no such broker on this listener
    found = await client.send("find_coordinator", m.FindCoordinatorRequest(key="g"), 2)
    assert found.error_code == 15


@pytest.mark.parametrize(("version", "key_type", "code"), [(4, 3, 42), (5, 2, 42), (6, 2, 15)])
async def test_find_coordinator_of_other_kinds(
    client: Client, version: int, key_type: int, code: int
) -> None:
    request = m.FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"])
    (found,) = (await client.send("find_coordinator", request, version)).coordinators
    assert (found.key, found.error_code, found.node_id) == ("x", code, -1)
    assert found.error_message


async def test_the_topic_of_transactions_is_created_too(client: Client) -> None:
    client.services.metadata_cache.leader = None
    request = m.FindCoordinatorRequest(key="tx", key_type=1)
    assert (await client.send("find_coordinator", request, 1)).error_code == 15
    assert client.services.topic_admin.ensured == ["__transaction_state"]


@pytest.mark.parametrize("version", range(10))
async def test_join_group(client: Client, version: int) -> None:
    joined = await client.join(version)
    if version >= 4:
        assert (joined.error_code, joined.generation_id) == (79, -1)
        assert joined.protocol_name == (None if version >= 7 else "")
        joined = await client.join(version, member_id=joined.member_id)
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
    assert joined.leader == joined.member_id
    assert joined.protocol_type == ("consumer" if version >= 7 else None)
    assert [(each.member_id, each.metadata) for each in joined.members] == [
        (joined.member_id, b"meta")
    ]
    (member,) = client.rig.coordinator.describe("g").members
    assert (member.client_id, member.client_host) == ("client", "/127.0.0.1")


@pytest.mark.parametrize("version", [5, 8, 9])
async def test_a_static_leader_that_comes_back(client: Client, version: int) -> None:
    joined = await client.join(version, group_instance_id="i")
    await client.sync(joined, 3, group_instance_id="i")
    back = await client.join(
        version, group_instance_id="i", reason="restart" if version > 7 else None
    )
    assert back.error_code == 0 and back.member_id != joined.member_id
    assert back.skip_assignment == (version >= 9)
    assert back.leader == (back.member_id if version >= 9 else joined.member_id)


@pytest.mark.parametrize("version", range(6))
async def test_sync_group(client: Client, version: int) -> None:
    joined = await client.join(3)
    synced = await client.sync(joined, version)
    assert (synced.error_code, synced.assignment) == (0, b"mine")
    echo = ("consumer", "range") if version >= 5 else (None, None)
    assert (synced.protocol_type, synced.protocol_name) == echo


async def test_sync_group_5_insists_on_the_protocol(client: Client) -> None:
    joined = await client.join(3)
    assert (await client.sync(joined, 5, protocol_name=None)).error_code == 23
    assert (await client.sync(joined, 5, protocol_type="connect")).error_code == 23


@pytest.mark.parametrize("version", range(5))
async def test_heartbeat(client: Client, version: int) -> None:
    joined = await client.join(3)
    beat = m.HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id)
    assert (await client.send("heartbeat", beat, version)).error_code == 0
    beat.generation_id = 9
    assert (await client.send("heartbeat", beat, version)).error_code == 22


@pytest.mark.parametrize("version", range(6))
async def test_leave_group(client: Client, version: int) -> None:
    joined = await client.join(3)
    if version < 3:
        leave = m.LeaveGroupRequest(group_id="g", member_id=joined.member_id)
        answers = [(await client.send("leave_group", leave, version)).error_code for _ in "ab"]
    else:
        member = m.LeaveGroupRequest.MemberIdentity(member_id=joined.member_id)
        leave = m.LeaveGroupRequest(group_id="g", members=[member, member])
        left = await client.send("leave_group", leave, version)
        assert left.error_code == 0
        answers = [each.error_code for each in left.members]
    assert answers == [0, 25]
    leave.group_id = ""
    assert (await client.send("leave_group", leave, version)).error_code == 24


@pytest.mark.parametrize("version", range(10))
async def test_offset_commit(client: Client, version: int) -> None:
    assert await client.commit(version, {0: 10, 7: 11}) == [0, 3]
    _, found = client.rig.coordinator.offsets.fetch("g", None)
    (commit,) = [each.commit for each in found.values()]
    assert commit is not None
    assert (commit.offset, commit.metadata) == (10, "")
    assert commit.commit_timestamp_ms == client.rig.clock.now_ms()
    assert commit.expire_timestamp_ms is None


async def test_offset_commit_with_a_retention_time(client: Client) -> None:
    assert await client.commit(3, {0: 10}, retention_time_ms=5000) == [0]
    _, found = client.rig.coordinator.offsets.fetch("g", None)
    (commit,) = [each.commit for each in found.values()]
    assert commit is not None
    assert commit.expire_timestamp_ms == client.rig.clock.now_ms() + 5000


async def test_offset_commit_of_a_stranger(client: Client) -> None:
    joined = await client.join(3)
    await client.sync(joined, 3)
    who = {"generation_id_or_member_epoch": 1, "member_id": "stranger"}
    assert await client.commit(9, {0: 1, 1: 1}, **who) == [25, 25]


def offsets_of(topics: list[Any]) -> dict[tuple[str, int], tuple[int, str, int]]:
    return {
        (topic.name, part.partition_index): (part.committed_offset, part.metadata, part.error_code)
        for topic in topics
        for part in topic.partitions
    }


@pytest.mark.parametrize("version", range(8))
async def test_offset_fetch_of_one_group(client: Client, version: int) -> None:
    await client.commit(2, {0: 10})
    asked = m.OffsetFetchRequest.OffsetFetchRequestTopic(name="clicks", partition_indexes=[0, 1])
    request = m.OffsetFetchRequest(group_id="g", topics=[asked])
    answer = await client.send("offset_fetch", request, version)
    expected = {("clicks", 0): (10, "", 0), ("clicks", 1): (-1, "", 0)}
    assert (answer.error_code, offsets_of(answer.topics)) == (0, expected)
    if version >= 2:
        request.topics = None
        answer = await client.send("offset_fetch", request, version)
        assert offsets_of(answer.topics) == {("clicks", 0): (10, "", 0)}


@pytest.mark.parametrize("version", [0, 1, 2, 7])
async def test_offset_fetch_from_the_wrong_broker(client: Client, version: int) -> None:
    client.rig.resign(1)
    asked = m.OffsetFetchRequest.OffsetFetchRequestTopic(name="clicks", partition_indexes=[0])
    request = m.OffsetFetchRequest(group_id="g", topics=[asked])
    answer = await client.send("offset_fetch", request, version)
    if version < 2:
        assert offsets_of(answer.topics) == {("clicks", 0): (-1, "", 16)}
    else:
        assert (answer.error_code, answer.topics) == (16, [])


@pytest.mark.parametrize("version", [8, 9])
async def test_offset_fetch_of_many_groups(client: Client, version: int) -> None:
    await client.commit(2, {0: 10})
    group = m.OffsetFetchRequest.OffsetFetchRequestGroup
    topics = m.OffsetFetchRequest.OffsetFetchRequestTopics
    request = m.OffsetFetchRequest(
        groups=[
            group(group_id="g", topics=None),
            group(group_id="other", topics=[topics(name="clicks", partition_indexes=[0])]),
        ],
        require_stable=True,
    )
    answer = await client.send("offset_fetch", request, version)
    assert [(each.group_id, each.error_code) for each in answer.groups] == [("g", 0), ("other", 0)]
    assert offsets_of(answer.groups[0].topics) == {("clicks", 0): (10, "", 0)}
    assert offsets_of(answer.groups[1].topics) == {("clicks", 0): (-1, "", 0)}


async def test_offset_delete(client: Client) -> None:
    await client.commit(2, {0: 10})
    part = m.OffsetDeleteRequest.OffsetDeleteRequestPartition
    topic = m.OffsetDeleteRequest.OffsetDeleteRequestTopic(
        name="clicks", partitions=[part(partition_index=0), part(partition_index=9)]
    )
    request = m.OffsetDeleteRequest(group_id="g", topics=[topic])
    answer = await client.send("offset_delete", request, 0)
    assert answer.error_code == 0
    assert [each.error_code for each in answer.topics[0].partitions] == [0, 3]
    answer = await client.send("offset_delete", request, 0)
    assert (answer.error_code, answer.topics) == (69, []), "the last offset took the group along"


@pytest.mark.parametrize("version", range(6))
async def test_describe_groups(client: Client, version: int) -> None:
    joined = await client.join(3)
    await client.sync(joined, 3)
    request = m.DescribeGroupsRequest(
        groups=["g", "nobody"], include_authorized_operations=version >= 3
    )
    known, unknown = (await client.send("describe_groups", request, version)).groups
    assert (known.group_state, known.protocol_type, known.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    (member,) = known.members
    assert (member.member_metadata, member.member_assignment) == (b"meta", b"mine")
    assert (unknown.error_code, unknown.group_state) == (0, "Dead")
    assert known.authorized_operations == (328 if version >= 3 else -(2**31))


@pytest.mark.parametrize("version", range(6))
async def test_list_groups(client: Client, version: int) -> None:
    await client.commit(2, {0: 10})
    (group,) = (await client.send("list_groups", m.ListGroupsRequest(), version)).groups
    assert (group.group_id, group.protocol_type) == ("g", "")
    if version >= 4:
        assert group.group_state == "Empty"
        filtered = m.ListGroupsRequest(states_filter=["stable"])
        assert (await client.send("list_groups", filtered, version)).groups == []
    if version >= 5:
        assert group.group_type == "classic"
        filtered = m.ListGroupsRequest(types_filter=["consumer"])
        assert (await client.send("list_groups", filtered, version)).groups == []
        filtered = m.ListGroupsRequest(types_filter=["Classic"])
        assert len((await client.send("list_groups", filtered, version)).groups) == 1


@pytest.mark.parametrize("version", range(3))
async def test_delete_groups(client: Client, version: int) -> None:
    await client.commit(2, {0: 10})
    request = m.DeleteGroupsRequest(groups_names=["g", "nobody", "g"])
    answer = await client.send("delete_groups", request, version)
    assert [(each.group_id, each.error_code) for each in answer.results] == [
        ("g", 0),
        ("nobody", 69),
    ]
    joined = await client.join(3)
    await client.sync(joined, 3)
    await turns()
    answer = await client.send("delete_groups", m.DeleteGroupsRequest(groups_names=["g"]), version)
    assert [each.error_code for each in answer.results] == [68]


@pytest.mark.parametrize("version", range(6))
async def test_init_producer_id(client: Client, version: int) -> None:
    plain = m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    answer = await client.send("init_producer_id", plain, version)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, 77, 0)
    plain.transactional_id = ""
    assert (await client.send("init_producer_id", plain, version)).error_code == 42
    if version >= 3:
        half = m.InitProducerIdRequest(transactional_id=None, producer_id=5)
        assert (await client.send("init_producer_id", half, version)).error_code == 42


async def test_init_producer_id_without_a_store(client: Client) -> None:
    client.services.producer_ids.failure = KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    request = m.InitProducerIdRequest(transactional_id=None)
    answer = await client.send("init_producer_id", request, 4)
    assert (answer.error_code, answer.producer_id) == (14, -1)


@pytest.mark.parametrize("retention_time_ms", [2**63 - 1, -(2**63)])
async def test_a_retention_beyond_every_calendar_is_stored(
    client: Client, retention_time_ms: int
) -> None:
    """Kafka adds it to the time in a long, which may end up in the past."""
    assert await client.commit(2, {0: 5}, retention_time_ms=retention_time_ms) == [0]
