"""Whether an order of the controller is for this registration and from the newest controller
(KafkaApis.isBrokerEpochStale; one highest controller epoch for LeaderAndIsr, StopReplica and
UpdateMetadata)."""

from __future__ import annotations

from ottla.errors import ErrorCode

_NO_BROKER_EPOCH = -1


class OrderEpochs:
    """The epochs that orders are checked against."""

    def __init__(self, broker_epoch: int = _NO_BROKER_EPOCH, controller_epoch: int = 0) -> None:
        # czxid of /brokers/ids/<id>; changes when the broker registers again (KIP-380).
        self.broker_epoch = broker_epoch
        # The highest one seen in an order of any kind.
        self.controller_epoch = controller_epoch

    def refusal(self, broker_epoch: int, controller_epoch: int) -> ErrorCode:
        """77, 11, or NONE after taking over the controller's epoch."""
        if broker_epoch != _NO_BROKER_EPOCH and broker_epoch < self.broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self.controller_epoch = controller_epoch
        return ErrorCode.NONE
