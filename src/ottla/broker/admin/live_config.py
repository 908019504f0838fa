"""How a running broker takes over changes of its configs (DynamicBrokerConfig)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ottla.config.dynamic import is_password, needs_restart, sound_entries, without_restart
from ottla.metadata.znodes import DEFAULT_ENTITY

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig

logger = logging.getLogger(__name__)

# Gets the config before and after a change.
OnChange = Callable[["BrokerConfig", "BrokerConfig"], None]


class LiveConfig:
    """The config of a running broker. `on_change` hands a new one to whoever needs it."""

    def __init__(self, config: BrokerConfig, broker_id: int, on_change: OnChange) -> None:
        self.current = config
        self._broker_id = broker_id
        self._on_change = on_change

    def concerns(self, entity: str) -> bool:
        """Whether /config/brokers/<entity> matters here."""
        return entity in (DEFAULT_ENTITY, str(self._broker_id))

    def take(self, entity: str, entries: Mapping[str, str]) -> None:
        """Takes over what the store has now, for all brokers or for this one."""
        old = self.current
        per_broker = entity != DEFAULT_ENTITY
        sound = sound_entries(entries, per_broker=per_broker)
        if per_broker:
            # A tool that writes znodes itself may have set what only a start takes over.
            waiting = needs_restart(old, sound)
            for name in waiting:
                logger.warning("%s is taken over when the broker is started again", name)
            new = old.with_dynamic(old.dynamic_default, without_restart(old, sound, waiting))
        else:
            new = old.with_dynamic(sound, old.dynamic_broker)
        if new.dynamic_default == old.dynamic_default and new.dynamic_broker == old.dynamic_broker:
            return
        logger.info("configs of %s are now %s", entity, _shown(entries))
        self.current = new
        self._on_change(old, new)


def _shown(entries: Mapping[str, str]) -> dict[str, str]:
    return {name: "[hidden]" if is_password(name) else text for name, text in entries.items()}
