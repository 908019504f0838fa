"""`kill -9` of the controller, or of a broker that comes back, while a topic gets another name.

Every round a librdkafka producer writes, a group reads some of it and commits, the topic is renamed
and processes die at a random moment. The rename is done in the end, by whoever is controller, and
the group goes on under the new name with the record after the last that it had committed.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from dataclasses import dataclass

import pytest
from confluent_kafka import Consumer, Producer

from ottla.client.admin.client import Admin
from ottla.errors import ErrorCode, KafkaError
from ottla.runtime import system_runtime
from ottla.testing import ProcessCluster
from tests.support.campaign import table, write_page
from tests.support.integration.kill_helpers import (
    await_in_sync,
    await_registered,
    controller_node,
    metadata_store,
)

BROKERS = 3
PARTITIONS = 3
RECORDS = 60
GROUP = "readers"
DONE_WITHIN_S = 60.0
# The rename itself takes about a tenth of a second.
LATEST_KILL_S = 0.15


@dataclass(frozen=True)
class Round:
    killed: str
    after_s: float
    refusals: int
    done_s: float

    HEAD = ("killed", "after", "refused before it was done", "done after")

    def row(self) -> tuple[object, ...]:
        return (self.killed, f"{self.after_s * 1000:.0f} ms", self.refusals, f"{self.done_s:.1f} s")


class Renaming:
    """On a thread of its own, again and again until it is done."""

    def __init__(self, bootstrap_servers: str, old: str, new: str) -> None:
        self.refusals: list[KafkaError] = []
        self.failure: BaseException | None = None
        self._servers, self._names = bootstrap_servers, (old, new)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def finish(self) -> None:
        self._thread.join(DONE_WITHIN_S)
        assert not self._thread.is_alive(), f"not done, refused {self.refusals}"
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            asyncio.run(self._rename())
        except BaseException as error:
            self.failure = error

    async def _rename(self) -> None:
        until = time.monotonic() + DONE_WITHIN_S
        async with Admin.connect(system_runtime(), self._servers) as admin:
            while True:
                try:
                    assert await admin.rename_topic(*self._names) is not None
                    return
                except KafkaError as error:
                    self.refusals.append(error)
                    if error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                        return  # done, by a request that was not answered
                    if time.monotonic() > until:
                        raise
                    await asyncio.sleep(0.2)


def write(servers: str, topic: str, values: range) -> None:
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 2})
    failed: list[object] = []
    for value in values:
        producer.produce(
            topic,
            str(value).encode(),
            partition=value % PARTITIONS,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(30) == 0
    assert failed == []


def read(servers: str, topic: str, count: int) -> list[int]:
    """So many values as a member of the group, committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 500,
            "session.timeout.ms": 6_000,
            "log_level": 2,
        }
    )
    consumer.subscribe([topic])
    values: list[int] = []
    until = time.monotonic() + DONE_WITHIN_S
    try:
        while len(values) < count:
            assert time.monotonic() < until, f"only {len(values)} of {count} from {topic}"
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                values.append(int(message.value() or b"-1"))
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return values


def kill_round(
    cluster: ProcessCluster, number: int, topic: str, first: int, choice: random.Random
) -> tuple[Round, str]:
    servers, new = cluster.bootstrap_servers, f"{topic.partition('-')[0]}-{number}"
    with metadata_store(cluster) as store:
        old = controller_node(store)
        assert old is not None
        write(servers, topic, range(first, first + RECORDS))
        seen = read(servers, topic, choice.randrange(1, RECORDS))
        bystander = choice.choice([i for i in range(BROKERS) if i != old[0]])
        victim, what = choice.choice([(old[0], "controller"), (bystander, "another broker")])
        after_s = choice.uniform(0, LATEST_KILL_S)
        begun = time.monotonic()
        renaming = Renaming(servers, topic, new)
        time.sleep(after_s)
        cluster.kill(victim)
        renaming.finish()
        done_s = time.monotonic() - begun
        # The group goes on while the broker is away, and after it has come back.
        seen += read(servers, new, (RECORDS - len(seen)) // 2)
        cluster.restart(victim)
        await_registered(store, BROKERS)
        await_in_sync(store, new, PARTITIONS, BROKERS)
        seen += read(servers, new, RECORDS - len(seen))
        assert sorted(seen) == list(range(first, first + RECORDS)), "each record once"
        for partition in range(PARTITIONS):
            of_one = [value for value in seen if value % PARTITIONS == partition]
            assert of_one == sorted(of_one)
        folders = {path.name for path in (cluster.options.data / f"broker-{victim}").iterdir()}
        assert {f"{new}-{p}" for p in range(PARTITIONS)} <= folders
        assert not {f"{topic}-{p}" for p in range(PARTITIONS)} & folders
        assert not [name for name in folders if name.endswith("-stray")]
        assert store.get_children("/ottla/renames") == []
        assert topic not in store.get_children("/brokers/topics")
    return Round(what, after_s, len(renaming.refusals), done_s), new


def run_rounds(rounds: int, seed: int) -> list[Round]:
    print(f"seed {seed}")
    choice = random.Random(seed)
    overrides = {
        "zookeeper.session.timeout.ms": "4000",
        "controlled.shutdown.enable": "false",
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "8",
        "offsets.topic.replication.factor": "3",
        "group.initial.rebalance.delay.ms": "0",
    }
    done: list[Round] = []
    with ProcessCluster(brokers=BROKERS, overrides=overrides) as cluster:
        topic = "orders-0"
        cluster.create_topic(topic, partitions=PARTITIONS, replication_factor=BROKERS)
        for number in range(1, rounds + 1):
            first = number * RECORDS
            found, topic = kill_round(cluster, number, topic, first, choice)
            done.append(found)
    return done


@pytest.mark.campaign
@pytest.mark.timeout(1800)
def test_processes_die_while_a_topic_is_renamed(campaign: None) -> None:
    seed = int(os.environ.get("OTTLA_SEED") or random.SystemRandom().randrange(1_000_000))
    done = run_rounds(rounds=int(os.environ.get("OTTLA_ROUNDS") or 20), seed=seed)
    write_page(
        "kill-renames",
        "Processes die while a topic is renamed",
        "`kill -9` of the controller or of another broker at a random moment of a rename: it is "
        "done in the end, a librdkafka group gets every record once over both names, and the "
        "broker that died has its logs under the new name "
        "(`tests/integration/test_lifecycle_kill_renames.py`).",
        {
            "brokers": f"{BROKERS} processes, one cluster, seed {seed}",
            "rounds": f"{len(done)} passed",
            "slowest rename": f"{max(found.done_s for found in done):.1f} s",
        },
        table(Round.HEAD, (found.row() for found in done)),
    )
