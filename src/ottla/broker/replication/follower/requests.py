"""The requests a follower sends to its leader, in the versions of inter.broker.protocol 2.8."""

from __future__ import annotations

from typing import NamedTuple

from ottla.broker.replication.follower.fetch_plan import Plan
from ottla.types import TopicPartition
from ottla.wire import messages as m

FETCH_VERSION = 12
LIST_OFFSETS_VERSION = 6


class FetchLimits(NamedTuple):
    """The replica.fetch.* settings."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int


def fetch_request(broker_id: int, plan: Plan, limits: FetchLimits) -> m.FetchRequest:
    request = m.FetchRequest
    topics: dict[str, m.FetchRequest.FetchTopic] = {}
    for tp, want in plan.wanted.items():
        topic = topics.get(tp.topic)
        if topic is None:
            topic = topics[tp.topic] = request.FetchTopic(topic=tp.topic, partitions=[])
        topic.partitions.append(
            request.FetchPartition(
                partition=tp.partition,
                current_leader_epoch=want.current_leader_epoch,
                fetch_offset=want.fetch_offset,
                last_fetched_epoch=want.last_fetched_epoch,
                log_start_offset=want.log_start_offset,
                partition_max_bytes=want.max_bytes,
            )
        )
    forgotten: dict[str, list[int]] = {}
    for tp in plan.forgotten:
        forgotten.setdefault(tp.topic, []).append(tp.partition)
    return request(
        replica_id=broker_id,
        max_wait_ms=limits.max_wait_ms,
        min_bytes=limits.min_bytes,
        max_bytes=limits.max_bytes,
        session_id=plan.session_id,
        session_epoch=plan.session_epoch,
        topics=list(topics.values()),
        forgotten_topics_data=[
            request.ForgottenTopic(topic=name, partitions=partitions)
            for name, partitions in forgotten.items()
        ],
    )


def list_offsets_request(
    broker_id: int, tp: TopicPartition, leader_epoch: int, timestamp: int
) -> m.ListOffsetsRequest:
    request = m.ListOffsetsRequest
    part = request.ListOffsetsPartition(
        partition_index=tp.partition, current_leader_epoch=leader_epoch, timestamp=timestamp
    )
    topic = request.ListOffsetsTopic(name=tp.topic, partitions=[part])
    return request(replica_id=broker_id, topics=[topic])
