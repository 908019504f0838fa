"""Transaction markers: written to the partitions that this broker leads, sent to the brokers that
lead the others (TransactionMarkerChannelManager, WriteTxnMarkers).

What is due for one broker at the same time goes in one request; one request per broker is under
way. A partition is tried again until its leader has written the marker, or it is gone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from ottla.coordinator.ports import CoordinatorReplicas
from ottla.errors import ErrorCode, OttlaError
from ottla.runtime import Clock
from ottla.topics.names import OFFSETS_TOPIC
from ottla.types import TopicPartition
from ottla.wire import messages as m
from ottla.wire import records

logger = logging.getLogger(__name__)

# Version 1 is that of inter.broker.protocol.version 2.8; every peer has it.
_WRITE_TXN_MARKERS_VERSION = 1
_MAX_MARKERS_PER_REQUEST = 500
_RETRY_S = 0.1
_UNEXPECTED_RETRY_S = 1.0

_DONE = frozenset(
    {
        ErrorCode.NONE,
        # The partition's log has no room for transactions: there is nothing to end in it.
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
_RETRIED = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
# Another coordinator or another producer has taken over: this one has nothing to say any more.
_FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})


class MarkerOrder(NamedTuple):
    """How one transaction ended, and where that is to be written."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    partitions: frozenset[TopicPartition]


class EndOffsets(Protocol):
    """The group coordinator's `TransactionalOffsets.end`."""

    def __call__(self, partition: int, producer_id: int, *, committed: bool) -> None: ...


class MarkerWrites:
    """Markers for partitions that this broker leads."""

    def __init__(
        self,
        clock: Clock,
        replicas: CoordinatorReplicas,
        end_offsets: EndOffsets,
        timeout_ms: int,
    ) -> None:
        self._clock = clock
        self._replicas = replicas
        self._end_offsets = end_offsets
        self._timeout_ms = timeout_ms

    async def write(self, orders: Sequence[MarkerOrder]) -> list[dict[TopicPartition, ErrorCode]]:
        """One answer per order, once the in-sync replicas have the markers."""
        return list(await asyncio.gather(*(self._write(order) for order in orders)))

    async def _write(self, order: MarkerOrder) -> dict[TopicPartition, ErrorCode]:
        marker = records.build_marker(
            producer_id=order.producer_id,
            producer_epoch=order.producer_epoch,
            commit=order.commit,
            coordinator_epoch=order.coordinator_epoch,
            timestamp_ms=self._clock.now_ms(),
        )
        results = await self._replicas.appends.append(
            {tp: memoryview(bytearray(marker)) for tp in sorted(order.partitions)},
            acks=-1,
            timeout_ms=self._timeout_ms,
            internal_topics_allowed=True,
            from_coordinator=True,
        )
        errors = {tp: ErrorCode(result.error) for tp, result in results.items()}
        for tp, error in errors.items():
            if tp.topic == OFFSETS_TOPIC and error is ErrorCode.NONE:
                self._end_offsets(tp.partition, order.producer_id, committed=order.commit)
        return errors


class LeaderLookup(Protocol):
    """The part of the metadata cache that says who leads."""

    def partition_state(self, tp: TopicPartition) -> Any | None: ...

    def broker(self, broker_id: int) -> Any | None: ...


class Peers(Protocol):
    async def send(
        self, broker_id: int, message: m.WriteTxnMarkersRequest, version: int, *, timeout_ms: float
    ) -> Any:
        """The decoded answer; raises OSError or TimeoutError."""


@dataclass(slots=True, eq=False)
class _Delivery:
    order: MarkerOrder
    left: set[TopicPartition]
    on_settled: Callable[[Collection[TopicPartition]], None]
    # True: every marker is written. False: another coordinator has taken over.
    done: asyncio.Future[bool]


