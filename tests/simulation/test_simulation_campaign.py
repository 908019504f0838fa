"""Many more seeds of every scenario than `make test` has time for (docs/campaigns)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.campaign import ROOT, table, write_page

FOLDER = Path(__file__).parent
SCENARIOS = sorted(FOLDER.rglob("*.toml"))
JOBS = os.cpu_count() or 1
# Beyond the seeds of make test, so that every one of them is new.
FIRST_SEED = 10_000
HOURS_12_S = 12 * 3600


def run_seeds(scenario: Path, first: int, count: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ottla.simulation", str(scenario.relative_to(ROOT))]
    command += ["--jobs", str(JOBS), "--first", str(first), "--seeds", str(count)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HOURS_12_S)


@pytest.mark.campaign
@pytest.mark.timeout(HOURS_12_S)
def test_many_seeds(campaign: None) -> None:
    count = int(os.environ.get("OTTLA_SIMULATION_SEEDS", "1000"))
    first = int(os.environ.get("OTTLA_SEED", FIRST_SEED))
    rows, failures = [], []
    for scenario in SCENARIOS:
        done = run_seeds(scenario, first, count)
        print(done.stdout, done.stderr, flush=True)
        summary = (done.stdout or done.stderr).strip().splitlines()[-1].partition(": ")[2]
        rows.append((scenario.relative_to(FOLDER), *summary.split(", ", 2)))
        if done.returncode != 0:
            failures.append(done.stdout + done.stderr)
    write_page(
        "simulation",
        "Simulation with many seeds",
        "Every scenario of `tests/simulation` with seeds that `make test` does not run; what the "
        "scenarios do and check is in `docs/simulation.md`.",
        {"seeds": f"{count} of each scenario, from {first}"},
        table(("scenario", "seeds", "failed", "time"), rows),
    )
    assert not failures, "\n".join(failures)
