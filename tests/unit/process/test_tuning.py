"""What the operating system is told about a broker's turns."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from ottla.process.data_folder import config_path, pid_path
from ottla.process.tuning import let_others_finish
from ottla.testing.cluster import ProcessCluster


def in_a_thread(work: Callable[[], None]) -> int:
    """The policy that a thread has after some work; that of the tests stays as it is."""
    found: list[int] = []

    def run() -> None:
        work()
        found.append(os.sched_getscheduler(0))

    thread = Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


def test_running_threads_finish_their_turn() -> None:
    before = os.sched_getscheduler(0)
    assert in_a_thread(let_others_finish) == os.SCHED_BATCH
    assert os.sched_getscheduler(0) == before


def test_a_policy_that_was_chosen_is_kept() -> None:
    def idle_before() -> None:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        let_others_finish()

    assert in_a_thread(idle_before) == os.SCHED_IDLE


def test_a_system_that_refuses_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("not here")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    assert in_a_thread(let_others_finish) == os.SCHED_OTHER


@pytest.mark.parametrize(
    ("enabled", "policy"), [("true", os.SCHED_BATCH), ("false", os.SCHED_OTHER)]
)
def test_a_broker_is_told_by_its_config(tmp_path: Path, enabled: str, policy: int) -> None:
    setting = {"ottla.scheduling.batch.enable": enabled}
    with ProcessCluster(brokers=1, data=tmp_path / "up", overrides=setting) as cluster:
        assert os.sched_getscheduler(cluster.pid(0)) == policy
        assert policies_of_helpers(cluster.pid(0)) == {os.SCHED_OTHER}
        assert policy_of_another_broker(cluster, tmp_path / "alone") == policy


def test_the_store_beside_several_brokers_goes_first(tmp_path: Path) -> None:
    with ProcessCluster(brokers=2, data=tmp_path) as cluster:
        policies = [os.sched_getscheduler(cluster.pid(broker)) for broker in range(2)]
        assert policies == [os.SCHED_BATCH] * 2
        # A start gives way to nobody: the threads that were begun meanwhile have what it had.
        assert policies_of_helpers(cluster.pid(0)) == {os.SCHED_OTHER}
        store = int(pid_path(tmp_path, "store").read_text())
        assert os.sched_getscheduler(store) == os.SCHED_OTHER


def policies_of_helpers(pid: int) -> set[int]:
    """Those of all threads of a process but the event loop's."""
    threads = [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()]
    return {os.sched_getscheduler(thread) for thread in threads if thread != pid}


def policy_of_another_broker(cluster: ProcessCluster, folder: Path) -> int:
    """With the configuration of the first one, started as `ottla broker`."""
    command = [sys.executable, "-m", "ottla", "broker"]
    command += ["--config", str(config_path(cluster.options.data, 0))]
    own = {"broker.id": "7", "listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(folder)}
    own["advertised.listeners"] = own["listeners"]
    for name, value in own.items():
        command += ["--set", f"{name}={value}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as broker:
        assert broker.stdout is not None
        assert broker.stdout.readline().startswith(b"ready:")
        policy = os.sched_getscheduler(broker.pid)
        broker.kill()
    return policy
