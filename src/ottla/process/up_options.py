"""What `ottla up` was asked for, and the properties of its brokers that follow from it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ottla.process.data_folder import digest_path

HOST = "127.0.0.1"
AUTHORIZER = "authorizer.class.name"
SET_ACL = "zookeeper.set.acl"
DIGEST_FILE = "ottla.zookeeper.digest.file"
# Addresses that mean every address of the machine, and how the machine itself gets there.
_EVERY_ADDRESS = {"0.0.0.0": HOST, "::": "::1"}


def is_every_address(host: str) -> bool:
    return host in _EVERY_ADDRESS


def join_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@dataclass(frozen=True, slots=True)
class UpOptions:
    """The flags of `ottla up`."""

    brokers: int = 1
    port: int = 9092
    zookeeper_port: int = 2181
    zookeeper: str | None = None  # an existing ensemble; then no store is started
    data: Path = Path("ottla-data")
    overrides: Mapping[str, str] = field(default_factory=dict)
    metrics_port: int | None = None  # of the first broker; None: no metrics
    host: str = HOST  # where brokers and store listen
    advertise: str | None = None  # the name that clients are told; None: `host`
    restart: bool = False  # whatever dies is started again
    detach: bool = False
    is_store_closed: bool = False  # by an earlier `ottla up`
    racks: tuple[str, ...] = ()  # of the brokers in turn; none: no broker has one
    console_port: int | None = None  # None: no console

    @property
    def advertised_host(self) -> str:
        return self.advertise or self.host

    @property
    def zookeeper_connect(self) -> str:
        """For the brokers, which are on the same machine as the store."""
        host = _EVERY_ADDRESS.get(self.host, self.host)
        return self.zookeeper or join_address(host, self.zookeeper_port)

    @property
    def advertised_zookeeper(self) -> str:
        return self.zookeeper or join_address(self.advertised_host, self.zookeeper_port)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(map(self.broker_address, range(self.brokers)))

    def broker_address(self, broker_id: int) -> str:
        return join_address(self.advertised_host, self.port + broker_id)


def broker_properties(options: UpOptions, broker_id: int) -> dict[str, str]:
    """The server.properties of one broker of `ottla up`."""
    replication = str(min(3, options.brokers))
    # What brokers speak among themselves, all speak: there is one listener.
    protocol = options.overrides.get("security.inter.broker.protocol", "PLAINTEXT").upper()
    properties = {
        "broker.id": str(broker_id),
        "listeners": f"{protocol}://{join_address(options.host, options.port + broker_id)}",
        "advertised.listeners": f"{protocol}://{options.broker_address(broker_id)}",
        "log.dirs": str(options.data.absolute() / f"broker-{broker_id}"),
        "zookeeper.connect": options.zookeeper_connect,
        "zookeeper.session.timeout.ms": "6000",
        "offsets.topic.replication.factor": replication,
        "transaction.state.log.replication.factor": replication,
        "transaction.state.log.min.isr": str(min(2, options.brokers)),
        "group.initial.rebalance.delay.ms": "0",
        "ottla.lifecycle.topic.enable": "true",
    }
    if options.racks:
        properties["broker.rack"] = options.racks[broker_id % len(options.racks)]
    if options.metrics_port is not None:
        properties["ottla.metrics.port"] = str(options.metrics_port + broker_id)
    given = dict(options.overrides)
    for key in ("log.dirs", "log.dir"):
        if key in given:
            folders = (part.strip() for part in given[key].split(","))
            given[key] = ",".join(str(Path(part).absolute()) for part in folders if part)
    return properties | protection(options) | given


def protection(options: UpOptions) -> dict[str, str]:
    """Where brokers authorise, the store is theirs alone; so it stays for as long as its data is
    there. Whoever says something else about it is left alone."""
    given = options.overrides
    is_wanted = options.is_store_closed or bool(given.get(AUTHORIZER))
    if not is_wanted or SET_ACL in given or DIGEST_FILE in given:
        return {}
    return {SET_ACL: "true", DIGEST_FILE: str(digest_path(options.data.absolute()))}
