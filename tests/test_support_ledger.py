"""The audit of the durability tests notices whatever a log can do wrong."""

from __future__ import annotations

from array import array
from types import SimpleNamespace

import pytest

from tests.support.ledger import FAILED, SOMEWHERE, Audit, Found, audit


def run(found: list[Found], *answers: list[int]) -> Audit:
    """One list of answers per producer; two partitions."""
    producers = [SimpleNamespace(answers=array("q", given)) for given in answers]
    promised = sum(answer >= 0 or answer == SOMEWHERE for given in answers for answer in given)
    ledger = SimpleNamespace(
        producers=producers, load=SimpleNamespace(partitions=2), acknowledged=promised
    )
    return audit(ledger, found)  # type: ignore[arg-type]


# Two producers; record 0 and 2 of each go to partition 0, record 1 to partition 1.
ANSWERS = ([0, 0, 2], [1, 1, 3])
GOOD: list[Found] = [
    (0, 0, b"0:0:"),
    (0, 1, b"1:0:"),
    (1, 0, b"0:1:.."),
    (0, 2, b"0:2:"),
    (1, 1, b"1:1:"),
    (0, 3, b"1:2:"),
]


def test_what_was_promised() -> None:
    found = run(GOOD, *ANSWERS)
    assert (found.verdict(), found.read, found.acknowledged) == (None, 6, 6)


def test_a_lost_record_at_the_end() -> None:
    lost = "1 acknowledged records are missing: 1:2 was promised in 0 at 3"
    assert run(GOOD[:-1], *ANSWERS).verdict() == lost


@pytest.mark.parametrize(
    ("log", "complaint"),
    [
        ([*GOOD, (0, 4, b"1:2:")], "0@4 holds 1:2 again or too late"),
        ([(0, 0, b"0:2:"), (0, 1, b"1:0:"), (0, 2, b"0:0:")], "0@2 holds 0:0 again or too late"),
        ([(0, 0, b"1:0:"), (0, 1, b"0:0:")], "0@0 holds 1:0, which was promised at 1"),
        ([(0, 0, b"0:0:"), (0, 2, b"0:2:")], "0@2 follows 0"),
    ],
)
def test_twice_swapped_elsewhere_and_gaps(log: list[Found], complaint: str) -> None:
    assert complaint in (run(log, *ANSWERS).verdict() or "")


def test_failed_records_may_be_there_once() -> None:
    answers = ([0, FAILED, FAILED],)
    once = run([(0, 0, b"0:0:"), (1, 0, b"0:1:"), (0, 1, b"0:2:")], *answers)
    assert (once.verdict(), once.failed_but_there) == (None, 2)
    twice = run([(0, 0, b"0:0:"), (1, 0, b"0:1:"), (1, 1, b"0:1:")], *answers)
    assert "again" in (twice.verdict() or "")


def test_an_acknowledgement_without_an_offset_counts_too() -> None:
    assert run([(0, 0, b"0:0:")], [SOMEWHERE]).verdict() is None
    lost = "1 acknowledged records are missing: 0:0 was promised in 0 somewhere"
    assert run([], [SOMEWHERE]).verdict() == lost
