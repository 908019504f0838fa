"""What a request costs, for whoever counts: the quotas of clients and the numbers of operators."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from types import coroutine
from typing import TYPE_CHECKING, Any

from ottla.broker.metrics.counts import Served
from ottla.broker.quotas.clients import Spending
from ottla.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.context.services import BrokerServices
    from ottla.broker.metrics.counts import RequestMetrics
    from ottla.broker.quotas.clients import ClientQuotas
    from ottla.broker.requests.dispatch import Call
    from ottla.runtime import Clock


def open_bill(services: BrokerServices, size_bytes: int, principal: str) -> Bill | None:
    """Before a request is read. None where nobody counts: it stays so until its answer has left,
    even where the first quota is set meanwhile."""
    quotas, metrics = services.client_quotas, services.request_metrics
    if quotas is not None and not quotas.is_active:
        quotas = None
    if quotas is None and metrics is None:
        return None
    return Bill(services.runtime.clock, quotas, metrics, size_bytes, principal)


def asked_wait_ms(response: Any) -> int:
    """The wait that a handler asks its client for (KIP-599)."""
    wait_ms: int = getattr(response, "throttle_time_ms", 0)
    return wait_ms


class Bill:
    """The cost of one request, from its bytes to those of its answer.

    Times are of the monotonic clock, not the loop's: that stands still while a request is served.
    """

    __slots__ = (
        "_begun_ms",
        "_busy_ms",
        "_call",
        "_is_charged",
        "_metrics",
        "_now_ms",
        "_principal",
        "_quotas",
        "_size_bytes",
        "_work_since_ms",
    )

    def __init__(
        self,
        clock: Clock,
        quotas: ClientQuotas | None,
        metrics: RequestMetrics | None,
        size_bytes: int,
        principal: str,
    ) -> None:
        self._now_ms = clock.monotonic_ms
        self._quotas = quotas
        self._metrics = metrics
        self._size_bytes = size_bytes
        self._principal = principal
        self._is_charged = False
        # How long the broker has worked on it, and since when it does so now.
        self._busy_ms = 0.0
        self._work_since_ms = 0.0 if quotas is None else self._now_ms()
        # When its handler began.
        self._begun_ms = 0.0
        self._call: Call

    def run(self, call: Call) -> Coroutine[Any, Any, Any]:
        """The request's handler, measured where its client has to pay for the time."""
        self._call = call
        if call.header is None:
            self._quotas = None  # nobody knows yet whose it is
        if self._metrics is not None:
            self._begun_ms = self._now_ms()
        if self._quotas is None:
            running: Coroutine[Any, Any, Any] = call.running
            return running
        self._busy_ms = self._now_ms() - self._work_since_ms
        return self._timed(call.running)

    @coroutine
    def _timed(self, running: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Runs a handler and adds up the time of its steps, not of its waits."""
        sent: Any = None
        thrown: BaseException | None = None
        while True:
            begun_ms = self._now_ms()
            try:
                waiting = running.send(sent) if thrown is None else running.throw(thrown)
            except StopIteration as stop:
                return stop.value
            finally:
                self._busy_ms += self._now_ms() - begun_ms
            try:
                sent, thrown = (yield waiting), None
            except BaseException as error:  # cancellation must reach the coroutine
                thrown = error

    def charge(self, response: Any, error: Exception | None = None) -> int:
        """How long the client is to be silent, which its answer says too. It pays only once, even
        where its answer turns out to be none and an error takes its place."""
        wait_ms = asked_wait_ms(response)
        quotas = self._quotas
        if quotas is None:
            return wait_ms
        if quotas.is_active and not self._is_charged:
            self._is_charged = True
            wait_ms = quotas.charge(self._spent(self._busy_ms), response, error)
        self._work_since_ms = self._now_ms()
        return wait_ms

    def fail(self, error: Exception) -> int:
        """The handler raised an error; how long the client is to be silent."""
        if self._metrics is not None:
            code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
            self._metrics.failed(self._served(), code, self._now_ms() - self._begun_ms)
        return self.charge(None, error)

    def close(self, response: Any) -> None:
        """The answer is encoded and on its way."""
        if self._quotas is not None:
            self._quotas.add_time(self._spent(self._now_ms() - self._work_since_ms))
        if self._metrics is not None:
            self._metrics.answered(self._served(), response, self._now_ms() - self._begun_ms)

    def _spent(self, busy_ms: float) -> Spending:
        call = self._call
        client_id = None if call.header is None else call.header.client_id
        api_key = call.loaded.route.api_key
        return Spending(
            self._principal, client_id, api_key, call.request, self._size_bytes, busy_ms
        )

    def _served(self) -> Served:
        route = self._call.loaded.route
        return Served(route.api_key, route.name, self._call.answer_version, self._call.request)
