"""Kafka 2.8's znodes: one class per znode, each with its path, its encoder and its decoder.

The bytes are those of kafka.zk.ZkData: compact JSON in the key order that a stock Kafka build
writes. Decoders look keys up by name and take any order. What a decoder does with garbage follows
Kafka 2.8.2: where Kafka throws, `BadZnodeError` is raised; where it shrugs, the empty value is
returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ottla.metadata.store import Stat
from ottla.metadata.znode_values import (
    EPOCH_DURING_DELETE,
    LEADER_DURING_DELETE,
    NO_EPOCH,
    NO_LEADER,
    BadZnodeError,
    BrokerInfo,
    ConfigChange,
    Features,
    Json,
    LeaderAndIsr,
    ProducerIdBlock,
    ReplicaAssignment,
    TopicAssignment,
    connection_string,
    dump,
    integer,
    integers,
    load,
    partition_list,
    read_endpoints,
    read_partition_list,
    read_replica_map,
    read_topic_id,
)
from ottla.types import TopicId, TopicPartition, format_topic_id

__all__ = [
    "DEFAULT_ENTITY",
    "EPOCH_DURING_DELETE",
    "LEADER_DURING_DELETE",
    "NO_EPOCH",
    "NO_LEADER",
    "PERSISTENT_PATHS",
    "BadZnodeError",
    "BrokerIdZnode",
    "BrokerIdsZnode",
    "BrokerInfo",
    "BrokerSequenceIdZnode",
    "ClusterIdZnode",
    "ConfigChange",
    "ConfigChangeZnode",
    "ConfigZnode",
    "ControllerEpochZnode",
    "ControllerZnode",
    "DeleteTopicZnode",
    "DeleteTopicsZnode",
    "FeatureZnode",
    "Features",
    "IsrChangeNotificationZnode",
    "LeaderAndIsr",
    "LogDirEventNotificationZnode",
    "PreferredReplicaElectionZnode",
    "ProducerIdBlock",
    "ProducerIdBlockZnode",
    "ReassignPartitionsZnode",
    "ReplicaAssignment",
    "TopicAssignment",
    "TopicPartitionStateZnode",
    "TopicPartitionZnode",
    "TopicPartitionsZnode",
    "TopicZnode",
    "TopicsZnode",
]

DEFAULT_ENTITY = "<default>"

# Paths that every starting broker creates, in Kafka's order (ZkData.PersistentZkPaths).
PERSISTENT_PATHS: tuple[str, ...] = (
    "/consumers",
    "/brokers/ids",
    "/brokers/topics",
    "/config/changes",
    "/admin/delete_topics",
    "/brokers/seqid",
    "/isr_change_notification",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
)


class ControllerZnode:
    @staticmethod
    def path() -> str:
        return "/controller"

    @staticmethod
    def encode(broker_id: int, timestamp_ms: int) -> bytes:
        return dump({"version": 1, "brokerid": broker_id, "timestamp": str(timestamp_ms)})

    @staticmethod
    def decode(data: bytes | None) -> int | None:
        """The controller's broker id; None for garbage."""
        return integer((load(data) or {}).get("brokerid"))


class ControllerEpochZnode:
    """Bare decimal text, not JSON."""

    @staticmethod
    def path() -> str:
        return "/controller_epoch"

    @staticmethod
    def encode(epoch: int) -> bytes:
        return str(epoch).encode("ascii")

    @staticmethod
    def decode(data: bytes | None) -> int:
        try:
            return int((data or b"").decode("ascii"))
        except ValueError:
            raise BadZnodeError(f"/controller_epoch does not hold a number: {data!r}") from None


class BrokerIdsZnode:
    @staticmethod
    def path() -> str:
        return "/brokers/ids"


