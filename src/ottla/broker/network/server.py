"""A listening socket of the broker and the connections made to it.

Idle connections are found by one sweep for all of them, so that 5,000 silent peers cost neither
timers nor tasks. Sockets open before the broker can serve: until `start_processing` connections
are accepted but not read (KafkaServer opens its sockets early in the same way).
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from ottla.bounds.repeated_lines import RepeatedLines
from ottla.broker.network.connection import ClientConnection
from ottla.broker.network.connection import logger as connection_logger
from ottla.broker.network.intake import ReadingTurn
from ottla.broker.network.limits import ConnectionQuotas
from ottla.broker.network.memory import SMALL_BYTES, ConnectionMemory, limit_of
from ottla.broker.network.shared_appends import SharedAppends
from ottla.broker.requests import dispatch
from ottla.errors import InvariantViolated

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.context.services import BrokerServices
    from ottla.broker.network.admission import Admission
    from ottla.broker.network.answers import Answers
    from ottla.broker.quotas.connection_rates import Turn
    from ottla.broker.requests.authentication import Authentication
    from ottla.config.broker import BrokerConfig
    from ottla.runtime import Runtime, Server
    from ottla.security.login_delays import LoginDelays
    from ottla.security.sasl.mechanisms import SaslSettings, SaslUsers
    from ottla.security.sasl.server import Authenticated
    from ottla.security.tls.transport import TlsEndpoint
    from ottla.types import Endpoint

logger = logging.getLogger(__name__)

_SWEEP_MIN_S = 0.05
_SWEEP_MAX_S = 30.0
_CLOSE_GRACE_S = 0.5
# A peer that began a request and then sends nothing has given it up by now: clients wait 30 s for
# an answer (request.timeout.ms).
UNFINISHED_FRAME_S = 60.0
# What one read takes at most. Each listener has one such buffer, however many connections it has.
READ_BYTES = 256 * 1024


def _sasl_settings(config: BrokerConfig, endpoint: Endpoint) -> SaslSettings | None:
    if not endpoint.security_protocol.startswith("SASL_"):
        return None
    from ottla.security.listeners import sasl_settings  # brokers without SASL start without it

    return sasl_settings(config, endpoint.listener)


class BrokerServer:
    """One listener."""

    def __init__(
        self,
        runtime: Runtime,
        config: BrokerConfig,
        endpoint: Endpoint,
        quotas: ConnectionQuotas | None = None,
        memory: ConnectionMemory | None = None,
        sasl_users: SaslUsers | None = None,
        login_delays: LoginDelays | None = None,
        tls: TlsEndpoint | None = None,
    ) -> None:
        """`quotas` counts the connections of all listeners of a broker, `memory` what they hold;
        those that ask for SASL need `sasl_users` and `login_delays`, those with TLS `tls`."""
        self.listener = endpoint.listener
        self.processing = False
        self.max_request_bytes = config.integer("socket.request.max.bytes")
        # Of a peer that is not authenticated yet.
        self.max_token_bytes = config.integer("sasl.server.max.receive.size")
        self.read_buffer = memoryview(bytearray(READ_BYTES))
        self.small_read_buffer = self.read_buffer[:SMALL_BYTES]
        self.memory = memory or ConnectionMemory(limit_of(config))
        self.now_ms = runtime.clock.monotonic_ms
        self.shared_appends = SharedAppends(self.listener)
        self.turn = ReadingTurn(self._everybody_was_read)
        # Requests that went to a handler.
        self.handled_requests = 0
        self.closings = RepeatedLines(connection_logger, runtime.clock)
        self.failures = RepeatedLines(dispatch.logger, runtime.clock)
        self._sasl = _sasl_settings(config, endpoint)
        self._sasl_users = sasl_users
        self._login_delays = login_delays
        if endpoint.security_protocol.endswith("SSL") and tls is None:
            raise InvariantViolated("a listener with TLS would be served in the clear")
        self._tls = tls
        self._runtime = runtime
        self._endpoint = endpoint
        self._quotas = quotas or ConnectionQuotas(config)
        self._idle_s = config.integer("connections.max.idle.ms") / 1000
        # A dict keeps the order of arrival, which a simulation can repeat.
        self._connections: dict[ClientConnection, None] = {}
        self._services: BrokerServices | None = None
        self._server: Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._last_gone: asyncio.Event | None = None

    def _everybody_was_read(self) -> None:
        if self._services is not None:
            self.shared_appends.flush(self._services.replica_manager.appends)

    @property
    def services(self) -> BrokerServices:
        if self._services is None:
            raise InvariantViolated("a request was read before the broker's services were there")
        return self._services

    @property
    def port(self) -> int:
        if self._server is None:
            raise InvariantViolated("the listener is not open")
        return self._server.port

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def new_admission(self, connection: ClientConnection, answers: Answers) -> Admission | None:
        """What a new connection has to pass first; None where the listener asks for nothing."""
        if self._sasl is None:
            return None
        from ottla.broker.network.admission import Admission

        return Admission(self, connection, answers)

    def new_authentication(self, before: Authenticated | None = None) -> Authentication:
        """For a new connection, or once more for one that is through."""
        if self._sasl is None or self._sasl_users is None:
            raise InvariantViolated("a listener without SASL is asked for an authentication")
        from ottla.broker.requests.authentication import Authentication

        return Authentication(self._sasl, self._sasl_users, self._runtime.clock, before)

    def login_wait_s(self, host: str, name: str, *, is_refused: bool) -> float | None:
        """How long the outcome of an authentication is held back; None where too many are."""
        delays = self._login_delays
        if delays is None:
            raise InvariantViolated("a listener with SASL has no delays")
        after = delays.after_failure if is_refused else delays.after_success
        wait_ms = after(host, name, self.monotonic_ms())
        return None if wait_ms is None else wait_ms / 1000

    def monotonic_ms(self) -> float:
        return self._runtime.clock.monotonic_ms()

    def time(self) -> float:
        """Seconds of the event loop's clock (virtual in simulation)."""
        return self.loop.time()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        # Remembered: asking for it is a system call in Python 3.11 (getpid).
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop

    async def open(self) -> None:
        """Binds the socket; raises OSError."""
        self._server = await self._runtime.network.listen(
            self._connection_factory(), self._endpoint.host, self._endpoint.port
        )

    def _connection_factory(self) -> Callable[[], asyncio.BaseProtocol]:
        if self._tls is None:
            return lambda: ClientConnection(self)
        from ottla.security.tls.transport import TlsServer  # brokers without TLS start without it

        tls = TlsServer(self._tls, self.listener)
        return lambda: tls.wrap(ClientConnection(self))

    def start_processing(self, services: BrokerServices) -> None:
        """From now on requests are read, on the connections made so far as well."""
        self._services = services
        self.processing = True
        for connection in tuple(self._connections):
            connection.start_processing()
        self._schedule_sweep()

    def receive(self, connection: ClientConnection) -> Turn:
        """Counts a new connection in and says when it is served, or why it is refused."""
        now_ms = self._runtime.clock.monotonic_ms()
        turn = self._quotas.receive(connection, self.listener, now_ms)
        if turn.refusal is None or turn.wait_ms:
            self._connections[connection] = None
        return turn

    def forget(self, connection: ClientConnection) -> None:
        self._connections.pop(connection, None)
        self._quotas.release(connection)
        if self._last_gone is not None and not self._connections:
            self._last_gone.set()

    def reconfigure(self, config: BrokerConfig) -> None:
        """Takes over limits on connections that changed while the broker runs."""
        self._quotas.reconfigure(config)

    async def close(self) -> None:
        """Stops listening, ends all connections and what they wait for."""
        self.processing = False
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._server is not None:
            await self._server.close()
        for connection in tuple(self._connections):
            connection.cancel()
            connection.close()
        # Answers on their way may still leave; a peer that does not read is cut off.
        if self._connections:
            self._last_gone = asyncio.Event()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._last_gone.wait(), _CLOSE_GRACE_S)
        for connection in tuple(self._connections):
            connection.abort()
        self.memory.close()

    def _schedule_sweep(self) -> None:
        interval = min(max(self._idle_s / 4, _SWEEP_MIN_S), _SWEEP_MAX_S)
        self._sweeper = asyncio.get_running_loop().call_later(interval, self._sweep)

    def _sweep(self) -> None:
        oldest = self.time() - self._idle_s
        stalled_since = self.time() - UNFINISHED_FRAME_S
        stalled = 0
        for connection in tuple(self._connections):
            if connection.last_active < oldest and not connection.busy:
                connection.abort()
            elif connection.last_active < stalled_since and connection.intake.is_amid_frame:
                connection.abort()
                stalled += 1
        if stalled:
            logger.warning(
                "closed %d connections on listener %s: half of a request, then nothing for %d s",
                stalled,
                self.listener,
                UNFINISHED_FRAME_S,
            )
        self._schedule_sweep()
