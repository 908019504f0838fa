"""The part that the answers to OffsetCommit, TxnOffsetCommit and OffsetDelete have in common."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from ottla.bounds.turns import Turns
from ottla.errors import ErrorCode
from ottla.types import TopicPartition

_Topic = TypeVar("_Topic")


async def by_topic(
    turns: Turns,
    topics: Iterable[Any],
    errors: Mapping[TopicPartition, ErrorCode],
    refused: Collection[str],
    topic_type: Callable[..., _Topic],
    partition_type: Callable[..., Any],
) -> list[_Topic]:
    """A code for each partition of the request, in its order. One without a result was not handed
    on: the client may not touch its topic, or it does not exist."""

    def code(topic: str, partition: int) -> ErrorCode:
        if topic in refused:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return errors.get(TopicPartition(topic, partition), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    return [
        topic_type(
            name=topic.name,
            partitions=[
                partition_type(
                    partition_index=each.partition_index,
                    error_code=code(topic.name, each.partition_index),
                )
                async for each in turns.each(topic.partitions)
            ],
        )
        async for topic in turns.each(topics)
    ]