class BrokerIdZnode:
    @staticmethod
    def path(broker_id: int) -> str:
        return f"/brokers/ids/{broker_id}"

    @staticmethod
    def encode(info: BrokerInfo) -> bytes:
        # Top-level host and port serve clients older than 0.10: the first PLAINTEXT endpoint.
        plain = next((e for e in info.endpoints if e.security_protocol == "PLAINTEXT"), None)
        value: Json = {
            "features": dict(info.features),
            "listener_security_protocol_map": {
                e.listener: e.security_protocol for e in info.endpoints
            },
            "endpoints": [connection_string(e) for e in info.endpoints],
        }
        if info.rack is not None:
            value["rack"] = info.rack
        value["jmx_port"] = info.jmx_port
        value["port"] = plain.port if plain else -1
        value["host"] = plain.host if plain else None
        value["version"] = 5
        value["timestamp"] = str(info.timestamp_ms)
        return dump(value)

    @staticmethod
    def decode(broker_id: int, data: bytes | None) -> BrokerInfo:
        value = load(data)
        version = integer(value.get("version")) if value else None
        if value is None or version is None or version < 1:
            raise BadZnodeError(f"/brokers/ids/{broker_id} cannot be read: {data!r}")
        rack = value.get("rack")
        features = value.get("features")
        timestamp = str(value.get("timestamp"))
        jmx_port = integer(value.get("jmx_port"))
        return BrokerInfo(
            broker_id=broker_id,
            endpoints=read_endpoints(broker_id, version, value),
            rack=rack if isinstance(rack, str) else None,
            jmx_port=-1 if jmx_port is None else jmx_port,
            timestamp_ms=int(timestamp) if timestamp.isdecimal() else 0,
            features=features if isinstance(features, dict) else {},
        )


class BrokerSequenceIdZnode:
    """Setting it at any version yields the next generated broker id: its new version."""

    @staticmethod
    def path() -> str:
        return "/brokers/seqid"


class TopicsZnode:
    @staticmethod
    def path() -> str:
        return "/brokers/topics"


# ZooKeeper closes the connection on which a packet of more than 1,048,575 bytes comes
# (jute.maxbuffer): whoever writes a node whose size others decide has to look first.
MAX_ZNODE_BYTES = 1_000_000


# Half the time of ReplicaAssignment(...): tens of thousands at a failover.
_as_assignment: Callable[[type[ReplicaAssignment], tuple[tuple[int, ...], ...]], ReplicaAssignment]
_as_assignment = tuple.__new__


class TopicZnode:
    @staticmethod
    def path(topic: str) -> str:
        return f"/brokers/topics/{topic}"

    @staticmethod
    def encode(
        assignment: Mapping[int, ReplicaAssignment], topic_id: TopicId | None = None
    ) -> bytes:
        ordered = sorted(assignment.items())
        value: Json = {"partitions": {str(p): list(a.replicas) for p, a in ordered}}
        if topic_id is not None:
            value["topic_id"] = format_topic_id(topic_id)
        value["adding_replicas"] = {str(p): list(a.adding) for p, a in ordered if a.adding}
        value["removing_replicas"] = {str(p): list(a.removing) for p, a in ordered if a.removing}
        value["version"] = 3
        return dump(value)

    @staticmethod
    def decode(data: bytes | None) -> TopicAssignment:
        """Garbage is a topic without partitions; one bad entry is left out, the others stay."""
        value = load(data) or {}
        adding = read_replica_map(value.get("adding_replicas"))
        removing = read_replica_map(value.get("removing_replicas"))
        partitions = {
            partition: _as_assignment(
                ReplicaAssignment,
                (replicas, adding.get(partition, ()), removing.get(partition, ())),
            )
            for partition, replicas in read_replica_map(value.get("partitions")).items()
        }
        return TopicAssignment(partitions, read_topic_id(value.get("topic_id")))


class TopicPartitionsZnode:
    @staticmethod
    def path(topic: str) -> str:
        return f"/brokers/topics/{topic}/partitions"


class TopicPartitionZnode:
    @staticmethod
    def path(tp: TopicPartition) -> str:
        return f"/brokers/topics/{tp.topic}/partitions/{tp.partition}"


