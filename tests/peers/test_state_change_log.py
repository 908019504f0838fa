"""The state-change log beside Apache Kafka 2.8.2's: the same story has the same lines.

A topic is made, a broker dies and comes back, the topic is deleted, on two brokers of either kind.
Kafka's log is read at TRACE, where single replicas are. Left out are Kafka's lines about requests
that go to nobody, about answers, about replicas that stay in their state, and the broker's TRACE
lines, which repeat the controller's.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
log4j.logger.state.change.logger=TRACE, out
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
        # A broker hears of a topic after it was told what to lead and to follow.
        self._await(lambda: all(self._knows_topic(broker_id) for broker_id in (0, 1)))
        self._cluster.kill(self.other)
        self._await(lambda: self._isrs() == [[self.controller]] * 2)
        self._cluster.restart(self.other)
        self._await(lambda: [sorted(isr) for isr in self._isrs()] == [[0, 1]] * 2)
        self._await(lambda: self._knows_topic(self.other))
        self._admin(lambda admin: admin.delete_topics([TOPIC]))
        self._await(lambda: self._store.exists(f"/admin/delete_topics/{TOPIC}") is None)

    def _admin(self, call: Callable[[AdminClient], dict[str, Any]]) -> None:
        admin = AdminClient({"bootstrap.servers": self._cluster.bootstrap_servers, "log_level": 2})
        for future in call(admin).values():
            future.result(WAIT_S)

    def _knows_topic(self, broker_id: int) -> bool:
        server = self._cluster.bootstrap_servers.split(",")[broker_id]
        admin = AdminClient({"bootstrap.servers": server, "log_level": 2})
        return TOPIC in admin.list_topics(timeout=WAIT_S).topics

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

    def lines(self, paths: Iterable[Path]) -> set[str]:
        """Levels and lines, with names for brokers and for numbers of requests."""
        found = set()
        for path in paths:
            for line in path.read_text().splitlines():
                match = LINE.search(line)
                if match is not None and is_compared(match["level"], match["text"]):
                    found.add(f"{match['level']} {self._named(match['text'])}")
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
        words = re.sub(r"in \d+ms", "in Nms", words)
        words = words.replace("HashSet(O, C)", "HashSet(C, O)")
        # Which of two brokers goes first when a topic is deleted is a matter of their numbers.
        words = re.sub(r"\(Leader:.*\) after removing", "(…) after removing", words)
        # Changes of an ISR that come together are told together, which is a matter of luck.
        words = re.sub(
            r"(UpdateMetadata request to .*) for [1-9] partitions", r"\1 for some", words
        )
        return re.sub(r"Add [1-9] partitions and deleted 0", "Add some and deleted 0", words)


@contextmanager
def connected(address: str) -> Iterator[KazooClient]:
    store = KazooClient(hosts=address, timeout=20)
    store.start(15)
    try:
        yield store
    finally:
        store.stop()
        store.close()


def is_compared(level: str, words: str) -> bool:
    if level == "TRACE" and words.startswith("[Broker "):
        return False
    if "UpdateMetadata request" in words and words.endswith(" for 0 partitions"):
        return False
    # A broker that is told again what it hosts.
    again = re.search(r"from (\w+) to (\w+)$", words)
    return (again is None or again[1] != again[2]) and "] Received response" not in words


def kafkas_lines(folder: Path) -> set[str]:
    (folder / "log4j.properties").write_text(LOG4J)
    flags = [f"-Dlog4j.configuration=file:{folder}/log4j.properties"]
    steady = {"auto.leader.rebalance.enable": "false", "zookeeper.session.timeout.ms": "3000"}
    with (
        ApacheZooKeeper() as zookeeper,
        ApacheKafka(zookeeper.address, brokers=2, overrides=steady, flags=flags) as cluster,
        connected(zookeeper.address) as store,
    ):
        story = Story(cluster, store)
        story.tell()
        return story.lines(cluster.log_dir(0).parent.glob("broker-*.log"))


def our_lines(folder: Path) -> set[str]:
    steady = {"auto.leader.rebalance.enable": "false", "zookeeper.session.timeout.ms": "4000"}
    with (
        ProcessCluster(brokers=2, data=folder, overrides=steady) as cluster,
        connected(cluster.zookeeper) as store,
    ):
        story = Story(cluster, store)
        story.tell()
        logs = folder / "logs"
        # The broker that is started again writes to its standard error.
        return story.lines([*logs.glob("*-state-change.log"), *logs.glob("broker-*.stderr")])


def test_the_same_lines(tmp_path: Path) -> None:
    need_jars("zookeeper-3.8", "kafka-2.8.2")
    folders = [tmp_path / "kafka", tmp_path / "ottla"]
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor() as both:
        told = [both.submit(kafkas_lines, folders[0]), both.submit(our_lines, folders[1])]
        theirs, ours = (future.result() for future in told)
    assert len(theirs) > 40, "Kafka's log was read"
    differences = [f"- {line}" for line in theirs - ours] + [f"+ {line}" for line in ours - theirs]
    assert not differences, "\n".join(["- only Kafka's, + only ours:", *sorted(differences)])
