"""One topic that is resized while a process is killed, and what has to hold in the end.

Legal are two outcomes: the topic is as it was, or it has the new number of partitions. In both
every acknowledged record is there once, in the partition of its key and in order, the clients go
on, and nothing is left of the resize.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, TopicPartition
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from ottla.metadata.resizes import ResizeZnode
from ottla.testing.cluster import ProcessCluster
from ottla.topics.partitioners import Partitioner, partition_of
from tests.support.integration.kill_helpers import (
    await_in_sync,
    await_registered,
    controller_node,
    metadata_store,
)
from tests.support.spark import resize_command
from tests.support.spark.kill_processes import family
from tests.support.spark.resize_traffic import GroupReader, JavaProducer, Outcomes, Verdict

BROKERS = 3
WAIT_S = 180.0
PARENT = ResizeZnode.parent()
SHADOWS = "__ottla_resize."
# Phases of a resize, and how long after one is seen the kill may come.
MOMENTS = {"begun": 4.0, "fenced": 0.25, "swapped": 0.4}
SHAPES = [(12, 5), (5, 16), (3, 8), (8, 3)]
DELIVERY_S = 8
DONE = re.compile(r"has \d+ partitions and replication factor \d+ already")
SWAPPED = re.compile(r"is resized already|No resize of topic|no way back")


class Plan(NamedTuple):
    """What the seed says."""

    sources: int
    targets: int
    victim: str
    moment: str
    after_s: float
    away_s: float
    gives_up: bool

    @classmethod
    def drawn(cls, choice: random.Random) -> Plan:
        sources, targets = choice.choice(SHAPES)
        moment = choice.choice(list(MOMENTS))
        return cls(
            sources,
            targets,
            choice.choice(["driver", "broker", "controller"]),
            moment,
            choice.uniform(0, MOMENTS[moment]),
            choice.uniform(0, 6),
            choice.random() < 0.25,
        )


class Round(NamedTuple):
    plan: Plan
    seed: int
    phase: str
    runs: int
    outcome: str
    acknowledged: int
    failures: dict[str, int]
    again: int
    seconds: float

    HEAD = (
        *("seed", "partitions", "killed", "when", "phase by then", "commands", "outcome"),
        *("acknowledged", "failed", "read again", "s"),
    )

    def row(self) -> tuple[object, ...]:
        plan = self.plan
        failed = ", ".join(f"{count} {name}" for name, count in self.failures.items())
        return (
            *(self.seed, f"{plan.sources} -> {plan.targets}", plan.victim),
            f"{plan.moment} + {plan.after_s * 1000:.0f} ms",
            *(self.phase, self.runs, self.outcome, f"{self.acknowledged:,}", failed or "none"),
            *(self.again, f"{self.seconds:.0f}"),
        )


def run_round(cluster: ProcessCluster, topic: str, seed: int, records: int, folder: Path) -> Round:
    plan = Plan.drawn(random.Random(seed))
    servers = cluster.bootstrap_servers
    began_s = time.monotonic()
    cluster.create_topic(topic, plan.sources, BROKERS, {"min.insync.replicas": 2})
    settings = {
        "delivery.timeout.ms": str(1000 * DELIVERY_S),
        "request.timeout.ms": "4000",
        "metadata.max.age.ms": "5000",
    }
    producer = JavaProducer(
        servers, topic, folder, keys=500, first=records, rate=500, settings=settings
    )
    with metadata_store(cluster) as store:
        with producer, GroupReader(servers, topic, f"{topic}-readers") as reader:
            producer.await_filled()
            phase, runs, texts = _resize(cluster, store, topic, plan, folder)
            assert _await_nothing_left(store), f"left: {_entries(store)}, {_shadows(store)}"
            partitions = _partitions(store, topic)
            await_in_sync(store, topic, partitions, BROKERS)
            outcomes = producer.finish()
            reader.await_numbers(outcomes.acknowledged)
        assert partitions in (plan.sources, plan.targets)
        swapped = partitions == plan.targets
        assert swapped or plan.gives_up, f"not resized: {texts}"
        verdict = Verdict.of(outcomes.acknowledged, reader.seen)
        judge_topic(servers, topic, partitions, outcomes)
        assert verdict.missing == 0, f"{verdict}: acknowledged records did not reach the group"
        assert verdict.disordered == 0, f"{verdict}: records of a key came in another order"
    return Round(
        *(plan, seed, phase, runs, "resized" if swapped else "as it was"),
        sum(map(len, outcomes.acknowledged.values())),
        *(outcomes.failures, verdict.again, time.monotonic() - began_s),
    )


def _resize(
    cluster: ProcessCluster, store: KazooClient, topic: str, plan: Plan, folder: Path
) -> tuple[str, int, list[str]]:
    """The phase at the kill, how many commands it took, and what they said."""
    servers = cluster.bootstrap_servers
    wanted = ["--partitions", str(plan.targets)]
    command = resize_command.start(servers, topic, folder, *wanted)
    _await_moment(store, plan.moment, command)
    time.sleep(plan.after_s)
    phase = next(iter(_entries(store).values()), "no entry")
    restart = _kill(cluster, store, plan, command)
    texts: list[str] = []
    for runs in range(1, 8):
        out, _ = command.communicate(timeout=WAIT_S)
        errors = (folder / "resize.log").read_text()
        texts.append(out + errors[-1000:])
        gave_up = "--abort" in command.args  # type: ignore[operator]  # a list of words
        if command.returncode == 0 or DONE.search(errors) or (gave_up and SWAPPED.search(errors)):
            break
        time.sleep(1 if runs == 1 else 5)
        words = ["--abort"] if plan.gives_up else wanted
        (folder / "resize.log").unlink()
        command = resize_command.start(servers, topic, folder, *words)
    else:
        raise AssertionError(f"no command came to an end: {texts}")
    if restart is not None:
        restart.join(WAIT_S)
        await_registered(store, BROKERS)
    return phase, runs, texts


def _await_moment(store: KazooClient, moment: str, command: subprocess.Popen[str]) -> None:
    """Or until the command has ended: then that is the moment."""
    wanted = {
        "begun": {"copying", "fenced", "moving", "carrying"},
        "fenced": {"fenced", "moving", "carrying"},
        "swapped": {"moving", "carrying"},
    }[moment]
    deadline = time.monotonic() + WAIT_S
    while command.poll() is None and not wanted & set(_entries(store).values()):
        assert time.monotonic() < deadline, f"never {moment}"
        time.sleep(0.003)


def _kill(
    cluster: ProcessCluster, store: KazooClient, plan: Plan, command: subprocess.Popen[str]
) -> threading.Thread | None:
    """What starts the broker again is on its way."""
    if plan.victim == "driver":
        for process in family(command.pid):
            process.kill()
        return None
    node = controller_node(store)
    assert node is not None
    others = [broker for broker in range(BROKERS) if broker != node[0]]
    broker = node[0] if plan.victim == "controller" else others[round(plan.away_s) % len(others)]
    cluster.kill(broker)

    def come_back() -> None:
        time.sleep(plan.away_s)
        cluster.restart(broker)

    restart = threading.Thread(target=come_back)
    restart.start()
    return restart


def _entries(store: KazooClient) -> dict[str, str]:
    """Phases of resizes that are under way."""
    found: dict[str, str] = {}
    try:
        for name in store.get_children(PARENT):
            data = ResizeZnode.decode(store.get(f"{PARENT}/{name}")[0])
            found[name] = "unreadable" if data is None else str(data.phase.value)
    except NoNodeError:
        pass  # none yet, or it has just ended
    return found


def _shadows(store: KazooClient) -> list[str]:
    return [name for name in store.get_children("/brokers/topics") if name.startswith(SHADOWS)]


def _await_nothing_left(store: KazooClient) -> bool:
    deadline = time.monotonic() + 60
    while _entries(store) or _shadows(store):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def _partitions(store: KazooClient, topic: str) -> int:
    node: dict[str, Any] = json.loads(store.get(f"/brokers/topics/{topic}")[0])
    return len(node["partitions"])


def judge_topic(servers: str, topic: str, partitions: int, outcomes: Outcomes) -> None:
    """What lies in it, read by nobody's group from the beginning."""
    counts: Counter[tuple[int, int]] = Counter()
    last: dict[int, int] = {}
    for partition, key, number in read_topic(servers, topic, partitions):
        counts[key, number] += 1
        where = partition_of(Partitioner.MURMUR2, str(key).encode(), partitions)
        assert where == partition, f"key {key} lies in {partition}, not {where}"
        assert last.get(key, -1) < number, f"{number} of key {key} comes after {last[key]}"
        last[key] = number
    wanted = {(key, n) for key, numbers in outcomes.acknowledged.items() for n in numbers}
    assert wanted <= counts.keys(), f"{len(wanted - counts.keys())} acknowledged ones are missing"
    assert not [one for one, count in counts.items() if count > 1]


def read_topic(servers: str, topic: str, partitions: int) -> Iterator[tuple[int, int, int]]:
    """Partition, key and number, partition by partition in order."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "judge",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 2,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    waiting = set(range(partitions))
    while waiting:
        messages = consumer.consume(5_000, timeout=30)
        assert messages, f"{topic}: nothing comes of {waiting}"
        for message in messages:
            partition, key, value = message.partition(), message.key(), message.value()
            assert partition is not None
            if message.error() is not None:
                waiting.discard(partition)
            elif key is not None and value is not None:
                yield partition, int(key), int(value)
    consumer.close()
