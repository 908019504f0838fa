"""Commits of groups: who may make them, what is shown of them, and when they go."""

from __future__ import annotations

import asyncio

import pytest

from ottla.coordinator.groups.answers import Committer, LeavingMember
from ottla.coordinator.groups.records import CommittedOffset
from ottla.errors import ErrorCode
from ottla.types import TopicPartition
from ottla.wire import messages as m
from tests.support.coordinator.coordinator_fakes import Rig, turns

CLICKS = TopicPartition("clicks", 0)
VIEWS = TopicPartition("views", 3)
DAY_MS = 24 * 3_600_000


def commit_of(offset: int, rig: Rig, metadata: str = "") -> CommittedOffset:
    return CommittedOffset(offset, 5, metadata, rig.clock.now_ms())


def subscription(*topics: str) -> bytes:
    return b"\x00\x01" + m.ConsumerProtocolSubscription(topics=list(topics)).encode(1)


async def test_a_member_commits_and_fetches(rig: Rig) -> None:
    first, _ = await rig.stable_pair()
    who = Committer(first.member_id, None, 2)
    committed = {CLICKS: commit_of(10, rig, "note"), VIEWS: commit_of(20, rig)}
    assert set((await rig.coordinator.offsets.commit("g", who, committed)).values()) == {
        ErrorCode.NONE
    }
    error, found = rig.coordinator.offsets.fetch("g", [CLICKS, TopicPartition("clicks", 1)])
    assert error is ErrorCode.NONE
    assert found[CLICKS].commit == committed[CLICKS]
    assert found[TopicPartition("clicks", 1)] == (ErrorCode.NONE, None)
    assert set(rig.coordinator.offsets.fetch("g", None)[1]) == {CLICKS, VIEWS}
    assert rig.coordinator.offsets.fetch("unknown", [CLICKS]) == (
        0,
        {CLICKS: (ErrorCode.NONE, None)},
    )


async def test_who_may_commit(rig: Rig) -> None:
    one = {CLICKS: commit_of(1, rig)}

    async def code(group: str, who: Committer) -> int:
        return (await rig.coordinator.offsets.commit(group, who, one))[CLICKS].value

    assert await code("simple", Committer()) == 0
    assert await code("other", Committer("m", None, 3)) == 22
    joined = await rig.join_now()
    assert await code("g", Committer(joined.member_id, None, 1)) == 27
    await rig.sync_now(joined)
    assert await code("g", Committer(joined.member_id, None, 1)) == 0
    assert await code("g", Committer(joined.member_id, None, 0)) == 22
    assert await code("g", Committer("stranger", None, 1)) == 25
    assert await code("g", Committer()) == 25, "not while the group has members"


async def test_a_commit_keeps_the_session(rig: Rig) -> None:
    joined = await rig.join_now()
    await rig.sync_now(joined)
    for _ in range(3):
        await rig.advance(9_000)
        who = Committer(joined.member_id, None, 1)
        await rig.coordinator.offsets.commit("g", who, {CLICKS: commit_of(1, rig)})
    assert rig.coordinator.describe("g").state == "Stable"


async def test_metadata_that_is_too_large_fails_alone(rig: Rig) -> None:
    commits = {CLICKS: commit_of(1, rig, "x" * 4097), VIEWS: commit_of(2, rig, "x" * 4096)}
    assert await rig.coordinator.offsets.commit("g", Committer(), commits) == {
        CLICKS: ErrorCode.OFFSET_METADATA_TOO_LARGE,
        VIEWS: ErrorCode.NONE,
    }
    assert set(rig.coordinator.offsets.fetch("g", None)[1]) == {VIEWS}


@pytest.mark.parametrize(
    ("from_log", "answered"), [(3, 15), (19, 15), (6, 16), (56, 16), (10, 28), (18, 28), (7, 7)]
)
async def test_errors_of_the_log_while_offsets_are_stored(
    rig: Rig, from_log: int, answered: int
) -> None:
    rig.replicas.fail_with = ErrorCode(from_log)
    result = await rig.coordinator.offsets.commit("g", Committer(), {CLICKS: commit_of(1, rig)})
    assert result[CLICKS].value == answered
    assert rig.coordinator.offsets.fetch("g", [CLICKS], require_stable=True)[1][CLICKS] == (0, None)


