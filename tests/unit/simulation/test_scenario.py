"""Scenario files: read, defaulted, refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.simulation import scenario
from ottla.simulation.__main__ import main


def _write(folder: Path, text: str) -> Path:
    path = folder / "s.toml"
    path.write_text(text)
    return path


def test_a_scenario_with_regressions(tmp_path: Path) -> None:
    path = _write(
        tmp_path,
        """
        seeds = 2
        [cluster]
        brokers = 5
        config = { "num.partitions" = "3" }
        [workload]
        pause_ms = [1, 2]
        weights = { create = 1 }
        [faults]
        weights = { crash = 2 }
        [[regressions]]
        seed = 77
        found = "something"
        """,
    )
    found = scenario.load(path)
    assert found.all_seeds() == [77, 1, 2]
    assert (found.brokers, found.config) == (5, {"num.partitions": "3"})
    assert found.workload.pause_ms == (1, 2) and found.workload.weights == {"create": 1}
    assert found.faults.weights == {"crash": 2} and found.faults.max_down == 1
    assert found.sockets is None and found.crowd.clients == 0


def test_sockets_are_on_where_the_table_is_there(tmp_path: Path) -> None:
    found = scenario.load(_write(tmp_path, "[sockets]\n[crowd]\nclients = 3\narrive_ms = [1, 2]"))
    assert found.sockets == scenario.SocketPlan()
    assert (found.crowd.clients, found.crowd.arrive_ms) == (3, (1, 2))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("sedes = 3", "unknown sedes"),
        ("[cluster]\nbroker = 3", "unknown broker"),
        ("[faults]\nweights = { fire = 1 }", "unknown fire"),
        ("[workload]\noperation = 1", "unknown operation"),
        ("[sockets]\nbacklogs = 1", "unknown backlogs"),
        ("[crowd]\nclient = 1", "unknown client"),
        ("seeds = ", "Invalid value"),
    ],
)
def test_mistakes_are_named(
    tmp_path: Path, text: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _write(tmp_path, text)
    with pytest.raises(scenario.BadScenario, match=problem):
        scenario.load(path)
    assert main([str(path)]) == 2
    assert problem in capsys.readouterr().err
