"""Commits of one turn are one batch of their partition."""

from __future__ import annotations

import asyncio

import pytest

from ottla.coordinator.groups.answers import Committer
from ottla.coordinator.groups.commit_batches import TOGETHER_BYTES
from ottla.coordinator.groups.records import CommittedOffset
from ottla.errors import ErrorCode
from ottla.types import TopicPartition
from ottla.wire.records import read_header
from tests.support.coordinator.coordinator_fakes import OFFSETS, Appended, Rig, turns

CLICKS = TopicPartition("clicks", 0)
VIEWS = TopicPartition("views", 1)


async def commit(rig: Rig, group: str, offset: int, metadata: str = "") -> ErrorCode:
    """Two partitions of a group without members."""
    one = CommittedOffset(offset, 0, metadata, rig.clock.now_ms())
    found = await rig.coordinator.offsets.commit(group, Committer(), {CLICKS: one, VIEWS: one})
    assert found[CLICKS] is found[VIEWS]
    return found[CLICKS]


def stored(rig: Rig, group: str) -> int | None:
    found = rig.coordinator.offsets.fetch(group, [CLICKS])[1][CLICKS].commit
    return None if found is None else found.offset


async def test_those_of_one_turn_are_appended_together_and_in_order(rig: Rig) -> None:
    ended = await asyncio.gather(
        *(commit(rig, f"g{n}", n) for n in range(50)), commit(rig, "g7", 700)
    )
    assert set(ended) == {ErrorCode.NONE}
    (batch,) = rig.replicas.log(OFFSETS).batches
    assert read_header(batch).record_count == 102
    assert [stored(rig, f"g{n}") for n in (0, 7, 49)] == [0, 700, 49]
    # Whoever loads the log finds the same.
    await rig.fail_over()
    assert [stored(rig, f"g{n}") for n in (0, 7, 49)] == [0, 700, 49]


async def test_a_batch_stays_far_below_the_largest(rig: Rig) -> None:
    await asyncio.gather(*(commit(rig, f"g{n}", n, "m" * 4000) for n in range(40)))
    batches = rig.replicas.log(OFFSETS).batches
    assert len(batches) == 5
    assert max(map(len, batches)) <= TOGETHER_BYTES
    assert sum(read_header(batch).record_count for batch in batches) == 80


class SmallLog:
    """Takes no batch of more bytes than these."""

    def __init__(self, rig: Rig, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._append = rig.replicas.append
        rig.replicas.appends = self  # type: ignore[assignment] # in its place

    async def append(self, batches: dict[TopicPartition, memoryview], **options: object) -> object:
        if any(len(batch) > self._most_bytes for batch in batches.values()):
            return dict.fromkeys(batches, Appended(ErrorCode.MESSAGE_TOO_LARGE))
        return await self._append(batches, **options)


async def test_commits_that_fit_alone_do_not_fail_together(rig: Rig) -> None:
    SmallLog(rig, 1000)
    ended = await asyncio.gather(
        *(commit(rig, f"g{n % 50}", n, "m" * 950 if n == 30 else "") for n in range(100))
    )
    assert ended.pop(30) is ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    assert set(ended) == {ErrorCode.NONE}
    # In the order they came: of each group the second one counts.
    expected = [n + 50 for n in range(50)]
    assert [stored(rig, f"g{n}") for n in range(50)] == expected
    await rig.fail_over()
    assert [stored(rig, f"g{n}") for n in range(50)] == expected


async def test_tombstones_that_fit_alone_do_not_fail_together(rig: Rig) -> None:
    some = {TopicPartition("clicks", n): CommittedOffset(n, 0, "", 0) for n in range(700)}
    await rig.coordinator.offsets.commit("g", Committer(), some)
    SmallLog(rig, 1000)
    assert await rig.coordinator.delete_groups(["g"]) == {"g": ErrorCode.NONE}
    assert (await rig.fail_over()).list_groups()[1] == []


async def test_one_error_for_all_that_went_together(rig: Rig) -> None:
    rig.replicas.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    ended = await asyncio.gather(*(commit(rig, f"g{n}", n) for n in range(3)))
    assert ended == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 3
    assert stored(rig, "g1") is None
    rig.replicas.fail_with = None
    assert await commit(rig, "g1", 5) is ErrorCode.NONE
    assert stored(rig, "g1") == 5


async def test_whoever_gives_up_does_not_take_the_others_along(rig: Rig) -> None:
    rig.replicas.replicated.clear()
    waiting = [asyncio.create_task(commit(rig, f"g{n}", n)) for n in range(3)]
    await turns()
    waiting[1].cancel()
    rig.replicas.replicated.set()
    assert await waiting[0] is ErrorCode.NONE
    assert await waiting[2] is ErrorCode.NONE
    with pytest.raises(asyncio.CancelledError):
        await waiting[1]
    assert [stored(rig, f"g{n}") for n in range(3)] == [0, 1, 2], "the log has them all"


async def test_a_stop_answers_those_who_wait(rig: Rig) -> None:
    rig.replicas.replicated.clear()
    waiting = asyncio.create_task(commit(rig, "g", 1))
    await turns()
    await rig.coordinator.shutdown()
    assert await waiting is ErrorCode.NOT_COORDINATOR
