"""A pipeline on a session of Spark Connect: no job may ask for a JVM.

In the campaign: Spark gives a Python process of Connect's ten seconds to come up, and on a busy
machine it does not. tests/unit/pipelines/test_dialects.py holds the code to the same rule.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.spark.launch.session import missing_reason
from tests.support.judges import need
from tests.support.spark.connect_driver import LINES, ROUNDS
from tests.support.spark.connect_server import ConnectServer
from tests.support.spark.pipeline_helpers import read_topic

pytestmark = [pytest.mark.spark, pytest.mark.campaign, pytest.mark.timeout(1800)]
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(params=["a server in the same process", "a server of its own"])
def remote(request, campaign, tmp_path):
    need(missing_reason())
    pytest.importorskip("grpc", reason="pyspark[connect] is not installed")
    if request.param == "a server in the same process":
        yield "local[2]"
        return
    with ConnectServer(tmp_path, str(ROOT / "src")) as server:
        yield server.url


def test_every_row_once_in_two_runs(remote, ottla_processes, tmp_path):
    servers = ottla_processes.bootstrap_servers
    prefix = "own" if remote.startswith("sc://") else "same"
    command = ["-m", "tests.support.spark.connect_driver", servers, str(tmp_path), remote, prefix]
    driver = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )
    assert driver.returncode == 0, driver.stderr[-4000:]
    found = json.loads(driver.stdout.splitlines()[-1])
    assert found["session"].startswith("pyspark.sql.connect")
    for report in found["reports"]:
        assert report["sound"], report
    last = {job["name"]: job for job in found["reports"][-1]["jobs"]}
    assert (last["counts"]["rows_in"], last["counts"]["dead_letters"]) == (LINES + 1, 1)
    assert last[f"archive-{prefix}.lines"]["rows_out"] == LINES + 1
    assert last["counts"]["rows_out"] is None and last["large"]["rows_out"] == LINES // 2
    assert found["archived"] == found["places"] == ROUNDS * (LINES + 1)
    counts: dict[int, int] = {}
    for message in read_topic(servers, f"{prefix}.counts"):
        told = json.loads(message.value())
        counts[told["k"]] = max(counts.get(told["k"], 0), told["c"])
    assert counts == {0: 34 * ROUNDS, 1: 33 * ROUNDS, 2: 33 * ROUNDS}
    large = [json.loads(m.value())["n"] for m in read_topic(servers, f"{prefix}.large")]
    assert sorted(large) == sorted([*range(50, LINES)] * ROUNDS)
    assert len(read_topic(servers, f"{prefix}.bad")) == ROUNDS
