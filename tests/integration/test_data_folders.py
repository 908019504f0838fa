"""Two on one folder, a killed `ottla up`, a damaged store: said in one line, nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.bench.topic_sides import Work
from ottla.process.data_folder import config_path, pid_path
from ottla.testing.cluster import ProcessCluster, free_ports

WAIT_S = 30.0


# `ottla up` with less patience for processes of an earlier one, which may be on their way out.
IMPATIENT = (
    "-c",
    "import sys; from ottla.process import claim; claim.WAIT_S = 1.0;"
    "from ottla.cli.main import main; sys.exit(main())",
)


def ottla(
    *arguments: object, cwd: Path | None = None, program: tuple[str, ...] = ("-m", "ottla")
) -> tuple[int, str]:
    """Exit code and stderr of a command that ends by itself."""
    done = subprocess.run(
        [sys.executable, *program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=cwd,
        check=False,
    )
    return done.returncode, done.stderr


def up_arguments(cluster: ProcessCluster, **others: object) -> list[object]:
    options = cluster.options
    used = {
        "--brokers": options.brokers,
        "--port": options.port,
        "--zookeeper-port": options.zookeeper_port,
        "--data": options.data,
    } | {f"--{name.replace('_', '-')}": value for name, value in others.items()}
    return ["up", *(part for pair in used.items() for part in pair)]


def files_of(data: Path) -> dict[Path, bytes]:
    kept = [*(data / "config").iterdir(), *(data / "run").glob("*.pid")]
    return {path: path.read_bytes() for path in kept}


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def pids(data: Path) -> list[int]:
    return [int(path.read_text()) for path in (data / "run").glob("*.pid")]


@contextmanager
def broker_by_hand(
    cluster: ProcessCluster, broker_id: int, cwd: Path
) -> Iterator[subprocess.Popen[str]]:
    config = config_path(cluster.options.data, broker_id)
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla", "broker", "--config", os.path.relpath(config, cwd)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=cwd,
    )
    try:
        assert process.stdout is not None
        assert "ready:" in process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


def test_nobody_else_gets_in(tmp_path: Path) -> None:
    """Neither a second `up` nor a store nor a broker touches what a running cluster uses."""
    with ProcessCluster(brokers=2, data=tmp_path / "data") as cluster:
        data = cluster.options.data
        with Work(cluster.bootstrap_servers) as work:
            work.create(["before"], 1)
        before = files_of(data)
        store_pid = int(pid_path(data, "store").read_text())

        code, error = ottla(*up_arguments(cluster))
        assert code == 1 and "another `ottla up` (pid " in error and error.count("\n") == 1
        port = free_ports(4)
        other_ports = up_arguments(cluster, port=port + 1, zookeeper_port=port, brokers=3)
        code, error = ottla(*other_ports)
        assert code == 1 and f"runs with the folder {data}" in error

        code, error = ottla("zookeeper", "--port", 0, "--data", data / "store")
        assert code == 1 and error.count("\n") == 1
        assert f"in {data}/store: process {store_pid} is using this folder" in error
        code, error = ottla("zookeeper", "--repair", "--data", data / "store")
        assert code == 1 and f"process {store_pid}" in error

        code, error = ottla("broker", "--config", config_path(data, 1))
        assert code == 1 and f"process {cluster.pid(1)} is using this folder" in error

        # On its ports, with another folder: nothing is left but the lock.
        code, error = ottla(*up_arguments(cluster, data=tmp_path / "other"))
        assert code == 1 and "--zookeeper-port chooses another port" in error
        left = [path for path in (tmp_path / "other").rglob("*") if path.is_file()]
        assert left == [tmp_path / "other" / "run" / ".lock"]

        assert files_of(data) == before
        with Work(cluster.bootstrap_servers) as work:
            work.create(["after"], 1)
    with ProcessCluster(brokers=2, data=data) as cluster, Work(cluster.bootstrap_servers) as work:
        work.await_ready(["before", "after"], 1)


def test_a_store_beside_a_single_broker_is_kept_out(tmp_path: Path) -> None:
    with ProcessCluster(brokers=1, data=tmp_path) as cluster:
        code, error = ottla("zookeeper", "--port", 0, "--data", tmp_path / "store")
        assert code == 1 and f"process {cluster.pid(0)} is using this folder" in error
        code, error = ottla(*up_arguments(cluster))
        assert code == 1 and f"another `ottla up` (pid {cluster.pid(0)})" in error


def test_a_broker_started_again_from_elsewhere(tmp_path: Path) -> None:
    """Its logs are found, its pid file is there again, and `up` leaves that alone."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with ProcessCluster(brokers=2, data=tmp_path / "data") as cluster:
        pid_file = pid_path(cluster.options.data, "broker-1")
        cluster.kill(1)
        until(lambda: not pid_file.exists(), "the pid file of a dead broker stays")
        with broker_by_hand(cluster, 1, elsewhere) as process:
            assert int(pid_file.read_text()) == process.pid
            cluster.stop()
            assert int(pid_file.read_text()) == process.pid
            assert list(elsewhere.iterdir()) == []
            code, error = ottla(*up_arguments(cluster), program=IMPATIENT)
            assert code == 1
            assert f"process {process.pid} is using this folder" in error
            assert int(pid_file.read_text()) == process.pid


def test_a_broker_by_hand_takes_its_pid_file_along(tmp_path: Path) -> None:
    with ProcessCluster(brokers=2, data=tmp_path) as cluster:
        cluster.kill(1)
        with broker_by_hand(cluster, 1, tmp_path) as process:
            process.send_signal(signal.SIGHUP)
            assert process.wait(WAIT_S) == 0
            assert not pid_path(tmp_path, "broker-1").exists()
        assert (tmp_path / "broker-1" / ".kafka_cleanshutdown").exists()


