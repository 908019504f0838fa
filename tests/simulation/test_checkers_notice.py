"""The checkers find what they are there for: production code with one rule taken out fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.controller import election
from ottla.controller.interpreter import Interpreter
from ottla.metadata.store import Check
from ottla.metadata.znodes import LeaderAndIsr
from ottla.simulation import scenario
from ottla.simulation.disk import SimFile
from ottla.simulation.runner import run_seed

FOLDER = Path(__file__).parent
SEEDS = range(1, 61)


def _first_problems(name: str) -> str:
    """What the first seed that fails says."""
    plan = scenario.load(FOLDER / f"{name}.toml")
    for seed in SEEDS:
        result = run_seed(plan, seed)
        if not result.ok:
            return "\n".join(result.problems)
    return ""


def test_a_controller_that_writes_without_its_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Interpreter.__init__

    def unfenced(self: Interpreter, *arguments: object) -> None:
        original(self, *arguments)  # type: ignore[arg-type]
        self._fence = Check("/", -1)

    monkeypatch.setattr(Interpreter, "__init__", unfenced)
    monkeypatch.setattr(Interpreter, "revoke", lambda self: None)
    assert "the controller epoch is" in _first_problems("sessions")


def test_a_leader_epoch_that_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    original = election.without_replica

    def stale(current: LeaderAndIsr, broker_id: int, epoch: int) -> LeaderAndIsr:
        return original(current, broker_id, epoch)._replace(leader_epoch=current.leader_epoch)

    monkeypatch.setattr(election, "without_replica", stale)
    assert "the leader in this epoch was" in _first_problems("controller")


def test_a_store_that_does_not_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimFile, "sync", lambda self: None)
    assert _first_problems("power") != ""
