"""Members of a group join, sync, beat and leave: whole conversations with a coordinator."""

from __future__ import annotations

from ottla.coordinator.groups.answers import Committer, LeavingMember
from ottla.coordinator.groups.rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS
from ottla.coordinator.groups.records import CommittedOffset, GroupKey, decode_key
from ottla.errors import ErrorCode
from ottla.types import TopicPartition
from ottla.wire import messages as m
from tests.support.coordinator.coordinator_fakes import PROTOCOLS, Rig, turns

CLICKS = TopicPartition("clicks", 0)
VIEWS = TopicPartition("views", 3)
DAY_MS = 24 * 3_600_000


def commit_of(offset: int, rig: Rig, metadata: str = "") -> CommittedOffset:
    return CommittedOffset(offset, 5, metadata, rig.clock.now_ms())


def subscription(*topics: str) -> bytes:
    return b"\x00\x01" + m.ConsumerProtocolSubscription(topics=list(topics)).encode(1)


# --- joining and syncing ---------------------------------------------------------------------


async def test_one_member_joins_syncs_and_is_stored(rig: Rig) -> None:
    joined = await rig.join_now()
    assert (joined.error, joined.generation_id, joined.protocol_name) == (0, 1, "range")
    assert joined.leader_id == joined.member_id
    assert joined.member_id.startswith("client-") and len(joined.member_id) == len("client-") + 36
    assert [(each.member_id, each.metadata) for each in joined.members] == [
        (joined.member_id, b"range-data")
    ]
    synced = await rig.sync_now(joined, {joined.member_id: b"mine"})
    assert (synced.error, synced.assignment) == (ErrorCode.NONE, b"mine")
    assert (synced.protocol_type, synced.protocol_name) == ("consumer", "range")
    assert [decode_key(key) for key, _ in rig.log.entries()] == [GroupKey("g")]
    assert rig.replicas.append_options == [
        {
            "acks": -1,
            "timeout_ms": 5000,
            "internal_topics_allowed": True,
            "from_coordinator": True,
        }
    ]


async def test_a_second_member_makes_a_new_generation_and_only_the_leader_sees_members(
    rig: Rig,
) -> None:
    first, second = await rig.stable_pair()
    assert first.generation_id == second.generation_id == 2
    assert first.leader_id == second.leader_id == first.member_id
    assert {each.member_id for each in first.members} == {first.member_id, second.member_id}
    assert second.members == ()
    assert rig.coordinator.describe("g").state == "Stable"
    # A follower that asks again with nothing changed gets the same generation at once.
    again = await rig.join_now(member_id=second.member_id)
    assert (again.generation_id, again.members) == (2, ())


async def test_a_member_that_leaves_starts_a_rebalance_of_the_rest(rig: Rig) -> None:
    first, second = await rig.stable_pair()
    assert rig.coordinator.leave("g", [LeavingMember(first.member_id)]) == (0, [0])
    beat = rig.coordinator.heartbeat("g", second.member_id, None, 2)
    assert beat is ErrorCode.REBALANCE_IN_PROGRESS
    rejoined = await rig.join_now(member_id=second.member_id)
    assert (rejoined.generation_id, rejoined.leader_id) == (3, second.member_id)


async def test_the_last_member_leaves_an_empty_stored_group(rig: Rig) -> None:
    joined = await rig.join_now()
    await rig.sync_now(joined)
    rig.coordinator.leave("g", [LeavingMember(joined.member_id)])
    await turns()
    assert rig.coordinator.describe("g").state == "Empty"
    assert len(rig.log.entries()) == 2
    assert (await rig.fail_over()).describe("g").state == "Empty"


async def test_leaving_names_an_error_per_member(rig: Rig) -> None:
    first, _ = await rig.stable_pair()
    leaving = [LeavingMember("stranger"), LeavingMember(first.member_id)]
    assert rig.coordinator.leave("g", leaving) == (0, [ErrorCode.UNKNOWN_MEMBER_ID, 0])
    assert rig.coordinator.leave("none", leaving) == (0, [ErrorCode.UNKNOWN_MEMBER_ID] * 2)


