"""Offsets of one topic become those of another."""

from __future__ import annotations

import asyncio

from ottla.coordinator.groups.answers import Committer
from ottla.coordinator.groups.carrying import NewOffset
from ottla.coordinator.groups.records import CommittedOffset
from ottla.coordinator.shards import ProducerStamp
from ottla.errors import ErrorCode
from ottla.types import TopicPartition
from ottla.wire import messages as m
from tests.support.coordinator.coordinator_fakes import Rig, turns

OLD0, OLD1, NEW0, NEW1 = (TopicPartition(t, p) for t in ("old", "new") for p in (0, 1))
OTHER = TopicPartition("other", 0)
PRODUCER = ProducerStamp(7, 0)


def commit_of(offset: int, rig: Rig, metadata: str = "") -> CommittedOffset:
    return CommittedOffset(offset, 5, metadata, rig.clock.now_ms())


def offsets_of(rig: Rig, group: str) -> dict[TopicPartition, int]:
    _, found = rig.coordinator.offsets.fetch(group, None)
    return {tp: each.commit.offset for tp, each in found.items() if each.commit is not None}


async def commit(rig: Rig, group: str, **offsets: int) -> None:
    places = {"old0": OLD0, "old1": OLD1, "other": OTHER, "new0": NEW0}
    wanted = {places[name]: commit_of(offset, rig, "note") for name, offset in offsets.items()}
    assert set((await rig.coordinator.offsets.commit(group, Committer(), wanted)).values()) == {0}


async def test_all_groups_go_on_under_the_new_name_also_after_a_fail_over(rig: Rig) -> None:
    await commit(rig, "a", old0=3, old1=5, other=9)
    await commit(rig, "b", other=1)
    batches = len(rig.log.entries())
    carried = await rig.coordinator.carrier.carry("old", "new")
    assert (carried.partitions, carried.groups, carried.offsets) == ([0], 1, 2)
    assert carried.group_ids == ["a"]
    assert offsets_of(rig, "a") == {NEW0: 3, NEW1: 5, OTHER: 9}
    assert len(rig.log.entries()) == batches + 4  # two new ones, two tombstones
    again = await rig.coordinator.carrier.carry("old", "new")
    assert (again.partitions, again.groups) == ([0], 0)
    assert len(rig.log.entries()) == batches + 4
    await rig.fail_over()
    assert offsets_of(rig, "a") == {NEW0: 3, NEW1: 5, OTHER: 9}
    _, found = rig.coordinator.offsets.fetch("a", [NEW0])
    assert found[NEW0].commit is not None
    assert found[NEW0].commit.metadata == "note"


async def test_a_group_that_cannot_be_carried_yet_keeps_its_partition_open(rig: Rig) -> None:
    await commit(rig, "a", old0=3)
    in_transactions = rig.coordinator.in_transactions
    staged = {OLD0: commit_of(4, rig)}
    await in_transactions.commit("a", Committer(), PRODUCER, staged)
    assert in_transactions.open_on("old") == 1
    assert (await rig.coordinator.carrier.carry("old", "new")).partitions == []
    assert offsets_of(rig, "a") == {OLD0: 3}
    in_transactions.end(0, PRODUCER.producer_id, committed=True)
    assert in_transactions.open_on("old") == 0
    # A commit on its way into the log.
    rig.replicas.replicated.clear()
    committing = asyncio.create_task(
        rig.coordinator.offsets.commit("a", Committer(), {OLD0: commit_of(6, rig)})
    )
    await turns()
    assert (await rig.coordinator.carrier.carry("old", "new")).partitions == []
    rig.replicas.replicated.set()
    await committing
    assert (await rig.coordinator.carrier.carry("old", "new")).partitions == [0]
    assert offsets_of(rig, "a") == {NEW0: 6}


