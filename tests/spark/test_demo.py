"""`make demo` as a user runs it: it succeeds, in time, and leaves nothing behind."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.testing.peers import peers_required
from ottla.testing.spark import missing_reason

DEMO = Path(__file__).parents[2] / "tools" / "demo.py"
LIMIT_S = 120


def run_demo(tmp_path, **environment):
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    run = subprocess.run(
        [sys.executable, DEMO],
        env={**os.environ, "TMPDIR": str(scratch), **environment},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stderr == ""
    pids = [int(pid) for pid in re.findall(r"broker \d: pid (\d+)", run.stdout)]
    assert len(pids) == 3
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
    assert [path.name for path in scratch.iterdir() if path.name.startswith("ottla")] == []
    return run.stdout


@pytest.mark.spark
def test_the_demo_with_spark(tmp_path):
    reason = missing_reason()
    if reason is not None and peers_required():
        pytest.fail(reason)
    if reason is not None:
        pytest.skip(reason)
    output = run_demo(tmp_path)
    assert output.count('spark.read.format("kafka"): count and checksum equal') == 2


def test_the_demo_without_maven_says_why_spark_is_left_out(tmp_path):
    output = run_demo(tmp_path, OTTLA_CACHE=str(tmp_path / "cache"), PATH="/nonexistent")
    assert "Spark is left out" in output
    assert "mvn not found" in output
    assert output.count("confluent-kafka: count and checksum equal") == 2
