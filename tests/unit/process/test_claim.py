"""What `ottla up` looks at before it writes: locks of others, ports of others."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from ottla.errors import OttlaError
from ottla.process.claim import (
    PortInUse,
    await_unlocked,
    check_advertised,
    check_port,
    claim,
    lock_for_up,
)
from ottla.process.up_options import UpOptions
from ottla.runtime import DirInUse, SystemDisk


def test_a_second_up_is_told_of_the_first(tmp_path: Path) -> None:
    disk = SystemDisk()
    lock = lock_for_up(disk, tmp_path, tmp_path)
    with pytest.raises(OttlaError, match=r"another `ottla up` \(pid \d+\) runs with the folder"):
        lock_for_up(disk, tmp_path, tmp_path)
    lock.release()


def test_processes_that_are_leaving_are_waited_for(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    disk = SystemDisk()
    lock = disk.lock(tmp_path)
    leaving = threading.Timer(0.2, lock.release)
    leaving.start()
    await_unlocked(disk, [tmp_path / "not there", tmp_path])
    leaving.join()
    assert capfd.readouterr().err.count("that still has") == 1
    disk.lock(tmp_path).release()


def test_one_that_stays_is_an_error(tmp_path: Path) -> None:
    disk = SystemDisk()
    lock = disk.lock(tmp_path)
    with pytest.raises(DirInUse):
        await_unlocked(disk, [tmp_path], wait_s=0.1)
    lock.release()


def test_a_taken_port_names_the_option(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(PortInUse, match=f"broker-0 cannot listen on 127.0.0.1:{port}.*--port"):
            check_port("127.0.0.1", port, "broker-0", "--port")
        with pytest.raises(PortInUse):
            check_port("", port, "broker-0", "--port")
    check_port("127.0.0.1", port, "broker-0", "--port")
    check_port("no.such.host.invalid", port, "broker-0", "--port")
    check_port("127.0.0.1", 0, "broker-0", "--port")


def test_a_taken_port_of_metrics_or_of_a_setting_names_its_flag(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(PortInUse, match=r"the metrics of broker-0 .* --metrics chooses"):
            claim(UpOptions(data=tmp_path, zookeeper="z:1", port=0, metrics_port=port))
        listeners = {"listeners": f"PLAINTEXT://127.0.0.1:{port}"}
        with pytest.raises(PortInUse, match="--set listeners chooses another port"):
            claim(UpOptions(data=tmp_path, zookeeper="z:1", overrides=listeners))
    both = UpOptions(data=tmp_path, brokers=2, zookeeper="z:1", overrides=listeners)
    with pytest.raises(PortInUse, match="broker-0 and broker-1 would both listen on"):
        claim(both)


def test_an_address_of_another_machine(tmp_path: Path) -> None:
    with pytest.raises(OttlaError, match="no address of this machine; --host"):
        claim(UpOptions(data=tmp_path, host="192.0.2.77", zookeeper="z:1", port=19_092))


def test_brokers_must_reach_one_another_by_the_advertised_name() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    check_advertised("127.0.0.1", "localhost", port)
    with pytest.raises(OttlaError, match=r"no\.such.host.invalid does not lead back to 127.0.0.1:"):
        check_advertised("127.0.0.1", "no.such.host.invalid", port)
