"""What of a broker's configuration may change while it runs."""

from __future__ import annotations

import logging

import pytest

from ottla.config.broker import BrokerConfig
from ottla.config.catalog import all_definitions
from ottla.config.definitions import ConfigError
from ottla.config.dynamic import check_change, check_dynamic, needs_restart, sound_entries
from ottla.config.order import scala_map_order

BASE = {"zookeeper.connect": "localhost:2181", "broker.id": "1", "listeners": "PLAINTEXT://h:9092"}


def config(**given: str) -> BrokerConfig:
    return BrokerConfig.from_properties(
        BASE | {name.replace("_", "."): value for name, value in given.items()}
    )


@pytest.mark.parametrize(
    ("changes", "per_broker", "text"),
    [
        ({"broker.id": "2"}, True, "Cannot update these configs dynamically: Set(broker.id)"),
        (
            {"ssl.keystore.location": "x"},
            True,
            "These security configs can be dynamically updated only per-listener using the "
            "listener prefix: HashSet(ssl.keystore.location)",
        ),
        (
            {"listeners": "PLAINTEXT://a:1"},
            False,
            "Cannot update these configs at default cluster level, broker id must be specified: "
            "Set(listeners)",
        ),
        (
            {"listener.name.x.ssl.keystore.location": "y"},
            False,
            "Cannot update these configs at default cluster level, broker id must be specified: "
            "Set(listener.name.x.ssl.keystore.location)",
        ),
        (
            {"log.segment.bytes": "13"},
            False,
            "Invalid value 13 for configuration log.segment.bytes: Value must be at least 14",
        ),
    ],
)
def test_dynamic_changes_are_refused(changes: dict[str, str], per_broker: bool, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_dynamic(changes, per_broker=per_broker)
    assert str(caught.value) == text


def test_dynamic_changes_that_pass() -> None:
    check_dynamic({"log.segment.bytes": "14", "custom.name": "x"}, per_broker=False)
    check_dynamic({"listeners": "PLAINTEXT://a:1"}, per_broker=True)
    check_dynamic({"listener.name.x.max.connections": "5"}, per_broker=False)


@pytest.mark.parametrize(
    ("name", "old", "new", "reason"),
    [
        ("num.io.threads", 8, 4, None),
        ("num.io.threads", 8, 16, None),
        ("num.io.threads", 9, 4, None),
        ("num.io.threads", 8, 3, "should be at least half the current value 8"),
        ("num.io.threads", 8, 17, "should not be greater than double the current value 8"),
        ("num.replica.fetchers", 1, 0, "should be at least 1"),
        ("log.cleaner.threads", 1, 3, "increased to more than double the current value 1"),
        ("log.cleaner.threads", 4, 1, "reduced to less than half the current value 4"),
        ("log.cleaner.threads", 4, 0, "should be at least 1"),
    ],
)
def test_thread_counts_change_in_steps(name: str, old: int, new: int, reason: str | None) -> None:
    current = BrokerConfig.from_properties(BASE | {name: str(old)})
    proposed = current.proposed({name: str(new)}, {})
    if reason is None:
        check_change(current, proposed)
        return
    with pytest.raises(ConfigError) as caught:
        check_change(current, proposed)
    text = str(caught.value)
    assert text.startswith("Invalid value org.apache.kafka.common.config.ConfigException: ")
    assert text.endswith(f"{reason} for configuration Invalid dynamic configuration")


def test_listeners_wait_for_a_start() -> None:
    current = config()
    assert needs_restart(current, {"listeners": BASE["listeners"]}) == []
    assert needs_restart(current, {"listeners": "PLAINTEXT://h:1", "log.roll.ms": "5"}) == [
        "listeners"
    ]
    assert needs_restart(current, {"listener.name.plaintext.max.connections": "5"}) == []
    started = current.proposed({}, {"advertised.listeners": "PLAINTEXT://other:1"})
    assert needs_restart(started, {"advertised.listeners": "PLAINTEXT://other:1"}) == []
    assert needs_restart(started, {}) == ["advertised.listeners"]
    with pytest.raises(ConfigError, match="listeners cannot be changed while this broker runs"):
        check_change(current, current.proposed({}, {"listeners": "PLAINTEXT://h:1"}))


def test_what_means_nothing_here_may_change_at_any_time() -> None:
    current = config()
    for name, text in {
        "sasl.kerberos.min.time.before.relogin": "5",
        "ssl.protocol": "TLSv1.2",
        "ssl.client.auth": "required",
        "principal.builder.class": "a.B",
        "listener.name.plaintext.ssl.keystore.location": "/x",
        "listener.name.plaintext.listeners": "PLAINTEXT://h:1",
    }.items():
        check_dynamic({name: text}, per_broker=True)
        assert needs_restart(current, {name: text}) == []
        check_change(current, current.proposed({}, {name: text}))
    users = {"listener.name.plaintext.plain.sasl.jaas.config": "x"}
    assert needs_restart(current, users) == list(users)


def test_stored_entries_that_do_not_hold_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    stored = {
        "log.segment.bytes": "x",
        "broker.id": "9",
        "ssl.keystore.type": "JKS",
        "listener.name.a.sasl.jaas.config": "encoded",
        "advertised.listeners": "PLAINTEXT://other:1",
        "leader.replication.throttled.rate": "-1",
        "follower.replication.throttled.rate": "5",
        "custom": "1",
    }
    with caplog.at_level(logging.ERROR):
        kept = sound_entries(stored, per_broker=False)
    assert kept == {"follower.replication.throttled.rate": "5", "custom": "1"}
    assert "broker.id" in caplog.text
    assert "advertised.listeners" in sound_entries(stored, per_broker=True)


def test_entries_that_do_not_go_together_change_nothing(caplog: pytest.LogCaptureFixture) -> None:
    plain = config()
    with caplog.at_level(logging.ERROR):
        assert plain.with_dynamic({"log.retention.ms": "0"}, {}) is plain
    assert "log.retention.ms must be unlimited" in caplog.text


def test_any_negative_retention_is_none() -> None:
    assert config().proposed({"log.retention.ms": "-2"}, {}).integer("log.retention.ms") == -1


def test_described_names_are_kafkas_in_kafkas_order() -> None:
    """The first and last of the answer of Apache Kafka 2.8.2, and all of its names."""
    known = [
        name for name in all_definitions() if not name.startswith(("ottla.", "sasl.oauthbearer."))
    ]
    assert len(known) == 218
    ordered = scala_map_order(known)
    assert ordered[:6] == [
        "log.cleaner.min.compaction.lag.ms",
        "offsets.topic.num.partitions",
        "log.flush.interval.messages",
        "controller.socket.timeout.ms",
        "principal.builder.class",
        "log.flush.interval.ms",
    ]
    assert ordered[-3:] == [
        "replication.quota.window.num",
        "advertised.listeners",
        "queued.max.request.bytes",
    ]
    described = [entry.name for entry in config().describe() if entry.name in set(known)]
    assert described == ordered


def test_configs_that_nothing_reads_are_described_as_kafka_does() -> None:
    entries = {entry.name: entry for entry in config(ssl_protocol="TLSv1.2").describe()}
    assert (entries["port"].value, entries["port"].read_only) == ("9092", True)
    assert (entries["ssl.protocol"].value, entries["ssl.protocol"].read_only) == ("TLSv1.2", False)
    assert (entries["ssl.key.password"].value, entries["ssl.key.password"].is_sensitive) == (
        None,
        True,
    )


def test_configs_of_a_listener_have_the_type_of_their_base() -> None:
    limit = "listener.name.plaintext.max.connections"
    password = "listener.name.plaintext.plain.sasl.jaas.config"
    given = BrokerConfig.from_properties(BASE | {limit: "5", password: "x"})
    entries = {entry.name: entry for entry in given.describe()}
    assert (entries[limit].value, entries[limit].read_only) == ("5", True)
    assert [synonym.name for synonym in entries[limit].synonyms] == [limit, "max.connections"]
    assert (entries[password].value, entries[password].is_sensitive) == (None, True)