class MarkerSender:
    """Brings markers to the leaders of their partitions."""

    def __init__(
        self,
        broker_id: int,
        leaders: LeaderLookup,
        writes: MarkerWrites,
        peers: Peers,
        timeout_ms: int,
    ) -> None:
        self._broker_id = broker_id
        self._leaders = leaders
        self._writes = writes
        self._peers = peers
        self._timeout_ms = timeout_ms
        self._queues: dict[int, dict[_Delivery, set[TopicPartition]]] = {}
        self._workers: dict[int, asyncio.Task[None]] = {}
        # Brokers whose failure is in the log already; they are tried many times a second.
        self._unreachable: set[int] = set()

    async def deliver(
        self, order: MarkerOrder, on_settled: Callable[[Collection[TopicPartition]], None]
    ) -> bool:
        """Waits until all markers are written; False if another coordinator has taken over.
        `on_settled` hears of partitions that have theirs, or are gone. Whoever cancels this takes
        the order back."""
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        delivery = _Delivery(order, set(order.partitions), on_settled, done)
        self._enqueue(delivery, order.partitions)
        self._check(delivery)
        return await done

    async def shutdown(self) -> None:
        workers = list(self._workers.values())
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)

    # --- queues -----------------------------------------------------------------------------

    def _enqueue(self, delivery: _Delivery, partitions: Iterable[TopicPartition]) -> None:
        leaderless: set[TopicPartition] = set()
        gone: set[TopicPartition] = set()
        # Before the controller has told this broker of the cluster nothing can be said to be gone.
        knows_cluster = self._leaders.broker(self._broker_id) is not None
        for tp in sorted(partitions):
            state = self._leaders.partition_state(tp)
            if state is None and knows_cluster:
                logger.info("%s is gone, no marker of producer %d", tp, delivery.order.producer_id)
                gone.add(tp)
            elif state is None or state.leader < 0:
                leaderless.add(tp)
            else:
                queue = self._queues.setdefault(state.leader, {})
                queue.setdefault(delivery, set()).add(tp)
                if state.leader not in self._workers:
                    work = self._work(state.leader)
                    self._workers[state.leader] = asyncio.get_running_loop().create_task(work)
        self._settle(delivery, gone)
        if leaderless:
            self._retry(delivery, leaderless, _RETRY_S)

    def _retry(self, delivery: _Delivery, partitions: set[TopicPartition], delay_s: float) -> None:
        def again() -> None:
            if not delivery.done.done():
                self._enqueue(delivery, partitions)
                self._check(delivery)

        asyncio.get_running_loop().call_later(delay_s, again)

    def _settle(self, delivery: _Delivery, partitions: Collection[TopicPartition]) -> None:
        if partitions:
            delivery.left.difference_update(partitions)
            delivery.on_settled(partitions)

    def _check(self, delivery: _Delivery) -> None:
        if not delivery.left and not delivery.done.done():
            delivery.done.set_result(True)

    async def _work(self, broker_id: int) -> None:
        """Lives as long as something is due for the broker."""
        try:
            while queue := self._queues.pop(broker_id, None):
                due = [item for item in queue.items() if not item[0].done.done()]
                for start in range(0, len(due), _MAX_MARKERS_PER_REQUEST):
                    await self._send(broker_id, dict(due[start : start + _MAX_MARKERS_PER_REQUEST]))
        finally:
            del self._workers[broker_id]

    async def _send(self, broker_id: int, due: Mapping[_Delivery, set[TopicPartition]]) -> None:
        orders = [
            delivery.order._replace(partitions=frozenset(partitions))
            for delivery, partitions in due.items()
        ]
        try:
            if broker_id == self._broker_id:
                answers = await self._writes.write(orders)
            else:
                answers = await self._send_to_peer(broker_id, orders)
        except (OSError, TimeoutError, OttlaError) as error:
            if broker_id not in self._unreachable:
                logger.info("broker %d cannot be sent transaction markers: %s", broker_id, error)
                self._unreachable.add(broker_id)
            for delivery, partitions in due.items():
                self._retry(delivery, partitions, _RETRY_S)
            return
        self._unreachable.discard(broker_id)
        for (delivery, partitions), errors in zip(due.items(), answers, strict=True):
            self._take_answer(delivery, partitions, errors)

    async def _send_to_peer(
        self, broker_id: int, orders: Sequence[MarkerOrder]
    ) -> list[dict[TopicPartition, ErrorCode]]:
        response = await self._peers.send(
            broker_id,
            markers_request(orders),
            _WRITE_TXN_MARKERS_VERSION,
            timeout_ms=self._timeout_ms,
        )
        found = {
            marker.producer_id: {
                TopicPartition(topic.name, each.partition_index): _code(each.error_code)
                for topic in marker.topics
                for each in topic.partitions
            }
            for marker in response.markers
        }
        # A producer has one transaction at a time, so its id says which order is meant.
        return [found.get(order.producer_id, {}) for order in orders]

    # --- answers ----------------------------------------------------------------------------

    def _take_answer(
        self,
        delivery: _Delivery,
        partitions: set[TopicPartition],
        errors: Mapping[TopicPartition, ErrorCode],
    ) -> None:
        if delivery.done.done():
            return
        self._settle(delivery, [tp for tp in partitions if errors.get(tp) in _DONE])
        again: set[TopicPartition] = set()
        delay_s = _RETRY_S
        for tp in partitions & delivery.left:
            error = errors.get(tp, ErrorCode.UNKNOWN_SERVER_ERROR)
            if error in _FENCED:
                logger.info("%s refuses a marker: %s", tp, error.name)
                delivery.done.set_result(False)
                return
            again.add(tp)
            if error not in _RETRIED:
                logger.error("%s refuses a transaction marker: %s", tp, error.name)
                delay_s = _UNEXPECTED_RETRY_S
        if again:
            self._retry(delivery, again, delay_s)
        self._check(delivery)


def markers_request(orders: Sequence[MarkerOrder]) -> m.WriteTxnMarkersRequest:
    request = m.WriteTxnMarkersRequest
    return request(
        markers=[
            request.WritableTxnMarker(
                producer_id=order.producer_id,
                producer_epoch=order.producer_epoch,
                transaction_result=order.commit,
                topics=[
                    request.WritableTxnMarkerTopic(name=topic, partition_indexes=partitions)
                    for topic, partitions in by_topic(order.partitions).items()
                ],
                coordinator_epoch=order.coordinator_epoch,
            )
            for order in orders
        ]
    )


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers by topic, both in order."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        grouped.setdefault(topic, []).append(partition)
    return grouped


def _code(number: int) -> ErrorCode:
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
