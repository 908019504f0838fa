"""Notes of tasks: what is written into them, and what may be done after reading one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.sink.notes import (
    Note,
    OtherRows,
    Recalled,
    StaleWork,
    Tally,
    check_same,
    rows_done,
)
from ottla.spark.sink.work import Work

WORK = Work("q", 5, 2)


@given(
    st.builds(
        Note,
        st.integers(0, 1 << 62),
        st.integers(0, 10**17),
        st.integers(0, (1 << 64) - 1),
        st.booleans(),
    )
)
def test_a_note_is_read_as_it_was_written(note):
    assert Note.parse(note.batch_id, note.metadata()) == note


@given(st.text())
def test_whatever_stands_there_is_at_least_a_number(text):
    note = Note.parse(7, text)
    assert note.batch_id == 7
    assert note.rows is None or text.startswith(tuple("0123456789"))


@pytest.mark.parametrize(
    "text", [None, "", "many", "-5", "١٢", "5 0", "9" * 5000, "5 more or less"]
)
def test_garbage_is_a_number_alone(text):
    assert Note.parse(7, text) == Note(7, None, None, finished=True)


def test_a_count_alone_is_read_too():
    assert Note.parse(7, "12") == Note(7, 12)


def tally(rows, digest=0):
    made = Tally()
    made.add(rows, digest)
    return made


def test_work_is_new_or_done_or_refused():
    assert rows_done(WORK, Recalled()) is None
    assert rows_done(WORK, Recalled(Note(4, 9), newest=5)) is None, "others were quicker"
    assert rows_done(WORK, Recalled(Note(5, 9), newest=5)) == Note(5, 9)
    for stale in (
        Recalled(Note(6, 9), newest=6),
        Recalled(Note(3, 9), newest=6),
        Recalled(Note(6)),
    ):
        with pytest.raises(StaleWork, match="task 2 of micro-batch 5 is older than micro-batch 6"):
            rows_done(WORK, stale)


def test_the_same_rows_pass():
    check_same(WORK, Note(5, 9, 77), tally(9, 77), more=False)
    check_same(WORK, Note(5, 9, 77, finished=False), tally(9, 77), more=False)
    check_same(WORK, Note(5, 9, 77, finished=False), tally(9, 77), more=True)
    check_same(WORK, Note(5, 9), tally(9, 77), more=False)
    check_same(WORK, Note(5), tally(3, 4), more=True)


@pytest.mark.parametrize(
    ("done", "now", "more", "words"),
    [
        (Note(5, 9, 77), tally(8, 77), False, "has 8 rows now and had 9 when it was written"),
        (Note(5, 9, 77), tally(9, 77), True, "has more than 9 rows now and had 9 when"),
        (
            Note(5, 9, 77),
            tally(9, 78),
            False,
            "has 9 rows as it had when it was written, but other",
        ),
        (Note(5, 9, 77, False), tally(8, 77), False, "has 8 rows now and had at least 9"),
        (Note(5, 9, 77, False), tally(9, 78), True, "the first 9 rows are other ones now"),
    ],
)
def test_other_rows_are_refused(done, now, more, words):
    with pytest.raises(OtherRows, match=words):
        check_same(WORK, done, now, more=more)


def test_a_tally_does_not_mind_the_order():
    one, other = Tally(), Tally()
    parts = [(3, 1 << 63), (4, (1 << 63) + 5), (0, 0)]
    for rows, digest in parts:
        one.add(rows, digest)
    for rows, digest in reversed(parts):
        other.add(rows, digest)
    assert one.note(1, finished=True) == other.note(1, finished=True) == Note(1, 7, 5)
