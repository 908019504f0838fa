"""Topics that somebody writes into ZooKeeper: what becomes of them, on any cluster.

Every case is a generator of observations, one for each moment that matters. It asks nothing about
whose brokers these are, so the observations of Apache Kafka and of Ottla can be compared.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as Place
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from ottla.client.cluster import Cluster
from ottla.runtime import system_runtime
from ottla.wire import messages as m
from tests.support.peers.cluster_state import topic_nodes

BROKERS = (0, 1, 2)
STILL_S = 1.2  # that long without a change, and nothing more is expected
# As long as brokers say different things of the topic: one that has just started, and has much to
# do, is told a while after the others.
STILL_APART_S = 6.0
SETTLE_TIMEOUT_S = 25.0
EXPAND_TIMEOUT_MS = 2_000


class Seen(NamedTuple):
    """One topic at one moment."""

    nodes: dict[str, Any]
    described: dict[int, Any]  # by broker: error code, and leader, replicas, isr by partition
    folders: dict[int, list[str]]

    @property
    def agrees(self) -> bool:
        """All brokers that live describe the topic alike."""
        told = list(self.described.values())
        return all(each == told[0] for each in told)


class Hand:
    """Somebody with kazoo, a kill command and access to the brokers' folders."""

    def __init__(self, cluster: Any, zookeeper: KazooClient) -> None:
        self._cluster = cluster
        self._zookeeper = zookeeper
        self._down: set[int] = set()

    # what can be done

    def write_topic(self, name: str, partitions: dict[int, list[int]]) -> None:
        node = {"version": 1, "partitions": {str(p): ids for p, ids in partitions.items()}}
        self.create(f"/brokers/topics/{name}", node)

    def create(self, path: str, value: Any) -> None:
        self._zookeeper.create(path, json.dumps(value).encode(), makepath=True)

    def create_raw(self, path: str, data: bytes) -> None:
        self._zookeeper.create(path, data)

    def delete(self, path: str) -> None:
        self._zookeeper.delete(path)

    def lose(self, name: str) -> bytes:
        """Takes a topic's znodes away; what the first of them said."""
        path = f"/brokers/topics/{name}"
        data: bytes = self._zookeeper.get(path)[0]
        self._zookeeper.delete(path, recursive=True)
        return data

    def await_states(self, name: str, *partitions: int) -> None:
        paths = [state_path(name, partition) for partition in partitions]
        _until(lambda: all(self._zookeeper.exists(path) for path in paths))

    def edit(self, path: str, **changes: Any) -> None:
        node = json.loads(self._zookeeper.get(path)[0])
        self._zookeeper.set(path, json.dumps(node | changes, separators=(",", ":")).encode())

    def kill(self, *broker_ids: int) -> None:
        """Ends brokers, and their sessions at once: their nodes are taken away."""
        for broker_id in broker_ids:
            self._cluster.kill(broker_id)
            self._down.add(broker_id)
        for broker_id in broker_ids:
            self._forget(f"/brokers/ids/{broker_id}")
        try:
            data, _ = self._zookeeper.get("/controller")
        except NoNodeError:
            return
        if json.loads(data)["brokerid"] in broker_ids:
            self._forget("/controller")

    def _forget(self, path: str) -> None:
        try:
            self._zookeeper.delete(path)
        except NoNodeError:
            pass

    def restart(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self._cluster.restart(broker_id)
            self._down.discard(broker_id)

    def fail_over(self) -> None:
        """The controller loses its office; somebody takes it afresh."""
        epoch = int(self._zookeeper.get("/controller_epoch")[0])
        self._zookeeper.delete("/controller")
        _until(lambda: int(self._zookeeper.get("/controller_epoch")[0]) > epoch)

    def create_topic(self, name: str, partitions: dict[int, list[int]]) -> int:
        request = m.CreateTopicsRequest
        topic = request.CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                request.CreatableReplicaAssignment(partition_index=p, broker_ids=ids)
                for p, ids in partitions.items()
            ],
        )
        wish = request(topics=[topic], timeout_ms=10_000)
        code = self._to_controller(wish, lambda answer: answer.topics)
        assert code == 0, f"{name} was not created: {code}"
        return code

    def expand(self, name: str, total: int, lists: list[list[int]]) -> int:
        """The error code of CreatePartitions, which waits a moment for the new leaders."""
        request = m.CreatePartitionsRequest
        topic = request.CreatePartitionsTopic(
            name=name,
            count=total,
            assignments=[request.CreatePartitionsAssignment(broker_ids=ids) for ids in lists],
        )
        wish = request(topics=[topic], timeout_ms=EXPAND_TIMEOUT_MS)
        return self._to_controller(wish, lambda answer: answer.results)

    def _to_controller(self, request: Any, results: Callable[[Any], Any]) -> int:
        async def call(cluster: Cluster) -> int:
            def is_misdirected(answer: Any) -> bool:
                return bool(results(answer)[0].error_code == 41)

            answer = await cluster.send_to_controller(request, is_misdirected=is_misdirected)
            return int(results(answer)[0].error_code)

        return self._ask(call)

    # what can be seen

    def produce(self, name: str, partition: int, count: int) -> None:
        producer = Producer({"bootstrap.servers": self._cluster.bootstrap_servers, "acks": "all"})
        for number in range(count):
            producer.produce(name, str(number).encode(), partition=partition)
        assert producer.flush(30) == 0

    def end_offset(self, name: str, partition: int) -> int:
        servers = self._cluster.bootstrap_servers
        consumer = Consumer({"bootstrap.servers": servers, "group.id": "by-hand"})
        ends: list[int] = []

        def is_known() -> bool:
            try:
                bounds = consumer.get_watermark_offsets(Place(name, partition), timeout=5)
            except KafkaException:
                # A leader knows its high watermark when its followers have fetched.
                return False
            ends.append(int(bounds[1]))
            return True

        try:
            _until(is_known)
        finally:
            consumer.close()
        return ends[0]

    def settled(self, name: str) -> Seen:
        """The topic, once nothing changes any more."""
        began = since = time.monotonic()
        last = self.look(name)
        while time.monotonic() < since + (STILL_S if last.agrees else STILL_APART_S):
            time.sleep(0.1)
            now = self.look(name)
            if now != last:
                assert time.monotonic() < began + SETTLE_TIMEOUT_S, f"no rest: {last} {now}"
                last, since = now, time.monotonic()
        return last

    def look(self, name: str) -> Seen:
        alive = [broker_id for broker_id in BROKERS if broker_id not in self._down]
        described = self._ask(lambda cluster: self._describe(cluster, alive, name)) if alive else {}
        folders = {
            broker_id: sorted(
                path.name for path in self._cluster.log_dir(broker_id).glob(f"{name}-[0-9]*")
            )
            for broker_id in BROKERS
        }
        return Seen(topic_nodes(self._zookeeper, [name]), described, folders)

    async def _describe(self, cluster: Cluster, alive: list[int], name: str) -> dict[int, Any]:
        request = m.MetadataRequest(
            topics=[m.MetadataRequest.MetadataRequestTopic(name=name)],
            allow_auto_topic_creation=False,
        )
        found = {}
        for broker_id in alive:
            answer = await cluster.send_to_broker(
                broker_id, request, min_version=9, max_version=9, timeout_ms=10_000
            )
            (topic,) = answer.topics
            found[broker_id] = (
                topic.error_code,
                {
                    p.partition_index: (
                        *(p.error_code, p.leader_id, p.leader_epoch),
                        *(p.replica_nodes, sorted(p.isr_nodes), p.offline_replicas),
                    )
                    for p in topic.partitions
                },
            )
        return found

    def _ask(self, work: Callable[[Cluster], Any]) -> Any:
        async def run() -> Any:
            bootstrap = self._cluster.bootstrap_servers
            async with Cluster(system_runtime(), bootstrap) as cluster:
                return await work(cluster)

        return asyncio.run(run())


