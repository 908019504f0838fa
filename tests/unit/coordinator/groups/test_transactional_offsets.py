"""Offsets that a group commits inside of a producer's transaction."""

from __future__ import annotations

import asyncio

from ottla.coordinator.groups.answers import Committer
from ottla.coordinator.groups.records import CommittedOffset
from ottla.coordinator.shards import ProducerStamp
from ottla.errors import ErrorCode
from ottla.storage.compaction.batch_filter import emptied
from ottla.types import TopicPartition
from ottla.wire import records
from tests.support.coordinator.coordinator_fakes import OFFSETS, Rig, turns

TP = TopicPartition("clicks", 0)
PRODUCER = ProducerStamp(77, 3)
MARKER = records.build_marker(
    producer_id=77, producer_epoch=3, commit=True, coordinator_epoch=0, timestamp_ms=1
)


def commit_of(offset: int, metadata: str = "") -> dict[TopicPartition, CommittedOffset]:
    return {TP: CommittedOffset(offset, -1, metadata, 0)}


async def staged(rig: Rig, offset: int, committer: Committer = Committer()) -> ErrorCode:  # noqa: B008 - immutable
    answers = await rig.coordinator.in_transactions.commit(
        "g", committer, PRODUCER, commit_of(offset)
    )
    return answers[TP]


def seen(rig: Rig, *, require_stable: bool = False) -> tuple[ErrorCode, int | None]:
    _, found = rig.coordinator.offsets.fetch("g", [TP], require_stable=require_stable)
    commit = found[TP].commit
    return found[TP].error, None if commit is None else commit.offset


async def test_offsets_show_with_the_commit_marker() -> None:
    rig = await Rig().start()
    assert await staged(rig, 5) is ErrorCode.NONE
    header = records.read_header(rig.log.batches[-1])
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 0)
    assert header.is_transactional
    assert seen(rig) == (ErrorCode.NONE, None)
    assert seen(rig, require_stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, None)
    rig.coordinator.in_transactions.end(1, 77, committed=True)
    assert seen(rig) == (ErrorCode.NONE, None), "that was another partition's marker"
    rig.coordinator.in_transactions.end(0, 77, committed=True)
    assert seen(rig, require_stable=True) == (ErrorCode.NONE, 5)


async def test_offsets_go_with_the_abort_marker() -> None:
    rig = await Rig().start()
    await staged(rig, 5)
    rig.coordinator.in_transactions.end(0, 77, committed=False)
    assert seen(rig, require_stable=True) == (ErrorCode.NONE, None)


async def test_pending_offsets_survive_a_fail_over() -> None:
    rig = await Rig().start()
    await staged(rig, 5)
    await rig.fail_over()
    assert seen(rig, require_stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, None)
    rig.replicas.log(OFFSETS).append(memoryview(MARKER))
    await rig.fail_over()
    assert seen(rig, require_stable=True) == (ErrorCode.NONE, 5)


async def test_a_marker_that_compaction_emptied_is_passed_over() -> None:
    rig = await Rig().start()
    await staged(rig, 5)
    source = rig.replicas.log(OFFSETS)
    source.append(memoryview(MARKER))
    source.append(memoryview(bytearray(emptied(MARKER, records.read_header(MARKER)))))
    await rig.fail_over()
    assert seen(rig, require_stable=True) == (ErrorCode.NONE, 5)


async def test_a_marker_may_come_while_the_groups_are_being_read() -> None:
    rig = await Rig().start()
    await staged(rig, 5)
    await rig.coordinator.shutdown()
    rig.coordinator = rig.new_coordinator()
    await rig.coordinator.start()
    rig.replicas.listeners[-1][0](OFFSETS, 1)
    await asyncio.sleep(0)  # the first read is done
    rig.replicas.log(OFFSETS).append(memoryview(MARKER))
    rig.coordinator.in_transactions.end(0, 77, committed=True)
    await turns()
    assert seen(rig, require_stable=True) == (ErrorCode.NONE, 5)


