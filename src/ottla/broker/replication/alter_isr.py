"""ISR changes on their way to the controller (AlterIsrManager, KIP-497).

At most one request is in flight and at most one change per partition is pending. What the answer
means for a partition is the partition's own affair; what failed as a whole is sent again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from ottla.errors import ErrorCode
from ottla.types import TopicPartition
from ottla.wire import messages as m
from ottla.wire.primitives import WireError

if TYPE_CHECKING:
    from ottla.broker.membership.ports import ControllerClient

logger = logging.getLogger(__name__)
_RETRY_MS = 50
_NO_CONTROLLER_RETRY_MS = 100
_REQUEST_TIMEOUT_MS = 30_000
# Partitions per request; the rest follows in the next one.
_MAX_ITEMS = 5_000


class IsrAnswer(NamedTuple):
    """The controller's word on one partition."""

    error: ErrorCode
    leader: int = -1
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    partition_epoch: int = -1


class IsrChange(NamedTuple):
    tp: TopicPartition
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    answered: Callable[[IsrAnswer], None]


class IsrSubmitter(Protocol):
    """Where changes go: the AlterIsrManager, or what stands before it."""

    def submit(self, change: IsrChange) -> bool: ...
    def clear(self, tp: TopicPartition) -> None: ...


class AlterIsrManager:
    def __init__(
        self, controller: ControllerClient, broker_id: int, broker_epoch: Callable[[], int]
    ) -> None:
        self._controller = controller
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._pending: dict[TopicPartition, IsrChange] = {}
        self._task: asyncio.Task[None] | None = None

    def submit(self, change: IsrChange) -> bool:
        """False if the partition has a change on its way already."""
        if change.tp in self._pending:
            return False
        self._pending[change.tp] = change
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._send_all())
        return True

    def clear(self, tp: TopicPartition) -> None:
        """A LeaderAndIsr made the pending change pointless; a late answer is ignored."""
        self._pending.pop(tp, None)

    async def shutdown(self) -> None:
        self._pending.clear()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _send_all(self) -> None:
        try:
            # One turn of the loop, so that changes made together travel together.
            await asyncio.sleep(0)
            while self._pending:
                pause_ms = await self._send_once(list(self._pending.values())[:_MAX_ITEMS])
                if pause_ms:
                    await asyncio.sleep(pause_ms / 1000)
        finally:
            self._task = None

    async def _send_once(self, batch: list[IsrChange]) -> int:
        """Returns how long to wait before the next request, in milliseconds."""
        request = build_request(self._broker_id, self._broker_epoch(), batch)
        try:
            response = cast(
                "m.AlterPartitionResponse",
                await self._controller.send(request, 0, timeout_ms=_REQUEST_TIMEOUT_MS),
            )
        except (OSError, TimeoutError, WireError) as error:
            logger.info("the controller cannot be reached for ISR changes: %s", error)
            return _NO_CONTROLLER_RETRY_MS
        if response.error_code != ErrorCode.NONE:
            logger.warning("the controller refused ISR changes with code %d", response.error_code)
            return _RETRY_MS
        answers = {
            TopicPartition(topic.topic_name, partition.partition_index): partition
            for topic in response.topics
            for partition in topic.partitions
        }
        pause_ms = 0
        for change in batch:
            # Another object, or none: a LeaderAndIsr came between, this answer is out of date.
            if self._pending.get(change.tp) is not change:
                continue
            answer = answers.get(change.tp)
            if answer is None:
                pause_ms = _RETRY_MS
                continue
            if answer.error_code != ErrorCode.NONE:
                # The partition may ask again at once; not faster than this.
                pause_ms = _RETRY_MS
            del self._pending[change.tp]
            change.answered(_decode(answer))
        return pause_ms


def _decode(answer: m.AlterPartitionResponse.PartitionData) -> IsrAnswer:
    try:
        error = ErrorCode(answer.error_code)
    except ValueError:
        error = ErrorCode.UNKNOWN_SERVER_ERROR
    return IsrAnswer(
        error,
        answer.leader_id,
        answer.leader_epoch,
        tuple(answer.isr),
        answer.partition_epoch,
    )


def build_request(
    broker_id: int, broker_epoch: int, batch: list[IsrChange]
) -> m.AlterPartitionRequest:
    request_class = m.AlterPartitionRequest
    topics: dict[str, m.AlterPartitionRequest.TopicData] = {}
    for change in batch:
        topic = topics.get(change.tp.topic)
        if topic is None:
            topic = topics[change.tp.topic] = request_class.TopicData(
                topic_name=change.tp.topic, partitions=[]
            )
        topic.partitions.append(
            request_class.PartitionData(
                partition_index=change.tp.partition,
                leader_epoch=change.leader_epoch,
                new_isr=list(change.isr),
                partition_epoch=change.partition_epoch,
            )
        )
    return request_class(
        broker_id=broker_id, broker_epoch=broker_epoch, topics=list(topics.values())
    )
