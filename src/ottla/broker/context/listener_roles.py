"""Which listeners the controller and other brokers speak on, where those are set apart from the
clients'.

Kafka 2.8 takes orders on every listener and leaves it to ACLs who gives them: without an authoriser
any client can. With one listener for everybody that stays so.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig


class Sender(Enum):
    """Who sends a request that clients have no use for."""

    CONTROLLER = "the controller"
    BROKER = "a broker"


class ListenerRoles(NamedTuple):
    """Names of listeners; None: all of them."""

    orders: frozenset[str] | None = None
    peers: frozenset[str] | None = None

    def is_peer(self, listener: str) -> bool:
        """Whether brokers connect there."""
        return self.peers is None or listener in self.peers

    def may_come_from(self, sender: Sender, listener: str) -> bool:
        if sender is Sender.CONTROLLER:
            return self.orders is None or listener in self.orders
        return self.is_peer(listener)


def listener_roles(config: BrokerConfig) -> ListenerRoles:
    """The controller's orders come on the control-plane listener (KIP-291), else on the one between
    brokers; what other brokers ask for comes on either."""
    bound = {endpoint.listener for endpoint in config.listeners}
    orders = frozenset((config.control_listener,))
    peers = orders | {config.inter_broker_listener}
    return ListenerRoles(
        None if bound <= orders else orders,
        None if bound <= peers else peers,
    )