async def test_what_the_log_refuses_is_not_pending() -> None:
    rig = await Rig().start()
    rig.replicas.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert await staged(rig, 5) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    rig.replicas.fail_with = ErrorCode.INVALID_PRODUCER_EPOCH
    assert await staged(rig, 6) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert seen(rig, require_stable=True) == (ErrorCode.NONE, None)


async def test_what_the_log_refuses_leaves_what_it_took_before() -> None:
    rig = await Rig().start()
    assert await staged(rig, 5) is ErrorCode.NONE
    rig.replicas.fail_with = ErrorCode.INVALID_PRODUCER_EPOCH
    assert await staged(rig, 6) is ErrorCode.INVALID_PRODUCER_EPOCH
    rig.replicas.fail_with = None
    assert seen(rig, require_stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, None)
    rig.coordinator.in_transactions.end(0, 77, committed=True)
    assert seen(rig, require_stable=True) == (ErrorCode.NONE, 5)


async def test_a_marker_may_be_faster_than_the_answer_to_the_commit() -> None:
    rig = await Rig().start()
    rig.replicas.replicated.clear()
    committing = asyncio.create_task(staged(rig, 5))
    await turns()
    rig.coordinator.in_transactions.end(0, 77, committed=False)
    rig.replicas.replicated.set()
    assert await committing is ErrorCode.NONE
    assert seen(rig, require_stable=True) == (ErrorCode.NONE, None), "nothing stays pending"


async def test_members_and_generations_are_checked_where_they_are_named() -> None:
    rig = await Rig().start()
    first, _ = await rig.stable_pair()
    generation = first.generation_id
    member = Committer(first.member_id, None, generation)
    assert await staged(rig, 1, member) is ErrorCode.NONE
    assert await staged(rig, 2, Committer()) is ErrorCode.NONE
    stranger = Committer("nobody", None, generation)
    assert await staged(rig, 3, stranger) is ErrorCode.UNKNOWN_MEMBER_ID
    old = Committer(first.member_id, None, generation - 1)
    assert await staged(rig, 4, old) is ErrorCode.ILLEGAL_GENERATION


async def test_long_metadata_and_groups_without_a_name_are_refused() -> None:
    rig = await Rig().start()
    commit = rig.coordinator.in_transactions.commit
    long = await commit("g", Committer(), PRODUCER, commit_of(1, "x" * 5000))
    assert long == {TP: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    nameless = await commit("", Committer(), PRODUCER, commit_of(1))
    assert nameless == {TP: ErrorCode.INVALID_GROUP_ID}


async def plain(rig: Rig, offset: int) -> None:
    answers = await rig.coordinator.offsets.commit("g", Committer(), commit_of(offset))
    assert answers == {TP: ErrorCode.NONE}


async def test_of_a_plain_and_a_transactional_commit_the_later_one_wins() -> None:
    for order, expected in (("plain first", 5), ("transaction first", 9)):
        rig = await Rig().start()
        if order == "plain first":
            await plain(rig, 9)
            await staged(rig, 5)
        else:
            await staged(rig, 5)
            await plain(rig, 9)
        rig.coordinator.in_transactions.end(0, 77, committed=True)
        rig.replicas.log(OFFSETS).append(memoryview(MARKER))
        assert seen(rig) == (ErrorCode.NONE, expected), order
        await rig.fail_over()
        assert seen(rig) == (ErrorCode.NONE, expected), f"{order}, as read from the log"


async def test_what_was_loaded_stands_before_what_comes_after() -> None:
    rig = await Rig().start()
    await staged(rig, 5)
    await rig.fail_over()
    await plain(rig, 9)
    rig.coordinator.in_transactions.end(0, 77, committed=True)
    assert seen(rig) == (ErrorCode.NONE, 9)
