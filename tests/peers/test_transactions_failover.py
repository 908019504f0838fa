"""`kill -9` of the coordinator's broker amid transactions: each shows as a whole or not at all."""

import asyncio
import random
import threading
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.client.connection import Connection
from ottla.runtime import system_runtime
from ottla.wire import messages as m
from tests.support.known_topics import await_known
from tests.support.peers.java_tools import eventually

TOPIC = "txn-ledger"
PARTITIONS = 4
RECORDS_EACH = 8
WORKERS = 3
TIMEOUT_S = 60
# The supervisor ends with its last child, and brokers started again are not among them.
KILLS = 2


class Worker:
    """A producer on a thread; notes what it was told of each transaction."""

    def __init__(self, bootstrap_servers, number):
        self.transactional_id = f"worker-{number}"
        self.committed, self.aborted, self.unknown = [], [], []
        self._settings = {
            "bootstrap.servers": bootstrap_servers,
            "transactional.id": self.transactional_id,
            "transaction.timeout.ms": 30_000,
        }
        self._random = random.Random(number)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def finish(self):
        self._stop.set()
        self._thread.join(2 * TIMEOUT_S)
        assert not self._thread.is_alive()

    @property
    def count(self):
        return len(self.committed) + len(self.aborted)

    def _run(self):
        producer = None
        number = 0
        while not self._stop.is_set():
            if producer is None:
                producer = self._new_producer()
                continue
            number += 1
            name = f"{self.transactional_id}:{number}"
            try:
                self._transaction(producer, name)
            except KafkaException as raised:
                self.unknown.append(name)
                producer = self._recovered(producer, raised.args[0])

    def _new_producer(self):
        producer = Producer(self._settings)
        try:
            producer.init_transactions(TIMEOUT_S)
        except KafkaException:
            return None
        return producer

    def _recovered(self, producer, error):
        if not error.txn_requires_abort():
            return None
        try:
            producer.abort_transaction(TIMEOUT_S)
        except KafkaException:
            return None
        return producer

    def _transaction(self, producer, name):
        producer.begin_transaction()
        for each in range(RECORDS_EACH):
            producer.produce(TOPIC, f"{name}/{each}", partition=each % PARTITIONS)
        if self._random.random() < 0.3:
            producer.flush(TIMEOUT_S)
            producer.abort_transaction(TIMEOUT_S)
            self.aborted.append(name)
            return
        while True:
            try:
                producer.commit_transaction(TIMEOUT_S)
                break
            except KafkaException as raised:
                if not raised.args[0].retriable():
                    raise
        self.committed.append(name)


async def coordinator_of(cluster, transactional_id):
    """The id of the broker that coordinates it."""
    host, port = cluster.bootstrap_servers.rsplit(",", 1)[-1].split(":")
    connection = await Connection.open(system_runtime().network, host, int(port), client_id="judge")
    try:
        found = await connection.send(m.FindCoordinatorRequest(key=transactional_id, key_type=1), 2)
        return found.node_id
    finally:
        connection.close()


def read_committed(cluster):
    """Values by transaction."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "judge",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    found, at_end = {}, set()
    try:
        while len(at_end) < PARTITIONS:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, "no answer"
            if message.error():
                at_end.add(message.partition())
                continue
            name, _, each = message.value().decode().partition("/")
            found.setdefault(name, []).append(int(each))
        return found
    finally:
        consumer.close()


def test_transactions_are_whole_when_their_coordinators_die(own_cluster):
    admin = AdminClient({"bootstrap.servers": own_cluster.bootstrap_servers})
    config = {"min.insync.replicas": "2"}
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3, config=config)])[TOPIC].result()
    await_known(own_cluster.bootstrap_servers, TOPIC, PARTITIONS)
    workers = [Worker(own_cluster.bootstrap_servers, number) for number in range(WORKERS)]
    for kill in range(KILLS):
        before = workers[kill].count
        eventually(lambda worker=workers[kill]: worker.count, lambda now, b=before: now > b + 20)
        victim = asyncio.run(coordinator_of(own_cluster, workers[kill].transactional_id))
        own_cluster.kill(victim)
        time.sleep(1)
        own_cluster.restart(victim)
        before = workers[kill].count
        eventually(lambda worker=workers[kill]: worker.count, lambda now, b=before: now > b + 5)
    for worker in workers:
        worker.finish()
    # The last markers may still be on their way.
    whole = list(range(RECORDS_EACH))
    committed = [name for worker in workers for name in worker.committed]
    found = eventually(
        lambda: read_committed(own_cluster), lambda found: set(found).issuperset(committed)
    )
    for worker in workers:
        assert all(sorted(found[name]) == whole for name in worker.committed)
        assert not set(worker.aborted) & set(found)
        for name in worker.unknown:
            assert name not in found or sorted(found[name]) == whole
