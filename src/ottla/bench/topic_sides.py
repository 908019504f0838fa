"""The clusters that `ottla bench topics` compares, and the one client that asks them all.

The client is Ottla's own for every side, so that what it costs is the same everywhere. A topic is
ready when a produce to every partition of it succeeded.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from ottla.bench.start import resident_mb
from ottla.client.cluster import Cluster
from ottla.errors import ErrorCode, OttlaError
from ottla.runtime import system_runtime
from ottla.testing.cluster import ProcessCluster
from ottla.testing.java import ApacheKafka, ApacheZooKeeper, KraftKafka
from ottla.wire import messages as m
from ottla.wire.records import Record, build_batch

T = TypeVar("T")
REQUEST_TIMEOUT_MS = 120_000
READY_TIMEOUT_S = 300.0
RETRY_S = 0.005
RETRY_SHARE = 0.05  # of the time that has passed: the most that a result can be too long
# Kafka 4.1 refuses a request that would change more than this many records at once.
TOPICS_PER_REQUEST = 250
# DeleteTopics v6 names topics in another field.
DELETE_MAX_VERSION = 5
# What every side understands: Kafka 4 dropped the versions before 3.
PRODUCE_VERSIONS = (3, 8)


class Resources(NamedTuple):
    memory_mb: float
    descriptors: int
    cpu_s: float


def cpu_seconds(pid: int) -> float:
    """Of one process so far, its own and the kernel's for it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Taken(NamedTuple):
    """Seconds until CreateTopics was answered, and until every partition had taken a record."""

    answered_s: float
    ready_s: float


class Side(ABC):
    """One cluster of one broker."""

    title: str

    @property
    @abstractmethod
    def bootstrap_servers(self) -> str: ...

    @property
    @abstractmethod
    def pid(self) -> int: ...

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def resources(self) -> Resources:
        descriptors = len(os.listdir(f"/proc/{self.pid}/fd"))  # noqa: PTH208
        return Resources(resident_mb(self.pid), descriptors, cpu_seconds(self.pid))


class RestartableSide(Side):
    @abstractmethod
    def stop_broker(self) -> None:
        """A clean stop; what was made stays."""

    @abstractmethod
    def start_broker(self) -> None: ...


class OttlaSide(RestartableSide):
    """`ottla up`: broker and store in one process, as a user of one broker runs them."""

    title = "Ottla"

    def start(self) -> None:
        self._data = Path(tempfile.mkdtemp(prefix="ottla-bench-topics-"))
        self.start_broker()

    def start_broker(self) -> None:
        self._cluster = ProcessCluster(brokers=1, data=self._data)
        self._cluster.start()

    def stop_broker(self) -> None:
        self._cluster.stop()

    def close(self) -> None:
        self._cluster.stop()
        shutil.rmtree(self._data, ignore_errors=True)

    @property
    def bootstrap_servers(self) -> str:
        return self._cluster.bootstrap_servers

    @property
    def pid(self) -> int:
        return self._cluster.pid(0)


class KraftSide(RestartableSide):
    title = "Apache Kafka 4.1"

    def start(self) -> None:
        self._kafka = KraftKafka(heap="2g")
        self._kafka.start()

    def start_broker(self) -> None:
        self._kafka.start_again()

    def stop_broker(self) -> None:
        self._kafka.shut_down()

    def close(self) -> None:
        self._kafka.stop()

    @property
    def bootstrap_servers(self) -> str:
        return self._kafka.bootstrap_servers

    @property
    def pid(self) -> int:
        return self._kafka.pid


class ZooKeeperModeSide(Side):
    title = "Apache Kafka 2.8.2"

    def start(self) -> None:
        self._zookeeper = ApacheZooKeeper()
        self._zookeeper.start()
        self._kafka = ApacheKafka(self._zookeeper.address)
        try:
            self._kafka.start()
        except BaseException:
            self._zookeeper.stop()
            raise

    def close(self) -> None:
        self._kafka.stop()
        self._zookeeper.stop()

    @property
    def bootstrap_servers(self) -> str:
        return self._kafka.bootstrap_servers

    @property
    def pid(self) -> int:
        return self._kafka.pid(0)