async def test_a_fenced_topic_takes_no_transactional_commits(rig: Rig) -> None:
    in_transactions = rig.coordinator.in_transactions
    in_transactions.fenced_topics.add("old", "rename")
    refused = await in_transactions.commit("a", Committer(), PRODUCER, {OLD0: commit_of(4, rig)})
    assert refused == {OLD0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    assert in_transactions.open_on("old") == 0
    taken = await in_transactions.commit("a", Committer(), PRODUCER, {OTHER: commit_of(4, rig)})
    assert taken == {OTHER: ErrorCode.NONE}


async def test_offsets_that_somebody_names(rig: Rig) -> None:
    """A topic that takes another's place, under the same name or another."""
    await commit(rig, "a", old0=30, old1=50)
    await commit(rig, "b", old0=1)
    explicit = {"a": [NewOffset(0, 42, 3, "moved")]}
    carried = await rig.coordinator.carrier.carry("old", "old", explicit)
    assert (carried.groups, carried.offsets) == (2, 1)
    assert offsets_of(rig, "a") == {OLD0: 42}
    assert offsets_of(rig, "b") == {}
    size = len(rig.log.entries())
    await rig.coordinator.carrier.carry("old", "old", explicit)
    assert offsets_of(rig, "a") == {OLD0: 42}
    assert len(rig.log.entries()) == size


async def test_groups_that_subscribe_join_anew(rig: Rig) -> None:
    subscription = b"\x00\x01" + m.ConsumerProtocolSubscription(topics=["old"]).encode(1)
    joined = await rig.join_now(protocols=(("range", subscription),))
    await rig.sync_now(joined, {joined.member_id: b"a"})
    heartbeat = ("g", joined.member_id, None, joined.generation_id)
    assert rig.coordinator.heartbeat(*heartbeat) is ErrorCode.NONE
    await rig.coordinator.carrier.carry("elsewhere", "new")
    assert rig.coordinator.heartbeat(*heartbeat) is ErrorCode.NONE
    await rig.coordinator.carrier.carry("old", "new")
    assert rig.coordinator.heartbeat(*heartbeat) is ErrorCode.REBALANCE_IN_PROGRESS


async def test_a_log_that_refuses_leaves_everything_as_it_was(rig: Rig) -> None:
    await commit(rig, "a", old0=3)
    rig.replicas.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert (await rig.coordinator.carrier.carry("old", "new")).partitions == []
    assert offsets_of(rig, "a") == {OLD0: 3}
    rig.replicas.fail_with = None
    assert (await rig.coordinator.carrier.carry("old", "new")).partitions == [0]
    assert offsets_of(rig, "a") == {NEW0: 3}


async def test_offsets_of_a_renamed_topic_wait_to_be_carried(rig: Rig) -> None:
    rig.metadata.topics["old"] = {0: object()}
    await commit(rig, "a", old0=3)
    rig.metadata.renamed.add("old")
    rig.metadata.delete("old")
    await turns()
    assert offsets_of(rig, "a") == {OLD0: 3}


async def test_groups_that_are_not_carried_yet_are_not_told_that_they_have_nothing(
    rig: Rig,
) -> None:
    """By a coordinator that came since the fence too: it has been told of the rename only now."""
    await commit(rig, "a", old0=3, other=9)
    await commit(rig, "b", old0=4)
    rig.coordinator.uncarried.expect("old", source="old", target="new")
    rig.metadata.topics["old"] = {0: object()}  # other brokers know the new name before this one
    fetch = rig.coordinator.offsets.fetch
    assert fetch("b", [NEW0]) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, {})
    assert fetch("b", [OLD0])[0] is fetch("c", [NEW0])[0] is ErrorCode.NONE
    del rig.metadata.topics["old"]
    rig.replicas.replicated.clear()
    carrying = asyncio.create_task(rig.coordinator.carrier.carry("old", "new"))
    await turns()
    assert fetch("b", [NEW0])[0] is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    rig.replicas.replicated.set()
    await carrying
    assert (offsets_of(rig, "a"), offsets_of(rig, "b")) == ({NEW0: 3, OTHER: 9}, {NEW0: 4})


async def test_long_notes_beside_offsets_keep_no_rename_from_its_end(rig: Rig) -> None:
    old = {TopicPartition("old", p): commit_of(p, rig, "n" * 4_000) for p in range(260)}
    assert set((await rig.coordinator.offsets.commit("a", Committer(), old)).values()) == {0}
    rig.replicas.largest_batch = 300_000
    carried = await rig.coordinator.carrier.carry("old", "new")
    assert (carried.partitions, carried.offsets) == ([0], 260)
    assert offsets_of(rig, "a") == {TopicPartition("new", p): p for p in range(260)}
