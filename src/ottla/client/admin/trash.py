"""Deleted topics that are kept for a while (ADR 50). Apache Kafka has no such thing: there every
call raises KafkaError(UNSUPPORTED_VERSION) and says so."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from typing import Any

from ottla.client.admin.session import AdminSession, error_or_none
from ottla.client.cluster import response_error
from ottla.errors import ErrorCode, KafkaError
from ottla.types import ZERO_TOPIC_ID, TopicId
from ottla.wire import messages as m

NOT_OTTLAS = "the cluster is not Ottla's: Apache Kafka deletes topics for good"


@dataclass(frozen=True, slots=True)
class DeletedTopic:
    """`state` is kept (it can be brought back), returning, or going: then nothing else is known of
    it, and `brokers` may still have files. -1 for what is not known."""

    name: str
    topic_id: TopicId
    state: str
    partitions: int
    replication_factor: int
    deleted_ms: int
    until_ms: int
    brokers: list[int]


@dataclass(frozen=True, slots=True)
class DeletedFolder:
    """A log on a broker: kept in the trash, or about to be removed (`removing`)."""

    broker_id: int
    topic: str
    topic_id: TopicId | None
    partition: int
    state: str
    size: int
    path: str


class TrashCalls(AdminSession):
    async def deleted_topics(self, names: Iterable[str] | None = None) -> list[DeletedTopic]:
        request = m.DescribeDeletedTopicsRequest(topics=None if names is None else list(names))
        answer = await _of_ottla(self.cluster.send_to_any(request, timeout_ms=self._timeout_ms))
        if answer.error_code:
            raise response_error(answer.error_code)
        return [
            DeletedTopic(
                topic.name,
                topic.topic_id,
                topic.state,
                topic.partitions,
                topic.replication_factor,
                topic.deleted_ms,
                topic.until_ms,
                topic.brokers,
            )
            for topic in answer.topics
        ]

    async def deleted_folders(
        self, broker_id: int, names: Iterable[str] | None = None
    ) -> list[DeletedFolder]:
        """Those on one broker."""
        request = m.DescribeDeletedTopicsRequest(
            topics=None if names is None else list(names), with_folders=True
        )
        answer = await _of_ottla(
            self.cluster.send_to_broker(broker_id, request, timeout_ms=self._timeout_ms)
        )
        return [
            DeletedFolder(
                broker_id,
                folder.topic,
                None if folder.topic_id == ZERO_TOPIC_ID else folder.topic_id,
                folder.partition,
                folder.state,
                folder.size,
                folder.path,
            )
            for folder in answer.folders
        ]

    async def undelete_topic(
        self, name: str, *, topic_id: TopicId | None = None, new_name: str | None = None
    ) -> TopicId:
        """The id of the topic that is back; raises KafkaError."""
        request = m.UndeleteTopicsRequest(
            topics=[
                m.UndeleteTopicsRequest.UndeletableTopic(
                    name=name, topic_id=topic_id or ZERO_TOPIC_ID, new_name=new_name
                )
            ],
            timeout_ms=self._server_timeout_ms,
        )
        answer = await _of_ottla(self._to_controller(request, lambda found: found.results))
        return _only(answer.results)

    async def purge_topic(self, name: str, *, topic_id: TopicId | None = None) -> TopicId:
        """The id of the topic that goes for good; raises KafkaError."""
        request = m.PurgeDeletedTopicsRequest(
            topics=[
                m.PurgeDeletedTopicsRequest.PurgeableTopic(
                    name=name, topic_id=topic_id or ZERO_TOPIC_ID
                )
            ]
        )
        answer = await _of_ottla(self._to_controller(request, lambda found: found.results))
        return _only(answer.results)


def _only(results: list[Any]) -> TopicId:
    error = error_or_none(results[0].error_code, results[0].error_message)
    if error is not None:
        raise error
    topic_id: TopicId = results[0].topic_id
    return topic_id


async def _of_ottla(sending: Awaitable[Any]) -> Any:
    try:
        return await sending
    except KafkaError as error:
        if error.code is ErrorCode.UNSUPPORTED_VERSION:
            raise KafkaError(error.code, NOT_OTTLAS) from None
        raise
