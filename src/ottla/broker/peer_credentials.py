"""What this broker shows to other brokers when it connects to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.config import BrokerConfig
    from ottla.security.sasl import PlainCredentials


def peer_credentials(config: BrokerConfig, listener: str) -> PlainCredentials | None:
    """None where the listener does not ask who connects."""
    if not config.security_protocol_map.get(listener, "").startswith("SASL_"):
        return None
    from ottla.security.listeners import broker_credentials  # brokers without SASL start without it

    return broker_credentials(config, listener)
