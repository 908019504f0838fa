"""The way to the coordinator of a group, and to the new one while it moves or loads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.client.cluster import (
    DEFAULT_TIMEOUT_MS,
    RETRIABLE,
    RETRY_PAUSE_MS,
    Cluster,
    Node,
    call_name,
    response_error,
    unreachable,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.wire.codec import Message

T = TypeVar("T")
_GROUP_KEY = 0
# FindCoordinator v4 asks for several groups at once, in other fields.
_FIND_MAX_VERSION = 3
# Ask again: the coordinator is another one, or not ready, or a transaction is about to end.
_MAY_PASS = RETRIABLE | {ErrorCode.UNSTABLE_OFFSET_COMMIT}


class Coordinators:
    """Requests about groups, on a cluster that somebody else opens and closes."""

    def __init__(self, cluster: Cluster, *, timeout_ms: float = DEFAULT_TIMEOUT_MS) -> None:
        self._cluster = cluster
        self._timeout_ms = timeout_ms
        self._known: dict[str, Node] = {}

    async def send(
        self,
        group_id: str,
        request: Message,
        code_of: Callable[[Any], int],
        *,
        versions: tuple[int, int | None] = (0, None),
        answer_ms: float | None = None,
        once: bool = False,
    ) -> tuple[Any, Node]:
        """The answer and who gave it. `code_of` finds the error that may say "ask elsewhere";
        `answer_ms` is for requests that are held back on purpose, `once` for those that mean
        something else a moment later."""
        low, high = versions
        one_request_ms = answer_ms or self._cluster.request_timeout_ms

        async def attempt(left_ms: float) -> tuple[Any, Node]:
            coordinator = self._known.get(group_id)
            if coordinator is None:
                coordinator = await self._find(group_id, left_ms)
                self._known[group_id] = coordinator
            request_ms = min(left_ms, one_request_ms)
            try:
                channel = await self._cluster.channel_to(coordinator.id, timeout_ms=request_ms)
                answer = await channel.send(
                    request, timeout_ms=request_ms, min_version=low, max_version=high
                )
            except OSError as error:
                # Another broker may be the coordinator soon.
                self._known.pop(group_id, None)
                await self._cluster.metadata(timeout_ms=left_ms)
                raise unreachable(call_name(request), error) from error
            code = code_of(answer)
            if code in _MAY_PASS:
                self._known.pop(group_id, None)
                raise response_error(code)
            return answer, coordinator

        if once:
            return await attempt(self._timeout_ms)
        return await self.retry(attempt, timeout_ms=max(self._timeout_ms, answer_ms or 0))

    async def _find(self, group_id: str, timeout_ms: float) -> Node:
        answer = await self._cluster.send_to_any(
            m.FindCoordinatorRequest(key=group_id, key_type=_GROUP_KEY),
            timeout_ms=timeout_ms,
            max_version=_FIND_MAX_VERSION,
        )
        if answer.error_code:
            raise response_error(answer.error_code, answer.error_message)
        return Node(answer.node_id, answer.host, answer.port)

    async def retry(
        self, attempt: Callable[[float], Awaitable[T]], *, timeout_ms: float | None = None
    ) -> T:
        """Repeats what may pass until the time is over."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (timeout_ms or self._timeout_ms) / 1000
        while True:
            try:
                return await attempt(max((deadline - loop.time()) * 1000, 1))
            except KafkaError as error:
                pause_s = RETRY_PAUSE_MS / 1000
                may_pass = error.code in _MAY_PASS or error.code is ErrorCode.REQUEST_TIMED_OUT
                if not may_pass or loop.time() + pause_s > deadline:
                    raise
            await asyncio.sleep(pause_s)
