"""Orders of another registration or of an older controller."""

from __future__ import annotations

from ottla.broker.replication.order_epochs import OrderEpochs
from ottla.errors import ErrorCode


def test_the_highest_controller_epoch_counts_and_the_newest_registration() -> None:
    epochs = OrderEpochs()
    assert epochs.refusal(-1, 0) is ErrorCode.NONE
    epochs.broker_epoch = 50
    assert epochs.refusal(49, 9) is ErrorCode.STALE_BROKER_EPOCH
    assert epochs.controller_epoch == 0  # what is refused teaches nothing
    assert epochs.refusal(50, 4) is epochs.refusal(51, 4) is ErrorCode.NONE
    assert epochs.refusal(-1, 3) is ErrorCode.STALE_CONTROLLER_EPOCH
    assert epochs.controller_epoch == 4