class TopicPartitionStateZnode:
    @staticmethod
    def path(tp: TopicPartition) -> str:
        topic, partition = tp
        return f"/brokers/topics/{topic}/partitions/{partition}/state"

    @staticmethod
    def encode(state: LeaderAndIsr) -> bytes:
        return (
            f'{{"controller_epoch":{state.controller_epoch},"leader":{state.leader},"version":1,'
            f'"leader_epoch":{state.leader_epoch},"isr":[{",".join(map(str, state.isr))}]}}'
        ).encode("ascii")

    @staticmethod
    def decode(data: bytes | None, stat: Stat) -> LeaderAndIsr | None:
        """None for garbage: the partition then counts as one that has no state."""
        value = load(data) or {}
        leader = integer(value.get("leader"))
        leader_epoch = integer(value.get("leader_epoch"))
        controller_epoch = integer(value.get("controller_epoch"))
        isr = integers(value.get("isr"))
        if leader is None or leader_epoch is None or controller_epoch is None or isr is None:
            return None
        return LeaderAndIsr(leader, leader_epoch, isr, controller_epoch, stat.version)


class ConfigZnode:
    """Configs of an entity; `entity_type` is topics, brokers, clients, users or ips."""

    TOPICS = "topics"
    BROKERS = "brokers"

    @staticmethod
    def path(entity_type: str, name: str | None = None) -> str:
        return f"/config/{entity_type}" if name is None else f"/config/{entity_type}/{name}"

    @staticmethod
    def encode(config: Mapping[str, str]) -> bytes:
        return dump({"version": 1, "config": dict(config)})

    @staticmethod
    def decode(data: bytes | None) -> dict[str, str]:
        """Garbage counts as no config at all; values that are not strings are left out."""
        config = (load(data) or {}).get("config")
        if not isinstance(config, dict):
            return {}
        return {key: value for key, value in config.items() if isinstance(value, str)}


class ConfigChangeZnode:
    """Sequential notifications that tell brokers to read a config again."""

    PREFIX = "config_change_"

    @staticmethod
    def parent() -> str:
        return "/config/changes"

    @classmethod
    def path(cls, name: str | None = None) -> str:
        """The prefix to create under, or one existing notification."""
        return f"{cls.parent()}/{name if name is not None else cls.PREFIX}"

    @staticmethod
    def encode(change: ConfigChange) -> bytes:
        return dump({"version": 2, "entity_path": change.entity_path})

    @staticmethod
    def decode(data: bytes | None) -> ConfigChange:
        value = load(data) or {}
        entity_path = value.get("entity_path")
        if value.get("version") == 2 and isinstance(entity_path, str) and "/" in entity_path:
            return ConfigChange(entity_path)
        entity_type, name = value.get("entity_type"), value.get("entity_name")
        if value.get("version") == 1 and isinstance(entity_type, str) and isinstance(name, str):
            return ConfigChange(f"{entity_type}/{name}")
        raise BadZnodeError(f"config change notification cannot be read: {data!r}")


class DeleteTopicsZnode:
    @staticmethod
    def path() -> str:
        return "/admin/delete_topics"


class DeleteTopicZnode:
    """Its data is null: the name says everything."""

    @staticmethod
    def path(topic: str) -> str:
        return f"/admin/delete_topics/{topic}"


class ReassignPartitionsZnode:
    @staticmethod
    def path() -> str:
        return "/admin/reassign_partitions"

    @staticmethod
    def encode(reassignment: Mapping[TopicPartition, Iterable[int]]) -> bytes:
        entries = [
            {"topic": tp.topic, "partition": tp.partition, "replicas": list(replicas)}
            for tp, replicas in reassignment.items()
        ]
        return dump({"version": 1, "partitions": entries})

    @staticmethod
    def decode(data: bytes | None) -> dict[TopicPartition, tuple[int, ...]]:
        """Garbage counts as no reassignment (Kafka logs and carries on)."""
        entries = (load(data) or {}).get("partitions")
        found = {}
        for entry in entries if isinstance(entries, list) else []:
            if not isinstance(entry, dict):
                return {}
            topic, partition = entry.get("topic"), integer(entry.get("partition"))
            replicas = integers(entry.get("replicas"))
            if not isinstance(topic, str) or partition is None or replicas is None:
                return {}
            found[TopicPartition(topic, partition)] = replicas
        return found


