"""Checks across broker configs at start (KafkaConfig.validateValues); those of changes at run time
are in `dynamic.py`."""

from __future__ import annotations

from ottla.config.definitions import INT_MAX, ConfigError
from ottla.config.values import SECURITY_PROTOCOLS, BrokerValues, comma_separated

COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")


class RequirementFailed(ConfigError):
    """Where Kafka's check is a `require`: a refusal at run time says so."""


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise RequirementFailed(message)


def check_start(config: BrokerValues) -> None:
    """KafkaConfig.validateValues, in its order."""
    if config.optional_text("zookeeper.connect") is None:
        raise ConfigError(
            "Missing required configuration `zookeeper.connect` which has no default value."
        )
    if config.boolean("broker.id.generation.enable"):
        _require(
            -1 <= config.broker_id <= config.integer("reserved.broker.max.id"),
            "broker.id must be greater than or equal to -1 and not greater than "
            "reserved.broker.max.id",
        )
    else:
        _require(config.broker_id >= 0, "broker.id must be greater than or equal to 0")
    _check_log(config)
    _check_replication(config)
    compression = config.text("compression.type")
    _require(
        compression in COMPRESSION_TYPES,
        f"compression.type : {compression} is not valid. Valid options are "
        + ",".join(COMPRESSION_TYPES),
    )
    _check_listeners(config)
    _check_connections(config)


def _check_log(config: BrokerValues) -> None:
    _require(config.integer("log.roll.ms") >= 1, "log.roll.ms must be greater than or equal to 1")
    _require(
        config.integer("log.roll.jitter.ms") >= 0,
        "log.roll.jitter.ms must be greater than or equal to 0",
    )
    retention_ms = config.integer("log.retention.ms")
    _require(
        retention_ms >= 1 or retention_ms == -1,
        "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
    )
    _require(
        bool(config.log_dirs), "At least one log directory must be defined via log.dirs or log.dir."
    )
    threads = config.integer("log.cleaner.threads")
    _require(
        config.integer("log.cleaner.dedupe.buffer.size") // max(threads, 1) > 1024 * 1024,
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
    )


def _check_replication(config: BrokerValues) -> None:
    wait_ms = config.integer("replica.fetch.wait.max.ms")
    _require(
        wait_ms <= config.integer("replica.socket.timeout.ms"),
        "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent "
        "unnecessary socket timeouts",
    )
    _require(
        wait_ms <= config.integer("replica.lag.time.max.ms"),
        "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms "
        "to prevent frequent changes in ISR",
    )
    acks = config.integer("offsets.commit.required.acks")
    _require(
        -1 <= acks <= config.integer("offsets.topic.replication.factor"),
        "offsets.commit.required.acks must be greater or equal -1 and less or equal to "
        "offsets.topic.replication.factor",
    )


def _check_listeners(config: BrokerValues) -> None:
    explicit = config.optional_text("inter.broker.listener.name")
    _require(
        explicit is None or "security.inter.broker.protocol" not in config.static,
        "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.",
    )
    protocol = config.text("security.inter.broker.protocol")
    _require(
        protocol.upper() in SECURITY_PROTOCOLS,
        f"Invalid security protocol `{protocol}` defined in security.inter.broker.protocol",
    )
    _require(
        explicit is None or explicit.upper() in config.security_protocol_map,
        f"Listener with name {config.inter_broker_listener} defined in inter.broker.listener.name "
        "not found in listener.security.protocol.map.",
    )
    listeners = [endpoint.listener for endpoint in config.listeners]
    endpoints = config.advertised_as_given
    advertised = [endpoint.listener for endpoint in endpoints]
    _require(
        config.inter_broker_listener in advertised,
        "inter.broker.listener.name must be a listener name defined in advertised.listeners. The "
        f"valid options based on currently configured listeners are {','.join(advertised)}",
    )
    _check_control_listener(config, advertised)
    _require(
        set(advertised) <= set(listeners),
        "advertised.listeners listener names must be equal to or a subset of the ones defined in "
        f"listeners. Found {','.join(advertised)}. The valid options based on the current "
        f"configuration are {','.join(listeners)}",
    )
    _require(
        all(endpoint.host != "0.0.0.0" for endpoint in endpoints),
        "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP "
        "address.",
    )


def _check_control_listener(config: BrokerValues, advertised: list[str]) -> None:
    if config.optional_text("control.plane.listener.name") is None:
        return
    control = config.control_listener
    if control not in config.security_protocol_map:
        raise ConfigError(
            f"Listener with {control} defined in control.plane.listener.name not found in "
            "listener.security.protocol.map."
        )
    _require(
        control in advertised,
        "control.plane.listener.name must be a listener name defined in advertised.listeners. The "
        f"valid options based on currently configured listeners are {','.join(advertised)}",
    )
    _require(
        control != config.inter_broker_listener,
        "control.plane.listener.name, when defined, should have a different value from the inter "
        "broker listener name. Currently they both have the value "
        f"ListenerName({control})",
    )


def _check_connections(config: BrokerValues) -> None:
    queued_bytes = config.integer("queued.max.request.bytes")
    _require(
        # Our own default (Kafka has none) must not refuse a file that Kafka takes.
        "queued.max.request.bytes" not in config.static
        or queued_bytes <= 0
        or queued_bytes >= config.integer("socket.request.max.bytes"),
        "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
    )
    overrides = comma_separated(config.text("max.connections.per.ip.overrides"))
    _require(
        config.integer("max.connections.per.ip") > 0 or bool(overrides),
        "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides "
        "property is set.",
    )
    for item in overrides:
        _, colon, count = item.rpartition(":")
        if not (colon and count.strip().isdigit() and int(count) <= INT_MAX):
            raise ConfigError(
                f"Error parsing configuration property 'max.connections.per.ip.overrides': {item}"
            )
    idle_ms = config.integer("connections.max.idle.ms")
    delay_ms = config.integer("connection.failed.authentication.delay.ms")
    _require(
        idle_ms < 0 or delay_ms < idle_ms,
        f"connection.failed.authentication.delay.ms={delay_ms} should always be less than "
        f"connections.max.idle.ms={idle_ms} to prevent failed authentication responses from "
        "timing out",
    )
