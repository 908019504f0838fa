"""What the broker needs from the controller, without importing it; `process/node.py` joins them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ottla.errors import KafkaError
    from ottla.metadata.znodes import ReplicaAssignment
    from ottla.types import TopicPartition
    from ottla.wire import messages as m
    from ottla.wire.codec import Message


class ControllerPort(Protocol):
    """The controller module that every broker carries; only one in the cluster is active."""

    @property
    def is_active(self) -> bool: ...

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
