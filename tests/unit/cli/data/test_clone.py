"""What `ottla clone` makes of its options."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from ottla.cli.data import clone
from ottla.cli.main import cli


def test_times_are_known_by_what_was_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same command a second later means another time, and the same clone."""
    specs: list[Any] = []
    monkeypatch.setattr(clone, "run_clone", lambda spec, _: specs.append(spec) or True)
    times = iter((10_000_000, 10_001_000))
    clock = SimpleNamespace(now_ms=lambda: next(times))
    monkeypatch.setattr("ottla.runtime.system_runtime", lambda: SimpleNamespace(clock=clock))
    for _ in range(2):
        words = ["clone", "a", "b", "--from", "2h", "--to", "1h"]
        assert CliRunner().invoke(cli, words).exit_code == 0
    first, second = specs
    assert (first.from_ms, second.from_ms) == (2_800_000, 2_801_000)
    assert (first.to_ms, second.to_ms) == (6_400_000, 6_401_000)
    assert (first.starting, first.ending) == (second.starting, second.ending) == ("2h", "1h")
