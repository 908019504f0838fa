"""Controllers on an embedded store, with brokers that only record and answer requests."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from typing import Any

from ottla.controller.config import ControllerConfig
from ottla.controller.controller import Controller
from ottla.controller.resizing.progress import CARRY
from ottla.metadata.store import CreateMode, NoNodeError
from ottla.metadata.znodes import (
    PERSISTENT_PATHS,
    BrokerIdZnode,
    BrokerInfo,
    ConfigZnode,
    DeleteTopicZnode,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicPartitionStateZnode,
    TopicZnode,
)
from ottla.runtime import Runtime, SystemClock, SystemDisk, SystemNetwork
from ottla.types import Endpoint, TopicPartition
from ottla.wire import messages as m
from ottla.zk.embedded import EmbeddedStore
from ottla.zk.server.engine import Engine

# More than any step of the controller takes between two things that settle() can see.
SETTLED_AFTER_TURNS = 50


def runtime(seed: int = 7) -> Runtime:
    return Runtime(SystemClock(), random.Random(seed), SystemNetwork(), SystemDisk())


async def eventually(condition: Callable[[], Any], timeout_s: float = 60.0) -> Any:
    """The first true value of the condition, which may be a coroutine function."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    while True:
        value = condition()
        if isinstance(value, Awaitable):
            value = await value
        if value:
            return value
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError("the condition did not come true in time")
        await asyncio.sleep(0.002)


