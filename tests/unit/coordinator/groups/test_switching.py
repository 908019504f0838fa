"""Offsets of a topic that another one of the same name replaces."""

from __future__ import annotations

from types import SimpleNamespace

from ottla.coordinator.groups.answers import Committer
from ottla.coordinator.groups.records import CommittedOffset
from ottla.errors import ErrorCode
from ottla.types import TopicPartition
from tests.support.coordinator.coordinator_fakes import Rig


async def commit(rig: Rig, group: str, *offsets: int, topic: str = "t") -> None:
    wanted = {
        TopicPartition(topic, partition): CommittedOffset(offset, 5, "note", rig.clock.now_ms())
        for partition, offset in enumerate(offsets)
    }
    assert set((await rig.coordinator.offsets.commit(group, Committer(), wanted)).values()) == {0}


def offsets_of(rig: Rig, group: str) -> dict[tuple[str, int], int]:
    _, found = rig.coordinator.offsets.fetch(group, None)
    return {tuple(tp): each.commit.offset for tp, each in found.items() if each.commit is not None}


async def test_a_group_that_was_not_named_skips_nothing(rig: Rig) -> None:
    """Three partitions become two. Its old numbers mean other records in the new topic."""
    await commit(rig, "named", 10, 20, 30)
    await commit(rig, "unseen", 10, 20, 30)
    await commit(rig, "elsewhere", 7, topic="u")
    await commit(rig, "ottla-sink-q", 4, 4, 4)  # numbers of micro-batches
    switch = rig.coordinator.switch
    staged = await switch.stage("t", "shadow", 2, {"named": {0: 35, 1: 25}})
    assert (staged.partitions, staged.groups) == ([0], 2)
    switched = await switch.switch("t", "shadow")
    assert (switched.partitions, switched.groups) == ([0], 2)
    assert offsets_of(rig, "named") == {("t", 0): 35, ("t", 1): 25}
    assert offsets_of(rig, "unseen") == {("t", 0): 0, ("t", 1): 0}
    assert offsets_of(rig, "elsewhere") == {("u", 0): 7}
    assert offsets_of(rig, "ottla-sink-q") == {("t", 0): 4, ("t", 1): 4, ("t", 2): 4}
    again = await switch.switch("t", "shadow")
    assert (again.partitions, again.groups) == ([0], 0)


def expect(rig: Rig) -> None:
    rig.coordinator.uncarried.expect("t", source="shadow", target="t")


async def test_between_the_swap_and_the_switch_nobody_is_told_that_a_group_has_nothing(
    rig: Rig,
) -> None:
    """Whoever is told so begins at the end, and skips records."""
    metadata, offsets = rig.metadata, rig.coordinator.offsets
    metadata.topics |= {
        "t": {0: object(), 1: object()},
        "shadow": {0: SimpleNamespace(leader_epoch=6)},
    }
    await commit(rig, "readers", 10, 20)
    await commit(rig, "elsewhere", 7, topic="u")
    expect(rig)
    assert offsets_of(rig, "readers") == {("t", 0): 10, ("t", 1): 20}
    await rig.coordinator.switch.stage("t", "shadow", 1, {"readers": {0: 30}})
    # Other brokers may know of the swap already, and what is there is of the old topic.
    asked = [TopicPartition("t", 0)]
    waiting = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, {})
    assert offsets.fetch("readers", asked) == waiting
    assert offsets.fetch("readers", [TopicPartition("u", 0)])[0] is ErrorCode.NONE
    # The new topic has the name: offsets of the old one go, and there is no shadow any more.
    shape = metadata.topics.pop("shadow")
    metadata.renamed.add("shadow")
    metadata.delete("t")
    metadata.topics["t"] = shape
    assert offsets.fetch("readers", asked) == offsets.fetch("readers", None) == waiting
    assert offsets_of(rig, "elsewhere") == {("u", 0): 7}
    await rig.coordinator.switch.switch("t", "shadow")
    assert offsets_of(rig, "readers") == {("t", 0): 30}


async def test_what_an_abort_left_in_a_log_keeps_nobody_waiting(rig: Rig) -> None:
    await commit(rig, "readers", 10)
    expect(rig)
    await rig.coordinator.switch.stage("t", "shadow", 1, {"readers": {0: 30}})
    assert rig.coordinator.offsets.fetch("readers", None)[0] is not ErrorCode.NONE
    rig.coordinator.uncarried.forget("t")
    assert offsets_of(rig, "readers")["t", 0] == 10


async def test_a_group_with_a_long_name_keeps_no_resize_from_its_end(rig: Rig) -> None:
    """Each record has the name: what was stored in one batch is two for the switch."""
    group = "g" * 30_000
    await commit(rig, group, *range(20))
    rig.replicas.largest_batch = 700_000
    staged = await rig.coordinator.switch.stage(
        "t", "shadow", 20, {group: dict.fromkeys(range(20), 5)}
    )
    assert staged.partitions == [0]
    switched = await rig.coordinator.switch.switch("t", "shadow")
    assert switched.partitions == [0]
    assert offsets_of(rig, group) == {("t", partition): 5 for partition in range(20)}
    await rig.fail_over()
    assert offsets_of(rig, group) == {("t", partition): 5 for partition in range(20)}
