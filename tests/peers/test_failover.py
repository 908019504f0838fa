"""`kill -9` of a leader under load: another leads, and what was acknowledged is there, once."""

import itertools
import json
import threading
import time

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from java_tools import eventually, kazoo

TOPIC = "ledger"
PARTITIONS = 3
RECORDS_PER_PHASE = 1_500
PHASE_TIMEOUT_S = 60.0


class Ledger:
    """An idempotent acks=all producer on a thread, and what it was promised."""

    def __init__(self, bootstrap_servers):
        self.promised = {}  # (partition, offset) -> value
        self.failures = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 5,
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.finish()

    def finish(self):
        """No more records; returns how many were neither acknowledged nor failed."""
        self._stop.set()
        self._thread.join(10)
        return self._producer.flush(PHASE_TIMEOUT_S)

    def await_more(self, partition):
        """Waits for a phase's worth of further acknowledgements from one partition."""
        wanted = self._acknowledged(partition) + RECORDS_PER_PHASE // PARTITIONS
        deadline = time.monotonic() + PHASE_TIMEOUT_S
        while self._acknowledged(partition) < wanted:
            assert time.monotonic() < deadline, f"no acknowledgements: {self.failures[:3]}"
            time.sleep(0.02)

    def _acknowledged(self, partition):
        return sum(1 for key in list(self.promised) if key[0] == partition)

    def _run(self):
        for number in itertools.count():
            if self._stop.is_set():
                return
            value = b"%012d" % number
            while True:
                try:
                    self._producer.produce(
                        TOPIC, value, partition=number % PARTITIONS, on_delivery=self._delivered
                    )
                    break
                except BufferError:
                    self._producer.poll(0.1)
            self._producer.poll(0)
            time.sleep(0.0005)  # a steady trickle: the kill must meet records in flight

    def _delivered(self, error, message):
        if error is not None:
            self.failures.append(error)
        else:
            self.promised[(message.partition(), message.offset())] = message.value()


def read_all(bootstrap_servers):
    """(partition, offset) -> value of everything below the high watermarks."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "auditor",
            "enable.auto.commit": False,
            "check.crcs": True,
        }
    )
    try:
        ends = {}
        for partition in range(PARTITIONS):
            place = TopicPartition(TOPIC, partition)
            ends[partition] = consumer.get_watermark_offsets(place, timeout=30)[1]
        consumer.assign([TopicPartition(TOPIC, part, OFFSET_BEGINNING) for part in ends])
        found = {}
        deadline = time.monotonic() + PHASE_TIMEOUT_S
        while len(found) < sum(ends.values()):
            assert time.monotonic() < deadline, f"read {len(found)} of {ends}"
            for message in consumer.consume(5_000, timeout=0.2):
                assert message.error() is None, message.error()
                found[(message.partition(), message.offset())] = message.value()
        return found
    finally:
        consumer.close()


def partition_state(zookeeper, partition=0):
    return json.loads(zookeeper.get(f"/brokers/topics/{TOPIC}/partitions/{partition}/state")[0])


@pytest.mark.timeout(240)
def test_a_killed_leader_loses_nothing_that_was_acknowledged(own_cluster):
    admin = AdminClient({"bootstrap.servers": own_cluster.bootstrap_servers})
    config = {"min.insync.replicas": "2"}
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3, config=config)])[TOPIC].result(30)
    with kazoo(own_cluster.zookeeper) as zookeeper, Ledger(own_cluster.bootstrap_servers) as ledger:
        ledger.await_more(0)
        before = partition_state(zookeeper)
        first_leader = before["leader"]
        own_cluster.kill(first_leader)
        # -1 for a moment where the dead broker was the controller too, as in Kafka.
        after = eventually(
            lambda: partition_state(zookeeper),
            lambda state: state["leader"] not in (first_leader, -1),
        )
        assert after["leader"] in before["isr"], "the new leader was in sync"
        assert after["leader_epoch"] > before["leader_epoch"]
        ledger.await_more(0)

        own_cluster.restart(first_leader)
        for partition in range(PARTITIONS):
            eventually(
                lambda part=partition: sorted(partition_state(zookeeper, part)["isr"]),
                lambda isr: isr == [0, 1, 2],
            )
        # The one that came back may lead now: what it copied is what counts.
        own_cluster.kill(partition_state(zookeeper)["leader"])
        ledger.await_more(0)
        assert ledger.finish() == 0
    assert ledger.failures == []
    found = read_all(own_cluster.bootstrap_servers)
    assert found == ledger.promised
    for partition in range(PARTITIONS):
        values = [value for (part, _), value in sorted(found.items()) if part == partition]
        assert values == sorted(set(values)), "once each, in the order of the producer"
