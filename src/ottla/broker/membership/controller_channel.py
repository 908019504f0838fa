"""Requests of this broker to whichever broker is the controller now (`ports.ControllerClient`).

The controller is the one that the last UpdateMetadata named; its address comes from the same
cache. One connection is kept and made anew when the controller moves or the connection breaks.
Nobody waits for a controller that was replaced: it may stand still and never say so.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.client.connection import Connection

if TYPE_CHECKING:
    from ottla.broker.membership.metadata_cache import MetadataCache
    from ottla.runtime import Network
    from ottla.security.sasl.exchange import Credentials
    from ottla.types import Endpoint
    from ottla.wire.codec import Message


class ControllerChannel:
    """One connection, many requests in flight."""

    def __init__(
        self,
        network: Network,
        metadata_cache: MetadataCache,
        listener: str,
        broker_id: int,
        credentials: Credentials | None = None,
    ) -> None:
        self._network = network
        self._cache = metadata_cache
        self._listener = listener
        self._client_id = str(broker_id)
        self._credentials = credentials
        self._connection: Connection | None = None
        self._connected_to: Endpoint | None = None
        self._connecting = asyncio.Lock()
        # The patience of a connection that is being made, and where to.
        self._attempt: tuple[asyncio.Timeout, Endpoint] | None = None
        metadata_cache.add_listener(self._leave_old_controller)

    async def send(self, message: Message, version: int, *, timeout_ms: float) -> object:
        """The decoded response; raises ConnectionError, another OSError or TimeoutError."""
        connection = await self._connect(timeout_ms)
        return await connection.send(message, version, timeout_ms=timeout_ms)

    async def _connect(self, timeout_ms: float) -> Connection:
        async with self._connecting:
            controller_id = self._cache.controller_id
            endpoint = self._cache.endpoint(controller_id, self._listener)
            if endpoint is None:
                raise ConnectionError(
                    "no controller is known"
                    if controller_id < 0
                    else f"controller {controller_id} has no listener {self._listener}"
                )
            connection = self._connection
            if connection is None or connection.closed or endpoint != self._connected_to:
                self.close()
                connection = await self._open(endpoint, timeout_ms)
                self._connection, self._connected_to = connection, endpoint
            return connection

    async def _open(self, endpoint: Endpoint, timeout_ms: float) -> Connection:
        try:
            async with asyncio.timeout(timeout_ms / 1000) as patience:
                self._attempt = (patience, endpoint)
                return await Connection.open(
                    self._network,
                    endpoint.host,
                    endpoint.port,
                    client_id=self._client_id,
                    timeout_ms=timeout_ms,
                    sasl=self._credentials,
                )
        finally:
            self._attempt = None

    def _leave_old_controller(self, _: frozenset[str]) -> None:
        """Fails what waits for a controller that is no longer the one."""
        endpoint = self._cache.endpoint(self._cache.controller_id, self._listener)
        if self._connection is not None and endpoint != self._connected_to:
            self.close()
        if self._attempt is not None and endpoint != self._attempt[1]:
            self._attempt[0].reschedule(asyncio.get_running_loop().time())

    async def shutdown(self) -> None:
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close("the controller has moved, or this broker stops")
            self._connection = None
