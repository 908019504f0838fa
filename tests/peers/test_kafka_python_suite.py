"""kafka-python's own integration tests judge a broker of ours in place of Apache Kafka.

kafka_python_suite/expected.json says how each test comes out on Apache Kafka 2.8.2 with the same
settings, and why it is skipped or fails there (docs/client-suites.md). Here all come out the same.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.peers.client_suites import differences, need_suite

SUITE = Path(__file__).parent / "kafka_python_suite"
TIME_LIMIT_S = 600
# kafka-python tells a broker's version by the APIs it offers: ours are those of 3.9.
OUR_VERSION = "3.9.0"

pytestmark = [pytest.mark.peers, pytest.mark.timeout(TIME_LIMIT_S + 60)]


def run(output: Path, *arguments: str) -> tuple[dict[str, str], str]:
    """What came out of each test, and what pytest printed."""
    need_suite("kafka-python-suite", "pip")
    finished = subprocess.run(
        [sys.executable, str(SUITE / "run_kafka_python.py"), str(output), *arguments],
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
        check=False,
    )
    printed = finished.stdout + finished.stderr
    assert output.exists(), printed[-4000:]
    return {name: outcome for name, (outcome, _) in json.loads(output.read_text()).items()}, printed


def test_all_that_passes_on_apache_kafka_passes_here(tmp_path):
    outcomes, printed = run(tmp_path / "outcomes.json")
    recorded = json.loads((SUITE / "expected.json").read_text())
    expected = {name: outcome for name, (outcome, _) in recorded.items()}
    different = differences(outcomes, expected)
    assert not different, "\n".join([*different, printed[-8000:]])


@pytest.mark.skipif(
    os.environ.get("OTTLA_JUDGED", "ottla") != "ottla", reason="the version is Ottla's"
)
def test_our_version_is_told_from_our_apis(tmp_path):
    name = "test_consumer_integration.py::test_kafka_version_infer"
    version = ("--version", OUR_VERSION)
    outcomes, printed = run(tmp_path / "outcomes.json", *version, f"test/integration/{name}")
    assert list(outcomes.values()) == ["passed"], printed[-4000:]
