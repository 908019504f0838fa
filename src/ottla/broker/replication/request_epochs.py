"""Whether an order of the controller is for this registration and from the newest controller
(KafkaApis.isBrokerEpochStale; one highest controller epoch for LeaderAndIsr, StopReplica and
UpdateMetadata)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.context.services import BrokerServices

_NO_BROKER_EPOCH = -1


def refusal(services: BrokerServices, broker_epoch: int, controller_epoch: int) -> ErrorCode:
    """77, 11, or NONE after taking over the controller's epoch."""
    if broker_epoch != _NO_BROKER_EPOCH and broker_epoch < services.broker_epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    if controller_epoch < services.controller_epoch:
        return ErrorCode.STALE_CONTROLLER_EPOCH
    services.controller_epoch = controller_epoch
    return ErrorCode.NONE
