"""Ottla and Apache Kafka 2.8.2 in one cluster: leadership goes back and forth under load.

Producers with acks=all and idempotence write all the time, first with Ottla as the controller,
then with Kafka. Leadership moves in every way that an operator has: preferred elections after a
new order of replicas, reassignments with data, controlled shutdowns, and a broker that sleeps
through an election.
"""

import asyncio
import json
import time
from collections import defaultdict

import pytest

from ottla.client.admin.client import Admin
from ottla.client.admin.types import ElectionType, NewTopic, raise_first_error
from ottla.runtime import system_runtime
from ottla.types import TopicPartition
from tests.support.ledger import Ledger, Load, audit, read_back
from tests.support.peers.java_tools import kazoo
from tests.support.peers.mixed_cluster import KAFKA_ID, OTTLA_IDS, MixedCluster, controller

pytestmark = [pytest.mark.peers, pytest.mark.timeout(290)]

TOPIC = "shared"
ALL = (*OTTLA_IDS, KAFKA_ID)
SPREAD = {0: [0, 1, 2], 1: [1, 2, 0], 2: [2, 0, 1], 3: [0, 2, 1], 4: [1, 0, 2], 5: [2, 1, 0]}
# One batch at a time: behind a batch that it refused, Kafka takes the next one or calls it out of
# order, and librdkafka then loses or repeats records (broker/replication/refusals.py has what Ottla
# does).
LOAD = Load(
    TOPIC,
    len(SPREAD),
    producers=3,
    records_per_second=200,
    settings={"max.in.flight.requests.per.connection": 1},
)
WAIT_S = 90.0


class Watched:
    """The cluster, and who led which partition so far."""

    def __init__(self, mixed, zookeeper):
        self.mixed = mixed
        self.zookeeper = zookeeper
        self.order = {partition: list(replicas) for partition, replicas in SPREAD.items()}
        self.leaders = defaultdict(set)

    def ask(self, work):
        """Runs `work(admin)`; a broker that just went or came may be asked in vain."""

        async def run():
            async with Admin.connect(system_runtime(), self.mixed.bootstrap_servers) as admin:
                return await work(admin)

        return asyncio.run(run())

    def states(self):
        found = {}
        for partition in SPREAD:
            path = f"/brokers/topics/{TOPIC}/partitions/{partition}/state"
            found[partition] = json.loads(self.zookeeper.get(path)[0])
            self.leaders[partition].add(found[partition]["leader"])
        return found

    def until(self, good):
        """Waits for states that are good."""
        deadline = time.monotonic() + WAIT_S
        while not good(found := self.states()):
            assert time.monotonic() < deadline, found
            time.sleep(0.1)

    def until_in_sync(self):
        self.until(
            lambda states: all(
                sorted(state["isr"]) == sorted(self.order[partition])
                for partition, state in states.items()
            )
        )

    def reassign(self, targets):
        """Other replicas, or the same in another order."""
        moves = {TopicPartition(TOPIC, partition): ids for partition, ids in targets.items()}
        raise_first_error(self.ask(lambda admin: admin.alter_reassignments(moves)))
        self.order.update(targets)
        deadline = time.monotonic() + WAIT_S
        while self.ask(lambda admin: admin.list_reassignments(moves)):
            assert time.monotonic() < deadline, f"{targets} takes too long"
            time.sleep(0.2)
        self.until_in_sync()

    def elect_preferred(self):
        """Asks again until it is so: a controller may not have heard of the last ISR yet."""
        deadline = time.monotonic() + WAIT_S
        while any(s["leader"] != self.order[p][0] for p, s in self.states().items()):
            assert time.monotonic() < deadline, self.states()
            self.ask(lambda admin: admin.elect_leaders(ElectionType.PREFERRED))
            time.sleep(0.5)


def rotate_leaders(watched, ledger):
    """Every partition's leadership goes to the next of its replicas."""
    watched.reassign({p: ids[1:] + ids[:1] for p, ids in watched.order.items()})
    watched.elect_preferred()
    ledger.await_more()


def move_with_data(watched, ledger):
    """From all to Ottla alone, then to Kafka with one of Ottla's, then to all again."""
    for target in ([0, 1], [KAFKA_ID, 0], list(ALL)):
        watched.reassign({0: target})
        ledger.await_more()


def leave_and_return(watched, ledger, broker_id):
    """A controlled shutdown under load: the others lead what it led."""
    mixed = watched.mixed
    if broker_id == KAFKA_ID:
        mixed.kafka.shut_down(broker_id)
    else:
        mixed.ottla.stop(broker_id)
    watched.until(lambda found: all(s["leader"] not in (broker_id, -1) for s in found.values()))
    ledger.await_more()
    (mixed.kafka if broker_id == KAFKA_ID else mixed.ottla).restart(broker_id)
    watched.until_in_sync()
    watched.elect_preferred()
    ledger.await_more()


def hand_office_to_kafka(watched):
    """Both Ottla brokers sleep through the election, with the load upon them."""
    mixed, zookeeper = watched.mixed, watched.zookeeper
    with mixed.paused(0), mixed.paused(1):
        zookeeper.delete("/controller")
        deadline = time.monotonic() + WAIT_S
        while controller(zookeeper) != KAFKA_ID:
            assert time.monotonic() < deadline, "Kafka does not take the office"
            time.sleep(0.05)
    watched.until_in_sync()


def replica_bytes(mixed, broker_id, partition):
    side = mixed.kafka if broker_id == KAFKA_ID else mixed.ottla
    segments = sorted((side.log_dir(broker_id) / f"{TOPIC}-{partition}").glob("*.log"))
    return b"".join(path.read_bytes() for path in segments)


def assert_identical_replicas(mixed):
    deadline = time.monotonic() + WAIT_S
    for partition in SPREAD:
        while len({replica_bytes(mixed, broker, partition) for broker in ALL}) > 1:
            assert time.monotonic() < deadline, f"the replicas of partition {partition} differ"
            time.sleep(0.2)


def test_leadership_moves_both_ways_under_load(apache_zookeeper, tmp_path):
    address = f"{apache_zookeeper.address}/mixed-load"
    with MixedCluster(address, tmp_path) as mixed, kazoo(mixed.zookeeper) as zookeeper:
        watched = Watched(mixed, zookeeper)
        topic = NewTopic(TOPIC, assignments=SPREAD, configs={"min.insync.replicas": "2"})
        raise_first_error(watched.ask(lambda admin: admin.create_topics([topic])))
        watched.until_in_sync()
        with Ledger(mixed.bootstrap_servers, LOAD) as ledger:
            assert controller(zookeeper) in OTTLA_IDS
            ledger.await_more()
            rotate_leaders(watched, ledger)
            move_with_data(watched, ledger)
            leave_and_return(watched, ledger, KAFKA_ID)
            rotate_leaders(watched, ledger)
            hand_office_to_kafka(watched)
            rotate_leaders(watched, ledger)
            leave_and_return(watched, ledger, OTTLA_IDS[0])
            assert controller(zookeeper) == KAFKA_ID
            assert ledger.finish() == 0
        watched.until_in_sync()
        found = audit(ledger, read_back(mixed.bootstrap_servers, TOPIC, len(SPREAD)))
        print(found, ledger.failures)
        print(ledger.recollections() if found.verdict() else "")
        assert found.verdict() is None
        assert found.acknowledged > 5_000
        assert {p: led >= set(ALL) for p, led in watched.leaders.items()} == dict.fromkeys(
            SPREAD, True
        )
        assert_identical_replicas(mixed)
