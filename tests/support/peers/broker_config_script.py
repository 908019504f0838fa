"""Changes of broker configs, good and bad, as any cluster of Kafka's protocol answers them."""

from __future__ import annotations

import json
from enum import IntEnum
from typing import Any, NamedTuple

from ottla.client.connection import Connection
from ottla.runtime import system_runtime
from ottla.wire import messages as m
from tests.support.peers.java_tools import kazoo

BROKER = 4
SET, DELETE, APPEND, SUBTRACT = range(4)
HOST = "127.0.0.1"

# What each cluster has of its own: where it is, and what its fixture sets.
PLACES = {
    "advertised.listeners", "listeners", "log.dirs", "offsets.topic.num.partitions",
    "transaction.state.log.num.partitions", "zookeeper.connect",
}  # fmt: skip
OWN_NAMES = {
    "ottla.delete.retention.ms",
    "ottla.lifecycle.topic.enable", "ottla.metrics.hosts", "ottla.metrics.port",
    "ottla.records.validate", "ottla.zookeeper.digest.file",
    # Kafka 3.1's.
    "sasl.oauthbearer.clock.skew.seconds", "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.url", "sasl.oauthbearer.sub.claim.name",
    "sasl.oauthbearer.token.endpoint.url",
    "ottla.scheduling.batch.enable",
}  # fmt: skip
# Finite here (ADR 37).
OWN_DEFAULTS = {"queued.max.request.bytes"}
# Kafka hides these (KRaft's), but forgets to after the first change.
KRAFT_NAMES = {
    "broker.heartbeat.interval.ms", "broker.session.timeout.ms", "controller.listener.names",
    "controller.quorum.append.linger.ms", "controller.quorum.election.backoff.max.ms",
    "controller.quorum.election.timeout.ms", "controller.quorum.fetch.timeout.ms",
    "controller.quorum.request.timeout.ms", "controller.quorum.retry.backoff.ms",
    "controller.quorum.voters", "initial.broker.registration.timeout.ms", "metadata.log.dir",
    "node.id", "process.roles", "sasl.mechanism.controller.protocol",
}  # fmt: skip


class Refusal(IntEnum):
    UNKNOWN_SERVER_ERROR = -1
    INVALID_REQUEST = 42


# Kafka's answer where the request runs into an exception that nobody thought of.
KAFKA_FAILS = (Refusal.UNKNOWN_SERVER_ERROR, None)


class Step(NamedTuple):
    """`changes` of an incremental step are (operation, name, value), else (name, value)."""

    resource: str
    changes: list[Any]
    incremental: bool = True
    kind: int = BROKER
    validate_only: bool = False
    # Set where Kafka fails without a reason and Ottla gives one.
    why_different: str | None = None


def _set(resource: str, **configs: str) -> Step:
    return Step(resource, [(SET, name.replace("_", "."), text) for name, text in configs.items()])