class FakeBroker:
    """Answers every request with success unless told otherwise."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.requests: list[Any] = []
        self.connects = True
        self.answers = asyncio.Event()
        self.answers.set()
        self.lost_partitions: set[int] = set()
        self.stop_error = 0
        # What coordinators say of a topic that is to be renamed, and which partitions of
        # __consumer_offsets they have carried.
        self.open_transactions = 0
        self.carried: list[int] = []
        # Of a topic that is to be resized: where the partitions end that this broker leads.
        self.ends: dict[int, int] = {}
        # Members that had to join again after a resize, and whether its coordinators are loading.
        self.members = 0
        self.switches_late = False

    def of_type(self, kind: Any) -> list[Any]:
        return [request for request in self.requests if isinstance(request, kind)]

    async def answer(self, request: Any) -> Any:
        self.requests.append(request)
        await self.answers.wait()
        if isinstance(request, m.LeaderAndIsrRequest):
            return self._leader_and_isr(request)
        if isinstance(request, m.StopReplicaRequest):
            error = m.StopReplicaResponse.StopReplicaPartitionError
            return m.StopReplicaResponse(
                partition_errors=[
                    error(
                        topic_name=topic.topic_name,
                        partition_index=partition.partition_index,
                        error_code=self.stop_error if partition.delete_partition else 0,
                    )
                    for topic in request.topic_states
                    for partition in topic.partition_states
                ]
            )
        if isinstance(request, m.CarryOffsetsRequest):
            return m.CarryOffsetsResponse(
                open_transactions=self.open_transactions, partitions=self.carried
            )
        if isinstance(request, m.ResizeOrderRequest):
            ends = [
                m.ResizeOrderResponse.FencedPartition(partition_index=partition, end_offset=end)
                for partition, end in self.ends.items()
            ]
            is_late = request.stage == CARRY and self.switches_late
            partitions = [] if is_late else self.carried
            return m.ResizeOrderResponse(partitions=partitions, members=self.members, ends=ends)
        return m.UpdateMetadataResponse()

    def _leader_and_isr(self, request: m.LeaderAndIsrRequest) -> m.LeaderAndIsrResponse:
        error = m.LeaderAndIsrResponse.LeaderAndIsrPartitionError
        return m.LeaderAndIsrResponse(
            topics=[
                m.LeaderAndIsrResponse.LeaderAndIsrTopicError(
                    topic_id=topic.topic_id,
                    partition_errors=[
                        error(
                            partition_index=state.partition_index,
                            error_code=56 if state.partition_index in self.lost_partitions else 0,
                        )
                        for state in topic.partition_states
                    ],
                )
                for topic in request.topic_states
            ]
        )


class FakeConnection:
    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker

    async def send(self, message: Any, version: int, *, timeout_ms: float) -> Any:
        expected = {
            m.LeaderAndIsrRequest: 5,
            m.UpdateMetadataRequest: 7,
            m.StopReplicaRequest: 3,
            m.CarryOffsetsRequest: 0,
            m.ResizeOrderRequest: 0,
        }
        assert version == expected[type(message)]
        decoded, _ = type(message).decode(message.encode(version), version)
        return await self._broker.answer(decoded)

    def close(self) -> None:
        pass


class ControlledCluster:
    """Real controllers on an embedded store; their brokers only record and answer requests."""

    def __init__(self) -> None:
        self.runtime = runtime()
        self.engine = Engine(self.runtime)
        self.brokers: dict[int, FakeBroker] = {}
        self.registrations: dict[int, EmbeddedStore] = {}
        self.controllers: list[Controller] = []
        self.controller_stores: list[EmbeddedStore] = []

    async def open(self, brokers: int) -> None:
        await self.engine.start()
        self.admin = EmbeddedStore(self.engine)
        for path in PERSISTENT_PATHS:
            await self.create_path(path)
        for broker_id in range(brokers):
            await self.start_broker(broker_id)

    async def close(self) -> None:
        for controller in self.controllers:
            await controller.stop()
        await self.engine.stop()
        assert not any(c.journal.illegal_transitions for c in self.controllers)

    async def create_path(self, path: str) -> None:
        parts = path.strip("/").split("/")
        for depth in range(1, len(parts) + 1):
            parent = "/" + "/".join(parts[:depth])
            if await self.admin.exists(parent) is None:
                await self.admin.create(parent)

    # Brokers

    async def start_broker(self, broker_id: int) -> None:
        self.brokers.setdefault(broker_id, FakeBroker(broker_id))
        store = EmbeddedStore(self.engine)
        self.registrations[broker_id] = store
        await store.create(
            BrokerIdZnode.path(broker_id),
            BrokerIdZnode.encode(self.info(broker_id)),
            mode=CreateMode.EPHEMERAL,
        )

    def info(self, broker_id: int, port: int | None = None) -> BrokerInfo:
        endpoint = Endpoint("PLAINTEXT", "localhost", port or 9000 + broker_id)
        return BrokerInfo(broker_id, (endpoint,))

    async def stop_broker(self, broker_id: int) -> None:
        await self.registrations.pop(broker_id).close()

    async def broker_epoch(self, broker_id: int) -> int:
        return (await self.admin.get(BrokerIdZnode.path(broker_id)))[1].czxid

    async def connect(self, host: str, port: int) -> FakeConnection:
        broker = self.brokers[port - 9000]
        if not broker.connects:
            raise ConnectionRefusedError(port)
        return FakeConnection(broker)

    # Controllers

    async def start_controller(self, broker_id: int = 0, **config: Any) -> Controller:
        store = EmbeddedStore(self.engine)
        controller = Controller(
            self.runtime,
            store,
            broker_id,
            ControllerConfig(**config),
            self.connect,
            strict_transitions=True,
        )
        self.controllers.append(controller)
        self.controller_stores.append(store)
        await controller.start()
        await self.settle()
        return controller

    async def kill_controller(self, controller: Controller) -> None:
        """The process is gone: nothing more is sent or written, the session ends."""
        index = self.controllers.index(controller)
        await controller.stop()
        await self.controller_stores[index].close()

    async def settle(self) -> None:
        """Waits until neither the store nor the requests have changed for a while.

        Store and brokers are in this process: what is under way goes on with every turn of the
        loop, so turns are counted. Milliseconds may all pass in one turn on a loaded machine.
        """
        quiet, last = 0, None
        while quiet < 4:
            await asyncio.sleep(0.001)
            for _ in range(SETTLED_AFTER_TURNS):
                await asyncio.sleep(0)
            seen = sum(len(broker.requests) for broker in self.brokers.values())
            current = (self.engine.tree.last_zxid, seen)
            quiet = quiet + 1 if current == last else 0
            last = current

    # Topics

    async def create_topic(
        self, topic: str, assignment: dict[int, tuple[int, ...]], topic_id: bytes | None = b"i" * 16
    ) -> None:
        await self.admin.create(ConfigZnode.path("topics", topic), ConfigZnode.encode({}))
        replicas = {p: ReplicaAssignment(brokers) for p, brokers in assignment.items()}
        await self.admin.create(TopicZnode.path(topic), TopicZnode.encode(replicas, topic_id))
        await self.settle()

    async def set_topic(self, topic: str, assignment: dict[int, tuple[int, ...]]) -> None:
        decoded = TopicZnode.decode((await self.admin.get(TopicZnode.path(topic)))[0])
        replicas = {p: ReplicaAssignment(brokers) for p, brokers in assignment.items()}
        await self.admin.set(TopicZnode.path(topic), TopicZnode.encode(replicas, decoded.topic_id))
        await self.settle()

    async def delete_topic(self, topic: str) -> None:
        await self.admin.create(DeleteTopicZnode.path(topic))
        await self.settle()

    async def state(self, topic: str, partition: int = 0) -> LeaderAndIsr | None:
        try:
            data, stat = await self.admin.get(
                TopicPartitionStateZnode.path(TopicPartition(topic, partition))
            )
        except NoNodeError:
            return None
        return TopicPartitionStateZnode.decode(data, stat)

    async def exists(self, path: str) -> bool:
        return await self.admin.exists(path) is not None

    async def json(self, path: str) -> Any:
        return json.loads((await self.admin.get(path))[0] or b"null")

    def clear(self) -> None:
        for broker in self.brokers.values():
            broker.requests.clear()
