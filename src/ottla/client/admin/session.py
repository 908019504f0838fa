"""What all administration calls share: the cluster, the time-outs, the way to the controller."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ottla.client.cluster import DEFAULT_TIMEOUT_MS, Cluster, response_error
from ottla.errors import ErrorCode, KafkaError

# How much longer to wait for the answer than the time the server is given.
_ANSWER_MARGIN_MS = 1_000


class AdminSession:
    def __init__(self, cluster: Cluster, *, timeout_ms: float = DEFAULT_TIMEOUT_MS) -> None:
        self.cluster = cluster
        self._timeout_ms = timeout_ms

    @property
    def _server_timeout_ms(self) -> int:
        return int(self._timeout_ms)

    async def _to_controller(
        self,
        request: Any,
        results: Callable[[Any], Iterable[Any]],
        *,
        min_version: int = 0,
        max_version: int | None = None,
    ) -> Any:
        """NOT_CONTROLLER comes for every result at once: the server has done nothing yet.

        A controller that says nothing leaves its successor as much time as it was given itself,
        as default.api.timeout.ms is twice request.timeout.ms.
        """
        return await self.cluster.send_to_controller(
            request,
            timeout_ms=2 * self._timeout_ms + _ANSWER_MARGIN_MS,
            answer_ms=self._timeout_ms + _ANSWER_MARGIN_MS,
            min_version=min_version,
            max_version=max_version,
            is_misdirected=lambda answer: any(
                result.error_code == ErrorCode.NOT_CONTROLLER for result in results(answer)
            ),
        )


def error_or_none(code: int, message: str | None = None) -> KafkaError | None:
    return response_error(code, message) if code else None
