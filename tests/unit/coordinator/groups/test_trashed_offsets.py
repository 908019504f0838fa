"""Offsets of deleted topics that are kept, and those of other topics of the same name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from ottla.coordinator.groups.answers import Committer
from ottla.coordinator.groups.carrying import NewOffset
from ottla.coordinator.groups.coordinator import GroupCoordinator
from ottla.coordinator.groups.records import CommittedOffset
from ottla.coordinator.shards import ProducerStamp
from ottla.errors import ErrorCode
from ottla.types import TopicId, TopicPartition
from tests.support.coordinator.coordinator_fakes import Rig, turns

CLICKS = TopicPartition("clicks", 0)
FIRST, SECOND = b"1" * 16, b"2" * 16


class KeepingRig(Rig):
    """Its store answers when a test lets it."""

    def __init__(self) -> None:
        self.kept: dict[TopicId, int] = {}
        self.store_answers = asyncio.Event()
        self.store_answers.set()
        super().__init__()

    def new_coordinator(self) -> GroupCoordinator:
        super().new_coordinator()
        return GroupCoordinator(
            self.runtime, self.config, self.replicas, self.metadata, self._kept_until
        )

    async def _kept_until(self, topic_id: TopicId) -> int | None:
        await self.store_answers.wait()
        return self.kept.get(topic_id)

    def make(self, topic: str, topic_id: TopicId) -> None:
        self.metadata.topics[topic] = {0: object()}
        self.metadata.ids[topic] = topic_id
        for listener in self.metadata.listeners:
            listener(frozenset({topic}))

    async def commit(self, offset: int, group: str = "g") -> ErrorCode:
        one = {CLICKS: CommittedOffset(offset, 0, "", self.clock.now_ms())}
        return (await self.coordinator.offsets.commit(group, Committer(), one))[CLICKS]

    def stored(self, topic: str = "clicks", group: str = "g") -> int | None:
        tp = TopicPartition(topic, 0)
        commit = self.coordinator.offsets.fetch(group, [tp])[1][tp].commit
        return None if commit is None else commit.offset


@pytest.fixture
async def keeping(caplog: pytest.LogCaptureFixture) -> AsyncIterator[KeepingRig]:
    rig = KeepingRig()
    await rig.start()
    rig.make("clicks", FIRST)
    yield rig
    await rig.coordinator.shutdown()
    assert "Work of the group coordinator failed" not in caplog.messages


async def test_they_come_back_with_their_topic_and_not_with_another(keeping: KeepingRig) -> None:
    keeping.kept[FIRST] = keeping.clock.now_ms() + 1000
    await keeping.commit(1000)
    keeping.metadata.delete("clicks")
    await turns()
    assert keeping.stored() is None
    keeping.make("clicks", SECOND)
    assert await keeping.commit(5) is ErrorCode.NONE
    await keeping.fail_over()
    assert keeping.stored() == 5
    keeping.make("undeleted", FIRST)
    await turns()
    assert (keeping.stored("undeleted"), keeping.stored()) == (1000, 5)
    await keeping.fail_over()
    assert (keeping.stored("undeleted"), keeping.stored()) == (1000, 5)


@pytest.mark.parametrize("kept", [True, False])
async def test_commits_while_the_store_is_asked(keeping: KeepingRig, *, kept: bool) -> None:
    """Of the old topic: under way when it was deleted. Of the new one: to be tried again."""
    if kept:
        keeping.kept[FIRST] = keeping.clock.now_ms() + 1000
    await keeping.commit(1000)
    keeping.store_answers.clear()
    keeping.replicas.replicated.clear()
    under_way = asyncio.create_task(keeping.commit(1001))
    await turns()
    keeping.metadata.delete("clicks")
    keeping.make("clicks", SECOND)
    assert keeping.stored() is None, "the new topic has none yet"
    assert await keeping.commit(5) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    in_transaction = await keeping.coordinator.in_transactions.commit(
        "g", Committer(), ProducerStamp(7, 0), {CLICKS: CommittedOffset(5, 0, "", 0)}
    )
    assert in_transaction == {CLICKS: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    carried = await keeping.coordinator.carrier.carry(
        "x", "clicks", {"g": [NewOffset(0, 7, 0, "")]}
    )
    assert carried.partitions == [], "not yet"
    keeping.store_answers.set()
    await turns()
    keeping.replicas.replicated.set()
    assert await under_way is ErrorCode.NONE
    await turns()
    assert keeping.stored() is None
    assert await keeping.commit(5) is ErrorCode.NONE
    keeping.make("undeleted", FIRST)
    await turns()
    expected = 1000 if kept else None
    assert (keeping.stored("undeleted"), keeping.stored()) == (expected, 5)
    await keeping.fail_over()
    assert (keeping.stored("undeleted"), keeping.stored()) == (expected, 5)


async def test_a_commit_that_the_log_has_by_then_is_kept(keeping: KeepingRig) -> None:
    keeping.kept[FIRST] = keeping.clock.now_ms() + 1000
    keeping.store_answers.clear()
    keeping.replicas.replicated.clear()
    under_way = asyncio.create_task(keeping.commit(1001))
    await turns()
    keeping.metadata.delete("clicks")
    keeping.replicas.replicated.set()
    assert await under_way is ErrorCode.NONE
    keeping.store_answers.set()
    await turns()
    keeping.make("clicks", FIRST)
    await turns()
    assert keeping.stored() == 1001
    await keeping.fail_over()
    assert keeping.stored() == 1001


async def test_a_topic_that_is_back_before_the_store_has_answered(keeping: KeepingRig) -> None:
    keeping.kept[FIRST] = keeping.clock.now_ms() + 1000
    await keeping.commit(1000)
    keeping.store_answers.clear()
    keeping.metadata.delete("clicks")
    await turns()
    keeping.make("undeleted", FIRST)
    keeping.store_answers.set()
    await turns()
    assert keeping.stored("undeleted") == 1000


async def test_offsets_that_come_back_leave_a_commit_under_way_alone(keeping: KeepingRig) -> None:
    keeping.kept[FIRST] = keeping.clock.now_ms() + 1000
    await keeping.commit(1000)
    keeping.metadata.delete("clicks")
    await turns()
    keeping.replicas.replicated.clear()
    under_way = asyncio.create_task(keeping.commit(1001))
    await turns()
    keeping.make("clicks", FIRST)
    await turns()
    keeping.replicas.replicated.set()
    assert await under_way is ErrorCode.NONE
    await turns()
    assert keeping.stored() == 1001
    await keeping.fail_over()
    assert keeping.stored() == 1001


async def test_a_name_that_ends_twice_while_the_store_is_asked(keeping: KeepingRig) -> None:
    keeping.kept[FIRST] = keeping.clock.now_ms() + 1000
    await keeping.commit(1000)
    keeping.store_answers.clear()
    for topic_id in (SECOND, b"3" * 16):
        keeping.metadata.delete("clicks")
        keeping.make("clicks", topic_id)
    keeping.store_answers.set()
    await turns()
    assert await keeping.commit(5) is ErrorCode.NONE, "the name is free again"
    keeping.make("undeleted", FIRST)
    await turns()
    assert (keeping.stored("undeleted"), keeping.stored()) == (1000, 5)


async def test_every_group_has_them_back_in_the_moment_in_which_the_topic_is(
    keeping: KeepingRig,
) -> None:
    """The log takes its time: whoever asks meanwhile would be told that there are none."""
    keeping.kept[FIRST] = keeping.clock.now_ms() + 1000
    groups = ["g", "h", "i"]
    for number, group in enumerate(groups):
        await keeping.commit(number, group)
    keeping.metadata.delete("clicks")
    await turns()
    keeping.replicas.replicated.clear()
    keeping.make("clicks", FIRST)
    assert [keeping.stored(group=group) for group in groups] == [0, 1, 2]
    keeping.replicas.replicated.set()


async def test_a_topic_that_is_back_before_the_store_answers_keeps_its_offsets(
    keeping: KeepingRig,
) -> None:
    """Its entry in the trash is gone by then."""
    await keeping.commit(1000)
    keeping.store_answers.clear()
    keeping.metadata.delete("clicks")
    keeping.make("clicks", FIRST)
    keeping.store_answers.set()
    await turns()
    assert keeping.stored() == 1000
    await keeping.fail_over()
    assert keeping.stored() == 1000
