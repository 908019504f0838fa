"""What the broker needs from the controller, without importing it (`node.py` joins the two)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ottla.wire import messages as m
    from ottla.wire.codec import Message


class ControllerPort(Protocol):
    """The controller module that every broker carries; only one in the cluster is active."""

    @property
    def is_active(self) -> bool: ...

    def is_queued_for_deletion(self, topic: str) -> bool: ...

    async def alter_isr(self, request: m.AlterPartitionRequest) -> m.AlterPartitionResponse: ...

    async def controlled_shutdown(
        self, request: m.ControlledShutdownRequest
    ) -> m.ControlledShutdownResponse: ...


class ControllerClient(Protocol):
    """Sends a request to whichever broker is the controller now."""

    async def send(self, message: Message, version: int, *, timeout_ms: float) -> object:
        """The decoded response; raises OSError (ConnectionError while no controller can be
        reached) or TimeoutError."""
