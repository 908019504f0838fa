"""Committed and pending offsets of one group."""

from __future__ import annotations

from ottla.coordinator.groups.offset_table import OffsetTable
from ottla.coordinator.groups.records import CommittedOffset
from ottla.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def at(offset: int, time_ms: int = 0) -> CommittedOffset:
    return CommittedOffset(offset, -1, "", time_ms)


def test_the_later_place_in_the_log_wins_whichever_answer_comes_first() -> None:
    table = OffsetTable()
    first, second = table.begin({T0: at(1)}), table.begin({T0: at(2)})
    table.finish(second, 11)
    assert table.is_unstable(T0)
    table.finish(first, 10)
    assert not table.is_unstable(T0)
    assert table.committed == {T0: at(2)}


def test_a_refused_commit_leaves_the_old_one() -> None:
    table = OffsetTable()
    table.finish(table.begin({T0: at(1)}), 0)
    table.finish(table.begin({T0: at(2), T1: at(2)}), None)
    assert table.committed == {T0: at(1)}
    assert not table.is_unstable(T1)


def test_a_removed_offset_may_be_committed_again() -> None:
    table = OffsetTable()
    table.finish(table.begin({T0: at(1)}), 5)
    assert table.remove([T0, T1]) == [T0]
    assert table.is_empty
    table.finish(table.begin({T0: at(3)}), 6)
    assert table.committed == {T0: at(3)}


def test_what_is_removed_under_way_stays_away() -> None:
    table = OffsetTable()
    old = table.begin({T0: at(1), T1: at(1)})
    assert table.all_partitions() == {T0, T1}
    assert table.remove([T0]) == [T0], "the log may have it: it takes a tombstone"
    assert table.all_partitions() == {T1}
    new = table.begin({T0: at(2)})
    table.finish(old, 5)
    assert table.committed == {T1: at(1)}
    assert table.is_unstable(T0), "the new one is still under way"
    table.finish(new, 7)
    assert table.committed == {T0: at(2), T1: at(1)}


def test_a_tombstone_ends_what_stands_before_it_whichever_answer_comes_first() -> None:
    for order in ("before", "ends", "after"), ("after", "ends", "before"), ("ends", "before"):
        table = OffsetTable()
        under_way = {
            "before": (table.begin({T0: at(1)}), 10),
            "ends": (table.begin({T0: None}), 11),
            "after": (table.begin({T0: at(2)}), 12),
        }
        for name in order:
            table.finish(*under_way[name])
        assert table.committed == ({T0: at(2)} if "after" in order else {}), order


def test_a_transaction_does_not_bring_back_what_a_tombstone_ended() -> None:
    table = OffsetTable()
    staged = {T0: at(1)}
    table.begin_staged(1, staged)
    table.finish_staged(1, staged, 10)
    table.finish(table.begin({T0: None}), 11)
    table.end_transaction(1, committed=True)
    assert table.is_empty


def test_transactions_show_after_their_end() -> None:
    table = OffsetTable()
    table.stage(1, T0, at(10))
    table.stage(2, T1, at(20))
    assert table.is_unstable(T0) and not table.committed and not table.is_empty
    table.end_transaction(1, committed=True)
    table.end_transaction(2, committed=False)
    assert table.committed == {T0: at(10)}
    table.stage(3, T1, at(30))
    assert table.remove([T1]) == [T1]
    assert not table.is_unstable(T1)


def test_commits_of_a_transaction_on_their_way_at_the_same_time() -> None:
    first, second, third = {T0: at(1)}, {T0: at(2)}, {T0: at(3), T1: at(3)}
    table = OffsetTable()
    for commits in (first, second, third):
        table.begin_staged(1, commits)
    table.finish_staged(1, second, 11)
    table.finish_staged(1, first, 10)
    table.finish_staged(1, third, None)
    assert table.is_unstable(T0) and not table.is_unstable(T1)
    table.end_transaction(1, committed=True)
    assert table.committed == {T0: at(2)}
    table.begin_staged(1, third)
    table.finish_staged(1, third, None)
    assert not table.is_unstable(T0)


def test_expiry() -> None:
    table = OffsetTable({T0: at(1, 100), T1: at(1, 200)})
    assert table.expired(1099, 1000) == []
    assert table.expired(1100, 1000) == [T0]
    assert table.expired(5000, 1000, except_topics={"t"}) == []
    assert table.expired(5000, 1000, base_timestamp_ms=4001) == []
    assert table.expired(5000, 1000, base_timestamp_ms=4000) == [T0, T1]
    table.begin({T0: at(2)})
    assert table.expired(1100, 1000) == [], "a commit is under way"
