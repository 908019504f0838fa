"""`kill -9` of the controller in the middle of creating 200 topics: its successor finishes.

Each round every topic that was acknowledged, and every one whose znode made it into the store, is
complete within 10 seconds of the end of the old /controller node. Over all rounds no partition has
two leaders in one epoch, by what the brokers themselves wrote into their logs.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import threading
import time
from dataclasses import dataclass

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from ottla.client.connection import Connection
from ottla.runtime import SystemNetwork
from ottla.testing import ProcessCluster
from ottla.wire import messages as m
from tests.support.campaign import table, write_page
from tests.support.integration.kill_helpers import (
    await_registered,
    controller_node,
    leaders_by_epoch,
    led_twice,
    metadata_store,
)

BROKERS = 3
TOPICS = 200
PARTITIONS = 3
TOPICS_PER_REQUEST = 10
CREATORS = 4
COMPLETE_WITHIN_S = 10.0
# The shortest session that the store grants: two of its ticks.
SESSION_MS = 4_000


class Creator:
    """Creates topics on threads of its own and remembers which were acknowledged.

    Several at once, so that a kill finds topics in every state between asked for and complete.
    """

    def __init__(self, bootstrap_servers: str, prefix: str) -> None:
        self.acknowledged: set[str] = set()
        self._bootstrap_servers = bootstrap_servers
        self._prefix = prefix
        self._threads = [
            threading.Thread(target=self._run, args=(number,), daemon=True)
            for number in range(CREATORS)
        ]
        for thread in self._threads:
            thread.start()

    def await_acknowledged(self, count: int) -> None:
        deadline = time.monotonic() + 120
        while len(self.acknowledged) < count:
            assert time.monotonic() < deadline, f"only {len(self.acknowledged)} topics"
            time.sleep(0.001)

    def finish(self) -> None:
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive()

    def _run(self, creator: int) -> None:
        names = [f"{self._prefix}-{number}" for number in range(creator, TOPICS, CREATORS)]
        for start in range(0, len(names), TOPICS_PER_REQUEST):
            new = [NewTopic(n, PARTITIONS, 2) for n in names[start : start + TOPICS_PER_REQUEST]]
            # A new client each time: librdkafka asks no other broker who the controller is now.
            admin = quiet_admin(self._bootstrap_servers)
            futures = admin.create_topics(new, operation_timeout=2, request_timeout=2)
            for name, future in futures.items():
                try:
                    future.result(15)
                    self.acknowledged.add(name)
                except KafkaException:
                    pass  # not acknowledged: it may or may not come into being


def quiet_admin(bootstrap_servers: str) -> AdminClient:
    """Without a line for every connection that the killed broker does not take."""
    return AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 2})


def await_end_of(store: KazooClient, old: tuple[int, int]) -> float:
    deadline = time.monotonic() + 120
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
    known = quiet_admin(bootstrap).list_topics(timeout=10).topics
    return [
        f"{topic}-{partition} at {bootstrap}"
        for topic in sorted(topics)
        for partition in range(PARTITIONS)
        if topic not in known
        or partition not in known[topic].partitions
        or known[topic].partitions[partition].leader < 0
    ]


@dataclass(frozen=True)
class Round:
    acknowledged: int
    stored: int
    acknowledged_in_the_end: int
    complete_s: float

    HEAD = ("acknowledged at the kill", "stored then", "acknowledged in the end", "complete after")

    def row(self) -> tuple[object, ...]:
        counts = (self.acknowledged, self.stored, self.acknowledged_in_the_end)
        return (*counts, f"{self.complete_s:.2f} s")


def kill_round(
    cluster: ProcessCluster, store: KazooClient, number: int, choice: random.Random
) -> Round:
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
    complete_s = time.monotonic() - ended
    creator.finish()
    # What the successor acknowledged has its leaders too: the answer waited for them.
    assert incomplete(store, creator.acknowledged, live) == []
    cluster.restart(old[0])
    await_registered(store, BROKERS)
    return Round(len(acknowledged), len(made), len(creator.acknowledged), complete_s)


def run_rounds(rounds: int, seed: int) -> list[Round]:
    overrides = {
        "zookeeper.session.timeout.ms": str(SESSION_MS),
        # All brokers stop together at the end: nobody is left to hand leadership to.
        "controlled.shutdown.enable": "false",
    }
    print(f"seed {seed}")
    with ProcessCluster(brokers=BROKERS, overrides=overrides) as cluster:
        choice = random.Random(seed)
        with metadata_store(cluster) as store:
            done = [kill_round(cluster, store, number, choice) for number in range(rounds)]
        claims = leaders_by_epoch(cluster)
    assert len({tp for tp, _ in claims}) >= rounds * 10 * PARTITIONS, "the logs were read"
    assert led_twice(claims) == {}
    return done


def test_three_controllers_die_one_after_the_other() -> None:
    print(run_rounds(rounds=3, seed=282))


@pytest.mark.campaign
@pytest.mark.timeout(3600)
def test_thirty_controllers_die(campaign: None) -> None:
    seed = int(os.environ.get("OTTLA_SEED") or random.SystemRandom().randrange(1_000_000))
    done = [(part, found) for part in range(3) for found in run_rounds(rounds=10, seed=seed + part)]
    head = ("cluster", "round", *Round.HEAD)
    rows = [(part, number % 10, *found.row()) for number, (part, found) in enumerate(done)]
    write_page(
        "kill-controller",
        "The controller dies while it creates topics",
        f"`kill -9` of the controller in the middle of creating {TOPICS} topics with {PARTITIONS} "
        "partitions: what was acknowledged, and what had reached the store, must be complete "
        f"within {COMPLETE_WITHIN_S:.0f} s of the end of the old /controller node, and no "
        "partition may have two leaders in one epoch "
        "(`tests/integration/test_lifecycle_kill_controller.py`).",
        {
            "brokers": f"{BROKERS} processes; 3 clusters, 10 rounds in each, seeds from {seed}",
            "rounds": f"{len(done)} of 30 passed; no partition had two leaders in one epoch",
            "slowest round": f"{max(found.complete_s for _, found in done):.2f} s to completeness",
        },
        table(head, rows),
    )


def test_a_topic_asked_for_while_the_controller_stands_still_comes_with_its_successor() -> None:
    """One Metadata request is enough, as in Apache Kafka 2.8.2, which writes the topic at once."""
    overrides = {
        "zookeeper.session.timeout.ms": str(SESSION_MS),
        "controlled.shutdown.enable": "false",
    }
    with (
        ProcessCluster(brokers=BROKERS, overrides=overrides) as cluster,
        metadata_store(cluster) as store,
    ):
        old = controller_node(store)
        assert old is not None
        stopped = cluster.pid(old[0])
        os.kill(stopped, signal.SIGSTOP)
        try:
            asked = next(i for i in range(BROKERS) if i != old[0])
            server = cluster.bootstrap_servers.split(",")[asked]
            asyncio.run(ask_for(server, "wanted"))
            ended = await_end_of(store, old)
            path = "/brokers/topics/wanted/partitions/0/state"
            while not store.exists(path):
                assert time.monotonic() - ended < COMPLETE_WITHIN_S, "no topic"
                time.sleep(0.02)
            print(f"{time.monotonic() - ended:.2f} s after the end of the old controller")
        finally:
            os.kill(stopped, signal.SIGCONT)


async def ask_for(server: str, topic: str) -> None:
    """A Metadata request that creates, sent once."""
    host, port = server.split(":")
    connection = await Connection.open(
        SystemNetwork(), host, int(port), client_id="once", timeout_ms=10_000
    )
    request = m.MetadataRequest(
        topics=[m.MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True
    )
    response = await connection.send(request, 8, timeout_ms=10_000)
    assert [found.error_code for found in response.topics] == [3]
    connection.close()
