"""Publishes what the controller did to the topic `__ottla_lifecycle`, one JSON object per record.

The controller must never wait for this or fail over it: it only puts events into a bounded queue;
what does not fit is dropped and counted. A task of its own makes batches of them, has the topic
created by the active controller's broker, and produces to whoever leads it, again and again while
that may help. Events about the topic itself are left out, so that publishing causes no events.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from ottla.client.connection import Connection
from ottla.errors import ErrorCode, KafkaError
from ottla.security.setup import peer_credentials
from ottla.types import TopicPartition
from ottla.wire import messages as m
from ottla.wire.records import Record, build_batch

if TYPE_CHECKING:
    from ottla.broker.admin.topics import TopicAdmin
    from ottla.broker.membership.metadata_cache import MetadataCache
    from ottla.broker.membership.ports import ControllerPort
    from ottla.broker.replication.replica_manager import ReplicaManager
    from ottla.config.broker import BrokerConfig
    from ottla.runtime import Runtime
    from ottla.types import Endpoint

logger = logging.getLogger(__name__)

LIFECYCLE_TOPIC = "__ottla_lifecycle"
MAX_WAITING_EVENTS = 10_000
MAX_BATCH_EVENTS = 500
MAX_REPLICATION_FACTOR = 3

_PARTITION = TopicPartition(LIFECYCLE_TOPIC, 0)
_PRODUCE_VERSION = 7
_ACKS_LEADER = 1
_CLIENT_ID = "ottla-lifecycle"
# Together with a little company an event makes a smaller log.
_GATHER_S = 0.05
_RETRY_S = 0.5
_REQUEST_TIMEOUT_MS = 5_000
# How long the first events wait for the brokers that the topic's replicas are to be on.
_BROKERS_WAIT_MS = 10_000
_COMPLAIN_EVERY_MS = 60_000

# Codes after which the same batch may succeed later; after any other it is given up.
_RETRIABLE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


class PublishableEvent(Protocol):
    """The controller's LifecycleEvent, without importing it."""

    ts_ms: int
    topic: str | None

    def to_json(self) -> dict[str, Any]: ...


def encode(events: Iterable[PublishableEvent]) -> bytearray:
    """A record batch: key is the topic's name where there is one, timestamp the event's own."""
    return bytearray(
        build_batch(
            Record(
                key=None if event.topic is None else event.topic.encode(),
                value=json.dumps(event.to_json(), separators=(",", ":")).encode(),
                timestamp=event.ts_ms,
            )
            for event in events
        )
    )


class PublishingBroker(Protocol):
    """The parts of a broker that publishing takes."""

    @property
    def broker_id(self) -> int: ...

    @property
    def config(self) -> BrokerConfig: ...

    @property
    def runtime(self) -> Runtime: ...

    @property
    def controller(self) -> ControllerPort: ...

    @property
    def metadata_cache(self) -> MetadataCache: ...

    @property
    def topic_admin(self) -> TopicAdmin: ...

    @property
    def replica_manager(self) -> ReplicaManager: ...


