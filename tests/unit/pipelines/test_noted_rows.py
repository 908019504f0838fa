"""What tasks of a sink have noted, put together."""

from __future__ import annotations

from ottla.client.admin.groups import CommittedOffset
from ottla.pipelines.noted_rows import Note, merge_notes, rows_beyond


def test_tasks_have_a_partition_or_a_group_of_their_own():
    notes = merge_notes(
        "g",
        {
            "g": {0: CommittedOffset(7, "10 00000000000000ff more"), 1: CommittedOffset(6, "20")},
            "g-1": {0: CommittedOffset(5, "99")},  # before the topic grew
            "g-2": {0: CommittedOffset(7, "3"), 1: CommittedOffset(7, "")},
        },
    )
    assert notes == {0: Note(7, 10), 1: Note(6, 20), 2: Note(7, 3)}
    assert [rows_beyond(notes, batch) for batch in (5, 6, 7)] == [33, 13, 0]