def _until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def state_path(name: str, partition: int) -> str:
    return f"/brokers/topics/{name}/partitions/{partition}/state"


def a_state(leader: int) -> dict[str, Any]:
    return {
        "controller_epoch": 1,
        "leader": leader,
        "version": 1,
        "leader_epoch": 0,
        "isr": [leader],
    }


# The cases. A yield is a moment to compare.


def made_while_up(hand: Hand, name: str) -> Iterator[Any]:
    hand.write_topic(name, {0: [0, 1], 1: [1], 2: [2, 0, 1], 3: [1, 0]})
    yield hand.settled(name)


def made_while_its_brokers_are_down(hand: Hand, name: str) -> Iterator[Any]:
    hand.kill(2)
    hand.write_topic(name, {0: [2], 1: [2]})
    yield hand.settled(name)
    hand.restart(2)
    yield hand.settled(name)


def made_while_everything_is_down(hand: Hand, name: str) -> Iterator[Any]:
    hand.kill(*BROKERS)
    hand.write_topic(name, {0: [0, 1], 1: [2], 2: [1, 2, 0]})
    yield hand.look(name)
    hand.restart(*BROKERS)
    yield hand.settled(name)


def as_many_planted_as_new(hand: Hand, name: str) -> Iterator[Any]:
    yield hand.create_topic(name, {0: [0]})
    hand.create(state_path(name, 1), a_state(0))
    yield hand.settled(name)
    yield hand.expand(name, 2, [[0]])
    yield hand.settled(name)
    hand.fail_over()
    yield hand.settled(name)


