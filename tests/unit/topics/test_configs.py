"""Topic configs: checks and texts, resolution over the broker's values, described entries."""

from __future__ import annotations

from dataclasses import fields

import pytest

from ottla.config.broker import BrokerConfig
from ottla.config.catalog import broker_definitions
from ottla.config.definitions import ConfigError, ConfigSource, ConfigType, Synonym
from ottla.errors import ErrorCode, KafkaError
from ottla.topics import configs
from ottla.topics.configs import LogConfig, describe, sound_overrides, validate_topic_configs


def broker(**given: str) -> BrokerConfig:
    base = {"zookeeper.connect": "z:1", "listeners": "PLAINTEXT://h:1"}
    return BrokerConfig.from_properties(
        base | {name.replace("__", "."): value for name, value in given.items()}
    )


def test_attributes_defaults_and_table_agree() -> None:
    """Without a broker, with a default broker, and as a plain dataclass: the same."""
    assert LogConfig.resolve() == LogConfig() == LogConfig.resolve(broker())
    others = ("overrides", "validates_records")
    settings = [field for field in fields(LogConfig) if field.name not in others]
    assert sorted(configs.topic_definitions()) == [f.name.replace("_", ".") for f in settings]
    for field in settings:
        assert type(getattr(LogConfig.resolve(), field.name)) is type(field.default)


def test_what_the_topic_set_itself_is_kept_as_it_was_given() -> None:
    own = {"retention.ms": "5", "cleanup.policy": "compact,delete"}
    resolved = LogConfig.resolve(broker(log__retention__ms="7"), own)
    assert resolved.overrides == own and resolved.retention_ms == 5
    assert LogConfig.resolve(broker(log__retention__ms="7")).overrides == {}


@pytest.mark.parametrize(("mode", "validates"), [("full", True), ("header", False)])
def test_the_broker_says_whether_records_are_looked_at(mode: str, validates: bool) -> None:
    resolved = LogConfig.resolve(broker(ottla__records__validate=mode), {"retention.ms": "5"})
    assert resolved.validates_records is validates


def test_another_word_for_it_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"ottla\.records\.validate"):
        broker(ottla__records__validate="none")


def test_synonyms_exist_and_have_the_topic_configs_type() -> None:
    for name, synonym in configs.SYNONYMS.items():
        assert broker_definitions()[synonym].type is configs.topic_definitions()[name].type


def test_broker_values_are_the_defaults_and_overrides_win() -> None:
    tuned = broker(log__retention__hours="1", log__segment__bytes="100")
    resolved = LogConfig.resolve(
        tuned, {"segment.bytes": "200", "cleanup.policy": "compact,delete", "preallocate": "TRUE"}
    )
    assert (resolved.retention_ms, resolved.segment_bytes) == (3_600_000, 200)
    assert resolved.cleanup_policy == {"compact", "delete"}
    assert resolved.compact and resolved.delete and resolved.preallocate is True


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("segment.bytes", "13", "Value must be at least 14"),
        ("segment.bytes", "x", "Not a number of type INT"),
        ("retention.ms", "-2", "Value must be at least -1"),
        ("retention.bytes", "1.5", "Not a number of type LONG"),
        ("min.cleanable.dirty.ratio", "1.5", "Value must be no more than 1"),
        ("min.cleanable.dirty.ratio", "-0.1", "Value must be at least 0"),
        ("max.compaction.lag.ms", "0", "Value must be at least 1"),
        ("min.insync.replicas", "0", "Value must be at least 1"),
        ("preallocate", "yes", "Expected value to be either true or false"),
        (
            "compression.type",
            "brotli",
            "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
        ),
        ("cleanup.policy", "keep", "String must be one of: compact, delete"),
        ("message.timestamp.type", "Now", "String must be one of: CreateTime, LogAppendTime"),
        ("message.format.version", "9", "Version `9` is not a valid version"),
        (
            "leader.replication.throttled.replicas",
            "0-1",
            "leader.replication.throttled.replicas must be the literal '*' or a list of replicas "
            "in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
        ),
    ],
)
def test_bad_values(name: str, value: str, reason: str) -> None:
    with pytest.raises(KafkaError) as caught:
        validate_topic_configs({name: value})
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert caught.value.message == f"Invalid value {value} for configuration {name}: {reason}"


def test_unknown_names() -> None:
    with pytest.raises(KafkaError) as caught:
        validate_topic_configs({"retention.ms": "x", "no.such": "1"})
    assert caught.value.message == "Unknown topic config name: no.such"


def test_lags_must_not_cross() -> None:
    validate_topic_configs({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"})
    with pytest.raises(KafkaError) as caught:
        validate_topic_configs({"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"})
    assert caught.value.message == (
        "conflict topic config setting min.compaction.lag.ms (6) > max.compaction.lag.ms (5)"
    )


def test_what_a_znode_holds_is_sifted() -> None:
    stored = {"retention.ms": "5", "segment.bytes": "x", "no.such": "1"}
    assert sound_overrides(stored) == {"retention.ms": "5"}
    assert sound_overrides({"retention.ms": 5}) == {}  # type: ignore[dict-item]


def test_described_entries() -> None:
    tuned = broker(log__segment__bytes="100", log__retention__hours="1").with_dynamic(
        {"message.max.bytes": "7"}, {"message.max.bytes": "8"}
    )
    shown = {e.name: e for e in describe(tuned, {"segment.bytes": "200", "preallocate": "false"})}
    assert list(shown) == list(configs.topic_definitions())
    # Kafka's tools print these two in the order they come.
    assert list(shown).index("segment.bytes") < list(shown).index("retention.ms")
    segment = shown["segment.bytes"]
    assert (segment.value, segment.source, segment.type) == (
        "200",
        ConfigSource.TOPIC,
        ConfigType.INT,
    )
    assert segment.synonyms == [
        Synonym("segment.bytes", "200", ConfigSource.TOPIC),
        Synonym("log.segment.bytes", "100", ConfigSource.STATIC_BROKER),
        Synonym("log.segment.bytes", "1073741824", ConfigSource.DEFAULT),
    ]
    assert [s.source for s in shown["max.message.bytes"].synonyms] == [
        ConfigSource.DYNAMIC_BROKER,
        ConfigSource.DYNAMIC_DEFAULT_BROKER,
        ConfigSource.DEFAULT,
    ]
    # Hours are no synonym of retention.ms (ConfigHelper.configSynonyms): shown as a default.
    assert (shown["retention.ms"].value, shown["retention.ms"].source) == (
        "3600000",
        ConfigSource.DEFAULT,
    )
    throttled = shown["leader.replication.throttled.replicas"]
    assert (throttled.value, throttled.synonyms) == ("", [])
    assert shown["min.cleanable.dirty.ratio"].value == "0.5"
    assert all(not e.read_only and not e.is_sensitive and e.documentation for e in shown.values())


def test_some_entries_and_unknown_ones() -> None:
    names = [e.name for e in describe(broker(), {}, ["segment.ms", "no.such"])]
    assert names == ["segment.ms"]
    odd = describe(broker(), {"old.name": "x", "segment.ms": "soon"}, ["old.name", "segment.ms"])
    assert [(e.name, e.value, e.is_sensitive, e.source) for e in odd] == [
        ("segment.ms", "604800000", False, ConfigSource.DEFAULT),
        ("old.name", None, True, ConfigSource.TOPIC),
    ]
