"""What the broker needs from the controller, without importing it; `process/node.py` joins them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ottla.errors import KafkaError
    from ottla.metadata.resizes import StoredResize
    from ottla.metadata.znodes import ReplicaAssignment
    from ottla.types import TopicId, TopicPartition
    from ottla.wire import messages as m
    from ottla.wire.codec import Message


class RenameEnd(Protocol):
    """How a rename ended well."""

    @property
    def topic_id(self) -> TopicId: ...

    @property
    def groups(self) -> int: ...

    @property
    def offsets(self) -> int: ...

    @property
    def group_ids(self) -> tuple[str, ...]: ...


class ResizeBegun(Protocol):
    """A resize that is under way."""

    @property
    def resize(self) -> StoredResize: ...

    @property
    def old_partitions(self) -> int: ...

    @property
    def is_resumed(self) -> bool: ...

    @property
    def retention_ms(self) -> int: ...


class ResizeFenced(Protocol):
    @property
    def fence(self) -> int: ...
    @property
    def ends(self) -> Mapping[int, int]: ...


class ResizeEnd(Protocol):
    """How a resize ended well."""

    @property
    def topic_id(self) -> TopicId: ...

    @property
    def groups(self) -> int: ...

    @property
    def members(self) -> int: ...


class Renames(Protocol):
    """The controller's renames of topics."""

    async def rename(
        self, topic: str, new_name: str, topic_id: TopicId, *, validate_only: bool = False
    ) -> KafkaError | RenameEnd | None:
        """Waits for the end; None where this broker is not, or no longer, the controller."""

    def is_under_way(self, topic: str) -> bool:
        """Whether a topic is on its way from or to this name."""


class TrashPort(Protocol):
    """The controller's trash; None where this broker is not, or no longer, the controller."""

    async def undelete_topic(
        self, topic: str, topic_id: TopicId | None, name: str | None
    ) -> TopicId | KafkaError | None:
        """The id of the topic that came back from the trash (ADR 50)."""

    async def purge_deleted_topic(
        self, topic: str, topic_id: TopicId | None
    ) -> TopicId | KafkaError | None:
        """The id of the topic that goes for good."""


class Resizes(Protocol):
    """The controller's steps of resizes (ADR 53). None where this broker is not, or no longer, the
    controller."""

    async def begin(self, request: m.BeginResizeRequest) -> KafkaError | ResizeBegun | None: ...

    async def fence(self, request: m.FenceResizeRequest) -> KafkaError | ResizeFenced | None:
        """Waits until the fence stands; -1 asks for a new one."""

    async def finish(
        self, request: m.FinishResizeRequest, groups: Sequence[tuple[str, Mapping[int, int]]]
    ) -> KafkaError | ResizeEnd | None:
        """Waits until the new topic takes records."""

    async def abort(self, topic: str) -> KafkaError | bool | None: ...

    def under_way(self) -> list[StoredResize] | None: ...


class ControllerPort(Protocol):
    """The controller module that every broker carries; only one in the cluster is active."""

    @property
    def renames(self) -> Renames: ...

    @property
    def resizes(self) -> Resizes: ...

    @property
    def is_active(self) -> bool: ...

    @property
    def trash(self) -> TrashPort: ...

    def is_queued_for_deletion(self, topic: str) -> bool: ...

    def view(self, request: m.ControllerViewRequest) -> m.ControllerViewResponse:
        """What the controller has in its head; NOT_CONTROLLER where it is not active."""

    async def alter_isr(self, request: m.AlterPartitionRequest) -> m.AlterPartitionResponse: ...

    async def controlled_shutdown(
        self, request: m.ControlledShutdownRequest
    ) -> m.ControlledShutdownResponse: ...

    # The next three answer None where this broker is not, or no longer, the controller.

    async def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition, tuple[int, ...] | None]
    ) -> dict[TopicPartition, KafkaError | None] | None:
        """Moves partitions; None as target takes a running move back."""

    async def list_partition_reassignments(
        self, partitions: Collection[TopicPartition] | None
    ) -> dict[TopicPartition, ReplicaAssignment] | None: ...

    async def elect_leaders(
        self, partitions: Collection[TopicPartition], *, unclean: bool
    ) -> dict[TopicPartition, int | KafkaError] | None:
        """Per partition the leader that was elected."""


class ControllerClient(Protocol):
    """Sends a request to whichever broker is the controller now."""

    async def send(self, message: Message, version: int, *, timeout_ms: float) -> object:
        """The decoded response; raises OSError (ConnectionError while no controller can be
        reached) or TimeoutError."""
