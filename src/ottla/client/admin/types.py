"""What administration calls take and give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, TypeVar

from ottla.client.cluster import Node
from ottla.config.definitions import ConfigSource, ConfigType, Synonym
from ottla.config.resources import ConfigOperation, ResourceType
from ottla.errors import KafkaError
from ottla.types import TopicId, TopicPartition

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be made; -1 takes the cluster's default. `assignments` exclude the numbers."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)


class CreatedTopic(NamedTuple):
    """What was made; -1 and the zero id where the server does not say."""

    name: str
    topic_id: TopicId
    partitions: int
    replication_factor: int


class NewPartitions(NamedTuple):
    """The total number a topic is to have, and the brokers of each new partition."""

    total: int
    assignments: Sequence[Sequence[int]] | None = None


class TopicListing(NamedTuple):
    name: str
    topic_id: TopicId
    is_internal: bool


class PartitionDescription(NamedTuple):
    partition: int
    leader: int  # -1 without one
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline: list[int]


class TopicDescription(NamedTuple):
    name: str
    topic_id: TopicId
    is_internal: bool
    partitions: list[PartitionDescription]  # by number


class Reassignment(NamedTuple):
    """A move under way."""

    replicas: list[int]
    adding: list[int]
    removing: list[int]


class ElectionType(IntEnum):
    PREFERRED = 0
    UNCLEAN = 1


class ConfigResource(NamedTuple):
    """What configs belong to. The broker resource with an empty name is the cluster's default."""

    type: int
    name: str

    @classmethod
    def topic(cls, name: str) -> ConfigResource:
        return cls(ResourceType.TOPIC, name)

    @classmethod
    def broker(cls, broker_id: int) -> ConfigResource:
        return cls(ResourceType.BROKER, str(broker_id))

    @classmethod
    def all_brokers(cls) -> ConfigResource:
        return cls(ResourceType.BROKER, "")


class ConfigItem(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource
    type: ConfigType
    is_sensitive: bool
    read_only: bool
    synonyms: tuple[Synonym, ...] = ()  # only where they were asked for
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT


class ConfigEdit(NamedTuple):
    name: str
    value: str | None
    operation: ConfigOperation = ConfigOperation.SET


class ReplicaOnDisk(NamedTuple):
    """One replica in a log directory; a future one is on its way there."""

    partition: TopicPartition
    size: int
    offset_lag: int
    is_future: bool


class LogDir(NamedTuple):
    path: str
    error: KafkaError | None
    replicas: list[ReplicaOnDisk]


class StrayOnDisk(NamedTuple):
    """A log that no topic owns; `topic_id` is None where the log does not know it."""

    path: str
    topic_id: str | None
    size: int


class ClusterDescription(NamedTuple):
    cluster_id: str | None
    controller_id: int
    nodes: list[Node]


def raise_first_error(results: Mapping[K, V | KafkaError]) -> dict[K, V]:
    """The results without errors; raises the first error there is."""
    sound: dict[K, V] = {}
    for key, result in results.items():
        if isinstance(result, KafkaError):
            raise result
        sound[key] = result
    return sound
