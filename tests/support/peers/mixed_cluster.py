"""Two Ottla brokers and one of Apache Kafka 2.8.2 on one Apache ZooKeeper."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from ottla.testing.java import ApacheKafka, brokers_known
from tests.support.peers.java_tools import eventually
from tests.support.peers.ottla_brokers import OttlaBrokers

OTTLA_IDS = (0, 1)
KAFKA_ID = 2
SHARED = {
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "6",
    # Who leads is for the test to say.
    "auto.leader.rebalance.enable": "false",
}


class MixedCluster:
    """Brokers 0 and 1 are Ottla's, broker 2 is Kafka's."""

    def __init__(self, zookeeper: str, folder: Path) -> None:
        self.zookeeper = zookeeper
        self.ottla = OttlaBrokers(zookeeper, folder, OTTLA_IDS, SHARED)
        self.kafka = ApacheKafka(zookeeper, first_id=KAFKA_ID, overrides=SHARED)
        self._running = ExitStack()

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.ottla.bootstrap_servers},{self.kafka.bootstrap_servers}"

    def folders(self, topic: str) -> list[str]:
        """The folders of the topic's replicas on all brokers, except those on their way out."""
        dirs = [self.ottla.log_dir(broker_id) for broker_id in OTTLA_IDS]
        found = [p for d in [*dirs, self.kafka.log_dir(KAFKA_ID)] for p in d.glob(f"{topic}-*")]
        return [path.name for path in found if not path.name.endswith("-delete")]

    def __enter__(self) -> Self:
        with ExitStack() as starting:
            # Ottla first, so that one of its brokers is the first controller.
            starting.enter_context(self.ottla)
            starting.enter_context(self.kafka)
            for port in self.ottla.ports:
                eventually(lambda port=port: brokers_known(port), lambda known: known == 3)
            self._running = starting.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    @contextmanager
    def paused(self, broker_id: int) -> Iterator[None]:
        """A broker that does nothing for a while, as in a long pause of its machine."""
        side = self.kafka if broker_id == KAFKA_ID else self.ottla
        pid = side.pid(broker_id)
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
