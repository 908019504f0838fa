"""Brokers that are replica managers alone, joined without sockets, for the replication tests."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.bounds.turns import Turns
from ottla.broker.context.listener_roles import ListenerRoles
from ottla.broker.context.request import RequestContext
from ottla.broker.fetching.service import FetchService
from ottla.broker.handlers import fetch, leader_and_isr, list_offsets
from ottla.broker.membership.metadata_cache import MetadataCache
from ottla.broker.replication.alter_isr import IsrAnswer, IsrChange
from ottla.broker.replication.append import ProduceResult
from ottla.broker.replication.controller_orders import ControllerOrders
from ottla.broker.replication.follower import fetcher
from ottla.broker.replication.order_epochs import OrderEpochs
from ottla.broker.replication.order_log import Sender
from ottla.broker.replication.partition import Partition
from ottla.broker.replication.replica_manager import ReplicaManager
from ottla.config.broker import BrokerConfig
from ottla.errors import ErrorCode
from ottla.runtime import Runtime, SystemClock, SystemDisk, SystemNetwork
from ottla.storage.log.log import Log
from ottla.storage.manager.log_manager import LogManager
from ottla.topics.configs import LogConfig
from ottla.types import TopicPartition
from ottla.wire import messages as m
from ottla.wire import records
from ottla.wire.framing import RequestHeader
from tests.support.broker import cluster_messages

TP = TopicPartition("t", 0)
TOPIC_ID = bytes(range(16))
State = m.LeaderAndIsrRequest.LeaderAndIsrPartitionState


class RecordedIsr:
    """Stands for the AlterIsrManager: the test answers itself."""

    def __init__(self) -> None:
        self.changes: dict[TopicPartition, IsrChange] = {}

    def submit(self, change: IsrChange) -> bool:
        if change.tp in self.changes:
            return False
        self.changes[change.tp] = change
        return True

    def clear(self, tp: TopicPartition) -> None:
        self.changes.pop(tp, None)

    def accept(self, tp: TopicPartition = TP) -> tuple[int, ...]:
        change = self.changes.pop(tp)
        epoch = change.partition_epoch + 1
        change.answered(IsrAnswer(ErrorCode.NONE, 0, change.leader_epoch, change.isr, epoch))
        return change.isr

    def refuse(self, error: ErrorCode, tp: TopicPartition = TP) -> None:
        self.changes.pop(tp).answered(IsrAnswer(error))


class SameTopicSettings:
    """Stands for TopicSettings: the store knows of no configs."""

    def __init__(self) -> None:
        self.loaded: list[tuple[list[str], list[str]]] = []

    async def load(self, topics: Iterable[str], again: Iterable[str] = ()) -> None:
        self.loaded.append((list(topics), list(again)))


class OffsetClock(SystemClock):
    """The machine's clock, put forward by tests."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms

    def monotonic_ms(self) -> float:
        return super().monotonic_ms() + self.ahead_ms


