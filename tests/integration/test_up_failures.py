"""`ottla up` as its user sees it: in the background, when brokers die, and when it cannot start."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.process.data_folder import pid_path
from ottla.testing.cluster import free_ports

COMMAND = [sys.executable, "-m", "ottla"]
WAIT_S = 30.0


def ottla(*arguments: object, feed: str | None = None) -> tuple[int, str, str]:
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        input=feed,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def pid_of(data: Path, name: str) -> int:
    try:
        return int(pid_path(data, name).read_text())
    except (FileNotFoundError, ValueError):
        return 0


@pytest.fixture
def background(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A cluster of two that `--detach --restart` left behind, and its first address."""
    data, port = tmp_path / "data", free_ports(3)
    code, out, err = ottla(
        "up", "--brokers", 2, "--zookeeper-port", port, "--port", port + 1,
        "--data", data, "--detach", "--restart",
    )  # fmt: skip
    try:
        assert (code, err) == (0, "")
        assert out.splitlines()[-1].startswith(f"ready: bootstrap.servers=127.0.0.1:{port + 1},")
        yield data, f"127.0.0.1:{port + 1}"
    finally:
        ottla("down", "--data", data)


def test_a_cluster_in_the_background(background: tuple[Path, str]) -> None:
    """It outlives its command, is shown and stopped by others, and whoever dies comes back."""
    data, address = background
    code, out, err = ottla("status", "--data", data)
    assert (code, err) == (0, "")
    store, broker = pid_of(data, "store"), pid_of(data, "broker-1")
    assert f"\nstore: pid {store}, " in out and f"\nbroker-1: pid {broker}, " in out
    code, _, err = ottla("up", "--data", data, "--detach")
    assert code == 1 and err.startswith("Error: another `ottla up` (pid ")

    titles = {
        name: Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode()
        for name, pid in (("store", store), ("broker-1", broker))
    }
    assert titles == {name: f"ottla-{name} {data}" for name in titles}

    os.kill(broker, signal.SIGKILL)
    until(lambda: pid_of(data, "broker-1") not in (0, broker), "the broker is not started again")
    until(lambda: ottla("status", "--data", data)[0] == 0, "the broker does not answer")
    os.kill(pid_of(data, "broker-1"), signal.SIGTERM)
    until(lambda: not pid_of(data, "broker-1"), "a broker that was asked to stop does not")
    code, out, _ = ottla("status", "--data", data)
    assert code == 1 and "\nbroker-1: not running\n" in out
    # On the broker that is there.
    new = ("topics", "--create", "--topic", "t", "--replica-assignment", "0")
    assert ottla(*new, "--bootstrap-server", address)[0] == 0
    assert ottla("produce", "t", "--bootstrap-server", address, feed="a\n")[0] == 0

    for following in (["consume", "t", "--from-beginning"], ["events"]):
        until(
            lambda words=following: ottla(*words, "--bootstrap-server", address)[1] != "",
            f"{following[0]} has nothing to show",
        )
        process = subprocess.Popen(
            [*COMMAND, *following, "--follow", "--bootstrap-server", address],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline(), process.communicate()
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=WAIT_S)[1] == ""
        assert process.returncode == 0

    code, out, err = ottla("down", "--data", data)
    assert (code, err) == (0, "") and out.endswith("stopped\n")
    assert ottla("status", "--data", data)[:2] == (1, f"nothing runs with the folder {data}\n")
    assert ottla("down", "--data", data)[0] == 0
    assert not list((data / "run").glob("*.pid"))


@pytest.mark.parametrize("brokers", [1, 3])
def test_a_clean_stop_warns_of_nothing(tmp_path: Path, brokers: int) -> None:
    port = free_ports(brokers + 1)
    up = ["up", "--brokers", brokers, "--zookeeper-port", port, "--port", port + 1]
    process = subprocess.Popen(
        [*COMMAND, *map(str, up), "--data", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert any(line.startswith("ready:") for line in process.stdout)
    address = f"127.0.0.1:{port + 1}"
    ottla(
        "topics", "--create", "--topic", "t", "--partitions", 6,
        "--replication-factor", brokers, "--bootstrap-server", address,
    )  # fmt: skip
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=WAIT_S)
    assert (process.returncode, err) == (0, "stopping\n")


def test_a_store_that_nobody_reaches(tmp_path: Path) -> None:
    port = free_ports(2)
    code, _, err = ottla(
        "up", "--zookeeper", f"127.0.0.1:{port}/x", "--port", port + 1, "--data", tmp_path,
        "--set", "zookeeper.connection.timeout.ms=500",
    )  # fmt: skip
    first, second = err.splitlines()
    assert code == 1 and second == "broker-0 did not start (exit code 1)"
    assert first.startswith(
        f"broker-0: no ZooKeeper server answered at 127.0.0.1:{port}/x within 0.5 s: "
        "Connection refused; zookeeper.connect (`ottla up --zookeeper`)"
    )


_FULL = """
ip link set lo up && mount -t tmpfs -o size=6m none "$1" && cd "$1" || exit 77
exec "$2" -m ottla up --brokers 2 --data d --set log.segment.bytes=1048576
"""


def test_a_full_disk_is_told_without_tracebacks(tmp_path: Path) -> None:
    """A real one: a small file system in a mount namespace of the test's own."""
    unshare = shutil.which("unshare")
    if (
        unshare is None
        or subprocess.run(
            [unshare, "-rmn", "ip", "link"], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("this machine does not let a test mount a file system (unshare -rmn)")
    disk = tmp_path / "disk"
    disk.mkdir()
    process = subprocess.Popen(
        [unshare, "-rmn", "sh", "-c", _FULL, "sh", str(disk), sys.executable],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert any(line.startswith("ready:") for line in process.stdout)
    # Seen from outside through the process: nothing of ours needs to talk to the brokers.
    inside = Path(f"/proc/{process.pid}/root{disk}")
    with (inside / "rest").open("wb", buffering=0) as rest:
        for size in (65_536, 4096, 1):
            try:
                while True:
                    rest.write(bytes(size))
            except OSError:
                pass
    enter = ["nsenter", "-t", str(process.pid), "-U", "-n", "--preserve-credentials"]
    create = ["topics", "--create", "--topic", "t", "--partitions", "20"]
    assert process.stderr is not None
    told = ""
    with subprocess.Popen([*enter, *COMMAND, *create], stderr=subprocess.DEVNULL) as client:
        # The brokers, the store or their log files, whoever writes first.
        for line in process.stderr:
            told += line
            if "No space left on device" in line:
                break
        process.send_signal(signal.SIGTERM)
        told += process.communicate(timeout=60)[1]
        client.kill()
    assert "No space left on device" in told
    assert "Traceback" not in told and "Logging error" not in told
