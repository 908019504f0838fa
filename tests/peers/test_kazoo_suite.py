"""kazoo's own test-suite judges our server, one node, in place of Apache ZooKeeper.

The tests that fail are listed with their reasons in kazoo_suite/expected_failures.json; they
fail on a single Apache ZooKeeper 3.8.4 as well (docs/kazoo-suite.md). Any other failure, and
any listed test that passes, fails here.
"""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

SUITE = Path(__file__).parent / "kazoo_suite"
TIME_LIMIT_S = 900
# Of kazoo 2.11 with gevent and eventlet; fewer means that the suite did not really run.
MINIMUM_PASSED = 478

pytestmark = [pytest.mark.peers, pytest.mark.timeout(TIME_LIMIT_S + 60)]


def test_kazoo_finds_nothing_new(tmp_path):
    output = tmp_path / "outcomes.json"
    finished = subprocess.run(
        [sys.executable, str(SUITE / "run.py"), str(output)],
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
        check=False,
    )
    assert output.exists(), finished.stdout[-4000:] + finished.stderr[-4000:]
    outcomes = {name: outcome for name, (outcome, _) in json.loads(output.read_text()).items()}
    counts = Counter(outcomes.values())
    print(f"kazoo's suite: {dict(counts)}")
    expected = json.loads((SUITE / "expected_failures.json").read_text())
    failed = {name for name, outcome in outcomes.items() if outcome == "failed"}
    assert failed == set(expected), finished.stdout[-4000:]
    assert counts["passed"] >= MINIMUM_PASSED
