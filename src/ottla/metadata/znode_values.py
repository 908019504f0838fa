"""What Kafka's znodes hold, as values, and the JSON rules that they share."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ottla.errors import OttlaError
from ottla.types import Endpoint, TopicId, TopicPartition, parse_topic_id

NO_LEADER = -1
LEADER_DURING_DELETE = -2
NO_EPOCH = -1
EPOCH_DURING_DELETE = -2

Json = dict[str, Any]


class BadZnodeError(OttlaError):
    """A znode whose bytes Kafka would not read either; names the path."""


class ReplicaAssignment(NamedTuple):
    """Replicas of one partition; adding and removing are non-empty while KIP-455 moves it."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_being_reassigned(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas that are left once the move is done."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas as they were before the move."""
        return tuple(replica for replica in self.replicas if replica not in self.adding)

    def reassign_to(self, target: Iterable[int]) -> ReplicaAssignment:
        """The move to `target`, even while another move runs: both start at `origin` (KIP-455)."""
        wanted, origin = tuple(dict.fromkeys(target)), self.origin
        replicas = tuple(dict.fromkeys((*wanted, *origin)))
        return ReplicaAssignment(
            replicas,
            adding=tuple(replica for replica in replicas if replica not in origin),
            removing=tuple(replica for replica in replicas if replica not in wanted),
        )


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """What a topic znode holds. `topic_id` is None where an old tool wrote the node."""

    partitions: dict[int, ReplicaAssignment]
    topic_id: TopicId | None = None


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """A broker's registration."""

    broker_id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    jmx_port: int = -1
    timestamp_ms: int = 0
    features: Mapping[str, Any] = field(default_factory=dict)

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((e for e in self.endpoints if e.listener == listener), None)


class LeaderAndIsr(NamedTuple):
    """Leadership of one partition as stored in its state znode.

    `controller_epoch` is that of the controller which wrote it, `zk_version` the node's version.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    zk_version: int = 0


class ConfigChange(NamedTuple):
    """Which entity's config changed: `topics/foo`, `users/u/clients/c`, `brokers/<default>`."""

    entity_path: str


class ProducerIdBlock(NamedTuple):
    broker_id: int
    block_start: int
    block_end: int


class Features(NamedTuple):
    """The /feature node; status 1 is enabled, 0 disabled."""

    features: Mapping[str, Any]
    status: int = 1
    version: int = 1


def dump(value: Json) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def load(data: bytes | None) -> Json | None:
    """The JSON object in `data`, or None for anything else (also for hostile nesting)."""
    if not data:
        return None
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def integers(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, list):
        return None
    # JSON has no other whole numbers. A failover reads tens of thousands of lists: `any` over a
    # generator would take three times as long.
    for item in value:
        if type(item) is not int:
            return None
    return tuple(value)


MAX_INT32 = 2**31 - 1
MAX_INT64 = 2**63 - 1
# What a topic can be called (`ottla.topics.names` says why one cannot).
_TOPIC_NAME = re.compile(r"(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}")


def number_up_to(value: object, highest: int) -> int | None:
    """From 0 on; None also for what would fit no field of a request."""
    number = integer(value)
    return number if number is not None and 0 <= number <= highest else None


def topic_name(value: object) -> str | None:
    """None for what cannot be a topic's name, nor a part of a znode's path."""
    return value if isinstance(value, str) and _TOPIC_NAME.fullmatch(value) else None


def partition_list(partitions: Iterable[TopicPartition]) -> list[Json]:
    return [{"topic": tp.topic, "partition": tp.partition} for tp in partitions]


def read_partition_list(data: bytes | None) -> list[TopicPartition]:
    entries = (load(data) or {}).get("partitions")
    found = []
    for entry in entries if isinstance(entries, list) else []:
        topic = entry.get("topic") if isinstance(entry, dict) else None
        partition = integer(entry.get("partition")) if isinstance(entry, dict) else None
        if isinstance(topic, str) and partition is not None:
            found.append(TopicPartition(topic, partition))
    return found


_ENDPOINT = re.compile(r"([^:/]+)://\[?([0-9a-zA-Z\-%._:]*?)\]?:(-?[0-9]+)\Z")


def connection_string(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{endpoint.listener}://{host}:{endpoint.port}"


def read_endpoints(broker_id: int, version: int, value: Json) -> tuple[Endpoint, ...]:
    if version == 1:
        host, port = value.get("host"), integer(value.get("port"))
        if not isinstance(host, str) or port is None:
            raise BadZnodeError(f"/brokers/ids/{broker_id} has no host and port")
        return (Endpoint("PLAINTEXT", host, port, "PLAINTEXT"),)
    protocols = value.get("listener_security_protocol_map")
    texts = value.get("endpoints")
    if not isinstance(texts, list):
        raise BadZnodeError(f"/brokers/ids/{broker_id} has no endpoints")
    endpoints = []
    for text in texts:
        match = _ENDPOINT.match(text) if isinstance(text, str) else None
        if match is None:
            raise BadZnodeError(f"/brokers/ids/{broker_id} has a bad endpoint: {text!r}")
        listener = match[1]
        # Before version 4 a listener's name was its protocol's name.
        protocol = protocols.get(listener) if isinstance(protocols, dict) else None
        endpoints.append(Endpoint(listener, match[2], int(match[3]), str(protocol or listener)))
    return tuple(endpoints)


def read_replica_map(value: object) -> dict[int, tuple[int, ...]]:
    found = {}
    for key, item in value.items() if isinstance(value, dict) else ():
        replicas = integers(item)
        if replicas is not None and key.isascii() and key.isdecimal():
            found[int(key)] = replicas
    return found


def read_topic_id(value: object) -> TopicId | None:
    if not isinstance(value, str):
        return None
    try:
        return parse_topic_id(value)
    except ValueError:
        return None
