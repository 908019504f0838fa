"""What the coordinators need from the broker without importing it; `process/node.py` joins them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ottla.errors import ErrorCode
from ottla.types import TopicId, TopicPartition

OnLeader = Callable[[TopicPartition, int], None]
OnResign = Callable[[TopicPartition, int | None], None]


class AppendResult(Protocol):
    """How the append to one partition ended."""

    @property
    def error(self) -> ErrorCode: ...

    @property
    def base_offset(self) -> int: ...


class PartitionLog(Protocol):
    """The part of `storage.log.Log` that a coordinator loads from."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    def read(
        self, offset: int, max_bytes: int, end_offset: int, *, min_one_batch: bool
    ) -> memoryview:
        """Bytes from the batch that holds `offset` on; the last batch may be cut."""


class Appends(Protocol):
    async def append(
        self,
        batches: Mapping[TopicPartition, memoryview],
        /,
        *,
        acks: int,
        timeout_ms: int,
        internal_topics_allowed: bool,
        from_coordinator: bool,
    ) -> Mapping[TopicPartition, AppendResult]: ...


class Partitions(Protocol):
    def log(self, tp: TopicPartition) -> PartitionLog | None: ...


class Leadership(Protocol):
    def add(self, on_leader: OnLeader, on_resign: OnResign) -> None:
        """(partition, leader epoch) each time this broker starts or stops leading; None as epoch
        where the replica went away altogether."""


class CoordinatorReplicas(Protocol):
    """The parts of the replica manager that keep a coordinator's log."""

    @property
    def appends(self) -> Appends: ...

    @property
    def partitions(self) -> Partitions: ...

    @property
    def leadership(self) -> Leadership: ...


class ClusterMetadata(Protocol):
    """The part of the metadata cache that a coordinator looks at."""

    def topic_partitions(self, topic: str) -> Mapping[int, Any]: ...

    def contains_topic(self, name: str) -> bool: ...

    def topic_id(self, name: str) -> TopicId: ...

    def topic_name(self, topic_id: TopicId) -> str | None: ...

    def ended_id(self, name: str) -> TopicId:
        """The id of the topic that had this name last; zeros where that is not known."""

    def was_renamed(self, name: str) -> bool: ...

    def add_listener(self, listener: Callable[[frozenset[str]], None]) -> None: ...


class CoordinatorConfig(Protocol):
    def integer(self, name: str) -> int: ...