STEPS = [
    _set("0", log_retention_ms="1000"),
    _set("", log_retention_ms="2000", message_max_bytes="2000000"),
    Step("0", [(SET, "log.retention.ms", "5")], validate_only=True),
    _set("0", leader_replication_throttled_rate="1000"),
    _set("0", leader_replication_throttled_rate="-1"),
    _set("0", leader_replication_throttled_rate="x"),
    _set("", follower_replication_throttled_rate="7"),
    _set("0", replica_alter_log_dirs_io_max_bytes_per_second="5000"),
    # what may not change
    _set("0", broker_id="3"),
    _set("", broker_id="3"),
    _set("0", log_retention_hours="3"),
    _set("0", log_dirs="/tmp/x"),
    _set("0", zookeeper_connect="x:1"),
    _set("0", default_replication_factor="2"),
    _set("", listeners="PLAINTEXT://:1"),
    _set("", sasl_jaas_config="x"),
    _set("0", ssl_keystore_location="/x"),
    _set("0", ssl_truststore_type="JKS"),
    Step("", [(SET, "listener.name.plaintext.ssl.keystore.location", "x")]),
    Step("", [(SET, "listener.name.plaintext.max.connections", "10")]),
    Step("", [(DELETE, "listener.name.plaintext.max.connections", None)]),
    # bad values
    _set("0", log_segment_bytes="13"),
    _set("0", log_segment_bytes="x"),
    _set("0", log_retention_ms="-2"),
    _set("0", log_retention_ms="0"),
    _set("0", log_roll_ms="0"),
    _set("0", compression_type="rar"),
    _set("0", log_cleanup_policy="burn"),
    _set("0", unclean_leader_election_enable="maybe"),
    _set("0", log_message_timestamp_type="Never"),
    _set("0", min_insync_replicas="0"),
    _set("0", log_cleaner_dedupe_buffer_size="100"),
    _set("0", max_connections_per_ip="0"),
    _set("0", max_connections="-1"),
    # threads: at least half of what there is, at most twice
    _set("0", num_io_threads="0"),
    _set("0", num_io_threads="3"),
    _set("0", num_io_threads="17"),
    _set("0", num_io_threads="16"),
    _set("0", num_network_threads="7"),
    _set("0", num_replica_fetchers="0"),
    _set("0", num_replica_fetchers="-1"),
    _set("0", num_replica_fetchers="3"),
    _set("0", num_replica_fetchers="2"),
    _set("", background_threads="21"),
    _set("", num_recovery_threads_per_data_dir="2"),
    Step("0", [(SET, "log.cleaner.threads", "0")], why_different="division by zero"),
    _set("0", log_cleaner_threads="3"),
    _set("0", log_cleaner_threads="2"),
    # names nobody knows
    _set("0", not_a_config="1"),
    _set("", not_a_config="1"),
    _set("", log4j_x="1"),
    # the resource
    _set("1", log_retention_ms="5"),
    _set("x", log_retention_ms="5"),
    _set("-1", log_retention_ms="5"),
    # the operations
    Step("0", [(SET, "log.retention.ms", None)]),
    Step("0", [(SET, "log.retention.ms", "1"), (DELETE, "log.retention.ms", None)]),
    Step("0", [(APPEND, "log.retention.ms", "1")]),
    Step("0", [(SUBTRACT, "log.retention.ms", "1")]),
    Step("0", [(APPEND, "log.cleanup.policy", "compact")]),
    Step("0", [(SUBTRACT, "log.cleanup.policy", "delete")]),
    Step("0", [(APPEND, "not.a.config", "1")], why_different="no such key in a map"),
    Step(
        "0",
        [(APPEND, "leader.replication.throttled.rate", "1")],
        why_different="no such key in a map",
    ),
    Step("0", [(DELETE, "not.there", None)]),
    Step("0", []),
    Step("0", [("log.retention.ms", None)], incremental=False, why_different="null pointer"),
    Step("0", [("log.segment.bytes", "5000"), ("log.preallocate", "true")], incremental=False),
    Step("", [("log.segment.bytes", "4000")], incremental=False),
    Step("", [("broker.id", "1")], incremental=False),
    Step("", [("advertised.listeners", "PLAINTEXT://:1")], incremental=False),
    Step("1", [("log.segment.bytes", "4000")], incremental=False),
    Step("x", [], incremental=False, kind=0),
    Step("x", [], incremental=False, kind=1),
    Step("x", [], kind=1),
    Step("", [], incremental=False),
]


