"""Requests of members that are answered by their bytes: the handler's answer, or none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.bounds.turns import Turns
from ottla.broker.handlers import heartbeat, offset_commit
from ottla.broker.requests import direct_groups
from ottla.broker.requests.direct_groups import DirectGroups
from ottla.broker.requests.parked import Parked
from ottla.errors import ErrorCode
from ottla.types import TopicPartition
from ottla.wire import messages as m
from ottla.wire.codec import Message
from ottla.wire.framing import decode_request_header, encode_request, encode_response
from tests.support.coordinator.coordinator_fakes import Rig, turns

TOPICS = {"clicks": [0, 1, 2], "views": [5]}
REQUEST = m.OffsetCommitRequest


class Broker:
    """A coordinator, and the topics that there are."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.topics = dict(TOPICS)
        self.services = cast(
            "Any",
            SimpleNamespace(groups=rig.coordinator, metadata_cache=self, runtime=rig.runtime),
        )
        self.member_id, self.generation = "", -1

    def contains(self, tp: TopicPartition) -> bool:
        return tp.partition in self.topics.get(tp.topic, ())

    async def join(self) -> Broker:
        joined = await self.rig.join_now()
        await self.rig.sync_now(joined, {joined.member_id: b"a"})
        self.member_id, self.generation = joined.member_id, joined.generation_id
        return self

    def commit(self, offset: int, topics: dict[str, list[int]] = TOPICS) -> m.OffsetCommitRequest:
        return REQUEST(
            group_id="g",
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            topics=[
                REQUEST.OffsetCommitRequestTopic(
                    name=name,
                    partitions=[
                        REQUEST.OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=offset + partition,
                            committed_leader_epoch=7,
                            committed_metadata="päckchen",
                        )
                        for partition in partitions
                    ],
                )
                for name, partitions in topics.items()
            ],
        )

    def beat(self) -> m.HeartbeatRequest:
        return m.HeartbeatRequest(
            group_id="g", generation_id=self.generation, member_id=self.member_id
        )

    async def handled(self, frame: memoryview) -> bytes:
        """The answer of the request's handler."""
        header, position = decode_request_header(frame)
        kind = cast("Any", m.request_class(header.api_key))
        request, _ = kind.decode(frame, header.api_version, position)
        handler: Any = heartbeat if header.api_key == direct_groups.HEARTBEAT_KEY else offset_commit
        context = SimpleNamespace(services=self.services, authorizer=None, turns=Turns())
        response = await handler.handle(context, request)
        return b"".join(encode_response(response, header.api_version, header.correlation_id))

    def committed(self) -> dict[TopicPartition, tuple[int, int, str]]:
        found = self.rig.coordinator.offsets.fetch("g", None)[1]
        return {tp: each.commit[:3] for tp, each in found.items() if each.commit is not None}


def frame_of(request: Message, version: int, correlation_id: int = 1) -> memoryview:
    return memoryview(b"".join(encode_request(request, version, correlation_id, "me")))[4:]


async def ended(answer: bytes | Parked | None) -> bytes | None:
    if isinstance(answer, Parked):
        await turns()
        assert answer.chunks is not None
        return b"".join(answer.chunks)
    return answer


@pytest.fixture
async def broker(rig: Rig) -> Broker:
    return await Broker(rig).join()


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = await Rig().start()
    yield rig
    await rig.coordinator.shutdown()


@pytest.mark.parametrize("version", range(6, 10))
async def test_the_answer_to_a_commit_is_the_handlers(broker: Broker, version: int) -> None:
    direct = DirectGroups()
    for correlation_id, offset in ((1, 10), (70_000, 2**40), (3, -1)):
        frame = frame_of(broker.commit(offset), version, correlation_id)
        answer = direct.answer(broker.services, frame)
        assert await ended(answer) == await broker.handled(frame)
        assert broker.committed()[TopicPartition("clicks", 2)] == (offset + 2, 7, "päckchen")
        assert len(broker.committed()) == 4


async def test_what_it_writes_is_what_the_handler_writes(broker: Broker) -> None:
    frame = frame_of(broker.commit(123), 9)
    before = len(broker.rig.log.entries())
    await ended(DirectGroups().answer(broker.services, frame))
    direct = broker.rig.log.entries()[before:]
    await broker.handled(frame)
    assert broker.rig.log.entries()[before + 4 :] == direct
    assert len(direct) == 4


