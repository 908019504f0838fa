"""A broker in a process of its own, rude crowds in another, and a good client beside them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer

WAIT_S = 120.0
_CLUSTER = """
import os, sys
from ottla.process.tuning import raise_file_limit
raise_file_limit()
from ottla.testing.cluster import Cluster

overrides = dict(word.split("=", 1) for word in sys.argv[1:])
with Cluster(brokers=1, overrides=overrides) as cluster:
    print(cluster.bootstrap_servers, flush=True)
    sys.stdin.read()
"""
# Opens idle and half-sent connections, says so, then tries to connect again and again, and keeps
# the others until its input ends.
_CROWD = """
import socket, struct, sys
from ottla.process.tuning import raise_file_limit
raise_file_limit()
host, port, idle, half_sent, attempts = sys.argv[1], *map(int, sys.argv[2:])

def connected():
    return socket.create_connection((host, port), 60)

kept = [connected() for _ in range(idle)]
for number in range(half_sent):
    kept.append(connected())
    size = (100, 70_000, 1_000_000, 50_000_000)[number % 4]
    kept[-1].sendall(struct.pack(">ihh", size, 3, 9) + b"x" * (number % 50))
print("here", flush=True)
for number in range(attempts):
    with connected() as peer:
        if number % 3 == 1:
            peer.sendall(b"GET / HTTP/1.1\\r\\n\\r\\n")
        elif number % 3 == 2:
            peer.sendall(struct.pack(">ihhih", 10, 18, 0, 1, -1))
print("tried", flush=True)
sys.stdin.read()
"""


class Broker(NamedTuple):
    address: str
    pid: int

    @property
    def host_and_port(self) -> tuple[str, int]:
        host, _, port = self.address.partition(":")
        return host, int(port)

    def resident_bytes(self) -> int:
        """Of Linux alone."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def _running(script: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", script, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            try:
                process.communicate(timeout=WAIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
    assert process.returncode == 0


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@contextmanager
def broker_process(**overrides: str) -> Iterator[Broker]:
    words = [f"{name.replace('_', '.')}={value}" for name, value in overrides.items()]
    with _running(_CLUSTER, *words) as process:
        yield Broker(_line(process), process.pid)


class Crowd:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def is_here(self) -> None:
        """Returns when idle and half-sent connections are open."""
        assert _line(self._process) == "here"

    def has_tried(self) -> None:
        """Returns when all attempts were made."""
        assert _line(self._process) == "tried"


@contextmanager
def crowd(broker: Broker, *, idle: int, half_sent: int, attempts: int) -> Iterator[Crowd]:
    host, port = broker.host_and_port
    numbers = map(str, (port, idle, half_sent, attempts))
    with _running(_CROWD, host, *numbers) as process:
        yield Crowd(process)


class GoodClient:
    """Produces one record after the other, with a wait for each."""

    def __init__(self, address: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": address, "acks": "all", "linger.ms": 0})
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._failures: list[str] = []
        self.waits_s: list[float] = []

    def __enter__(self) -> GoodClient:
        self._send()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(WAIT_S)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._send()

    def _send(self) -> None:
        begun = time.monotonic()
        self._producer.produce(
            self._topic,
            b"x" * 1000,
            on_delivery=lambda error, _: self._failures.append(str(error)) if error else None,
        )
        if self._producer.flush(WAIT_S):
            self._failures.append("not answered")
        self.waits_s.append(time.monotonic() - begun)

    def served(self) -> int:
        """How many so far; all of them, or it fails."""
        assert self._failures == []
        return len(self.waits_s)