def test_after_kill_9_the_next_start_succeeds_at_once(tmp_path: Path) -> None:
    with ProcessCluster(brokers=2, data=tmp_path) as cluster:
        with Work(cluster.bootstrap_servers) as work:
            work.create(["kept"], 1)
        children = pids(tmp_path)
        assert cluster._process is not None
        cluster._process.kill()
        cluster._process.wait()
        began = time.monotonic()
        with ProcessCluster(brokers=2, data=tmp_path) as again:
            assert time.monotonic() - began < WAIT_S
            assert all(map(is_gone, children))
            with Work(again.bootstrap_servers) as work:
                work.await_ready(["kept"], 1)


def test_the_store_goes_when_nobody_is_left_who_needs_it(tmp_path: Path) -> None:
    """Also where the brokers are killed too and close nothing."""
    with ProcessCluster(brokers=2, data=tmp_path) as cluster:
        children = pids(tmp_path)
        store_pid = int(pid_path(tmp_path, "store").read_text())
        assert cluster._process is not None
        for pid in (cluster._process.pid, *(pid for pid in children if pid != store_pid)):
            os.kill(pid, signal.SIGKILL)
        began = time.monotonic()
        until(lambda: is_gone(store_pid), "the store lives on")
        assert time.monotonic() - began < 10
        assert (tmp_path / "store" / "clean-stop").exists()


@pytest.mark.parametrize("brokers", [1, 2])
def test_the_end_of_the_terminal_is_an_orderly_stop(tmp_path: Path, brokers: int) -> None:
    with ProcessCluster(brokers=brokers, data=tmp_path) as cluster:
        process = cluster._process
        assert process is not None
        # As a terminal does: everyone in the group hears it.
        for pid in {*pids(tmp_path), process.pid}:
            os.kill(pid, signal.SIGHUP)
        assert process.wait(WAIT_S) == 0
    for broker_id in range(brokers):
        assert (tmp_path / f"broker-{broker_id}" / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "store" / "clean-stop").exists()
    assert not list((tmp_path / "run").glob("*.pid"))


def test_a_store_by_itself_hears_it_too(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla", "zookeeper", "--port", "0", "--data", str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert "ready:" in process.stdout.readline()
    process.send_signal(signal.SIGHUP)
    assert process.wait(WAIT_S) == 0
    process.stdout.close()
    assert (tmp_path / "clean-stop").exists()


def test_a_flipped_bit_in_the_store(tmp_path: Path) -> None:
    """Refused by every command, repaired by one, and the topic whose writes are whole is there."""
    with ProcessCluster(brokers=2, data=tmp_path) as cluster, Work(cluster.bootstrap_servers) as w:
        w.create(["first"], 1)
        w.create(["second"], 1)
    store = tmp_path / "store"
    [journal] = store.glob("journal.*")
    data = bytearray(journal.read_bytes())
    data[data.index(b"/brokers/topics/first") + 3] ^= 4
    journal.write_bytes(data)

    for command in (up_arguments(cluster), ["zookeeper", "--port", 0, "--data", store]):
        code, error = ottla(*command)
        assert code == 1
        assert f"{journal} is damaged at byte " in error
        assert f"`ottla zookeeper --repair --data {store}`" in error
        assert journal.read_bytes() == data
    done = subprocess.run(
        [sys.executable, "-m", "ottla", "zookeeper", "--repair", "--data", str(store)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "is lost" in done.stdout
    assert (store / "before-repair-1" / journal.name).read_bytes() == data
    with ProcessCluster(brokers=2, data=tmp_path) as cluster, Work(cluster.bootstrap_servers) as w:
        w.await_ready(["second"], 1)


@pytest.mark.parametrize("brokers", [1, 2])
def test_a_store_that_cannot_write_ends_with_one_line(tmp_path: Path, brokers: int) -> None:
    """As on a full disk: no file may grow to the size of a journal."""
    port = free_ports(brokers + 1)
    data = tmp_path / "data"
    limited = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20));"
        "from ottla.cli.main import main; main()"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            limited,
            "up",
            "--brokers",
            str(brokers),
            "--port",
            str(port),
            "--zookeeper-port",
            str(port + brokers),
            "--data",
            str(data),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert f"store: cannot write to {data / 'store'}: File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert not pids(data)


def test_started_by_somebody_who_ignores_the_end_of_children(tmp_path: Path) -> None:
    port = free_ports(3)
    ignoring = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN);"
        "os.execv(sys.executable, [sys.executable, '-m', 'ottla', *sys.argv[1:]])"
    )
    up = subprocess.Popen(
        [
            sys.executable,
            "-c",
            ignoring,
            "up",
            "--brokers",
            "2",
            "--port",
            str(port),
            "--zookeeper-port",
            str(port + 2),
            "--data",
            str(tmp_path / "data"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert up.stdout is not None
    for line in up.stdout:
        if line.startswith("ready:"):
            break
    up.terminate()
    _, told = up.communicate(timeout=60)
    assert up.returncode == 0, told
    assert "No child processes" not in told


def test_a_damaged_meta_properties(tmp_path: Path) -> None:
    with ProcessCluster(brokers=1, data=tmp_path) as cluster:
        pass
    meta = tmp_path / "broker-0" / "meta.properties"
    good = meta.read_bytes()
    meta.write_bytes(good[: len(good) // 2])
    code, error = ottla(*up_arguments(cluster))
    assert code == 1 and error.count("\n") == 1
    assert f"{meta} is damaged" in error
    assert meta.read_bytes() == good[: len(good) // 2]
    meta.write_bytes(good)
    with ProcessCluster(brokers=1, data=tmp_path):
        pass
