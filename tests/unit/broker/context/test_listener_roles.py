"""Who is listened to where."""

from __future__ import annotations

import pytest

from ottla.broker.context.listener_roles import ListenerRoles, Sender, listener_roles
from ottla.config.broker import BrokerConfig

ONE = "PLAINTEXT"
TWO = "INTERNAL,CLIENTS"
THREE = "CONTROL,INTERNAL,CLIENTS"


def roles(listeners: str, **properties: str) -> ListenerRoles:
    names = listeners.split(",")
    given = {name.replace("_", "."): value for name, value in properties.items()}
    return listener_roles(
        BrokerConfig.from_properties(
            {
                "zookeeper.connect": "x:1",
                "listeners": ",".join(f"{n}://127.0.0.1:{9000 + i}" for i, n in enumerate(names)),
                "listener.security.protocol.map": ",".join(f"{n}:PLAINTEXT" for n in names),
                **given,
            }
        )
    )


@pytest.mark.parametrize(
    ("found", "orders", "peers"),
    [
        (roles(ONE), {"PLAINTEXT"}, {"PLAINTEXT"}),
        (roles(TWO, inter_broker_listener_name="internal"), {"INTERNAL"}, {"INTERNAL"}),
        (
            roles(
                THREE, inter_broker_listener_name="INTERNAL", control_plane_listener_name="control"
            ),
            {"CONTROL"},
            {"CONTROL", "INTERNAL"},
        ),
        # Clients and brokers share a listener; only the controller has one of its own.
        (
            roles(
                TWO, inter_broker_listener_name="CLIENTS", control_plane_listener_name="INTERNAL"
            ),
            {"INTERNAL"},
            {"INTERNAL", "CLIENTS"},
        ),
    ],
)
def test_roles(found: ListenerRoles, orders: set[str], peers: set[str]) -> None:
    every = orders | peers | {"PLAINTEXT", "CLIENTS", "INTERNAL", "CONTROL"}
    is_open = found == (None, None)
    for listener in every:
        assert found.may_come_from(Sender.CONTROLLER, listener) == (is_open or listener in orders)
        among_peers = found.peers is None or listener in peers
        assert found.may_come_from(Sender.BROKER, listener) == found.is_peer(listener)
        assert found.is_peer(listener) == among_peers
    assert is_open == (orders == {"PLAINTEXT"})