def fewer_planted_than_new(hand: Hand, name: str) -> Iterator[Any]:
    yield hand.create_topic(name, {0: [0]})
    hand.create(state_path(name, 1), a_state(0))
    yield hand.expand(name, 3, [[0], [1]])
    yield hand.settled(name)
    hand.fail_over()
    yield hand.settled(name)


def planted_without_a_state(hand: Hand, name: str) -> Iterator[Any]:
    yield hand.create_topic(name, {0: [0]})
    hand.create(f"/brokers/topics/{name}/partitions/1", None)
    yield hand.expand(name, 2, [[0]])
    yield hand.settled(name)


def a_deleted_state(hand: Hand, name: str) -> Iterator[Any]:
    yield hand.create_topic(name, {0: [0], 1: [1]})
    hand.delete(state_path(name, 0))
    yield hand.settled(name)
    hand.fail_over()
    yield hand.settled(name)


def other_replicas(hand: Hand, name: str) -> Iterator[Any]:
    yield hand.create_topic(name, {0: [1], 1: [0]})
    hand.edit(f"/brokers/topics/{name}", partitions={"0": [2], "1": [0]})
    yield hand.settled(name)
    hand.fail_over()
    yield hand.settled(name)


def a_partition_added_by_hand(hand: Hand, name: str) -> Iterator[Any]:
    yield hand.create_topic(name, {0: [1]})
    hand.edit(f"/brokers/topics/{name}", partitions={"0": [1], "1": [2, 0]})
    yield hand.settled(name)


def no_replicas(hand: Hand, name: str) -> Iterator[Any]:
    hand.write_topic(name, {0: [0], 1: []})
    yield hand.settled(name)
    hand.fail_over()
    yield hand.settled(name)


def lost_and_written_again(hand: Hand, name: str) -> Iterator[Any]:
    hand.create_topic(name, {0: [0, 1], 1: [2, 0]})
    hand.produce(name, 0, 50)
    hand.produce(name, 1, 7)
    data = hand.lose(name)
    hand.kill(*BROKERS)
    hand.restart(*BROKERS)
    yield hand.settled(name)
    hand.create_raw(f"/brokers/topics/{name}", data)
    hand.await_states(name, 0, 1)
    yield hand.settled(name)
    yield hand.end_offset(name, 0)
    yield hand.end_offset(name, 1)


def garbage(hand: Hand, name: str) -> Iterator[Any]:
    hand.create_raw(f"/brokers/topics/{name}", b"{nonsense")
    yield hand.settled(name)
    hand.delete(f"/brokers/topics/{name}")
    yield hand.settled(name)