# What Ottla reads at its start only, and therefore refuses while it runs; Kafka takes it over.
READ_AT_START = {
    "listeners", "advertised.listeners", "listener.security.protocol.map",
    "sasl.mechanism.inter.broker.protocol", "sasl.enabled.mechanisms",
    "listener.name.plaintext.sasl.enabled.mechanisms", "listener.name.plaintext.sasl.jaas.config",
}  # fmt: skip
# Values other than the default, where one of the type alone would not do.
_VALUES = {
    "advertised.listeners": "PLAINTEXT://127.0.0.1:1",
    "listeners": "PLAINTEXT://127.0.0.1:1",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,X:PLAINTEXT",
    "background.threads": "11",
    "compression.type": "gzip",
    "log.cleaner.threads": "2",
    "log.cleanup.policy": "compact",
    "log.message.format.version": "2.7",
    "log.message.timestamp.type": "LogAppendTime",
    "max.connections.per.ip.overrides": "127.0.0.1:50",
    "metric.reporters": "",
    "num.io.threads": "9",
    "num.network.threads": "4",
    "num.recovery.threads.per.data.dir": "2",
    "num.replica.fetchers": "2",
    "principal.builder.class": (
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
    ),
    "ssl.client.auth": "none",
    "ssl.engine.factory.class": "org.apache.kafka.common.security.ssl.DefaultSslEngineFactory",
}
# By the type that DescribeConfigs tells: boolean, int, short, long, double.
_VALUES_BY_TYPE = {1: "true", 3: "1000", 4: "1000", 5: "1000000", 6: "0.7"}


class Answer(NamedTuple):
    code: int
    message: str | None


class Entry(NamedTuple):
    """What DescribeConfigs says of one config."""

    name: str
    value: str | None
    source: int
    type: int
    read_only: bool
    is_sensitive: bool
    synonyms: list[tuple[str, str | None, int]]


def dynamic_value(entry: Entry) -> str:
    """A value for a config that may be changed at run time."""
    return _VALUES.get(entry.name, _VALUES_BY_TYPE.get(entry.type, "abc"))


async def alter(port: int, step: Step) -> Answer:
    """Sends one step to the broker at the port."""
    connection = await _open(port)
    try:
        if step.incremental:
            request: Any = m.IncrementalAlterConfigsRequest
            configs = [
                request.AlterableConfig(name=name, config_operation=operation, value=text)
                for operation, name, text in step.changes
            ]
        else:
            request = m.AlterConfigsRequest
            configs = [
                request.AlterableConfig(name=name, value=text) for name, text in step.changes
            ]
        resource = request.AlterConfigsResource(
            resource_type=step.kind, resource_name=step.resource, configs=configs
        )
        answer = await connection.send(
            request(resources=[resource], validate_only=step.validate_only), 0
        )
        response = answer.responses[0]
        return Answer(response.error_code, response.error_message)
    finally:
        connection.close()


async def describe(port: int, resource: str) -> list[Entry]:
    """The entries of a broker or, for "", of the cluster's default, in the answer's order."""
    connection = await _open(port)
    try:
        request = m.DescribeConfigsRequest(
            resources=[
                m.DescribeConfigsRequest.DescribeConfigsResource(
                    resource_type=BROKER, resource_name=resource, configuration_keys=None
                )
            ],
            include_synonyms=True,
        )
        answer = await connection.send(request, 3)
        return [_entry(config) for config in answer.results[0].configs]
    finally:
        connection.close()


def _entry(config: Any) -> Entry:
    return Entry(
        config.name,
        config.value,
        config.config_source,
        config.config_type,
        config.read_only,
        config.is_sensitive,
        [(synonym.name, synonym.value, synonym.source) for synonym in config.synonyms],
    )


def stored(store: str, entity: str) -> Any:
    """The config znode of a broker or of `<default>`, and how often a note named it."""
    with kazoo(store) as client:
        data, _ = client.get(f"/config/brokers/{entity}")
        notes = [
            json.loads(client.get(f"/config/changes/{name}")[0])
            for name in client.get_children("/config/changes")
        ]
    path = {"version": 2, "entity_path": f"brokers/{entity}"}
    return json.loads(data), notes.count(path)


async def _open(port: int) -> Connection:
    return await Connection.open(system_runtime().network, HOST, port, client_id="configs")
