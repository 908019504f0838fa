"""Topic configs: definitions, checks, the resolved LogConfig, entries for DescribeConfigs
(kafka.log.LogConfig, ConfigHelper.createTopicConfigEntry)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from ottla.config.definitions import (
    ConfigDef,
    ConfigEntry,
    ConfigError,
    ConfigSource,
    ConfigType,
    ConfigValue,
    Synonym,
    parse_table,
    to_text,
)
from ottla.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig

# In the order of Kafka 2.8's answers to DescribeConfigs: its tools print what shares a bucket of
# a HashMap in that order.
_TABLE = """
compression.type Str producer in:uncompressed,zstd,lz4,snappy,gzip,producer
  Codec that batches are stored with; producer keeps what was sent.
leader.replication.throttled.replicas List "" replicas
  Replicas whose traffic is throttled on the leader: partition:broker pairs, or * for all.
message.downconversion.enable B true
  Whether old consumers may have records converted.
min.insync.replicas I 1 >=1
  In-sync replicas needed to accept a write with acks=all.
segment.jitter.ms L 0 >=0
  Random part taken off the roll time.
cleanup.policy List delete in:compact,delete
  Whether old segments are deleted, compacted, or both.
flush.ms L LMAX >=0
  Time before the log is flushed to disk.
follower.replication.throttled.replicas List "" replicas
  Replicas whose traffic is throttled on the follower: partition:broker pairs, or * for all.
segment.bytes I 1073741824 >=14
  Size of a segment file.
retention.ms L 604800000 >=-1
  How long records are kept; -1 forever.
flush.messages L LMAX >=0
  Records before the log is flushed to disk.
message.format.version Str 2.8-IV1 version
  Record format on disk; format 2 is always used.
max.compaction.lag.ms L LMAX >=1
  Age by which a record is compacted; also rolls the segment.
file.delete.delay.ms L 60000 >=0
  Pause between setting a file aside and removing it.
max.message.bytes I 1048588 >=0
  Largest record batch.
min.compaction.lag.ms L 0 >=0
  Age below which a record is not compacted.
message.timestamp.type Str CreateTime in:CreateTime,LogAppendTime
  Whether a record has its producer's or its broker's time.
preallocate B false
  Whether a segment file is made at its full size.
min.cleanable.dirty.ratio D 0.5 0..1
  Share of uncompacted bytes that makes the log worth compacting.
index.interval.bytes I 4096 >=0
  Bytes of log between two index entries.
unclean.leader.election.enable B false
  Whether a replica outside the in-sync set may lead when no other can.
retention.bytes L -1
  Size a partition may reach before old segments go; -1 no limit.
delete.retention.ms L 86400000 >=0
  How long tombstones and transaction markers stay after compaction.
segment.ms L 604800000 >=1
  Time before a new segment is begun.
message.timestamp.difference.max.ms L LMAX >=0
  Allowed distance between the producer's time and the broker's.
segment.index.bytes I 10485760 >=0
  Size of an index file.
ottla.delete.retention.ms L 0 >=0
  How long the topic is kept after its deletion and can be brought back; 0: not at all.
ottla.delete.protect B false
  Whether deletion of the topic is refused.
ottla.key.guard Str "" guard
  Until when leaders refuse keys of other partitions, PARTITIONER@MILLISECONDS; a resize sets it.