class LifecyclePublisher:
    """A bounded queue of events and the task that empties it into the topic."""

    def __init__(self, broker: PublishingBroker) -> None:
        self._broker = broker
        self._waiting: deque[PublishableEvent] = deque()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._connection: Connection | None = None
        self._connected_to: Endpoint | None = None
        self._first_wish_ms: float | None = None
        self._complained_ms = float("-inf")
        self.published = 0
        self.dropped = 0

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="lifecycle")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        self._disconnect()

    def offer(self, event: PublishableEvent) -> None:
        """Takes an event if there is room; never waits, never raises."""
        if event.topic == LIFECYCLE_TOPIC:
            return
        if len(self._waiting) >= MAX_WAITING_EVENTS:
            self.dropped += 1
            return
        self._waiting.append(event)
        self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            await asyncio.sleep(_GATHER_S)
            try:
                await self._publish_waiting()
            except (KafkaError, OSError, TimeoutError) as error:
                logger.debug("lifecycle events wait: %s", error)
                self._disconnect()
                await asyncio.sleep(_RETRY_S)
            except Exception:
                # Nobody else would notice: the events in hand go, the task lives on.
                logger.exception("lifecycle events could not be published")
                self._give_up(min(len(self._waiting), MAX_BATCH_EVENTS))
                await asyncio.sleep(_RETRY_S)
            self._complain()

    async def _publish_waiting(self) -> None:
        while self._waiting:
            leader = await self._leader()
            count = min(len(self._waiting), MAX_BATCH_EVENTS)
            batch = encode(islice(self._waiting, count))
            code = await self._produce(leader, batch)
            if code in _RETRIABLE:
                raise KafkaError(code)
            if code is ErrorCode.NONE:
                self._forget(count)
                self.published += count
            else:
                logger.warning("lifecycle events are refused: %s", code.text)
                self._give_up(count)
        self._wake.clear()

    def _forget(self, count: int) -> None:
        for _ in range(count):
            self._waiting.popleft()

    def _give_up(self, count: int) -> None:
        self._forget(count)
        self.dropped += count

    def _complain(self) -> None:
        now_ms = self._broker.runtime.clock.monotonic_ms()
        if self.dropped and now_ms - self._complained_ms >= _COMPLAIN_EVERY_MS:
            self._complained_ms = now_ms
            logger.warning("%d lifecycle events were dropped so far", self.dropped)

    # the topic

    async def _leader(self) -> int:
        """Who leads the topic's partition; raises KafkaError while nobody does."""
        state = self._broker.metadata_cache.partition_state(_PARTITION)
        if state is None and self._broker.controller.is_active:
            await self._create_topic()
            state = self._broker.metadata_cache.partition_state(_PARTITION)
        if state is None or state.leader < 0:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        return int(state.leader)

    async def _create_topic(self) -> None:
        broker = self._broker
        alive = len(broker.metadata_cache.alive_brokers())
        now_ms = broker.runtime.clock.monotonic_ms()
        if self._first_wish_ms is None:
            self._first_wish_ms = now_ms
        # `ottla up` sets this to the number of brokers that it starts, at most three.
        expected = broker.config.integer("offsets.topic.replication.factor")
        in_time = now_ms - self._first_wish_ms < _BROKERS_WAIT_MS
        if alive == 0 or (in_time and alive < min(MAX_REPLICATION_FACTOR, expected)):
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        request = m.CreateTopicsRequest
        topic = request.CreatableTopic(
            name=LIFECYCLE_TOPIC,
            num_partitions=1,
            replication_factor=min(MAX_REPLICATION_FACTOR, alive),
            configs=[request.CreatableTopicConfig(name="cleanup.policy", value="delete")],
        )
        (result,) = await broker.topic_admin.create_topics([topic], timeout_ms=_REQUEST_TIMEOUT_MS)
        if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise KafkaError(ErrorCode(result.error_code), result.error_message)

    # the records

    async def _produce(self, leader: int, batch: bytearray) -> ErrorCode:
        broker = self._broker
        if leader == broker.broker_id:
            results = await broker.replica_manager.appends.append(
                {_PARTITION: memoryview(batch)},
                acks=_ACKS_LEADER,
                timeout_ms=_REQUEST_TIMEOUT_MS,
                client_id=_CLIENT_ID,
            )
            return results[_PARTITION].error
        request = m.ProduceRequest
        connection = await self._connect(leader)
        response = await connection.send(
            request(
                acks=_ACKS_LEADER,
                timeout_ms=_REQUEST_TIMEOUT_MS,
                topic_data=[
                    request.TopicProduceData(
                        name=LIFECYCLE_TOPIC,
                        partition_data=[
                            request.PartitionProduceData(index=0, records=memoryview(batch))
                        ],
                    )
                ],
            ),
            _PRODUCE_VERSION,
            timeout_ms=_REQUEST_TIMEOUT_MS,
        )
        return ErrorCode(response.responses[0].partition_responses[0].error_code)

    async def _connect(self, leader: int) -> Connection:
        broker = self._broker
        listener = broker.config.inter_broker_listener
        endpoint = broker.metadata_cache.endpoint(leader, listener)
        if endpoint is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        connection = self._connection
        if connection is None or connection.closed or endpoint != self._connected_to:
            self._disconnect()
            connection = await Connection.open(
                broker.runtime.network,
                endpoint.host,
                endpoint.port,
                client_id=_CLIENT_ID,
                timeout_ms=_REQUEST_TIMEOUT_MS,
                sasl=peer_credentials(broker.config, listener),
            )
            self._connection, self._connected_to = connection, endpoint
        return connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
