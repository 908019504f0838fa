"""The topics that are written to, and how one comes into being that is not there.

As with the official connector, whose producer asks for a topic in the way that lets brokers make
it: they do where auto.create.topics.enable is on. With the option topicPartitions it is made on
purpose instead. Several tasks may try at once; the first makes it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.client.cluster import RETRY_PAUSE_MS, response_error
from ottla.errors import ErrorCode, KafkaError
from ottla.spark.errors import SourceError, TopicMissing

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.spark.kafka import KafkaClient
    from ottla.spark.options import SinkOptions

# Brokers of Kafka 4 that make a topic say that they do not know it until it is there.
_PATIENCE_MS = 5_000
_NOT_YET = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)


def partition_count(client: KafkaClient, topic: str, options: SinkOptions) -> int:
    """Of a topic that is there at the end of this call; raises SourceError where it is not."""
    count, _ = client.run(_look(client.cluster, topic, options))
    if count:
        return count
    if options.topic_partitions is not None:
        client.run(_make(client.cluster, topic, options))
    found = client.run(_await(client.cluster, topic, options))
    if not found:
        raise TopicMissing(
            f"topic {topic} does not exist at {client.connect.bootstrap}, and its brokers do not "
            "make it by themselves (auto.create.topics.enable): the option topicPartitions makes it"
        )
    return found


async def _look(cluster: Cluster, topic: str, options: SinkOptions) -> tuple[int, bool]:
    """How many partitions there are, 0 for none, and whether a broker said it makes the topic."""
    # The cluster learns who leads: the first batch need not look for it.
    answer = await cluster.metadata(
        [topic],
        timeout_ms=options.connect.timeout_ms,
        may_create=options.topic_partitions is None,
    )
    (found,) = answer.topics
    if found.error_code and found.error_code not in _NOT_YET:
        error = response_error(found.error_code)
        raise KafkaError(error.code, f"topic {topic!r}: {error}")
    return len(found.partitions), found.error_code == ErrorCode.LEADER_NOT_AVAILABLE


async def _await(cluster: Cluster, topic: str, options: SinkOptions) -> int:
    """Until the topic is there; for long only where a broker says that it will be."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while True:
        count, is_made = await _look(cluster, topic, options)
        limit_ms = options.connect.timeout_ms if is_made else _PATIENCE_MS
        if count or loop.time() - began > limit_ms / 1000:
            return count
        await asyncio.sleep(RETRY_PAUSE_MS / 1000)


async def _make(cluster: Cluster, topic: str, options: SinkOptions) -> None:
    from ottla.client.admin.client import Admin  # only where it is needed
    from ottla.client.admin.types import NewTopic

    wanted = NewTopic(topic, options.topic_partitions or -1, options.topic_replication_factor)
    admin = Admin(cluster, timeout_ms=options.connect.timeout_ms)
    result = (await admin.create_topics([wanted]))[topic]
    if isinstance(result, KafkaError) and result.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        raise SourceError(f"topic {topic} cannot be made: {result}")