class Broker:
    """One replica manager with what a handler needs around it."""

    def __init__(self, broker_id: int, folder: Path, **topic: Any) -> None:
        self.id = broker_id
        self.clock = OffsetClock()
        self.topic = LogConfig(**topic)
        self.runtime = Runtime(self.clock, random.Random(broker_id), SystemNetwork(), SystemDisk())
        self.config = BrokerConfig.from_properties(
            {
                "broker.id": str(broker_id),
                "zookeeper.connect": "localhost:2181",
                "log.dirs": str(folder / str(broker_id)),
                "replica.fetch.wait.max.ms": "50",
                "replica.fetch.backoff.ms": "20",
                "replica.lag.time.max.ms": "30000",
            }
        )
        self.cache = MetadataCache()
        self.isr = RecordedIsr()
        self.log_manager = LogManager(self.runtime, self.config, lambda _: self.topic)
        self.manager = ReplicaManager(
            self.runtime, self.config, self.log_manager, self.cache, self.isr
        )
        self.orders = ControllerOrders(self.manager, OrderEpochs())
        self.fetches = FetchService(
            self.runtime,
            self.config,
            self.manager.partitions,
            self.cache,
            self.manager.throttles,
            self.manager.timeouts,
        )
        self.services = SimpleNamespace(
            runtime=self.runtime,
            config=self.config,
            broker_id=broker_id,
            metadata_cache=self.cache,
            client_quotas=None,
            turns=Turns(),
            topic_settings=SameTopicSettings(),
            replica_manager=self.manager,
            fetches=self.fetches,
            orders=self.orders,
            listener_roles=ListenerRoles(),
        )

    async def start(self) -> None:
        await self.log_manager.start()
        await self.manager.start()

    async def stop(self) -> None:
        await self.manager.shutdown()
        await self.log_manager.shutdown()

    def context(self, version: int, client_id: str = "test") -> RequestContext:
        header = RequestHeader(0, version, 1, client_id)
        return RequestContext(self.services, header, "Produce", "PLAINTEXT", "127.0.0.1")  # type: ignore[arg-type]

    def know(
        self,
        brokers: Sequence[int],
        leader: int = 0,
        topics: Sequence[str] = ("t",),
        partitions: int = 1,
    ) -> None:
        """What an UpdateMetadata would tell."""
        led = [cluster_messages.partition(p, leader, brokers) for p in range(partitions)]
        self.cache.update(
            cluster_messages.update(
                dict.fromkeys(topics, led),
                brokers=[cluster_messages.broker(broker_id) for broker_id in brokers],
                ids=dict.fromkeys(topics, TOPIC_ID),
            )
        )

    def order(
        self,
        leader: int,
        epoch: int,
        *,
        replicas: Sequence[int] = (0, 1, 2),
        isr: Sequence[int] | None = None,
        tp: TopicPartition = TP,
        topic_id: bytes = TOPIC_ID,
        is_new: bool = True,
        version: int = 5,
    ) -> ErrorCode:
        """LeaderAndIsr for one partition; its code."""
        state = State(
            topic_name=tp.topic,
            partition_index=tp.partition,
            controller_epoch=1,
            leader=leader,
            leader_epoch=epoch,
            isr=list(replicas if isr is None else isr),
            partition_epoch=epoch,
            replicas=list(replicas),
            is_new=is_new,
        )
        request = m.LeaderAndIsrRequest(controller_epoch=1, broker_epoch=-1)
        if version >= 2:
            request.topic_states = [
                m.LeaderAndIsrRequest.LeaderAndIsrTopicState(
                    topic_name=tp.topic, topic_id=topic_id, partition_states=[state]
                )
            ]
        else:
            request.ungrouped_partition_states = [state]
        errors = self.orders.carry_out(leader_and_isr.read_orders(request), Sender(0, 1, 0))
        response = leader_and_isr.make_response(request, version, errors)
        if version >= 5:
            return ErrorCode(response.topics[0].partition_errors[0].error_code)
        return ErrorCode(response.partition_errors[0].error_code)

    @property
    def partition(self) -> Partition:
        return self.manager.partitions.require(TP)

    @property
    def log(self) -> Log:
        log = self.manager.partitions.log(TP)
        assert log is not None
        return log

    async def produce(
        self,
        count: int = 1,
        *,
        acks: int = 1,
        timeout_ms: int = 1000,
        tp: TopicPartition = TP,
        value: bytes = b"v" * 20,
    ) -> ProduceResult:
        results = await self.manager.appends.append(
            {tp: client_batch(count, value=value)}, acks=acks, timeout_ms=timeout_ms
        )
        return results[tp]


def client_batch(count: int = 1, value: bytes = b"v" * 20) -> memoryview:
    items = [records.Record(b"k", value, 1_700_000_000_000 + n) for n in range(count)]
    return memoryview(bytearray(records.build_batch(items)))


class DirectConnection:
    """Takes the place of `client.Connection`: requests go through the wire format to the handler
    of the broker behind the port."""

    brokers: dict[int, Broker]
    # How often somebody tried to reach a broker that is not there.
    refused = 0
    closed = False

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @classmethod
    async def open(cls, network: object, host: str, port: int, **_: object) -> DirectConnection:
        broker = cls.brokers.get(port - 9000)
        if broker is None:
            cls.refused += 1
            raise ConnectionRefusedError(f"nobody at {port}")
        return cls(broker)

    async def send(self, message: Any, version: int, **_: object) -> Any:
        if self._broker.id not in self.brokers:
            raise ConnectionError("gone")
        request, _end = type(message).decode(bytearray(message.encode(version)), version)
        handler = {1: fetch.handle, 2: list_offsets.handle}[message.API_KEY]
        context = self._broker.context(version, "broker-fetcher")
        response = await handler(context, request)  # type: ignore[operator]
        if self._broker.id not in self.brokers:
            raise ConnectionError("gone")
        return type(response).decode(response.encode(version), version)[0]

    def close(self, reason: str = "") -> None:
        self.closed = True


MakeBrokers = Callable[..., Awaitable[list[Broker]]]
EVERYTHING = 1 << 20


@pytest.fixture
async def brokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[MakeBrokers]:
    """`await brokers(3, **topic configs)` starts that many, numbered from 0."""
    made: list[Broker] = []
    monkeypatch.setattr(fetcher, "Connection", DirectConnection)
    monkeypatch.setattr(DirectConnection, "refused", 0)

    async def make(count: int = 1, **topic: Any) -> list[Broker]:
        for number in range(count):
            made.append(Broker(number, tmp_path, **topic))
        DirectConnection.brokers = {broker.id: broker for broker in made}
        for broker in made:
            await broker.start()
            broker.know(range(count))
        return made

    yield make
    for broker in made:
        await broker.stop()


async def until(condition: Callable[[], bool], timeout_s: float = 3.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.005)


def offsets(log: Any) -> list[int]:
    data = log.read(log.start_offset, EVERYTHING, log.end_offset, min_one_batch=True)
    return [
        record.offset for _, v in records.iter_batches(data) for record in records.iter_records(v)
    ]


def lead(members: list[Broker], leader: int, epoch: int, isr: list[int] | None = None) -> None:
    ids = [broker.id for broker in members]
    for broker in sorted(members, key=lambda one: one.id != leader):
        assert broker.order(leader, epoch, replicas=ids, isr=isr) is ErrorCode.NONE
