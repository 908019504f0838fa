"""The state-change log beside Apache Kafka 2.8.2's: the same story has the same lines.

A topic is made, a broker dies and comes back, the topic is deleted, on two brokers of either kind.
Kafka's log is read at TRACE, where single replicas are. Left out are Kafka's lines about requests
that go to nobody, about what is done a second time in the same state, and the broker's TRACE lines,
which repeat the controller's.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from ottla.testing import ProcessCluster
from ottla.testing.java import ApacheKafka, ApacheZooKeeper
from tests.support.peers.java_tools import need_jars

TOPIC = "told"
WAIT_S = 60.0
LOG4J = """\
log4j.rootLogger=OFF
log4j.appender.file=org.apache.log4j.FileAppender
log4j.appender.file.File={folder}/${{broker}}.log
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=[%d] %p %m (%c)%n
log4j.logger.state.change.logger=TRACE, file
"""
LINE = re.compile(r"\[[^]]*\] (?P<level>[A-Z]+) (?P<text>.*) \(state\.change\.logger\)$")


class Story:
    """What is done to a cluster of two brokers, whoever they are."""

    def __init__(self, cluster: Any, store: KazooClient) -> None:
        self._cluster = cluster
        self._store = store
        self.controller: int = json.loads(store.get("/controller")[0])["brokerid"]
        self.other = 1 - self.controller

    def tell(self) -> None:
        wanted = [[self.controller, self.other], [self.other, self.controller]]
        self._admin(
            lambda admin: admin.create_topics([NewTopic(TOPIC, 2, replica_assignment=wanted)])
        )
        self._await(lambda: self._isrs() == [wanted[0], wanted[1]])
        self._cluster.kill(self.other)
        self._await(lambda: self._isrs() == [[self.controller]] * 2)
        self._cluster.restart(self.other)
        self._await(lambda: [sorted(isr) for isr in self._isrs()] == [[0, 1]] * 2)
        self._admin(lambda admin: admin.delete_topics([TOPIC]))
        self._await(lambda: self._store.exists(f"/admin/delete_topics/{TOPIC}") is None)

    def _admin(self, call: Callable[[AdminClient], dict[str, Any]]) -> None:
        admin = AdminClient({"bootstrap.servers": self._cluster.bootstrap_servers, "log_level": 2})
        for future in call(admin).values():
            future.result(WAIT_S)

    def _isrs(self) -> list[list[int]]:
        path = f"/brokers/topics/{TOPIC}/partitions/{{}}/state"
        try:
            return [json.loads(self._store.get(path.format(p))[0])["isr"] for p in (0, 1)]
        except NoNodeError:
            return []

    def _await(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < deadline, self._isrs()
            time.sleep(0.05)

    def lines(self, text: str) -> Counter[str]:
        """The lines about the topic, with names for brokers and for numbers of requests."""
        found: Counter[str] = Counter()
        for line in text.splitlines():
            match = LINE.match(line)
            if match is None:
                continue
            words = match["text"]
            if TOPIC not in words and " request " not in words:
                continue
            found[f"{match['level']} {self._named(words)}"] += 1
        return found

    def _named(self, words: str) -> str:
        names = {str(self.controller): "C", str(self.other): "O"}

        def name(match: re.Match[str]) -> str:
            return match[1] + re.sub(r"\d", lambda number: names[number[0]], match[2])

        words = re.sub(
            r"((?:id=|controller |broker |replica |replicas |leader[=:]|Leader:|brokers "
            r"|isr=|ISR:|ISR |replicas=|Sets?\(|HashSet\())((?:List\(|HashSet\(|\[)?[01][01, ]*)",
            name,
            words,
        )
        words = re.sub(r"(correlationId|correlation id) \d+", r"\1 N", words)
        return re.sub(r"in \d+ms", "in Nms", words)


@contextmanager
def connected(address: str) -> Iterator[KazooClient]:
    store = KazooClient(hosts=address, timeout=20)
    store.start(15)
    try:
        yield store
    finally:
        store.stop()
        store.close()


def is_compared(line: str) -> bool:
    level, _, words = line.partition(" ")
    if "[Broker" in words and level == "TRACE":
        return False
    if words.startswith(("[Controller id=C epoch=1] Received response",)):
        return False
    if "HashSet()" in words:
        return False
    # A broker that is told again what it hosts.
    again = re.search(r"from (\w+) to (\w+)$", words)
    return again is None or again[1] != again[2]


@pytest.fixture(scope="module")
def kafkas(tmp_path_factory: pytest.TempPathFactory) -> Counter[str]:
    need_jars("zookeeper-3.8", "kafka-2.8.2")
    folder = tmp_path_factory.mktemp("kafka")
    (folder / "log4j.properties").write_text(LOG4J.format(folder=folder))
    flags = [f"-Dlog4j.configuration=file:{folder}/log4j.properties", "-Dbroker=state-change"]
    steady = {"auto.leader.rebalance.enable": "false"}
    with (
        ApacheZooKeeper() as zookeeper,
        ApacheKafka(zookeeper.address, brokers=2, overrides=steady, flags=flags) as cluster,
        connected(zookeeper.address) as store,
    ):
        story = Story(cluster, store)
        story.tell()
        return story.lines((folder / "state-change.log").read_text())


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Counter[str]:
    steady = {"auto.leader.rebalance.enable": "false"}
    data = tmp_path_factory.mktemp("ottla") / "data"
    with (
        ProcessCluster(brokers=2, data=data, overrides=steady) as cluster,
        connected(cluster.zookeeper) as store,
    ):
        story = Story(cluster, store)
        story.tell()
        logs = Path(data / "logs").glob("broker-*-state-change.log")
        return story.lines("".join(path.read_text() for path in logs))


def test_the_same_lines(kafkas: Counter[str], ours: Counter[str]) -> None:
    theirs = {line for line in kafkas if is_compared(line)}
    mine = {line for line in ours if is_compared(line)}
    assert len(theirs) > 40, "Kafka's log was read"
    assert sorted(mine - theirs) == [], "lines that Kafka does not write"
    assert sorted(theirs - mine) == [], "lines that are missing here"
