"""`ottla up` with one broker: store and broker in one process."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from ottla.bench.topic_sides import Work
from ottla.testing.cluster import ProcessCluster


def test_nobody_waits_for_the_session_of_a_killed_process(tmp_path: Path) -> None:
    """Its registration and its controller's place went with it, as the store knows at its start."""
    with ProcessCluster(brokers=1, data=tmp_path) as cluster:
        with Work(cluster.bootstrap_servers) as work:
            work.create(["kept"], 1)
        os.kill(cluster.pid(0), signal.SIGKILL)
    with ProcessCluster(brokers=1, data=tmp_path) as cluster, Work(cluster.bootstrap_servers) as w:
        w.await_ready(["kept"], 1)
    log = (tmp_path / "logs" / "broker-0.log").read_text()
    assert log.count("registered broker 0 with epoch") == 2
    assert "waiting for that session to end" not in log
