"""What a coordinator keeps of its groups, and all of it after a fail-over."""

from __future__ import annotations

import asyncio

import pytest

from ottla.coordinator.groups.answers import Committer, LeavingMember
from ottla.coordinator.groups.records import (
    CommittedOffset,
    GroupKey,
    OffsetKey,
    decode_key,
    encode_offset_key,
    encode_offset_value,
)
from ottla.errors import ErrorCode
from ottla.types import TopicPartition
from ottla.wire import records
from tests.support.coordinator.coordinator_fakes import OFFSETS, PROTOCOLS, Rig, join_request, turns

CLICKS = TopicPartition("clicks", 0)
VIEWS = TopicPartition("views", 3)


def commit_of(offset: int, rig: Rig, metadata: str = "") -> CommittedOffset:
    return CommittedOffset(offset, 5, metadata, rig.clock.now_ms())


# --- what the log says --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("from_log", "answered"),
    [(19, 15), (3, 15), (20, 15), (6, 16), (56, 16), (7, 27), (10, -1), (18, -1)],
)
async def test_errors_of_the_log_while_an_assignment_is_stored(
    rig: Rig, from_log: int, answered: int
) -> None:
    joined = await rig.join_now()
    rig.replicas.fail_with = ErrorCode(from_log)
    failed = await rig.sync_now(joined, {joined.member_id: b"mine"})
    assert failed.error.value == answered
    rig.replicas.fail_with = None
    again = await rig.join_now(member_id=joined.member_id)
    assert (again.error, again.generation_id) == (ErrorCode.NONE, 2)


async def test_an_assignment_that_is_stored_too_late_changes_nothing(rig: Rig) -> None:
    joined = await rig.join_now()
    rig.replicas.replicated.clear()
    waiting = rig.sync(joined, {joined.member_id: b"mine"})
    await turns()
    newcomer = rig.join()
    assert (await waiting).error is ErrorCode.REBALANCE_IN_PROGRESS
    rig.replicas.replicated.set()
    await turns()
    assert rig.coordinator.describe("g").state == "PreparingRebalance"
    again = await rig.join_now(member_id=joined.member_id)
    assert (await newcomer).generation_id == again.generation_id == 2


# --- deletion -----------------------------------------------------------------------------


