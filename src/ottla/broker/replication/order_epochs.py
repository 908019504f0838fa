"""Whether an order of the controller is for this registration and from the newest controller
(KafkaApis.isBrokerEpochStale; one highest controller epoch for LeaderAndIsr, StopReplica and
UpdateMetadata).

Kafka believes every epoch, and one order with the epoch 2^31-1 locks a broker out until it is
started again. Here the store has to know of an epoch before it counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ottla.errors import ErrorCode
from ottla.metadata.store import MetadataStore, NoNodeError
from ottla.metadata.znode_values import BadZnodeError
from ottla.metadata.znodes import ControllerEpochZnode

logger = logging.getLogger(__name__)

_NO_BROKER_EPOCH = -1
_NO_CONTROLLER_YET = 0
INT_MAX = 0x7FFFFFFF

# Asks the store for the epoch of the newest controller; true: also what other servers of the
# ensemble were told before.
AskStore = Callable[[bool], Awaitable[int]]


class OrderEpochs:
    """The epochs that orders are checked against. Without `ask_store` every epoch is believed."""

    def __init__(
        self,
        broker_epoch: int = _NO_BROKER_EPOCH,
        controller_epoch: int = _NO_CONTROLLER_YET,
        ask_store: AskStore | None = None,
    ) -> None:
        # czxid of /brokers/ids/<id>; changes when the broker registers again (KIP-380).
        self.broker_epoch = broker_epoch
        # The highest one in an order of any kind that the store knows of.
        self.controller_epoch = controller_epoch
        self._ask_store = ask_store
        # The highest one that the store has told: none up to it is asked for again.
        self._stored_epoch = controller_epoch
        self._asking = asyncio.Lock()
        # The youngest connection that the controller of the highest epoch has sent an order on.
        self._connection = 0

    def registration_ended(self) -> None:
        """Orders for it that are still under way count no more: what they are about may have ended
        since, and this broker may have said that it has nothing of that. The next registration has
        a higher epoch in any case."""
        self.broker_epoch += 1

    async def check(self, broker_epoch: int, controller_epoch: int) -> ErrorCode:
        """As `refusal`, and 31 for an epoch that no controller has. Raises StoreError where the
        store cannot be asked: then nobody knows, and the order has to come again."""
        error = self._stale(broker_epoch, controller_epoch)
        if error is not ErrorCode.NONE:
            return error
        if not await self._is_known(controller_epoch):
            logger.warning(
                "an order with the controller epoch %d is refused: the newest controller has %d",
                controller_epoch,
                self._stored_epoch,
            )
            return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return self.refusal(broker_epoch, controller_epoch)

    def refusal(self, broker_epoch: int, controller_epoch: int) -> ErrorCode:
        """77, 11, or NONE after taking over the controller's epoch."""
        error = self._stale(broker_epoch, controller_epoch)
        if error is ErrorCode.NONE and controller_epoch != self.controller_epoch:
            self.controller_epoch, self._connection = controller_epoch, 0
        return error

    def is_newest(self, connection: int) -> bool:
        """Whether its controller has none that is younger. It gives up a connection before it makes
        another, sends on the new one what was not answered, and then what it has decided since: an
        order that is still under way on the old one is late. Epochs do not tell those apart."""
        if connection < self._connection:
            return False
        self._connection = connection
        return True

    def _stale(self, broker_epoch: int, controller_epoch: int) -> ErrorCode:
        if broker_epoch != _NO_BROKER_EPOCH and broker_epoch < self.broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        return ErrorCode.NONE

    async def _is_known(self, controller_epoch: int) -> bool:
        if self._ask_store is None:
            return True
        async with self._asking:
            # A server that lags behind may not have heard of the newest controller: only what is
            # not known after the second question is known to nobody.
            for everywhere in (False, True):
                if controller_epoch <= max(self._stored_epoch, self.controller_epoch):
                    return True
                self._stored_epoch = max(self._stored_epoch, await self._ask_store(everywhere))
        return controller_epoch <= self._stored_epoch


def stored_controller_epoch(store: MetadataStore) -> AskStore:
    """/controller_epoch, which a controller writes before it sends its first order."""

    async def ask(everywhere: bool) -> int:
        path = ControllerEpochZnode.path()
        if everywhere:
            await store.sync(path)
        try:
            data, _ = await store.get(path)
            return ControllerEpochZnode.decode(data)
        except NoNodeError:
            return _NO_CONTROLLER_YET
        except BadZnodeError as error:
            # Somebody wrote it by hand. A broker that obeys nobody would be no help to him.
            logger.error("every controller is believed from now on: %s", error)
            return INT_MAX

    return ask
