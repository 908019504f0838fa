"""`kill -9` of the controller in the middle of creating 200 topics: its successor finishes.

Each round every topic that was acknowledged, and every one whose znode made it into the store, is
complete within 10 seconds of the end of the old /controller node. Over all rounds no partition has
two leaders in one epoch, by what the brokers themselves wrote into their logs.
"""

from __future__ import annotations

import json
import random
import re
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from ottla.testing import ProcessCluster

# One more than are killed: `ottla up` ends when the last broker that it started itself is dead.
BROKERS = 4
TOPICS = 200
PARTITIONS = 3
TOPICS_PER_REQUEST = 10
COMPLETE_WITHIN_S = 10.0
# The shortest session that the store grants: two of its ticks.
SESSION_MS = 4_000
LEADS = re.compile(r".*INFO (?P<tp>\S+): leads from .* with epoch (?P<e>\d+)")


class Creator:
    """Creates topics on a thread of its own and remembers which were acknowledged."""

    def __init__(self, bootstrap_servers: str, prefix: str) -> None:
        self.acknowledged: set[str] = set()
        self._bootstrap_servers = bootstrap_servers
        self._prefix = prefix
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def await_acknowledged(self, count: int) -> None:
        deadline = time.monotonic() + 30
        while len(self.acknowledged) < count:
            assert time.monotonic() < deadline, f"only {len(self.acknowledged)} topics"
            time.sleep(0.001)

    def finish(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        names = [f"{self._prefix}-{number}" for number in range(TOPICS)]
        for start in range(0, TOPICS, TOPICS_PER_REQUEST):
            new = [NewTopic(n, PARTITIONS, 2) for n in names[start : start + TOPICS_PER_REQUEST]]
            # A new client each time: librdkafka asks no other broker who the controller is now.
            admin = AdminClient({"bootstrap.servers": self._bootstrap_servers})
            futures = admin.create_topics(new, operation_timeout=2, request_timeout=2)
            for name, future in futures.items():
                try:
                    future.result(15)
                    self.acknowledged.add(name)
                except KafkaException:
                    pass  # not acknowledged: it may or may not come into being


def controller_node(store: KazooClient) -> tuple[int, int] | None:
    """The controller's id and the node's czxid."""
    try:
        data, stat = store.get("/controller")
    except NoNodeError:
        return None
    return json.loads(data)["brokerid"], stat.czxid


def await_end_of(store: KazooClient, old: tuple[int, int]) -> float:
    deadline = time.monotonic() + 30
    while controller_node(store) == old:
        assert time.monotonic() < deadline, "the old /controller node does not end"
        time.sleep(0.005)
    return time.monotonic()


def incomplete(store: KazooClient, topics: set[str], live: set[int]) -> list[str]:
    """Partitions without a state, or led by nobody that lives."""
    wanted = [(topic, partition) for topic in sorted(topics) for partition in range(PARTITIONS)]
    path = "/brokers/topics/{}/partitions/{}/state"
    answers = [store.get_async(path.format(*tp)) for tp in wanted]
    found = []
    for tp, answer in zip(wanted, answers, strict=True):
        try:
            state = json.loads(answer.get(10)[0])
        except NoNodeError:
            found.append(f"{tp} has no state")
            continue
        if state["leader"] not in live or state["leader"] not in state["isr"]:
            found.append(f"{tp} is {state}")
    return found


def unserved(bootstrap: str, topics: set[str]) -> list[str]:
    """Partitions for which a broker's own metadata names no leader."""
    known = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10).topics
    return [
        f"{topic}-{partition} at {bootstrap}"
        for topic in sorted(topics)
        for partition in range(PARTITIONS)
        if topic not in known
        or partition not in known[topic].partitions
        or known[topic].partitions[partition].leader < 0
    ]


def kill_round(
    cluster: ProcessCluster, store: KazooClient, number: int, choice: random.Random
) -> None:
    before = set(store.get_children("/brokers/topics"))
    old = controller_node(store)
    assert old is not None
    creator = Creator(cluster.bootstrap_servers, f"round{number}")
    creator.await_acknowledged(choice.randrange(10, TOPICS // 2))
    cluster.kill(old[0])
    acknowledged = set(creator.acknowledged)
    made = set(store.get_children("/brokers/topics")) - before
    assert acknowledged <= made
    ended = await_end_of(store, old)
    live = set(range(BROKERS)) - {old[0]}
    servers = [s for i, s in enumerate(cluster.bootstrap_servers.split(",")) if i in live]

    def missing() -> list[str]:
        found = incomplete(store, made, live)
        for server in [] if found else servers:
            found += unserved(server, made)
        return found

    while missing():
        assert time.monotonic() - ended < COMPLETE_WITHIN_S, missing()[:5]
        time.sleep(0.05)
    creator.finish()
    cluster.restart(old[0])
    deadline = time.monotonic() + 30
    while len(store.get_children("/brokers/ids")) < BROKERS:
        assert time.monotonic() < deadline, f"broker {old[0]} does not register again"
        time.sleep(0.05)


def leaders_by_epoch(cluster: ProcessCluster) -> dict[tuple[str, int], set[int]]:
    """(partition, epoch) -> the brokers that say that they led it."""
    claims: dict[tuple[str, int], set[int]] = defaultdict(set)
    logs: Path = cluster.options.data / "logs"
    # Brokers that were started again write to a file of their own.
    for path in [*logs.glob("broker-*-state-change.log*"), *logs.glob("broker-*.stderr")]:
        broker_id = int(path.name.removesuffix(".stderr").split("-")[1])
        for line in path.read_text().splitlines():
            found = LEADS.match(line)
            if found is not None:
                claims[found["tp"], int(found["e"])].add(broker_id)
    return claims


def make_cluster() -> ProcessCluster:
    """On ports that the system does not hand out to outgoing connections: a client that tries a
    dead broker's port again and again would sooner or later connect to itself."""
    overrides = {
        "zookeeper.session.timeout.ms": str(SESSION_MS),
        # All brokers stop together at the end: nobody is left to hand leadership to.
        "controlled.shutdown.enable": "false",
    }
    cluster = ProcessCluster(brokers=BROKERS, overrides=overrides)
    outgoing_from = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for _ in range(100):
        first = random.randrange(10_000, outgoing_from - BROKERS)
        if all(is_free(first + offset) for offset in range(BROKERS + 1)):
            cluster.options = replace(cluster.options, zookeeper_port=first, port=first + 1)
            return cluster
    raise AssertionError("no free ports in a row")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def run_rounds(rounds: int, seed: int) -> None:
    with make_cluster() as cluster:
        store = KazooClient(hosts=cluster.zookeeper, timeout=20)
        store.start(10)
        try:
            choice = random.Random(seed)
            for number in range(rounds):
                kill_round(cluster, store, number, choice)
        finally:
            store.stop()
            store.close()
        claims = leaders_by_epoch(cluster)
    assert len({tp for tp, _ in claims}) >= rounds * 10 * PARTITIONS, "the logs were read"
    assert {key: who for key, who in claims.items() if len(who) > 1} == {}


def test_three_controllers_die_one_after_the_other() -> None:
    run_rounds(rounds=3, seed=282)


@pytest.fixture
def campaign(request: pytest.FixtureRequest) -> Iterator[None]:
    if "campaign" not in request.config.getoption("-m"):
        pytest.skip("runs with -m campaign")
    yield


@pytest.mark.campaign
@pytest.mark.timeout(1800)
def test_thirty_controllers_die(campaign: None) -> None:
    for part in range(10):
        run_rounds(rounds=3, seed=part)
