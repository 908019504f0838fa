"""The steps of a resize (ADR 53). Apache Kafka has no such thing: there every call raises
KafkaError(UNSUPPORTED_VERSION) and says so."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.client.admin.session import AdminSession, error_or_none
from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicId
from ottla.wire import messages as m

NOT_OTTLAS = (
    "the cluster is not Ottla's: Apache Kafka cannot swap topics. Copy the topic to another name"
    " instead (--to NAME)"
)


@dataclass(frozen=True, slots=True)
class ResizeBegun:
    topic_id: TopicId
    shadow: str
    shadow_id: TopicId
    old_partitions: int
    replication_factor: int
    is_resumed: bool
    retention_ms: int


@dataclass(frozen=True, slots=True)
class ResizeState:
    """A resize that is under way. `phase` is copying, fenced, moving or carrying."""

    topic: str
    topic_id: TopicId
    shadow: str
    partitions: int
    replication_factor: int
    partitioner: str
    phase: str
    begun_ms: int


@dataclass(frozen=True, slots=True)
class ResizeEnd:
    topic_id: TopicId
    groups: int
    members: int


class ResizeCalls(AdminSession):
    async def begin_resize(
        self,
        topic: str,
        partitions: int,
        *,
        replication_factor: int = -1,
        partitioner: str,
        validate_only: bool = False,
    ) -> ResizeBegun:
        request = m.BeginResizeRequest(
            topic=topic,
            partitions=partitions,
            replication_factor=replication_factor,
            partitioner=partitioner,
            timeout_ms=self._server_timeout_ms,
            validate_only=validate_only,
        )
        found = await _answer(self._to_controller(request, lambda answer: [answer]))
        return ResizeBegun(
            found.topic_id,
            found.shadow,
            found.shadow_id,
            found.old_partitions,
            found.replication_factor,
            found.is_resumed,
            found.retention_ms,
        )

    async def resizes(self, topic: str | None = None) -> list[ResizeState]:
        request = m.DescribeResizeRequest(topic=topic)
        answer = await _answer(self._to_controller(request, lambda answer: [answer]))
        return [
            ResizeState(
                found.topic,
                found.topic_id,
                found.shadow,
                found.partitions,
                found.replication_factor,
                found.partitioner,
                found.phase,
                found.begun_ms,
            )
            for found in answer.resizes
        ]

    async def fence_resize(self, topic: str, topic_id: TopicId, fence: int = -1) -> int:
        """The number of the fence, once it stands; with a number it is said to be still wanted."""
        request = m.FenceResizeRequest(
            topic=topic, topic_id=topic_id, fence=fence, timeout_ms=self._server_timeout_ms
        )
        answer = await _answer(self._to_controller(request, lambda answer: [answer]))
        return int(answer.fence)

    async def fenced_ends(self, topic: str, topic_id: TopicId, fence: int) -> dict[int, int]:
        """Where the topic's partitions end while the fence stands, as the controller has it from
        their leaders: a broker that is cut off may take itself for one, and know of less."""
        request = m.FenceResizeRequest(
            topic=topic, topic_id=topic_id, fence=fence, timeout_ms=self._server_timeout_ms
        )
        answer = await _answer(self._to_controller(request, lambda answer: [answer]))
        return {end.partition_index: end.end_offset for end in answer.ends}

    async def finish_resize(
        self,
        topic: str,
        begun: ResizeBegun,
        fence: int,
        groups: Mapping[str, Mapping[int, int]],
        *,
        guards_keys: bool = False,
    ) -> ResizeEnd:
        request = m.FinishResizeRequest(
            topic=topic,
            topic_id=begun.topic_id,
            shadow_id=begun.shadow_id,
            fence=fence,
            groups=[_group(group_id, offsets) for group_id, offsets in groups.items()],
            guard_keys=guards_keys,
            timeout_ms=self._server_timeout_ms,
        )
        answer = await _answer(self._to_controller(request, lambda answer: [answer]))
        return ResizeEnd(answer.topic_id, answer.groups, answer.members)

    async def abort_resize(self, topic: str) -> None:
        request = m.AbortResizeRequest(topic=topic)
        await _answer(self._to_controller(request, lambda answer: [answer]))


def _group(group_id: str, offsets: Mapping[int, int]) -> m.FinishResizeRequest.ResizeGroup:
    request = m.FinishResizeRequest
    return request.ResizeGroup(
        group_id=group_id,
        offsets=[
            request.ResizeOffset(partition_index=partition, offset=offset)
            for partition, offset in sorted(offsets.items())
        ],
    )


async def _answer(sent: Awaitable[Any]) -> Any:
    try:
        answer = await sent
    except KafkaError as error:
        if error.code is ErrorCode.UNSUPPORTED_VERSION:
            raise KafkaError(error.code, NOT_OTTLAS) from None
        raise
    refused = error_or_none(answer.error_code, answer.error_message)
    if refused is not None:
        raise refused
    return answer
