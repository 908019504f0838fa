"""Orders of another registration or of an older controller."""

from __future__ import annotations

import pytest

from ottla.broker.replication.order_epochs import OrderEpochs, stored_controller_epoch
from ottla.errors import ErrorCode
from ottla.metadata.store import ConnectionLossError
from ottla.metadata.znodes import ControllerEpochZnode
from ottla.zk.embedded import EmbeddedStore


def test_the_highest_controller_epoch_counts_and_the_newest_registration() -> None:
    epochs = OrderEpochs()
    assert epochs.refusal(-1, 0) is ErrorCode.NONE
    epochs.broker_epoch = 50
    assert epochs.refusal(49, 9) is ErrorCode.STALE_BROKER_EPOCH
    assert epochs.controller_epoch == 0  # what is refused teaches nothing
    assert epochs.refusal(50, 4) is epochs.refusal(51, 4) is ErrorCode.NONE
    assert epochs.refusal(-1, 3) is ErrorCode.STALE_CONTROLLER_EPOCH
    assert epochs.controller_epoch == 4


def test_orders_for_a_registration_that_has_ended() -> None:
    epochs = OrderEpochs(broker_epoch=50)
    epochs.registration_ended()
    assert epochs.refusal(50, 4) is ErrorCode.STALE_BROKER_EPOCH
    # The next one may be heard of by the controller first.
    assert epochs.refusal(52, 4) is ErrorCode.NONE


class LaggingStore:
    """Shows what other servers know only when it is asked to sync."""

    def __init__(self, shown: int, known: int) -> None:
        self.shown, self.known = shown, known
        self.questions: list[bool] = []

    async def ask(self, everywhere: bool) -> int:
        self.questions.append(everywhere)
        return self.known if everywhere else self.shown


async def test_an_epoch_counts_once_the_store_knows_of_it() -> None:
    store = LaggingStore(shown=4, known=5)
    epochs = OrderEpochs(ask_store=store.ask)
    assert await epochs.check(-1, 4) is ErrorCode.NONE
    assert await epochs.check(-1, 4) is ErrorCode.NONE
    assert store.questions == [False]
    # A controller that this server has not heard of yet.
    assert await epochs.check(-1, 5) is ErrorCode.NONE
    assert store.questions == [False, False, True]
    for _ in range(2):
        nobody = await epochs.check(-1, 2**31 - 1)
        assert nobody is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert epochs.controller_epoch == 5
    assert await epochs.check(-1, 5) is ErrorCode.NONE
    assert await epochs.check(-1, 4) is ErrorCode.STALE_CONTROLLER_EPOCH
    store.known = 6
    assert await epochs.check(-1, 6) is ErrorCode.NONE


async def test_a_newer_controller_speaks_up_while_the_store_is_asked() -> None:
    epochs = OrderEpochs(controller_epoch=1)

    async def ask(_everywhere: bool) -> int:
        epochs.controller_epoch = 3
        return 3

    asking = OrderEpochs(controller_epoch=1, ask_store=ask)
    epochs = asking
    assert await asking.check(-1, 2) is ErrorCode.STALE_CONTROLLER_EPOCH


async def test_nobody_is_believed_while_the_store_is_away() -> None:
    async def ask(_everywhere: bool) -> int:
        raise ConnectionLossError

    epochs = OrderEpochs(controller_epoch=3, ask_store=ask)
    assert await epochs.check(-1, 3) is ErrorCode.NONE
    with pytest.raises(ConnectionLossError):
        await epochs.check(-1, 4)
    assert epochs.controller_epoch == 3


async def test_the_epoch_in_the_store(store: EmbeddedStore) -> None:
    ask = stored_controller_epoch(store)
    assert await ask(False) == 0
    await store.create(ControllerEpochZnode.path(), ControllerEpochZnode.encode(7))
    assert await ask(False) == await ask(True) == 7
    await store.set(ControllerEpochZnode.path(), b"garbage")
    assert await ask(True) == 2**31 - 1


def test_the_youngest_connection_of_the_newest_controller() -> None:
    epochs = OrderEpochs()
    assert epochs.refusal(-1, 4) is ErrorCode.NONE
    assert [epochs.is_newest(connection) for connection in (3, 3, 7, 3, 7)] == [1, 1, 1, 0, 1]
    # The next controller may have connected before this one connected again.
    assert epochs.refusal(-1, 5) is ErrorCode.NONE
    assert epochs.is_newest(5)