async def test_deleting_groups(rig: Rig) -> None:
    joined = await rig.join_now()
    await rig.sync_now(joined)
    await rig.coordinator.offsets.commit("simple", Committer(), {CLICKS: commit_of(1, rig)})
    assert await rig.coordinator.delete_groups(["g", "simple", "unknown"]) == {
        "g": ErrorCode.NON_EMPTY_GROUP,
        "simple": ErrorCode.NONE,
        "unknown": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    rig.coordinator.leave("g", [LeavingMember(joined.member_id)])
    await turns()
    assert await rig.coordinator.delete_groups(["g"]) == {"g": ErrorCode.NONE}
    tombstones = [decode_key(key) for key, value in rig.log.entries() if value is None]
    assert tombstones == [OffsetKey("simple", CLICKS), GroupKey("g")]
    assert (await rig.fail_over()).list_groups() == (ErrorCode.NONE, [])


# --- fail-over ---------------------------------------------------------------------------------


async def test_after_a_fail_over_everything_is_as_before(rig: Rig) -> None:
    first, second = await rig.stable_pair()
    who = Committer(second.member_id, None, 2)
    for offset in range(300):
        await rig.coordinator.offsets.commit("g", who, {CLICKS: commit_of(offset, rig, "n" * 2000)})
    await rig.coordinator.offsets.commit("simple", Committer(), {VIEWS: commit_of(9, rig)})
    assert sum(map(len, rig.log.batches)) > 2 * 256 * 1024, "more than one read"
    before = (
        rig.coordinator.describe("g"),
        rig.coordinator.offsets.fetch("g", None),
        rig.coordinator.offsets.fetch("simple", None),
        rig.coordinator.list_groups(),
    )
    after = await rig.fail_over()
    assert before == (
        after.describe("g"),
        after.offsets.fetch("g", None),
        after.offsets.fetch("simple", None),
        after.list_groups(),
    )
    assert after.heartbeat("g", first.member_id, None, 2) is ErrorCode.NONE
    assert (await rig.sync_now(second)).assignment == b"b"


async def test_sessions_start_anew_after_a_fail_over_and_end(rig: Rig) -> None:
    await rig.stable_pair()
    rig.clock.elapsed_ms += 9_000
    await rig.fail_over()
    await rig.advance(9_999)
    assert rig.coordinator.describe("g").state == "Stable"
    await rig.advance(1)
    assert rig.coordinator.describe("g").state == "Empty"


async def test_a_group_that_has_become_too_large_is_rebalanced_after_a_fail_over(rig: Rig) -> None:
    first, second = await rig.stable_pair()
    rig.config = Rig(group_max_size=1).config
    await rig.fail_over()
    assert rig.coordinator.describe("g").state == "PreparingRebalance"
    kept, refused = rig.join(member_id=first.member_id), rig.join(member_id=second.member_id)
    assert (await refused).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert [each.member_id for each in (await kept).members] == [first.member_id]


async def test_nothing_is_appended_after_the_resignation(rig: Rig) -> None:
    joined = await rig.join_now()
    waiting = rig.sync(joined, {joined.member_id: b"mine"})
    await asyncio.sleep(0)  # the call has left its record to be written, no more
    rig.resign(1)
    assert (await waiting).error is ErrorCode.NOT_COORDINATOR
    await turns()
    assert rig.log.entries() == []


async def test_a_coordinator_that_resigns_sends_waiting_members_away(rig: Rig) -> None:
    first, _ = await rig.stable_pair()
    joining = rig.join(member_id=first.member_id)
    await turns()
    rig.resign(1)
    assert (await joining).error is ErrorCode.NOT_COORDINATOR
    assert rig.coordinator.heartbeat("g", first.member_id, None, 2) is ErrorCode.NOT_COORDINATOR
    assert rig.coordinator.offsets.fetch("g", [CLICKS]) == (ErrorCode.NOT_COORDINATOR, {})
    assert (await rig.join_now()).error is ErrorCode.NOT_COORDINATOR
    assert rig.coordinator.list_groups() == (ErrorCode.NONE, [])


async def test_waiting_syncs_are_sent_away_too(rig: Rig) -> None:
    first = await rig.join_now()
    second = rig.join()
    await turns()
    await rig.join_now(member_id=first.member_id)
    following = rig.sync(await second)
    await turns()
    rig.resign(None)
    assert (await following).error is ErrorCode.NOT_COORDINATOR


async def test_news_of_an_older_leader_epoch_is_ignored(rig: Rig) -> None:
    on_leader, on_resign = rig.replicas.listeners[-1]
    on_leader(OFFSETS, 5)
    on_resign(OFFSETS, 4)
    assert (await rig.join_now()).error is ErrorCode.NONE
    on_resign(OFFSETS, 6)
    on_leader(OFFSETS, 5)
    await turns()
    assert (await rig.join_now()).error is ErrorCode.NOT_COORDINATOR


async def test_a_topic_that_is_made_again_starts_over(rig: Rig) -> None:
    on_leader, on_resign = rig.replicas.listeners[-1]
    await rig.coordinator.offsets.commit("g", Committer(), {CLICKS: commit_of(1, rig)})
    on_leader(OFFSETS, 5)
    on_resign(OFFSETS, None)
    rig.replicas.logs.clear()
    on_leader(OFFSETS, 0)
    await turns()
    assert rig.coordinator.list_groups() == (ErrorCode.NONE, [])
    assert (await rig.join_now()).error is ErrorCode.NONE


async def test_other_topics_do_not_matter(rig: Rig) -> None:
    on_leader, on_resign = rig.replicas.listeners[-1]
    on_resign(TopicPartition("clicks", 0), None)
    on_leader(TopicPartition("clicks", 1), 3)
    assert (await rig.join_now()).error is ErrorCode.NONE


async def test_while_a_partition_loads(rig: Rig) -> None:
    joined = await rig.join_now()
    await rig.sync_now(joined)
    rig.resign(1)
    rig.replicas.listeners[-1][0](OFFSETS, 2)
    coordinator = rig.coordinator
    assert coordinator.heartbeat("g", joined.member_id, None, 1) is ErrorCode.NONE
    assert (await coordinator.join("g", join_request())).error.value == 14
    assert coordinator.offsets.fetch("g", None) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, {})
    assert coordinator.describe("g").error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert coordinator.list_groups() == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])
    await turns()
    assert coordinator.describe("g").state == "Stable"


