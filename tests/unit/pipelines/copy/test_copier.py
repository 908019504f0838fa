"""How often a micro-batch of a copy is tried; the rest of the driver is judged in `tests/spark`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.pipelines.copy import copier as copiers
from ottla.pipelines.copy.copier import Copier, CopyJob
from ottla.pipelines.copy.ends import CopyError, Endpoint
from ottla.pipelines.copy.folder import CopyFolder
from ottla.pipelines.copy.parts import Found
from ottla.pipelines.copy.state import CopyState, Identity, UnderWay
from ottla.runtime import SystemDisk
from ottla.spark.errors import SourceError

UNDER_WAY = UnderWay(1, {0: (0, 100)}, {0: 0})


@pytest.fixture
def copier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    nobody: Any = None
    job = CopyJob(Endpoint("localhost:1", "a"), Endpoint("localhost:1", "b"), None)
    made = Copier(nobody, job, CopyFolder(SystemDisk(), tmp_path), retry_pause_s=0)
    made.state = CopyState(Identity("", "a", "", "", "b", "", 1, "", "", ""), {}, {}, {})
    monkeypatch.setattr(made._source, "look", lambda: None)
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
        return [type("Scanned", (), {"target": 0, "found": found})]

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
