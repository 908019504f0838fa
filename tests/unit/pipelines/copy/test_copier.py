"""How often a micro-batch of a copy is tried, and what is looked at then; the rest of the driver is
judged in `tests/spark`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.pipelines.copy import copier as copiers
from ottla.pipelines.copy.copier import Copier, CopyJob
from ottla.pipelines.copy.ends import CopyError, Endpoint
from ottla.pipelines.copy.folder import CopyFolder
from ottla.pipelines.copy.order import OrderDigest
from ottla.pipelines.copy.parts import Found, PairResult, RangeResult, ScanResult, Tally
from ottla.pipelines.copy.state import CopyState, Identity, UnderWay
from ottla.runtime import SystemDisk
from ottla.spark.errors import SourceError

UNDER_WAY = UnderWay(1, {0: (0, 100)}, {0: 0})


@pytest.fixture
def copier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    nobody: Any = SimpleNamespace(newSession=lambda: None)
    job = CopyJob(Endpoint("localhost:1", "a"), Endpoint("localhost:1", "b"), None)
    made = Copier(nobody, job, CopyFolder(SystemDisk(), tmp_path), retry_pause_s=0)
    made.state = CopyState(Identity("", "a", "", "", "b", "", 1, "", "", ""), {}, {}, {})
    monkeypatch.setattr(made._source, "look", lambda: None)
    monkeypatch.setattr(made._source, "earliest", lambda: {0: 0})
    monkeypatch.setattr(made._source, "compacts", lambda: False)
    monkeypatch.setattr(made._target, "look", lambda: None)
    monkeypatch.setattr(made._target, "latest", lambda: {0: 100})
    yield made
    made.close()


def attempts(
    copier: Any, monkeypatch: pytest.MonkeyPatch, written: list[int], until: int
) -> list[int]:
    """Each attempt finds so many records, the last number from then on; what `until` has done."""
    tried: list[int] = []

    def scan(*_: Any, **__: Any) -> list[Any]:
        count = written[min(len(tried), len(written)) - 1]
        found = {0: Found(bytes(8 * count), 0, count)} if count else {}
        return [ScanResult(0, found, {}, 0)]

    def run(_: Any, found: Any) -> list[Any]:
        tried.append(sum(len(one.hashes) // 8 for one in found.values()))
        if len(tried) < until:
            raise SourceError("another attempt has written here")
        return []

    monkeypatch.setattr(copier, "_scan", scan)
    monkeypatch.setattr(copier, "_run_ranges", run)
    return tried


def test_attempts_that_get_on_do_not_count(copier: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    growing = list(range(10, 130, 10))
    tried = attempts(copier, monkeypatch, growing, until=12)
    copier._copy(UNDER_WAY, look=False)
    assert tried == [0, *growing[:11]]
    assert copier.state.batch == 1 and copier._retries == 11


def test_without_a_record_more_it_ends(copier: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = attempts(copier, monkeypatch, [10], until=100)
    with pytest.raises(CopyError, match="another attempt has written here"):
        copier._copy(UNDER_WAY, look=False)
    # The second found ten that the first did not know of.
    assert len(tried) == 1 + copiers._ATTEMPTS


def test_brokers_that_are_away_are_waited_for(copier: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = attempts(copier, monkeypatch, [0], until=3)

    def away() -> None:
        raise SourceError("cannot be reached")

    monkeypatch.setattr(copier._source, "look", away)
    copier._copy(UNDER_WAY, look=False)
    assert len(tried) == 3


def test_a_topic_that_was_made_again_ends_it(copier: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts(copier, monkeypatch, [0], until=3)

    def another() -> None:
        raise CopyError("topic b was deleted and made again")

    monkeypatch.setattr(copier._target, "look", another)
    with pytest.raises(CopyError, match="made again"):
        copier._copy(UNDER_WAY, look=False)


def test_whoever_waits_for_the_end_hears_why_it_failed(copier: Any) -> None:
    with pytest.raises(CopyError, match="at given offsets only"):
        copier.finish()
    copier._failure = SourceError("the topic is gone")
    with pytest.raises(SourceError, match="the topic is gone"):
        copier.finish()


def copied(records: int, value: int) -> list[RangeResult]:
    return [RangeResult(0, Tally(records), b"", {0: PairResult(OrderDigest(records, value))})]


@pytest.mark.parametrize("there", [OrderDigest(100, 8), OrderDigest(99, 7), None])
def test_a_second_attempt_that_did_not_write_what_is_there_is_refused(
    copier: Any, monkeypatch: pytest.MonkeyPatch, there: OrderDigest | None
) -> None:
    attempts(copier, monkeypatch, [0], until=1)
    monkeypatch.setattr(copier, "_run_ranges", lambda *_: copied(100, 7))
    scanned = [ScanResult(0, {}, {} if there is None else {0: there}, 0)]
    monkeypatch.setattr(copier, "_scan", lambda *_, **__: scanned)
    copier._folder.write_state(copier.state)
    with pytest.raises(CopyError, match=r"b-0 does not hold what was copied from a-0: .*anew"):
        copier._copy(UNDER_WAY, look=True)
    assert copier.state.batch == 0
    assert copier._folder.state() is None, "nobody goes on with it"


def test_a_second_attempt_whose_records_are_there_counts(
    copier: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copier, "_run_ranges", lambda *_: [])
    monkeypatch.setattr(copier, "_scan", lambda *_, **__: [ScanResult(0, {}, {}, 3)])
    copier._copy(UNDER_WAY, look=True)
    assert copier.state.batch == 1


def test_where_records_go_away_an_attempt_waits_for_the_others_to_end(
    copier: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads other records than they do, and has the same sequence numbers for them."""
    steps: list[str] = []
    monkeypatch.setattr(copier._stop, "wait", lambda seconds: steps.append(f"waits {seconds}"))
    monkeypatch.setattr(copier, "_scan", lambda *_, **__: steps.append("looks") or [])
    monkeypatch.setattr(copier, "_run_ranges", lambda *_: steps.append("copies") or [])
    copier._copy(UNDER_WAY, look=True)
    assert steps == ["looks", "copies", "looks"]
    steps.clear()
    monkeypatch.setattr(copier._source, "compacts", lambda: True)
    copier._copy(UNDER_WAY, look=True)
    assert steps.pop(0) == f"waits {copiers._STRAYS_S}"
    monkeypatch.setattr(copier._source, "compacts", lambda: False)
    steps.clear()
    monkeypatch.setattr(copier._source, "earliest", lambda: {0: 1})
    copier._copy(UNDER_WAY, look=True)
    assert steps == [f"waits {copiers._STRAYS_S}", "looks", "copies", "looks"]
    steps.clear()
    copier._copy(UNDER_WAY, look=False)
    assert steps == ["copies"], "nobody else is there"


def test_partitions_that_came_later_begin_where_the_copy_does(
    copier: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copier, "_job", replace(copier._job, begin={0: 30, 1: 20, 2: 5}))
    monkeypatch.setattr(copier._source, "earliest", lambda: {0: 10, 1: 10, 2: 10, 3: 10})
    copier.state.positions[0] = 40
    copier._skip_aged_out({})
    assert copier.state.positions == {0: 40, 1: 20, 2: 10, 3: 10}
    assert copier.state.aged_out == 0