async def test_a_coordinator_that_was_shut_down(rig: Rig) -> None:
    await rig.coordinator.shutdown()
    assert (await rig.join_now()).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert rig.coordinator.list_groups() == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])


async def test_transactional_commits_in_the_log_show_after_their_marker(rig: Rig) -> None:
    def transactional(producer_id: int, tp: TopicPartition, offset: int) -> None:
        value = encode_offset_value(commit_of(offset, rig))
        batch = records.build_batch(
            [records.Record(encode_offset_key("t", tp), value, 0)],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        rig.log.append(memoryview(batch))

    def marker(producer_id: int, commit: bool) -> None:
        batch = records.build_marker(
            producer_id=producer_id,
            producer_epoch=0,
            commit=commit,
            coordinator_epoch=0,
            timestamp_ms=0,
        )
        rig.log.append(memoryview(batch))

    transactional(1, CLICKS, 11)
    transactional(2, VIEWS, 22)
    marker(1, True)
    marker(2, False)
    transactional(3, VIEWS, 33)
    coordinator = await rig.fail_over()
    _, found = coordinator.offsets.fetch("t", [CLICKS, VIEWS], require_stable=True)
    assert found[CLICKS].commit is not None and found[CLICKS].commit.offset == 11
    assert found[VIEWS].error is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert coordinator.offsets.fetch("t", [VIEWS])[1][VIEWS] == (ErrorCode.NONE, None)


async def test_a_foreign_record_does_not_stop_the_load(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    foreign = [
        records.Record(b"\x00\x01\x00", b"", 0),  # cut
        records.Record(b"\x00\x63abc", b"", 0),  # a key of some later version
        records.Record(None, b"", 0),
    ]
    rig.log.append(memoryview(records.build_batch(foreign)))
    await rig.coordinator.offsets.commit("g", Committer(), {CLICKS: commit_of(1, rig)})
    assert set((await rig.fail_over()).offsets.fetch("g", None)[1]) == {CLICKS}
    assert "offset 0 is skipped" in caplog.text


async def test_what_is_shown_of_groups(rig: Rig) -> None:
    first, second = await rig.stable_pair()
    shown = rig.coordinator.describe("g")
    assert (shown.state, shown.protocol_type, shown.protocol) == ("Stable", "consumer", "range")
    assert [(each.member_id, each.metadata, each.assignment) for each in shown.members] == [
        (first.member_id, PROTOCOLS[0][1], b"a"),
        (second.member_id, PROTOCOLS[0][1], b"b"),
    ]
    assert shown.members[0].client_host == "/127.0.0.1"
    await rig.coordinator.offsets.commit("simple", Committer(), {CLICKS: commit_of(1, rig)})
    listed = rig.coordinator.list_groups()[1]
    assert [tuple(each) for each in listed] == [
        ("g", "consumer", "Stable"),
        ("simple", "", "Empty"),
    ]
    assert [each.group_id for each in rig.coordinator.list_groups(["EMPTY"])[1]] == ["simple"]
    rig.coordinator.leave("g", [LeavingMember(first.member_id)])
    shown = rig.coordinator.describe("g")
    assert (shown.state, shown.protocol) == ("PreparingRebalance", "")
    assert [(each.metadata, each.assignment) for each in shown.members] == [(b"", b"")]
    assert rig.coordinator.describe("unknown").state == "Dead"
