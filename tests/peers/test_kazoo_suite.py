"""kazoo's own test-suite judges our server, one node, in place of Apache ZooKeeper.

The tests that fail are listed with their reasons in kazoo_suite/expected_failures.json; they
fail on a single Apache ZooKeeper 3.8.4 as well (docs/kazoo-suite.md). Any other failure, and
any listed test that passes, fails here.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

SUITE = Path(__file__).parent / "kazoo_suite"
TIME_LIMIT_S = 900
# Most of its time the suite waits: four parts side by side, each with a server of its own.
LANES = 4
# Of kazoo 2.11 with gevent and eventlet; fewer means that the suite did not really run.
MINIMUM_PASSED = 478

pytestmark = [pytest.mark.peers, pytest.mark.timeout(TIME_LIMIT_S + 60)]


def start_lane(lane: int, output: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(SUITE / "run.py"), str(output)],
        env={**os.environ, "KAZOO_SUITE_LANE": f"{lane}/{LANES}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_kazoo_finds_nothing_new(tmp_path: Path) -> None:
    outputs = [tmp_path / f"outcomes-{lane}.json" for lane in range(LANES)]
    running = [start_lane(lane, output) for lane, output in enumerate(outputs)]
    try:
        printed = [process.communicate(timeout=TIME_LIMIT_S)[0][-4000:] for process in running]
    finally:
        for process in running:
            process.kill()
    outcomes = {}
    for output in outputs:
        assert output.exists(), printed
        found = json.loads(output.read_text())
        outcomes.update({name: outcome for name, (outcome, _) in found.items()})
    counts = Counter(outcomes.values())
    print(f"kazoo's suite: {dict(counts)}")
    expected = json.loads((SUITE / "expected_failures.json").read_text())
    failed = {name for name, outcome in outcomes.items() if outcome == "failed"}
    assert failed == set(expected), "\n".join(printed)
    assert counts["passed"] >= MINIMUM_PASSED