"""

# LogConfig.TopicConfigSynonyms: the broker config that gives a topic config its default.
SYNONYMS: dict[str, str] = {
    "cleanup.policy": "log.cleanup.policy",
    "compression.type": "compression.type",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "index.interval.bytes": "log.index.interval.bytes",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "max.message.bytes": "message.max.bytes",
    "message.downconversion.enable": "log.message.downconversion.enable",
    "message.format.version": "log.message.format.version",
    "message.timestamp.difference.max.ms": "log.message.timestamp.difference.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "min.insync.replicas": "min.insync.replicas",
    "ottla.delete.retention.ms": "ottla.delete.retention.ms",
    "preallocate": "log.preallocate",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.index.bytes": "log.index.size.max.bytes",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.ms": "log.roll.ms",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}

# Ottla's own (ADR 50); Apache Kafka knows neither.
DELETE_RETENTION = "ottla.delete.retention.ms"
DELETE_PROTECT = "ottla.delete.protect"

_definitions: dict[str, ConfigDef] | None = None


def topic_definitions() -> Mapping[str, ConfigDef]:
    """All topic configs by name; parsed from the table on first use."""
    global _definitions
    if _definitions is None:
        _definitions = parse_table(_TABLE)
    return _definitions


@dataclass(frozen=True, slots=True)
class LogConfig:
    """What one log goes by: the topic's own values over the broker's defaults."""

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    compression_type: str = "producer"
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = 2**63 - 1
    flush_ms: int = 2**63 - 1
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    index_interval_bytes: int = 4096
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    max_compaction_lag_ms: int = 2**63 - 1
    max_message_bytes: int = 1_048_588
    message_downconversion_enable: bool = True
    message_format_version: str = "2.8-IV1"
    message_timestamp_difference_max_ms: int = 2**63 - 1
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    ottla_delete_protect: bool = False
    ottla_delete_retention_ms: int = 0
    ottla_key_guard: str = ""
    preallocate: bool = False
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    unclean_leader_election_enable: bool = False
    # The broker's own ottla.records.validate: whether a leader looks at all records it is sent.
    validates_records: bool = True
    # The topic's own values as they are stored, for people to read.
    overrides: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def compact(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        return "delete" in self.cleanup_policy

    @staticmethod
    def resolve(
        broker_config: BrokerConfig | None = None, overrides: Mapping[str, str] | None = None
    ) -> LogConfig:
        """The topic's overrides over the broker's settings (Kafka's defaults without a broker).

        Raises KafkaError(INVALID_CONFIG) where an override does not hold: pass what comes from
        a znode through `sound_overrides` first.
        """
        values = _values(broker_config, overrides or {})
        attributes = {name.replace(".", "_"): value for name, value in values.items()}
        policies = cast("tuple[str, ...]", attributes.pop("cleanup_policy"))
        own = dict(overrides or {})
        if broker_config is not None:
            mode = broker_config.text("ottla.records.validate")
            attributes["validates_records"] = mode == "full"
        return LogConfig(cleanup_policy=frozenset(policies), overrides=own, **attributes)  # type: ignore[arg-type]  # types follow the table, checked in tests


def validate_topic_configs(overrides: Mapping[str, str]) -> None:
    """LogConfig.validate: raises KafkaError(INVALID_CONFIG) with Kafka's text.

    As in Kafka, a compaction lag is compared with the other's default, not the broker's value.
    """
    values = _values(None, overrides)
    shortest, longest = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    if cast("int", shortest) > cast("int", longest):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"conflict topic config setting min.compaction.lag.ms ({shortest}) > "
            f"max.compaction.lag.ms ({longest})",
        )


def validate_topic_config_names(names: Iterable[str]) -> None:
    """LogConfig.validateNames: raises KafkaError(INVALID_CONFIG) for an unknown name."""
    for name in names:
        if name not in topic_definitions():
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")


def sound_overrides(overrides: Mapping[str, str]) -> dict[str, str]:
    """Those that hold. For configs read from a znode, which anyone may have written."""
    return {name: text for name, text in overrides.items() if _is_sound(name, text)}


def is_protected(overrides: Mapping[str, str]) -> bool:
    """Whether deletion is refused, by what stands in the topic's config znode."""
    text = overrides.get(DELETE_PROTECT, "")
    return isinstance(text, str) and text.strip().lower() == "true"


def delete_retention_ms(overrides: Mapping[str, str], default_ms: int) -> int:
    """How long the topic is kept after its deletion, by what stands in its config znode."""
    text = sound_overrides(overrides).get(DELETE_RETENTION)
    return default_ms if text is None else int(text)


def _values(
    broker_config: BrokerConfig | None, overrides: Mapping[str, str]
) -> dict[str, ConfigValue]:
    definitions = topic_definitions()
    validate_topic_config_names(overrides)
    values: dict[str, ConfigValue] = {}
    for name, definition in definitions.items():
        if name in overrides:
            try:
                values[name] = definition.parse(overrides[name])
            except ConfigError as error:
                raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
        elif broker_config is not None and name in SYNONYMS:
            values[name] = broker_config.value(SYNONYMS[name])
        else:
            values[name] = definition.default
    return values


def describe(
    broker_config: BrokerConfig,
    overrides: Mapping[str, str],
    names: Iterable[str] | None = None,
) -> list[ConfigEntry]:
    """Entries of DescribeConfigs for a topic in Kafka's order; `names` None or empty means all.

    Overrides that do not hold (someone wrote the znode by hand) are shown as unknown and
    sensitive, as Kafka shows names without a type.
    """
    definitions = topic_definitions()
    sound = sound_overrides(overrides)
    values = _values(broker_config, sound)
    wanted = set(names or ()) or {*definitions, *overrides}
    entries = [
        _entry(definitions[name], value, broker_config, is_override=name in sound)
        for name, value in values.items()
        if name in wanted
    ]
    entries += [
        _unknown_entry(name) for name in overrides if name not in definitions and name in wanted
    ]
    return entries


def _is_sound(name: str, text: object) -> bool:
    definition = topic_definitions().get(name)
    if definition is None or not isinstance(text, str):
        return False
    try:
        definition.parse(text)
    except ConfigError:
        return False
    return True


def _entry(
    definition: ConfigDef, value: ConfigValue, broker_config: BrokerConfig, *, is_override: bool
) -> ConfigEntry:
    name, text = definition.name, to_text(value)
    synonyms = broker_config.synonyms(SYNONYMS[name]) if name in SYNONYMS else []
    if is_override:
        synonyms.insert(0, Synonym(name, text, ConfigSource.TOPIC))
    return ConfigEntry(
        name=name,
        value=text,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        type=definition.type,
        is_sensitive=False,
        read_only=False,
        synonyms=synonyms,
        documentation=definition.documentation,
    )


def _unknown_entry(name: str) -> ConfigEntry:
    synonyms = [Synonym(name, None, ConfigSource.TOPIC)]
    return ConfigEntry(
        name, None, ConfigSource.TOPIC, ConfigType.UNKNOWN, True, False, synonyms, ""
    )