async def test_stable_offsets_wait_for_a_commit_under_way(rig: Rig) -> None:
    await rig.coordinator.offsets.commit("g", Committer(), {CLICKS: commit_of(1, rig)})
    rig.replicas.replicated.clear()
    commit = {CLICKS: commit_of(2, rig)}
    under_way = asyncio.create_task(rig.coordinator.offsets.commit("g", Committer(), commit))
    await turns()
    unstable = rig.coordinator.offsets.fetch("g", [CLICKS], require_stable=True)[1][CLICKS]
    assert unstable == (ErrorCode.UNSTABLE_OFFSET_COMMIT, None)
    visible = rig.coordinator.offsets.fetch("g", [CLICKS])[1][CLICKS].commit
    assert visible is not None and visible.offset == 1
    rig.replicas.replicated.set()
    await under_way
    visible = rig.coordinator.offsets.fetch("g", [CLICKS], require_stable=True)[1][CLICKS].commit
    assert visible is not None and visible.offset == 2


async def test_offsets_are_deleted_where_nobody_subscribes(rig: Rig) -> None:
    joined = await rig.join_now(protocols=(("range", subscription("clicks")),))
    await rig.sync_now(joined)
    who = Committer(joined.member_id, None, 1)
    await rig.coordinator.offsets.commit(
        "g", who, {CLICKS: commit_of(1, rig), VIEWS: commit_of(2, rig)}
    )
    assert await rig.coordinator.offsets.delete("g", [CLICKS, VIEWS]) == (
        ErrorCode.NONE,
        {CLICKS: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, VIEWS: ErrorCode.NONE},
    )
    assert set((await rig.fail_over()).offsets.fetch("g", None)[1]) == {CLICKS}
    assert (await rig.coordinator.offsets.delete("x", [CLICKS]))[0] is ErrorCode.GROUP_ID_NOT_FOUND


async def test_offsets_of_a_group_that_is_no_consumer_group_need_it_empty(rig: Rig) -> None:
    await rig.join_now(protocol_type="connect")
    assert await rig.coordinator.offsets.delete("g", [CLICKS]) == (ErrorCode.NON_EMPTY_GROUP, {})


# --- expiry ------------------------------------------------------------------------------------


async def test_offsets_of_a_simple_group_expire_after_their_commit(rig: Rig) -> None:
    await rig.coordinator.offsets.commit("g", Committer(), {CLICKS: commit_of(1, rig)})
    rig.clock.elapsed_ms += 6 * DAY_MS
    await rig.coordinator.offsets.commit("g", Committer(), {VIEWS: commit_of(2, rig)})
    rig.clock.elapsed_ms += DAY_MS
    assert await rig.coordinator.offsets.expire() == 1
    assert set(rig.coordinator.offsets.fetch("g", None)[1]) == {VIEWS}
    rig.clock.elapsed_ms += 6 * DAY_MS
    assert await rig.coordinator.offsets.expire() == 1
    assert rig.coordinator.describe("g").state == "Dead"
    assert (await rig.fail_over()).list_groups() == (ErrorCode.NONE, [])


async def test_offsets_of_a_consumer_group_expire_after_it_became_empty(rig: Rig) -> None:
    joined = await rig.join_now(protocols=(("range", subscription("clicks")),))
    await rig.sync_now(joined)
    who = Committer(joined.member_id, None, 1)
    await rig.coordinator.offsets.commit(
        "g", who, {CLICKS: commit_of(1, rig), VIEWS: commit_of(1, rig)}
    )
    rig.clock.elapsed_ms += 7 * DAY_MS
    assert await rig.coordinator.offsets.expire() == 1, "views, which nobody reads any more"
    rig.coordinator.leave("g", [LeavingMember(joined.member_id)])
    await turns()
    rig.clock.elapsed_ms += 7 * DAY_MS - 1
    assert await rig.coordinator.offsets.expire() == 0
    rig.clock.elapsed_ms += 1
    assert await rig.coordinator.offsets.expire() == 1
    assert rig.coordinator.describe("g").state == "Dead"


async def test_a_retention_time_of_the_commit_wins(rig: Rig) -> None:
    now_ms = rig.clock.now_ms()
    commit = CommittedOffset(1, -1, "", now_ms, now_ms + 1000)
    await rig.coordinator.offsets.commit("g", Committer(), {CLICKS: commit})
    await rig.fail_over()
    rig.clock.elapsed_ms += 999
    assert await rig.coordinator.offsets.expire() == 0
    rig.clock.elapsed_ms += 1
    assert await rig.coordinator.offsets.expire() == 1


async def test_offsets_of_a_deleted_topic_go_at_once(rig: Rig) -> None:
    rig.metadata.topics["clicks"] = {0: object()}
    await rig.coordinator.offsets.commit(
        "g", Committer(), {CLICKS: commit_of(1, rig), VIEWS: commit_of(2, rig)}
    )
    rig.metadata.delete("clicks")
    await turns()
    assert set(rig.coordinator.offsets.fetch("g", None)[1]) == {VIEWS}
    assert set((await rig.fail_over()).offsets.fetch("g", None)[1]) == {VIEWS}
