"""Connections of the transaction coordinator to other brokers, one each, made when needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.client.connection import Connection

if TYPE_CHECKING:
    from ottla.runtime import Network
    from ottla.security.sasl.exchange import Credentials
    from ottla.types import Endpoint
    from ottla.wire.codec import Message


class PeerChannels:
    """`endpoint_of` gives a live broker's address on the inter-broker listener, None without."""

    def __init__(
        self,
        network: Network,
        endpoint_of: Callable[[int], Endpoint | None],
        broker_id: int,
        credentials: Credentials | None = None,
    ) -> None:
        self._network = network
        self._endpoint_of = endpoint_of
        self._client_id = f"broker-{broker_id}-txn-marker-sender"
        self._credentials = credentials
        self._connections: dict[int, tuple[Endpoint, Connection]] = {}

    async def send(
        self, broker_id: int, message: Message, version: int, *, timeout_ms: float
    ) -> Any:
        """The decoded answer; raises OSError or TimeoutError. One call per broker at a time."""
        connection = await self._connect(broker_id, timeout_ms)
        return await connection.send(message, version, timeout_ms=timeout_ms)

    async def _connect(self, broker_id: int, timeout_ms: float) -> Connection:
        endpoint = self._endpoint_of(broker_id)
        if endpoint is None:
            self._drop(broker_id)
            raise ConnectionError(f"broker {broker_id} is not alive")
        known = self._connections.get(broker_id)
        if known is not None and known[0] == endpoint and not known[1].closed:
            return known[1]
        self._drop(broker_id)
        connection = await Connection.open(
            self._network,
            endpoint.host,
            endpoint.port,
            client_id=self._client_id,
            timeout_ms=timeout_ms,
            sasl=self._credentials,
        )
        self._connections[broker_id] = (endpoint, connection)
        return connection

    def _drop(self, broker_id: int) -> None:
        known = self._connections.pop(broker_id, None)
        if known is not None:
            known[1].close()

    async def shutdown(self) -> None:
        for broker_id in list(self._connections):
            self._drop(broker_id)
