"""One line to each broker: requests go out in order, one at a time (ControllerChannelManager).

A request that fails is sent again after a short pause, on a new connection, until it is answered
or the broker is gone: brokers ignore what they have already seen by its epochs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from ottla.controller.steps import ControlRequest
from ottla.errors import InvariantViolated
from ottla.metadata.znodes import BrokerInfo
from ottla.wire.codec import Message, WireError

logger = logging.getLogger("ottla.controller")

RETRY_PAUSE_MS = 100
# A broker that is registered but silent while this many requests pile up: the controller gives
# up its office, and its successor starts with one complete request instead of the pile.
MAX_WAITING_REQUESTS = 10_000


class ControlConnection(Protocol):
    """`ottla.client.connection.Connection` as far as the controller uses it."""

    async def send(self, message: Message, version: int, *, timeout_ms: float) -> Any: ...

    def close(self) -> None: ...


Connect = Callable[[str, int], Awaitable[ControlConnection]]
OnResponse = Callable[[int, Message, Any], None]


class BrokerChannel:
    def __init__(
        self,
        broker_id: int,
        address: tuple[str, int],
        connect: Connect,
        on_response: OnResponse,
        timeout_ms: float,
    ) -> None:
        self._broker_id = broker_id
        self._address = address
        self._connect = connect
        self._on_response = on_response
        self._timeout_ms = timeout_ms
        self._waiting: asyncio.Queue[ControlRequest] = asyncio.Queue(MAX_WAITING_REQUESTS)
        self._connection: ControlConnection | None = None
        self._task = asyncio.create_task(self._run(), name=f"controller-to-broker-{broker_id}")

    def send(self, request: ControlRequest) -> None:
        try:
            self._waiting.put_nowait(request)
        except asyncio.QueueFull:
            raise InvariantViolated(
                f"{MAX_WAITING_REQUESTS} requests wait for broker {self._broker_id}"
            ) from None

    def close(self) -> None:
        self._task.cancel()
        self._disconnect()

    async def _run(self) -> None:
        while True:
            request = await self._waiting.get()
            try:
                response = await self._deliver(request)
            except WireError as error:
                logger.error("Request for broker %d cannot be sent: %s", self._broker_id, error)
            else:
                self._on_response(self._broker_id, request.message, response)

    async def _deliver(self, request: ControlRequest) -> Any:
        warned = False
        while True:
            try:
                if self._connection is None:
                    self._connection = await self._connect(*self._address)
                return await self._connection.send(
                    request.message, request.version, timeout_ms=self._timeout_ms
                )
            except (OSError, TimeoutError) as error:
                self._disconnect()
                if not warned:
                    logger.warning(
                        "Sending %s to broker %d (%s:%d) failed, trying until it answers: %s",
                        type(request.message).__name__,
                        self._broker_id,
                        *self._address,
                        error or type(error).__name__,
                    )
                    warned = True
                await asyncio.sleep(RETRY_PAUSE_MS / 1000)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class ChannelManager:
    def __init__(
        self, connect: Connect, listener: str, on_response: OnResponse, timeout_ms: float
    ) -> None:
        self._connect = connect
        self._listener = listener
        self._on_response = on_response
        self._timeout_ms = timeout_ms
        self._channels: dict[int, BrokerChannel] = {}

    def open(self, broker: BrokerInfo) -> None:
        endpoint = broker.endpoint(self._listener)
        if endpoint is None:
            logger.error(
                "Broker %d has no listener %s: it gets no requests",
                broker.broker_id,
                self._listener,
            )
            return
        self.close(broker.broker_id)
        self._channels[broker.broker_id] = BrokerChannel(
            broker.broker_id,
            (endpoint.host, endpoint.port),
            self._connect,
            self._on_response,
            self._timeout_ms,
        )

    def close(self, broker_id: int) -> None:
        channel = self._channels.pop(broker_id, None)
        if channel is not None:
            channel.close()

    def close_all(self) -> None:
        for broker_id in list(self._channels):
            self.close(broker_id)

    def send(self, request: ControlRequest) -> None:
        channel = self._channels.get(request.broker_id)
        if channel is not None:
            channel.send(request)
