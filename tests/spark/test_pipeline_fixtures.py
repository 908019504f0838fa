"""examples/testing, as a user runs it: the fixtures, a job of their own, no Docker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.spark.launch.session import missing_reason
from tests.support.judges import need

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "testing"


def test_the_example_of_the_documentation_passes(tmp_path):
    need(missing_reason())
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null"]
    command += ["--rootdir", str(tmp_path), "--basetemp", str(tmp_path / "base"), str(EXAMPLE)]
    run = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
    assert "2 passed" in run.stdout


def test_the_documentation_shows_the_example_as_it_is():
    page = (ROOT / "docs" / "testing.md").read_text()
    for name in ("pages.py", "test_pages.py"):
        assert (EXAMPLE / name).read_text() in page, name
