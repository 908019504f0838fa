"""What a resize asks of the controller and of coordinators, over connections that stay open: while
the topic is fenced, every new one would be time in which nothing can be written."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.client.admin.client import Admin
from ottla.errors import ErrorCode, KafkaError
from ottla.pipelines.copy import clone_groups
from ottla.pipelines.copy.ends import CopyError, Endpoint
from ottla.spark.errors import SourceError
from ottla.spark.kafka import KafkaClient

if TYPE_CHECKING:
    from ottla.client.admin.resizing import ResizeBegun, ResizeEnd
    from ottla.spark.loop_thread import Work

T = TypeVar("T")

_HEARTBEAT_S = 2.0


class ResizeSteps:
    """Plain calls, which raise CopyError; `code_of` says what it was."""

    def __init__(self, source: Endpoint, begun: ResizeBegun) -> None:
        self._topic = source.topic
        self._begun = begun
        connect = source.options("read_committed").connect
        self._client = KafkaClient(connect)
        self._admin = Admin(self._client.cluster, timeout_ms=connect.timeout_ms)
        # Brokers serve the requests of a connection one after the other: behind one that waits, as
        # that for the swap does while groups are staged, nobody would hear this.
        self._pulse = KafkaClient(connect)
        self._pulse_admin = Admin(self._pulse.cluster, timeout_ms=connect.timeout_ms)

    def connect(self) -> None:
        """To everybody who will be asked under the fence."""
        pulse = self._pulse.begin(self._pulse_admin.resizes(self._topic))
        self._run(self._admin.resizes(self._topic))
        self._run(clone_groups.committed(self._admin, self._topic))
        with _plain_errors():
            self._pulse.result(pulse)

    def fence(self) -> int:
        """Its number, when it stands."""
        return self._run(self._admin.fence_resize(self._topic, self._begun.topic_id))

    @contextmanager
    def kept_fenced(self, fence: int) -> Iterator[None]:
        """Says all the while that the fence is still wanted."""
        beat = self._pulse.begin(self._beat(fence))
        try:
            yield
        finally:
            beat.cancel()

    def ends(self, fence: int) -> dict[int, int]:
        """Where the topic ends, as its leaders have told the controller."""
        return self._run(self._admin.fenced_ends(self._topic, self._begun.topic_id, fence))

    def begin_positions(self) -> Work[dict[str, dict[int, int]]]:
        """Of groups, for `positions`."""
        return self._client.begin(clone_groups.committed(self._admin, self._topic))

    def positions(self, work: Work[dict[str, dict[int, int]]]) -> dict[str, dict[int, int]]:
        with _plain_errors():
            return self._client.result(work)

    def finish(
        self, fence: int, groups: Mapping[str, Mapping[int, int]], *, guards_keys: bool
    ) -> ResizeEnd:
        return self._run(
            self._admin.finish_resize(
                self._topic, self._begun, fence, groups, guards_keys=guards_keys
            )
        )

    def close(self) -> None:
        self._pulse.close()
        self._client.close()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        with _plain_errors():
            return self._client.run(coroutine)

    async def _beat(self, fence: int) -> None:
        """Where the fence is not there any more, the end says so."""
        while True:
            await asyncio.sleep(_HEARTBEAT_S)
            await self._pulse_admin.fence_resize(self._topic, self._begun.topic_id, fence)


def code_of(error: CopyError) -> ErrorCode | None:
    """What a broker answered; None where it was something else."""
    cause = error.__cause__
    return cause.code if isinstance(cause, KafkaError) else None


@contextmanager
def _plain_errors() -> Iterator[None]:
    try:
        yield
    except SourceError as error:
        raise CopyError(str(error.__cause__ or error)) from error.__cause__