async def test_a_dynamic_member_is_asked_to_come_back_with_its_id(rig: Rig) -> None:
    asked = await rig.join_now(require_known_member_id=True)
    assert (asked.error, asked.generation_id) == (ErrorCode.MEMBER_ID_REQUIRED, -1)
    joined = await rig.join_now(member_id=asked.member_id, require_known_member_id=True)
    assert (joined.error, joined.member_id) == (ErrorCode.NONE, asked.member_id)


async def test_a_handed_out_id_lapses_after_a_session_time_out(rig: Rig) -> None:
    asked = await rig.join_now(require_known_member_id=True)
    await rig.advance(10_000)
    refused = await rig.join_now(member_id=asked.member_id)
    assert refused.error is ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_pending_member_holds_the_rebalance_open_until_it_lapses(rig: Rig) -> None:
    first, second = await rig.stable_pair()
    await rig.join_now(require_known_member_id=True)
    rejoins = [rig.join(member_id=each.member_id) for each in (first, second)]
    await turns()
    assert not any(task.done() for task in rejoins)
    await rig.advance(10_000)
    assert [(await task).generation_id for task in rejoins] == [3, 3]


async def test_the_first_rebalance_waits_for_more_members_and_is_prolonged() -> None:
    rig = await Rig(group_initial_rebalance_delay_ms=3000).start()
    first = rig.join()
    await turns()
    await rig.advance(2_000)
    second = rig.join()
    await turns()
    await rig.advance(1_000)
    assert not first.done(), "a member came meanwhile: the delay starts again"
    await rig.advance(3_000)
    assert (await first).generation_id == (await second).generation_id == 1
    assert len((await first).members) == 2
    await rig.coordinator.shutdown()


async def test_a_follower_waits_for_the_leaders_assignment(rig: Rig) -> None:
    first = await rig.join_now()
    second_join = rig.join()
    await turns()
    first = await rig.join_now(member_id=first.member_id)
    following = rig.sync(await second_join)
    await turns()
    assert not following.done()
    assert rig.coordinator.describe("g").state == "CompletingRebalance"
    await rig.sync_now(first, {})  # no assignment for anyone: empty bytes
    assert (await following).assignment == b""


async def test_refused_joins(rig: Rig) -> None:
    codes = {
        "short session": await rig.join_now(session_timeout_ms=5_999),
        "long session": await rig.join_now(session_timeout_ms=1_800_001),
        "no group id": await rig.join_now(""),
        "no protocols": await rig.join_now(protocols=()),
        "no protocol type": await rig.join_now(protocol_type=""),
        "unknown id, unknown group": await rig.join_now("other", member_id="m"),
    }
    await rig.stable_pair()
    codes["unknown id"] = await rig.join_now(member_id="m")
    codes["other type"] = await rig.join_now(protocol_type="connect")
    codes["no common protocol"] = await rig.join_now(protocols=(("mine", b""),))
    assert {name: result.error.value for name, result in codes.items()} == {
        "short session": 26,
        "long session": 26,
        "no group id": 24,
        "no protocols": 23,
        "no protocol type": 23,
        "unknown id, unknown group": 25,
        "unknown id": 25,
        "other type": 23,
        "no common protocol": 23,
    }
    assert rig.coordinator.describe("g").state == "Stable"