class PreferredReplicaElectionZnode:
    @staticmethod
    def path() -> str:
        return "/admin/preferred_replica_election"

    @staticmethod
    def encode(partitions: Iterable[TopicPartition]) -> bytes:
        return dump({"version": 1, "partitions": partition_list(partitions)})

    @staticmethod
    def decode(data: bytes | None) -> list[TopicPartition]:
        return read_partition_list(data)


class IsrChangeNotificationZnode:
    """Written by leaders older than inter.broker.protocol.version 2.7."""

    PREFIX = "isr_change_"

    @staticmethod
    def parent() -> str:
        return "/isr_change_notification"

    @classmethod
    def path(cls, name: str | None = None) -> str:
        return f"{cls.parent()}/{name if name is not None else cls.PREFIX}"

    @staticmethod
    def encode(partitions: Iterable[TopicPartition]) -> bytes:
        return dump({"version": 1, "partitions": partition_list(partitions)})

    @staticmethod
    def decode(data: bytes | None) -> list[TopicPartition]:
        return read_partition_list(data)


class LogDirEventNotificationZnode:
    """A broker tells the controller that one of its log directories failed."""

    PREFIX = "log_dir_event_"
    FAILURE = 1

    @staticmethod
    def parent() -> str:
        return "/log_dir_event_notification"

    @classmethod
    def path(cls, name: str | None = None) -> str:
        return f"{cls.parent()}/{name if name is not None else cls.PREFIX}"

    @classmethod
    def encode(cls, broker_id: int) -> bytes:
        return dump({"version": 1, "broker": broker_id, "event": cls.FAILURE})

    @staticmethod
    def decode(data: bytes | None) -> int | None:
        return integer((load(data) or {}).get("broker"))


class ClusterIdZnode:
    @staticmethod
    def path() -> str:
        return "/cluster/id"

    @staticmethod
    def encode(cluster_id: str) -> bytes:
        # The version is a string here, unlike everywhere else.
        return dump({"version": "1", "id": cluster_id})

    @staticmethod
    def decode(data: bytes | None) -> str:
        cluster_id = (load(data) or {}).get("id")
        if not isinstance(cluster_id, str):
            raise BadZnodeError(f"/cluster/id cannot be read: {data!r}")
        return cluster_id


class FeatureZnode:
    STATUS_DISABLED = 0
    STATUS_ENABLED = 1

    @staticmethod
    def path() -> str:
        return "/feature"

    @staticmethod
    def encode(features: Features) -> bytes:
        levels, status, version = features
        return dump({"features": dict(levels), "version": version, "status": status})

    @staticmethod
    def decode(data: bytes | None) -> Features:
        value = load(data) or {}
        version, status = integer(value.get("version")), integer(value.get("status"))
        features = value.get("features")
        if version is None or version < 1 or status not in (0, 1) or not isinstance(features, dict):
            raise BadZnodeError(f"/feature cannot be read: {data!r}")
        return Features(features, status, version)


class ProducerIdBlockZnode:
    """The last block of producer ids that a coordinator took; set guarded by its version."""

    BLOCK_SIZE = 1000

    @staticmethod
    def path() -> str:
        return "/latest_producer_id_block"

    @staticmethod
    def encode(block: ProducerIdBlock) -> bytes:
        return dump(
            {
                "version": 1,
                "broker": block.broker_id,
                "block_start": str(block.block_start),
                "block_end": str(block.block_end),
            }
        )

    @staticmethod
    def decode(data: bytes | None) -> ProducerIdBlock | None:
        """None while no block was ever taken (null data)."""
        if not data:
            return None
        value = load(data) or {}
        broker_id = integer(value.get("broker"))
        try:
            start, end = int(str(value["block_start"])), int(str(value["block_end"]))
        except (KeyError, ValueError):
            broker_id = None
        if broker_id is None:
            raise BadZnodeError(f"/latest_producer_id_block cannot be read: {data!r}")
        return ProducerIdBlock(broker_id, start, end)
