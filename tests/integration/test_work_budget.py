"""Requests that ask for much in few bytes, sent to a real broker: what they cost it, what they are
answered, and that others are served meanwhile. Bounds are wide: machines that run this are slow."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.testing.cluster import Cluster, ProcessCluster, free_ports
from ottla.wire import framing
from ottla.wire import messages as m
from tests.support import attack_requests
from tests.support.attack_requests import AttackRequest

TOPIC, PARTITIONS = "wide", 300
# Each of these took seconds before, and hundreds of megabytes.
MAX_CPU_S = 8.0
MAX_ANSWER_BYTES = 12_000_000
MAX_GROWTH_BYTES = 220_000_000
# A good client's longest wait. On an idle machine it is a few hundredths of this.
MAX_WAIT_S = 5.0
REPEATED_NAMES = [request.name for request in attack_requests.repeated(TOPIC, bytes(16))]
LONG_NAMES = [request.name for request in attack_requests.long_lists(TOPIC)]


class Peer:
    """A plain socket."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)

    def exchange(self, frame: bytes) -> bytes:
        """The answer without its length; empty where the broker closes the connection."""
        try:
            self.socket.sendall(frame)
            head = self._read(4)
            return self._read(struct.unpack(">i", head)[0]) if head else b""
        except (ConnectionResetError, BrokenPipeError):
            return b""

    def ask(self, request: AttackRequest) -> Any:
        raw = self.exchange(request.frame)
        key = request.message.API_KEY
        _, offset = framing.decode_response_header(raw, key, request.version)
        return m.response_class(key).decode(raw, request.version, offset)[0]

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self.socket.recv(min(1 << 20, size - len(data)))
            if not part:
                return b""
            data += part
        return bytes(data)

    def close(self) -> None:
        self.socket.close()


class GoodClient(threading.Thread):
    """Asks for the versions again and again, and remembers its longest wait."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._peer = Peer(port)
        self._frame = AttackRequest("", m.ApiVersionsRequest(), 0).frame
        self._stop_asked = threading.Event()
        self.longest_s = 0.0

    def run(self) -> None:
        while not self._stop_asked.is_set():
            begun = time.monotonic()
            assert self._peer.exchange(self._frame)
            self.longest_s = max(self.longest_s, time.monotonic() - begun)
            self._stop_asked.wait(0.01)

    def finish(self) -> float:
        self._stop_asked.set()
        self.join(60)
        self._peer.close()
        return self.longest_s


class Broker:
    """One broker in a process of its own, with a topic of many partitions."""

    def __init__(self, cluster: ProcessCluster) -> None:
        self.port = cluster.options.port
        self.pid = cluster.pid(0)
        self.logs = cluster.options.data / "logs"
        peer = Peer(self.port)
        peer.ask(attack_requests.create_one_topic(TOPIC, PARTITIONS))
        entry = m.MetadataRequest.MetadataRequestTopic(name=TOPIC)
        asked = AttackRequest("", m.MetadataRequest(topics=[entry]), 12)
        for _ in range(600):
            topic = peer.ask(asked).topics[0]
            if sum(partition.leader_id >= 0 for partition in topic.partitions) == PARTITIONS:
                break
            time.sleep(0.05)
        self.topic_id: bytes = topic.topic_id
        peer.close()

    @property
    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def peak_bytes(self) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))

    def forget_peak(self) -> None:
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def attack(self, frame: bytes) -> bytes:
        """The answer; fails where it, or the work for it, is beyond all bounds."""
        good = GoodClient(self.port)
        good.start()
        self.forget_peak()
        before_s, before_bytes = self.cpu_s, self.peak_bytes
        peer = Peer(self.port)
        answer = peer.exchange(frame)
        peer.close()
        waited_s = good.finish()
        assert self.cpu_s - before_s < MAX_CPU_S
        assert len(answer) < MAX_ANSWER_BYTES
        assert self.peak_bytes - before_bytes < MAX_GROWTH_BYTES
        assert waited_s < MAX_WAIT_S
        return answer


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with ProcessCluster(1) as cluster:
        yield Broker(cluster)


def _codes(broker: Broker, request: AttackRequest) -> set[tuple[int, str | None]]:
    raw = broker.attack(request.frame)
    key = request.message.API_KEY
    _, offset = framing.decode_response_header(raw, key, request.version)
    response: Any = m.response_class(key).decode(raw, request.version, offset)[0]
    results = response.topics if hasattr(response, "topics") else response.results
    return {(result.error_code, result.error_message) for result in results}


@pytest.mark.parametrize("name", REPEATED_NAMES)
def test_what_is_asked_for_again_and_again_costs_little(broker: Broker, name: str) -> None:
    requests = attack_requests.repeated(TOPIC, broker.topic_id)
    assert broker.attack(next(each for each in requests if each.name == name).frame)


@pytest.mark.parametrize("name", LONG_NAMES)
def test_long_lists_keep_nobody_waiting(broker: Broker, name: str) -> None:
    requests = attack_requests.long_lists(TOPIC)
    assert broker.attack(next(each for each in requests if each.name == name).frame)


@pytest.mark.parametrize("validate_only", [True, False])
def test_more_partitions_than_a_request_may_make(broker: Broker, validate_only: bool) -> None:
    refused = (ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    many = attack_requests.create_topics(10, 200_000, validate_only=validate_only)
    assert _codes(broker, many) == {refused}
    assert _codes(broker, attack_requests.create_one_topic("n" * 249, 100_001)) == {refused}
    assert _codes(broker, attack_requests.create_partitions(TOPIC, 100_001)) == {refused}


def test_more_entries_than_a_request_may_have_end_the_connection(broker: Broker) -> None:
    assert broker.attack(attack_requests.too_many_entries()) == b""
    # Said once the connection is closed, perhaps a moment after the peer saw it.
    for _ in range(600):
        text = (broker.logs / "broker-0.log").read_text()
        if "more than 250000 entries" in text:
            break
        time.sleep(0.05)
    assert "DescribeGroups version 5 cannot be read: it has more than 250000 entries" in text


def test_requests_that_fail_fill_no_log(broker: Broker) -> None:
    log = broker.logs / "broker-0.log"
    before = log.stat().st_size
    unknown = struct.pack(">ihhih", 10, 999, 0, 1, -1)
    for _ in range(500):
        peer = Peer(broker.port)
        assert peer.exchange(unknown) == b""
        peer.close()
    peer = Peer(broker.port)
    for _ in range(500):
        peer.ask(attack_requests.create_one_topic("bad name", 1))
    peer.close()
    text = log.read_bytes()[before:].decode()
    assert "unknown API key 999" in text
    assert "topic bad name is not created" in text
    assert len(text) < 100_000


def test_a_broker_of_its_own_logs_to_files_that_are_rotated(tmp_path: Path) -> None:
    with Cluster(1) as cluster:
        config = tmp_path / "server.properties"
        config.write_text(
            f"broker.id=7\nlisteners=PLAINTEXT://127.0.0.1:{free_ports(1)}\n"
            f"log.dirs={tmp_path / 'data'}\nzookeeper.connect={cluster.zookeeper}\n"
        )
        command = [sys.executable, "-m", "ottla", "broker", "--config", str(config)]
        with subprocess.Popen(
            [*command, "--logs", str(tmp_path / "logs")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None and process.stderr is not None
            assert process.stdout.readline().startswith("ready: ")
            process.terminate()
            assert " INFO " not in process.stderr.read()
    assert " INFO " in (tmp_path / "logs" / "broker-7.log").read_text()
