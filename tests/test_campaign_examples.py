"""`make campaign` tries examples that no run before it has tried; `make test` always the same."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).parents[1]
EXAMPLES_FILE = "OTTLA_TEST_EXAMPLES_FILE"


@settings(max_examples=5)
@given(st.integers())
def test_an_example(number: int) -> None:
    """For the test below, which runs this file again: writes down what was drawn."""
    if EXAMPLES_FILE in os.environ:
        with Path(os.environ[EXAMPLES_FILE]).open("a") as file:
            print(number, file=file)


def drawn(target: Path, markers: str) -> list[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", markers]
    subprocess.run(
        [*command, "-k", "test_an_example", __file__],
        cwd=ROOT,
        env=os.environ | {EXAMPLES_FILE: str(target)},
        check=True,
        capture_output=True,
    )
    return target.read_text().split()


def test_the_campaign_draws_new_examples(tmp_path: Path) -> None:
    """With the words of the Makefile: a test that its markers leave out would fail here too."""
    chosen = re.search(r'pytest -m "([^"]+)" -s', (ROOT / "Makefile").read_text())
    assert chosen is not None
    runs = [drawn(tmp_path / name, chosen[1]) for name in ("one", "another")]
    assert runs[0] != runs[1]
    assert all(len(run) >= 5 for run in runs)


def test_other_runs_draw_the_same(request: pytest.FixtureRequest) -> None:
    assert settings().derandomize is ("campaign" not in request.config.getoption("-m"))
