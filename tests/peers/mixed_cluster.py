"""Two Ottla brokers and one of Apache Kafka 2.8.2 on one Apache ZooKeeper."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from java_tools import eventually, kazoo
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from ottla.configdef import format_properties
from ottla.testing.java import HOST, ApacheKafka, brokers_known, free_port

OTTLA_IDS = (0, 1)
KAFKA_ID = 2
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
SHARED = {
    "zookeeper.session.timeout.ms": "6000",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "6",
    "group.initial.rebalance.delay.ms": "0",
    # Who leads is for the test to say.
    "auto.leader.rebalance.enable": "false",
}


class MixedCluster:
    """Brokers 0 and 1 are Ottla's, broker 2 is Kafka's."""

    def __init__(self, zookeeper: str, folder: Path) -> None:
        self.zookeeper = zookeeper
        self._folder = folder
        self._ports = {broker_id: free_port() for broker_id in OTTLA_IDS}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._kafka = ApacheKafka(zookeeper, first_id=KAFKA_ID, overrides=SHARED)

    @property
    def bootstrap_servers(self) -> str:
        ours = [f"{HOST}:{port}" for port in self._ports.values()]
        return ",".join([*ours, self._kafka.bootstrap_servers])

    def log_dir(self, broker_id: int) -> Path:
        if broker_id == KAFKA_ID:
            return self._kafka.log_dir(broker_id)
        return self._folder / f"broker-{broker_id}"

    def folders(self, topic: str) -> dict[int, list[str]]:
        """The folders of the topic's replicas by broker, those that are on their way out too."""
        return {
            broker_id: sorted(path.name for path in self.log_dir(broker_id).glob(f"{topic}-[0-9]*"))
            for broker_id in (*OTTLA_IDS, KAFKA_ID)
        }

    def __enter__(self) -> Self:
        try:
            # Ottla first, so that one of its brokers is the first controller.
            for broker_id in OTTLA_IDS:
                self.start_ottla(broker_id)
            self._kafka.start()
            with kazoo(self.zookeeper) as zookeeper:
                eventually(
                    lambda: zookeeper.get_children("/brokers/ids"), lambda ids: len(ids) == 3
                )
            for port in self._ports.values():
                eventually(lambda port=port: brokers_known(port), lambda known: known == 3)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for broker_id in list(self._processes):
            self.stop_ottla(broker_id, signal.SIGKILL)
        if self._kafka.is_started:
            self._kafka.stop()

    def start_ottla(self, broker_id: int) -> None:
        address = f"PLAINTEXT://{HOST}:{self._ports[broker_id]}"
        settings = {
            "broker.id": str(broker_id),
            "listeners": address,
            "log.dirs": str(self.log_dir(broker_id)),
            "zookeeper.connect": self.zookeeper,
        }
        config = self._folder / f"broker-{broker_id}.properties"
        config.write_text(format_properties({**settings, **SHARED}))
        with (self._folder / f"broker-{broker_id}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "ottla", "broker", "--config", str(config)],
                stdout=log,
                stderr=log,
            )
        self._processes[broker_id] = process
        deadline = time.monotonic() + START_TIMEOUT_S
        while brokers_known(self._ports[broker_id]) == 0:
            if process.poll() is not None or time.monotonic() > deadline:
                words = (self._folder / f"broker-{broker_id}.log").read_text()[-2000:]
                raise AssertionError(f"broker {broker_id} did not start: {words}")
            time.sleep(0.05)

    def stop_ottla(self, broker_id: int, how: signal.Signals = signal.SIGTERM) -> None:
        process = self._processes.pop(broker_id)
        process.send_signal(how)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    @contextmanager
    def paused(self, broker_id: int) -> Iterator[None]:
        """A broker that does nothing for a while, as in a long pause of its machine."""
        ours = self._processes.get(broker_id)
        pid = self._kafka.pid(broker_id) if ours is None else ours.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)


def controller(zookeeper: KazooClient) -> int:
    try:
        return int(json.loads(zookeeper.get("/controller")[0])["brokerid"])
    except NoNodeError:
        return -1
