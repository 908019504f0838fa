"""More connections than descriptors: some are refused, and no data folder fails."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

WAIT_S = 60.0
LIMIT = 800
CONNECTIONS = 850  # a test process may have 1,024 descriptors itself
BURST = 50  # those that wait to be accepted take descriptors before they can be refused
TOPICS, PARTITIONS = 10, 50

# In a process of its own: a hard limit cannot be raised again.
SCRIPT = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, ({LIMIT}, {LIMIT}))
from ottla.testing.cluster import Cluster

with Cluster(brokers=1) as cluster:
    print(cluster.bootstrap_servers, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    complaints = tmp_path / "stderr"
    with (
        complaints.open("w") as stderr,
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate(timeout=WAIT_S)
    assert process.returncode == 0, complaints.read_text()[-4000:]


def is_ended(connection: socket.socket) -> bool:
    connection.settimeout(0.01)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


def test_files_keep_their_share_of_the_descriptors(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    producer = Producer({"bootstrap.servers": address})
    admin.create_topics([NewTopic("first", 1, 1)])["first"].result(WAIT_S)
    producer.produce("first", b"x")
    assert producer.flush(WAIT_S) == 0, "both clients have their connections now"
    host, _, port = address.partition(":")
    with ExitStack() as stack:
        connections: list[socket.socket] = []
        for number in range(CONNECTIONS):
            connection = socket.create_connection((host, int(port)), WAIT_S)
            connections.append(stack.enter_context(connection))
            if number % BURST == 0:
                producer.produce("first", b"x")
                assert producer.flush(WAIT_S) == 0, "what came before was looked at"
        names = [f"t{number}" for number in range(TOPICS)]
        made = admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names])
        for name in names:
            made[name].result(WAIT_S)
            for partition in range(PARTITIONS):
                producer.produce(name, b"x", partition=partition)
        assert producer.flush(WAIT_S) == 0
        ended = sum(map(is_ended, connections))
    assert CONNECTIONS - LIMIT / 2 < ended < CONNECTIONS