async def test_a_full_group_takes_no_more_members() -> None:
    rig = await Rig(group_max_size=1).start()
    joined = await rig.join_now()
    refused = await rig.join_now()
    assert (refused.error, refused.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    await rig.sync_now(joined)
    assert rig.coordinator.describe("g").state == "Stable"
    await rig.coordinator.shutdown()


async def test_stale_generations_strangers_and_other_protocols_are_refused(rig: Rig) -> None:
    first, _ = await rig.stable_pair()
    beat = rig.coordinator.heartbeat
    assert beat("g", first.member_id, None, 2) is ErrorCode.NONE
    assert beat("g", first.member_id, None, 1) is ErrorCode.ILLEGAL_GENERATION
    assert beat("g", "stranger", None, 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert beat("none", first.member_id, None, 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert beat("", first.member_id, None, 2) is ErrorCode.INVALID_GROUP_ID
    stale = await rig.sync_now(first._replace(generation_id=1))
    other_type = await rig.sync_now(first._replace(protocol_type="connect"))
    other_name = await rig.sync_now(first._replace(protocol_name="roundrobin"))
    assert [stale.error.value, other_type.error.value, other_name.error.value] == [22, 23, 23]
    assert (await rig.sync_now(first)).assignment == b"a"


async def test_a_leader_that_joins_again_starts_a_rebalance(rig: Rig) -> None:
    first, second = await rig.stable_pair()
    again = rig.join(member_id=first.member_id)
    await turns()
    assert not again.done()
    sync = await rig.sync_now(second)
    assert sync.error is ErrorCode.REBALANCE_IN_PROGRESS
    await rig.join_now(member_id=second.member_id)
    assert (await again).generation_id == 3


# --- time -------------------------------------------------------------------------------------


async def test_a_member_without_heartbeats_is_removed(rig: Rig) -> None:
    first, second = await rig.stable_pair()
    for _ in range(3):
        await rig.advance(5_000)
        rig.coordinator.heartbeat("g", second.member_id, None, 2)
    assert rig.coordinator.describe("g").state == "PreparingRebalance"
    rejoined = await rig.join_now(member_id=second.member_id)
    assert [each.member_id for each in rejoined.members] == [second.member_id]
    beat = rig.coordinator.heartbeat("g", first.member_id, None, 2)
    assert beat is ErrorCode.UNKNOWN_MEMBER_ID


async def test_members_that_do_not_rejoin_in_time_are_left_behind(rig: Rig) -> None:
    first, _second = await rig.stable_pair()
    third = rig.join()
    await turns()
    first_again = rig.join(member_id=first.member_id)
    for _ in range(12):
        await rig.advance(5_000)
    assert (await third).generation_id == (await first_again).generation_id == 3
    assert len((await first_again).members) == 2


async def test_members_that_do_not_sync_in_time_are_removed(rig: Rig) -> None:
    first, second = await rig.stable_pair()
    again = [rig.join(member_id=each.member_id) for each in (first, second)]
    joined = [await task for task in again]
    for _ in range(12):
        for each in joined:
            rig.coordinator.heartbeat("g", each.member_id, None, 3)
        waiting = rig.sync(joined[1])
        await rig.advance(5_000)
    # The leader never sent an assignment: it goes, the waiting follower joins again.
    assert (await waiting).error is ErrorCode.REBALANCE_IN_PROGRESS
    rejoined = await rig.join_now(member_id=second.member_id)
    assert (rejoined.generation_id, rejoined.leader_id) == (4, second.member_id)


async def test_a_rebalance_ends_the_deadline_of_the_last_ones_syncs(rig: Rig) -> None:
    patient = {"session_timeout_ms": 200_000}
    joined = await rig.join_now(**patient)
    await rig.advance(59_000)
    newcomer = rig.join()
    await turns()
    await rig.advance(1_000)  # the member never sent SyncGroup, but it may still join again
    again = await rig.join_now(member_id=joined.member_id, **patient)
    assert again.generation_id == (await newcomer).generation_id == 2


async def test_a_new_member_that_waits_too_long_is_dropped(rig: Rig) -> None:
    first, _ = await rig.stable_pair()
    long = {"rebalance_timeout_ms": 3 * NEW_MEMBER_JOIN_TIMEOUT_MS}
    newcomer = rig.join(**long)
    await turns()
    for _ in range(NEW_MEMBER_JOIN_TIMEOUT_MS // 5_000):
        rig.coordinator.heartbeat("g", first.member_id, None, 2)
        await rig.advance(5_000)
    assert (await newcomer).error is ErrorCode.UNKNOWN_MEMBER_ID


async def test_heartbeats_do_not_pile_up_timers(rig: Rig) -> None:
    first, _ = await rig.stable_pair()
    before = len(rig.coordinator.registry.deadlines._heap)
    for _ in range(1000):
        rig.clock.elapsed_ms += 1
        rig.coordinator.heartbeat("g", first.member_id, None, 2)
    assert len(rig.coordinator.registry.deadlines._heap) == before


# --- static members ----------------------------------------------------------------------------


async def static_pair(rig: Rig) -> tuple[str, str]:
    """Ids of the leader (instance a) and the follower (instance b) of a stable group."""
    first = await rig.join_now(instance_id="a")
    second_join = rig.join(instance_id="b")
    await turns()
    first = await rig.join_now(member_id=first.member_id, instance_id="a")
    second = await second_join
    following = rig.sync(second)
    await rig.sync_now(first, {first.member_id: b"A", second.member_id: b"B"})
    await following
    return first.member_id, second.member_id


async def test_a_static_member_restarts_without_a_rebalance(rig: Rig) -> None:
    leader_id, old_id = await static_pair(rig)
    back = await rig.join_now(instance_id="b", client_id="elsewhere")
    assert (back.error, back.generation_id, back.leader_id) == (ErrorCode.NONE, 2, leader_id)
    assert back.member_id not in ("", old_id) and back.member_id.startswith("b-")
    assert (await rig.sync_now(back)).assignment == b"B"
    shown = rig.coordinator.describe("g")
    assert shown.state == "Stable"
    assert [member.client_id for member in shown.members] == ["client", "elsewhere"]
    # The old id is fenced; the new one survives a fail-over.
    beat = rig.coordinator.heartbeat
    assert beat("g", old_id, "b", 2) is ErrorCode.FENCED_INSTANCE_ID
    assert beat("g", back.member_id, "b", 2) is ErrorCode.NONE
    await rig.fail_over()
    assert rig.coordinator.heartbeat("g", back.member_id, "b", 2) is ErrorCode.NONE


async def test_the_name_of_a_static_member_begins_its_id_though_it_is_empty(rig: Rig) -> None:
    assert (await rig.join_now(instance_id="")).member_id.startswith("-")


async def test_a_static_leader_that_restarts_keeps_the_assignment(rig: Rig) -> None:
    old_id, _ = await static_pair(rig)
    back = await rig.join_now(instance_id="a")
    # Before version 9 the old leader's id keeps it from assigning again.
    assert (back.leader_id, back.members, back.skip_assignment) == (old_id, (), False)
    newest = await rig.join_now(instance_id="a", can_skip_assignment=True)
    assert (newest.leader_id, newest.skip_assignment) == (newest.member_id, True)
    assert len(newest.members) == 2


async def test_a_static_member_with_other_protocols_starts_a_rebalance(rig: Rig) -> None:
    leader_id, _ = await static_pair(rig)
    back = rig.join(instance_id="b", protocols=(("roundrobin", b"x"),))
    await turns()
    assert not back.done()
    leader = await rig.join_now(member_id=leader_id, instance_id="a")
    assert (leader.generation_id, leader.protocol_name) == (3, "roundrobin")
    assert (await back).generation_id == 3


async def test_a_static_member_whose_new_id_cannot_be_stored_stays_the_old_one(rig: Rig) -> None:
    _, old_id = await static_pair(rig)
    rig.replicas.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    changed = (("range", b"other"), PROTOCOLS[1])
    back = await rig.join_now(instance_id="b", protocols=changed)
    assert back.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert rig.coordinator.heartbeat("g", old_id, "b", 2) is ErrorCode.NONE
    described = rig.coordinator.describe("g").members
    assert {each.member_id: each.metadata for each in described}[old_id] == PROTOCOLS[0][1]


async def test_a_rebalance_that_begins_while_a_static_member_is_stored_takes_it_along(
    rig: Rig,
) -> None:
    leader_id, _ = await static_pair(rig)
    rig.replicas.replicated.clear()
    back = rig.join(instance_id="b")
    await turns()
    newcomer = rig.join()
    await turns()
    rig.replicas.replicated.set()
    await turns()
    assert not back.done()
    leader = await rig.join_now(member_id=leader_id, instance_id="a")
    assert {leader.generation_id, (await back).generation_id, (await newcomer).generation_id} == {3}


async def test_a_group_whose_members_are_all_on_their_way_back_waits_on(rig: Rig) -> None:
    times = {"rebalance_timeout_ms": 6_000, "session_timeout_ms": 30_000}
    joined = await rig.join_now(instance_id="a", **times)
    await rig.sync_now(joined)
    passing = rig.join(**times)
    await turns()
    newcomer = rig.coordinator.describe("g").members[1].member_id
    rig.coordinator.leave("g", [LeavingMember(newcomer)])
    assert (await passing).error is ErrorCode.UNKNOWN_MEMBER_ID
    await rig.advance(6_000)
    assert rig.coordinator.describe("g").state == "PreparingRebalance"
    back = await rig.join_now(member_id=joined.member_id, instance_id="a", **times)
    assert (back.error, back.generation_id) == (ErrorCode.NONE, 2)


async def test_an_id_handed_to_a_dynamic_member_is_not_good_for_a_static_one(rig: Rig) -> None:
    asked = await rig.join_now(require_known_member_id=True)
    refused = await rig.join_now(member_id=asked.member_id, instance_id="a")
    assert refused.error is ErrorCode.UNKNOWN_MEMBER_ID


async def test_the_waiting_call_of_a_replaced_static_member_is_fenced(rig: Rig) -> None:
    await static_pair(rig)
    waiting = rig.join(instance_id="c")
    await turns()
    successor = rig.join(instance_id="c")
    assert (await waiting).error is ErrorCode.FENCED_INSTANCE_ID
    assert not successor.done()


async def test_fenced_and_unknown_instances(rig: Rig) -> None:
    _, member_id = await static_pair(rig)
    fenced = await rig.join_now(member_id="someone else", instance_id="b")
    unknown = await rig.join_now(member_id=member_id, instance_id="zzz")
    assert (fenced.error.value, unknown.error.value) == (82, 25)
    committed = await rig.coordinator.offsets.commit(
        "g", Committer("someone else", "b", 2), {CLICKS: commit_of(1, rig)}
    )
    assert committed == {CLICKS: ErrorCode.FENCED_INSTANCE_ID}
    left = rig.coordinator.leave("g", [LeavingMember("x", "b"), LeavingMember("", "b")])
    assert left == (0, [ErrorCode.FENCED_INSTANCE_ID, ErrorCode.NONE])


async def test_a_static_member_survives_the_join_deadline_but_not_its_session(rig: Rig) -> None:
    times = {"rebalance_timeout_ms": 6_000, "session_timeout_ms": 30_000}
    first = await rig.join_now(instance_id="a", **times)
    second_join = rig.join(instance_id="b", **times)
    await turns()
    first = await rig.join_now(member_id=first.member_id, instance_id="a", **times)
    await second_join
    rejoin = rig.join(member_id=first.member_id, instance_id="a", protocols=PROTOCOLS[1:], **times)
    await turns()
    await rig.advance(6_000)
    assert {each.instance_id for each in (await rejoin).members} == {"a", "b"}
    await rig.sync_now(await rejoin)
    rig.clock.elapsed_ms += 29_000
    rig.coordinator.heartbeat("g", first.member_id, "a", 3)
    await rig.advance(1_000)
    last = await rig.join_now(member_id=first.member_id, instance_id="a", **times)
    assert [each.instance_id for each in last.members] == ["a"]
