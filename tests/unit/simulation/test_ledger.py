"""The ledger's rules one by one; that they are asked in a run, tests/simulation shows."""

from __future__ import annotations

from ottla.simulation.ledger import Ledger
from ottla.types import TopicPartition
from ottla.wire.records import Record, build_batch

TP = TopicPartition("data-0", 0)


def _batch(base_offset: int, *values: bytes) -> memoryview:
    return memoryview(build_batch([Record(None, v, 1) for v in values], base_offset=base_offset))


class Told:
    def __init__(self) -> None:
        self.broken: list[str] = []
        self.ledger = Ledger(self.broken.append)

    def now(self) -> str:
        found, self.broken[:] = "; ".join(self.broken), []
        return found


def test_replicas_agree_and_have_no_holes() -> None:
    told = Told()
    told.ledger.in_log("one", TP, 0, _batch(0, b"p/0", b"p/1"))
    told.ledger.in_log("two", TP, 0, _batch(0, b"p/0", b"p/1"))
    assert told.now() == "" and told.ledger.ends == {TP: 2}
    told.ledger.in_log("two", TP, 0, _batch(0, b"p/0", b"q/1"))
    assert told.now() == "two has other bytes at data-0-0 offset 0"
    told.ledger.in_log("two", TP, 2, _batch(3, b"p/3"))
    assert told.now() == "two has nothing at data-0-0 offset 2"


def test_an_offset_has_one_value_and_a_value_one_offset() -> None:
    told = Told()
    told.ledger.seen("reader", TP, 0, b"p/0")
    told.ledger.seen("other", TP, 0, b"p/0")
    assert told.now() == ""
    told.ledger.seen("other", TP, 0, b"p/1")
    assert told.now() == "other finds b'p/1' at data-0-0 offset 0, it was b'p/0'"
    told.ledger.seen("other", TP, 5, b"p/0")
    assert "at data-0-0 offset 5 and at" in told.now()


def test_nobody_reads_past_the_high_watermark() -> None:
    told = Told()
    told.ledger.read("reader", TP, 4, 5)
    assert told.now() == ""
    told.ledger.read("reader", TP, 5, 5)
    assert told.now() == "reader reads data-0-0 offset 5, high watermark 5"


def test_acknowledged_records_are_there_in_their_order() -> None:
    told = Told()
    good, swapped = _batch(0, b"p/0", b"p/1"), _batch(0, b"p/1", b"p/0")
    told.ledger.acknowledged(TP, [b"p/0", b"p/1", b"p/2"])
    told.ledger.in_log("one", TP, 0, good)
    [lost] = told.ledger.problems({TP: [good]})
    assert lost == "1 acknowledged records are gone, first b'p/2'"
    other = Told()
    other.ledger.in_log("one", TP, 0, swapped)
    assert "comes after a later record" in "".join(other.ledger.problems({TP: [swapped]}))


def test_commits_do_not_go_back_and_come_from_records() -> None:
    told = Told()
    told.ledger.given("g", TP, 10)
    told.ledger.committed("m", "g", TP, 8, before=0)
    told.ledger.resumed("n", "g", TP, 8, least=8)
    assert told.now() == ""
    told.ledger.committed("m", "g", TP, 7, before=8)
    assert told.now() == "m takes data-0-0 of g back from 8 to 7"
    told.ledger.resumed("n", "g", TP, 7, least=8)
    assert told.now() == "n starts data-0-0 at 7, but 8 was committed"
    told.ledger.resumed("n", "g", TP, 11, least=8)
    assert told.now() == "n starts data-0-0 at 11, but only 10 records were given"
    assert told.ledger.committed_offset("g", TP) == 11
