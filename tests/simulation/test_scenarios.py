"""Every scenario beside this file, all its seeds; a failure prints its seed and how to run it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.simulation import scenario

FOLDER = Path(__file__).parent
SCENARIOS = sorted(FOLDER.glob("*.toml"))
JOBS = "2"


def _simulate(*arguments: str, hash_seed: str = "random") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ottla.simulation", *arguments],
        cwd=FOLDER.parent.parent,
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        timeout=280,
    )


def test_there_are_500_seeds() -> None:
    assert sum(len(scenario.load(path).all_seeds()) for path in SCENARIOS) >= 500


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    done = _simulate(str(path.relative_to(FOLDER.parent.parent)), "--jobs", JOBS)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["chaos", "groups", "data_moves", "crowd"])
def test_the_same_seed_gives_the_same_trace(tmp_path: Path, name: str) -> None:
    """Byte for byte, in processes of their own with string hashes of their own."""
    traces = []
    for number, hash_seed in enumerate(("1", "2")):
        target = tmp_path / f"{number}.txt"
        path = str(FOLDER / f"{name}.toml")
        done = _simulate(path, "--seed", "3", "--trace", str(target), hash_seed=hash_seed)
        assert done.returncode == 0, done.stdout + done.stderr
        traces.append(target.read_bytes())
    assert traces[0] == traces[1]
    assert traces[0].count(b"\n") > 1000