class Work:
    """Topic operations on one cluster, each of them timed to its end."""

    def __init__(self, bootstrap_servers: str) -> None:
        # A broker that just started and takes over many partitions answers late.
        self._cluster = Cluster(
            system_runtime(), bootstrap_servers, bootstrap_timeout_ms=REQUEST_TIMEOUT_MS
        )
        self._loop = asyncio.new_event_loop()
        # Of today: retention would take away an old record, and its segment with it.
        self._batch = build_batch([Record(None, b"x", system_runtime().clock.now_ms())])

    def __enter__(self) -> Self:
        self._call(self._cluster.metadata())
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._cluster.close())
        self._loop.close()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    def create(self, names: Sequence[str], partitions: int, replicas: int = 1) -> Taken:
        answered_s = ready_s = 0.0
        for start in range(0, len(names), TOPICS_PER_REQUEST):
            some = names[start : start + TOPICS_PER_REQUEST]
            began = time.perf_counter()
            self._call(self._create(some, partitions, replicas))
            answered_s += time.perf_counter() - began
            self.await_ready(some, partitions)
            ready_s += time.perf_counter() - began
        return Taken(answered_s, ready_s)

    def create_when_possible(self, name: str, partitions: int, timeout_s: float) -> None:
        """Creates a topic on a cluster that may have no controller for a while."""
        deadline = time.perf_counter() + timeout_s
        while True:
            try:
                self.create([name], partitions)
                return
            except OttlaError:
                if time.perf_counter() > deadline:
                    raise
                time.sleep(RETRY_S)

    def await_ready(self, names: Sequence[str], partitions: int) -> float:
        """Until all of them have taken a record; when the last one was known to have a leader."""
        return self._call(self._await_ready(names, partitions))

    def delete(self, names: Sequence[str]) -> float:
        """Seconds until no broker's metadata has them any more."""
        began = time.perf_counter()
        self._call(self._delete(names))
        return time.perf_counter() - began

    def leaders(self, name: str) -> dict[str, list[int]]:
        """The partitions that each broker leads, by its address."""
        return self._call(self._led_by(name))

    async def _led_by(self, name: str) -> dict[str, list[int]]:
        answer = await self._cluster.metadata([name])
        addresses = {broker.node_id: f"{broker.host}:{broker.port}" for broker in answer.brokers}
        led: dict[str, list[int]] = {}
        for topic in answer.topics:
            for partition in topic.partitions:
                led.setdefault(addresses[partition.leader_id], []).append(partition.partition_index)
        return {address: sorted(partitions) for address, partitions in sorted(led.items())}

    async def _create(self, names: Sequence[str], partitions: int, replicas: int) -> None:
        topic_class = m.CreateTopicsRequest.CreatableTopic
        request = m.CreateTopicsRequest(
            topics=[
                topic_class(name=name, num_partitions=partitions, replication_factor=replicas)
                for name in names
            ],
            timeout_ms=REQUEST_TIMEOUT_MS,
        )
        answer = await self._cluster.send_to_controller(
            request,
            timeout_ms=REQUEST_TIMEOUT_MS,
            is_misdirected=lambda answer: any(
                topic.error_code == ErrorCode.NOT_CONTROLLER for topic in answer.topics
            ),
        )
        for topic in answer.topics:
            if topic.error_code:
                raise OttlaError(f"{topic.name}: {topic.error_code} {topic.error_message}")

    async def _await_ready(self, names: Sequence[str], partitions: int) -> float:
        """Produces one record to every partition, again where it failed."""
        wanted = {(name, partition) for name in names for partition in range(partitions)}
        began = led_at = time.perf_counter()
        unled = len(wanted)
        while wanted:
            by_leader = await self._leaders(wanted)
            if unled:
                led_at = time.perf_counter()
                unled = len(wanted) - sum(map(len, by_leader.values()))
            answers = await asyncio.gather(
                *(self._produce(leader, some) for leader, some in by_leader.items())
            )
            wanted.difference_update(*answers)
            elapsed = time.perf_counter() - began
            if elapsed > READY_TIMEOUT_S:
                raise OttlaError(f"{len(wanted)} partitions do not take records")
            if wanted:
                # Asking must not keep the broker from its work.
                await asyncio.sleep(max(RETRY_S, RETRY_SHARE * elapsed))
        return led_at

    async def _leaders(self, wanted: set[tuple[str, int]]) -> dict[int, list[tuple[str, int]]]:
        answer = await self._cluster.metadata(sorted({name for name, _ in wanted}))
        by_leader: dict[int, list[tuple[str, int]]] = {}
        for topic in answer.topics:
            for partition in topic.partitions:
                place = (topic.name or "", partition.partition_index)
                if place in wanted and partition.leader_id >= 0 and not partition.error_code:
                    by_leader.setdefault(partition.leader_id, []).append(place)
        return by_leader

    async def _produce(self, leader: int, places: list[tuple[str, int]]) -> set[tuple[str, int]]:
        """Those of the places that took the record."""
        request_class = m.ProduceRequest
        by_topic: dict[str, list[m.ProduceRequest.PartitionProduceData]] = {}
        for name, partition in places:
            data = request_class.PartitionProduceData(index=partition, records=self._batch)
            by_topic.setdefault(name, []).append(data)
        request = request_class(
            acks=-1,
            timeout_ms=REQUEST_TIMEOUT_MS,
            topic_data=[
                request_class.TopicProduceData(name=name, partition_data=data)
                for name, data in by_topic.items()
            ],
        )
        low, high = PRODUCE_VERSIONS
        answer = await self._cluster.send_to_broker(
            leader, request, timeout_ms=REQUEST_TIMEOUT_MS, min_version=low, max_version=high
        )
        return {
            (topic.name, partition.index)
            for topic in answer.responses
            for partition in topic.partition_responses
            if not partition.error_code
        }

    async def _delete(self, names: Sequence[str]) -> None:
        for start in range(0, len(names), TOPICS_PER_REQUEST):
            some = list(names[start : start + TOPICS_PER_REQUEST])
            request = m.DeleteTopicsRequest(topic_names=some, timeout_ms=REQUEST_TIMEOUT_MS)
            answer = await self._cluster.send_to_controller(
                request, timeout_ms=REQUEST_TIMEOUT_MS, max_version=DELETE_MAX_VERSION
            )
            for topic in answer.responses:
                if topic.error_code:
                    raise OttlaError(f"{topic.name}: {topic.error_code} {topic.error_message}")
        deadline = time.perf_counter() + READY_TIMEOUT_S
        while True:
            left = {topic.name for topic in (await self._cluster.metadata(None)).topics}
            if left.isdisjoint(names):
                return
            if time.perf_counter() > deadline:
                raise OttlaError(f"{len(left)} topics are not gone")
            await asyncio.sleep(RETRY_S)
