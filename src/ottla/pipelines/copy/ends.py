"""The two topics of a copy: how they are reached, and what is known of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ottla.client.admin.client import Admin
from ottla.client.admin.types import ConfigResource
from ottla.client.sender import NOBODY, BatchSender, ProducerIdentity
from ottla.errors import KafkaError, OttlaError
from ottla.pipelines.context import connection_options
from ottla.pipelines.copy.range_copy import COLUMNS
from ottla.spark.errors import TopicMissing
from ottla.spark.formats.projection import Projection
from ottla.spark.kafka import KafkaClient
from ottla.spark.options import SourceOptions, Subscription, parse_source_options
from ottla.types import TopicPartition
from ottla.wire.columnar_encode import DEFAULT_BATCH_BYTES

if TYPE_CHECKING:
    from ottla.spark.options import Connect

# What a batch has beside its records, generously.
_BATCH_OVERHEAD_BYTES = 1024
_REMEDY = "delete the copy (of a resize: --abort) and begin anew"
_LIMITS = ("max.message.bytes", "segment.bytes")


class CopyError(OttlaError):
    """A copy that cannot begin or go on; one sentence that says why."""


@dataclass(frozen=True)
class Endpoint:
    """`kafka` are settings of the client, such as `security.protocol`."""

    bootstrap: str
    topic: str
    kafka: Mapping[str, str] = field(default_factory=dict)

    def options(self, isolation: str) -> SourceOptions:
        """Raises OptionError."""
        given = connection_options(self.bootstrap, {**self.kafka, "isolation.level": isolation})
        options = parse_source_options({**given, "subscribe": self.topic}, streaming=False)
        return replace(
            options, include_headers=True, projection=Projection(COLUMNS), remedy=_REMEDY
        )


class Topic:
    """One of them, as the driver asks about it; plain calls."""

    def __init__(self, options: SourceOptions, name: str) -> None:
        self.name = name
        self.options = options
        self.client = KafkaClient(options.connect)
        self.topic_id = ""
        self.partitions: tuple[int, ...] = ()

    @property
    def connect(self) -> Connect:
        return self.options.connect

    def look(self) -> None:
        """Raises CopyError where the topic is missing, or is another one than before."""
        try:
            found = self.client.existing_topics(Subscription("subscribe", topics=(self.name,)))
        except TopicMissing as error:
            raise CopyError(str(error)) from None
        topic = found[self.name]
        if self.topic_id and topic.topic_id != self.topic_id:
            raise CopyError(
                f"topic {self.name} was deleted and made again: its id is {topic.topic_id}, was "
                f"{self.topic_id}"
            )
        self.topic_id, self.partitions = topic.topic_id, tuple(sorted(topic.partitions))

    def cluster_id(self) -> str:
        admin = Admin(self.client.cluster, timeout_ms=self.connect.timeout_ms)
        return self.client.run(admin.describe_cluster()).cluster_id or ""

    def earliest(self) -> dict[int, int]:
        return _by_number(self.client.earliest(self._all()))

    def latest(self) -> dict[int, int]:
        """Of what may be read: a transaction that is open keeps what comes after it."""
        committed = self.options.read_committed
        return _by_number(self.client.latest(self._all(), read_committed=committed))

    def at_time(self, timestamp_ms: int) -> dict[int, int]:
        """The first record at or after a time, or the end."""
        times = dict.fromkeys(self._all(), timestamp_ms)
        latest = self.latest()
        found = _by_number(self.client.list_offsets(times))
        return {p: at if 0 <= at <= latest[p] else latest[p] for p, at in found.items()}

    def batch_bytes(self) -> int:
        """As large as batches for this topic may be: a batch has to fit a segment too."""
        configs = self._configs() or {}
        limits = [int(configs[name]) - _BATCH_OVERHEAD_BYTES for name in _LIMITS if name in configs]
        return max(min([*limits, DEFAULT_BATCH_BYTES]), 1)

    def compacts(self) -> bool:
        """Whether records may go from anywhere in it, so far as one can tell."""
        configs = self._configs()
        return configs is None or "compact" in configs.get("cleanup.policy", "")

    def new_producer(self) -> ProducerIdentity:
        """Raises CopyError where the brokers give none."""
        sender = BatchSender(self.client.cluster, timeout_ms=self.connect.timeout_ms)
        self.client.run(sender.start())
        if sender.identity == NOBODY:
            raise CopyError(
                f"{self.connect.bootstrap} gives this user no producer id, and without one a copy "
                "is not exactly once: allow IdempotentWrite on the cluster"
            )
        return sender.identity

    def close(self) -> None:
        self.client.close()

    def _configs(self) -> dict[str, str] | None:
        """None for a user who may not see them."""
        admin = Admin(self.client.cluster, timeout_ms=self.connect.timeout_ms)
        resource = ConfigResource.topic(self.name)
        answer = self.client.run(admin.describe_configs([resource]))[resource]
        if isinstance(answer, KafkaError):
            return None
        return {item.name: item.value for item in answer if item.value is not None}

    def _all(self) -> list[TopicPartition]:
        return [TopicPartition(self.name, partition) for partition in self.partitions]


def _by_number(found: Mapping[TopicPartition, int]) -> dict[int, int]:
    return {partition.partition: value for partition, value in sorted(found.items())}