@pytest.mark.parametrize("version", range(5))
async def test_the_answer_to_a_heartbeat_is_the_handlers(broker: Broker, version: int) -> None:
    direct = DirectGroups()
    for correlation_id in (1, 2, 70_000):
        frame = frame_of(broker.beat(), version, correlation_id)
        assert direct.answer(broker.services, frame) == await broker.handled(frame)


async def test_it_keeps_a_member_alive(broker: Broker) -> None:
    direct, beat, commit = DirectGroups(), frame_of(broker.beat(), 4), frame_of(broker.commit(1), 9)
    for frame in (beat, commit, beat, commit):
        await broker.rig.advance(8_000)
        assert await ended(direct.answer(broker.services, frame)) is not None
    await broker.rig.advance(10_001)
    assert direct.answer(broker.services, beat) is None, "the session is over"
    assert direct.answer(broker.services, commit) is None


async def test_members_with_requests_of_one_length_share_a_connection(broker: Broker) -> None:
    direct = DirectGroups()
    frames = [frame_of(broker.commit(n), 9, n) for n in range(3)]
    other = broker.commit(5)
    other.group_id = "h"  # a group without members
    other.member_id, other.generation_id_or_member_epoch = "", -1
    shorter = frame_of(other, 9)
    for frame in (*frames, shorter, frames[0], shorter):
        assert await ended(direct.answer(broker.services, frame)) == await broker.handled(frame)


async def test_errors_are_left_to_the_handler(broker: Broker) -> None:
    direct = DirectGroups()
    frame = frame_of(broker.commit(1), 9)
    assert await ended(direct.answer(broker.services, frame)) is not None
    before = len(broker.rig.log.batches)
    for change in (
        {"generation_id_or_member_epoch": 99},
        {"member_id": "stranger"},
        {"group_instance_id": "unknown", "member_id": "stranger"},
    ):
        request = broker.commit(2)
        for name, value in change.items():
            setattr(request, name, value)
        assert direct.answer(broker.services, frame_of(request, 9)) is None
    del broker.topics["views"]
    assert direct.answer(broker.services, frame) is None, "a topic that is gone"
    assert len(broker.rig.log.batches) == before, "nothing was done"


async def test_an_error_of_the_log_reaches_every_partition(broker: Broker) -> None:
    direct = DirectGroups()
    frame = frame_of(broker.commit(1), 9, 5)
    broker.rig.replicas.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    answer = await ended(direct.answer(broker.services, frame))
    assert answer == await broker.handled(frame)
    assert answer.count(ErrorCode.COORDINATOR_NOT_AVAILABLE.to_bytes(2, "big")) == 4
    assert not broker.committed()


@pytest.mark.parametrize("topics", [{}, {"clicks": [0, 0]}, {"clicks": [], "views": [5]}], ids=str)
async def test_odd_commits_get_the_handlers_answer_or_none(
    broker: Broker, topics: dict[str, list[int]]
) -> None:
    frame = frame_of(broker.commit(1, topics), 9)
    answer = await ended(DirectGroups().answer(broker.services, frame))
    assert answer in (None, await broker.handled(frame))


async def test_bytes_that_are_no_request(broker: Broker) -> None:
    whole = frame_of(broker.commit(1), 9)
    direct = DirectGroups()
    for end in range(8, len(whole)):
        assert direct.answer(broker.services, whole[:end]) is None
    longer = memoryview(bytes(whole) + b"\x00")
    assert direct.answer(broker.services, longer) is None
    assert not broker.committed()


async def test_what_is_remembered_has_bounds(broker: Broker) -> None:
    direct = DirectGroups()
    for n in range(100):
        request = broker.beat()
        request.member_id = "m" * n
        direct.answer(broker.services, frame_of(request, 4))
    assert sum(map(len, (direct._forms or {}).values())) <= direct_groups.MAX_FORMS
    large = broker.commit(1, {"x" * 200: list(range(500))})
    assert direct.answer(broker.services, frame_of(large, 9)) is None


async def test_metadata_that_is_new_each_time_is_not_learnt_for_ever(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    learnt = []
    real = direct_groups._learn
    monkeypatch.setattr(direct_groups, "_learn", lambda *given: learnt.append(1) or real(*given))
    direct = DirectGroups()
    for n in range(640):
        request = broker.commit(n, {"views": [5]})
        request.topics[0].partitions[0].committed_metadata = f"{n}"
        direct.answer(broker.services, frame_of(request, 9))
    assert len(learnt) <= direct_groups.MAX_FORMS + 10
    usual = frame_of(broker.commit(1), 9)
    known = [direct.answer(broker.services, usual) is not None for _ in range(200)]
    assert known[-1], "it gets its chance"
