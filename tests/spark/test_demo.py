"""`make demo` as a user runs it: it succeeds, in time, and leaves nothing behind."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.spark.launch.session import missing_reason
from tests.support.judges import need

DEMO = Path(__file__).parents[2] / "tools" / "demo.py"
LIMIT_S = 400

# The name of a language, which nothing is fetched from.
SVG = "http://www.w3.org/2000/svg"


@pytest.mark.spark
@pytest.mark.timeout(LIMIT_S + 60)
def test_the_demo(tmp_path):
    need(missing_reason())
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    run = subprocess.run(
        [
            sys.executable,
            DEMO,
            "--plot",
            tmp_path / "plot.html",
            "--record",
            tmp_path / "life.json",
        ],
        env={**os.environ, "TMPDIR": str(scratch)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stderr == ""
    for promise in (
        "Created topic clicks.",
        "The topic grows while the stream runs",
        "new leaders after",
        "equal: every line exactly once",
        "records of all 9 partitions",
        "all processes stopped",
    ):
        assert promise in run.stdout
    pids = [int(pid) for pid in re.findall(r"broker \d: pid (\d+)", run.stdout)]
    assert len(pids) == 3
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
    assert [path.name for path in scratch.iterdir() if path.name.startswith("ottla")] == []
    plot = (tmp_path / "plot.html").read_text()
    assert "kill -9" in plot and "transform-orders" in plot and "http:" not in plot.replace(SVG, "")
    assert "the console, to watch it all: http://127.0.0.1:" in run.stdout
    record = json.loads((tmp_path / "life.json").read_text())
    assert record["format"] == "ottla-life"
    assert {"clicks", "orders"} <= {step["topic"] for step in record["life"]["steps"]}


def test_the_demo_without_spark_says_why():
    code = (
        "import importlib.util as u, runpy, sys; found = u.find_spec;"
        "u.find_spec = lambda name, *a: None if name == 'pyspark' else found(name, *a);"
        f"sys.path.insert(0, {str(DEMO.parent)!r}); sys.argv = ['demo'];"
        f"runpy.run_path({str(DEMO)!r}, run_name='__main__')"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 1
    assert "PySpark is not installed" in run.stdout
    assert run.stderr == ""
