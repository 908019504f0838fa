"""The values of a broker's configs, typed, with what Kafka derives from them. No checks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from ottla.config.catalog import SYNONYMS, broker_definitions, name_warnings
from ottla.config.definitions import ConfigError, ConfigValue
from ottla.errors import InvariantViolated
from ottla.types import Endpoint

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000
_ENDPOINT = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")


class BrokerValues:
    """Immutable. Values come from the file, over them the store's cluster-wide defaults, over
    them the store's entries for this broker. A null value falls back to the config that Kafka
    takes instead, `log.retention.ms` to `log.retention.hours` and the like."""

    __slots__ = ("_values", "dynamic_broker", "dynamic_default", "static", "warnings")

    def __init__(
        self,
        static: Mapping[str, str],
        dynamic_default: Mapping[str, str] | None = None,
        dynamic_broker: Mapping[str, str] | None = None,
    ) -> None:
        self.static = dict(static)
        self.dynamic_default = dict(dynamic_default or {})
        self.dynamic_broker = dict(dynamic_broker or {})
        self.warnings: tuple[str, ...] = name_warnings(self.static)
        given = {**self.static, **self.dynamic_default, **self.dynamic_broker}
        self._values: dict[str, ConfigValue] = {}
        for name, definition in broker_definitions().items():
            text = given.get(name)
            self._values[name] = definition.default if text is None else definition.parse(text)

    def value(self, name: str) -> ConfigValue:
        """The typed value, None where it is null; unit variants are resolved (see `integer`)."""
        try:
            value = self._values[name]
        except KeyError:
            raise InvariantViolated(f"{name} is not a broker config") from None
        if name == "log.retention.ms" and value is not None:
            return max(cast("int", value), -1)  # any negative number means no limit
        return self._fallback(name) if value is None else value

    def integer(self, name: str) -> int:
        """An int, short or long. `log.retention.ms` and the like fall back to their variants."""
        value = self.value(name)
        if not isinstance(value, int):
            raise InvariantViolated(f"{name} is not an integer: {value!r}")
        return value

    def number(self, name: str) -> float:
        value = self.value(name)
        if not isinstance(value, int | float):
            raise InvariantViolated(f"{name} is not a number: {value!r}")
        return float(value)

    def boolean(self, name: str) -> bool:
        value = self.value(name)
        if not isinstance(value, bool):
            raise InvariantViolated(f"{name} is not a boolean: {value!r}")
        return value

    def text(self, name: str) -> str:
        value = self.value(name)
        if not isinstance(value, str):
            raise InvariantViolated(f"{name} is not a string: {value!r}")
        return value

    def optional_text(self, name: str) -> str | None:
        return None if self.value(name) is None else self.text(name)

    def items(self, name: str) -> list[str]:
        value = self.value(name)
        if not isinstance(value, tuple):
            raise InvariantViolated(f"{name} is not a list: {value!r}")
        return list(value)

    def _fallback(self, name: str) -> ConfigValue:
        values = self._values
        if name == "log.retention.ms":
            minutes, hours = values["log.retention.minutes"], values["log.retention.hours"]
            if minutes is not None:
                return _scaled_or_unlimited(cast("int", minutes), _MINUTE_MS)
            return _scaled_or_unlimited(cast("int", hours), _HOUR_MS)
        if name in ("log.roll.ms", "log.roll.jitter.ms"):
            return cast("int", values[SYNONYMS[name][1]]) * _HOUR_MS
        if name == "log.flush.interval.ms":
            return values["log.flush.scheduler.interval.ms"]
        if name == "zookeeper.connection.timeout.ms":
            return values["zookeeper.session.timeout.ms"]
        if name == "num.replica.alter.log.dirs.threads":
            return len(self.log_dirs)
        return None

    @property
    def broker_id(self) -> int:
        return self.integer("broker.id")

    @property
    def rack(self) -> str | None:
        return self.optional_text("broker.rack")

    @property
    def zookeeper_connect(self) -> str:
        return self.text("zookeeper.connect")

    @property
    def log_dirs(self) -> list[Path]:
        given = self.optional_text("log.dirs") or self.text("log.dir")
        return [Path(item) for item in comma_separated(given)]

    @property
    def listeners(self) -> list[Endpoint]:
        """Where to bind. An empty host means every interface."""
        given = self.optional_text("listeners")
        return self._endpoints("PLAINTEXT://:9092" if given is None else given)

    @property
    def advertised_listeners(self) -> list[Endpoint]:
        """What to register. A listener on every interface is advertised by the machine's name."""
        return [
            endpoint if endpoint.host else endpoint._replace(host=_machine_name())
            for endpoint in self.advertised_as_given
        ]

    @property
    def advertised_as_given(self) -> list[Endpoint]:
        """The advertised listeners before empty hosts are filled in."""
        given = self.optional_text("advertised.listeners")
        return self.listeners if given is None else self._endpoints(given, advertised=True)

    @property
    def inter_broker_listener(self) -> str:
        """Name of the listener that brokers use among themselves."""
        name = self.optional_text("inter.broker.listener.name")
        return (name or self.text("security.inter.broker.protocol")).upper()

    @property
    def control_listener(self) -> str:
        """Name of the listener that the controller uses (KIP-291)."""
        name = self.optional_text("control.plane.listener.name")
        return self.inter_broker_listener if name is None else name.upper()

    @property
    def security_protocol_map(self) -> dict[str, str]:
        protocols: dict[str, str] = {}
        for item in comma_separated(self.text("listener.security.protocol.map")):
            name, colon, protocol = item.rpartition(":")
            protocol = protocol.strip().upper()
            if not colon:
                raise ConfigError(
                    "Error parsing configuration property 'listener.security.protocol.map': "
                    f"{item} is not NAME:PROTOCOL"
                )
            if protocol not in SECURITY_PROTOCOLS:
                raise ConfigError(
                    f"Invalid security protocol `{protocol}` defined in "
                    "listener.security.protocol.map"
                )
            protocols[name.strip().upper()] = protocol
        return protocols

    def _endpoints(self, given: str, *, advertised: bool = False) -> list[Endpoint]:
        protocols = self.security_protocol_map
        try:
            endpoints = [_endpoint(item, protocols) for item in comma_separated(given)]
        except ConfigError as error:
            raise ConfigError(f"Error creating broker listeners from '{given}': {error}") from None
        if len({endpoint.listener for endpoint in endpoints}) < len(endpoints):
            raise ConfigError(f"Each listener must have a different name, listeners: {given}")
        ports = [endpoint.port for endpoint in endpoints if endpoint.port]
        if len(set(ports)) < len(ports) and not advertised:
            raise ConfigError(f"Each listener must have a different port, listeners: {given}")
        return endpoints


def _scaled_or_unlimited(amount: int, unit_ms: int) -> int:
    return -1 if amount < 0 else amount * unit_ms


def comma_separated(text: str) -> list[str]:
    return [item for item in (part.strip() for part in text.split(",")) if item]


def _machine_name() -> str:
    import socket  # asked for only where no listener names a host

    return socket.getfqdn()


def _endpoint(text: str, protocols: Mapping[str, str]) -> Endpoint:
    match = _ENDPOINT.fullmatch(text)
    if not match or int(match[3]) > 65535:
        raise ConfigError(f"Unable to parse {text} to a broker endpoint")
    listener = match[1].upper()
    if listener not in protocols:
        raise ConfigError(f"No security protocol defined for listener {listener}")
    return Endpoint(listener, match[2], int(match[3]), protocols[listener])
