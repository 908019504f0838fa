"""The options of `format("ottla")`: the names of Spark's Kafka connector, checked. Pure.

Names are case-insensitive, as everywhere in Spark. Options of the official connector that have no
meaning here are accepted and named in a warning, so that one word switches between the two; unknown
ones are an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.client.cluster import parse_bootstrap
from ottla.client.settings import AdminConfig
from ottla.config.definitions import ConfigError, nearest_name
from ottla.security.sasl.exchange import Credentials
from ottla.security.tls.settings import TlsSettings
from ottla.spark.errors import OptionError
from ottla.spark.formats.projection import VALUE_OPTIONS, Projection
from ottla.spark.java_pattern import PatternError, translate
from ottla.spark.unused_options import NOTHING_UNUSED, PREFIX, Unused, find_unused
from ottla.wire.compression import CODEC_NAMES

SUBSCRIPTIONS = ("assign", "subscribe", "subscribePattern")
EARLIEST, LATEST = -2, -1
DEFAULT_FETCH_BYTES = 4 * 1024 * 1024
DEFAULT_REQUEST_TIMEOUT_MS = 60_000
DEFAULT_TRANSACTION_TIMEOUT_MS = 300_000
# What CreateTopics can say.
_MAX_PARTITIONS = (1 << 31) - 1
_MAX_REPLICAS = (1 << 15) - 1
_DEFAULT_TRIGGER_DELAY_MS = 15 * 60 * 1000

_SOURCE_NAMES = (
    *SUBSCRIPTIONS,
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "failOnDataLoss",
    "minPartitions",
    "minRecordsPerPartition",
    "maxRecordsPerPartition",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "includeHeaders",
    "onTopicRecreated",
    "columns",
    "pushFilters",
    *VALUE_OPTIONS,
)
_SINK_NAMES = (
    "topic",
    "includeHeaders",
    "deliveryGuarantee",
    "useTimestampColumn",
    "topicPartitions",
    "topicReplicationFactor",
    "txnAppId",
    "txnVersion",
)
# Options of the official connector without a meaning here.
_CONNECTORS = (
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
)
# The official connector warns of the first three in a batch too.
_OF_STREAMS = (
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "onTopicRecreated",
)
# Put there by Spark itself.
_SPARKS = (
    "path",
    "paths",
    "checkpointLocation",
    "queryName",
    "numPartitions",
)
# What the official connector refuses (KafkaSourceProvider), and what to do instead.
_BYTES = "keys and values are bytes: use DataFrame operations"
_INTERCEPTORS = "interceptors may change records, and are Java's"
_REFUSED_BY_SOURCE = {
    "auto.offset.reset": "startingOffsets says where a query begins",
    "key.deserializer": _BYTES,
    "value.deserializer": _BYTES,
    "enable.auto.commit": "offsets are in the query's checkpoint",
    "interceptor.classes": _INTERCEPTORS,
}
_REFUSED_BY_SINK = {
    "key.serializer": _BYTES,
    "value.serializer": _BYTES,
    # Its producer would fail with this one: nobody begins the transaction.
    "transactional.id": "deliveryGuarantee=exactly_once names the transactions",
    "interceptor.classes": _INTERCEPTORS,
}
_DURATION = re.compile(r"\s*(\d+)\s*(ms|s|m|min|h|d|)\s*", re.IGNORECASE)
_UNIT_MS = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True)
class Connect:
    """How to reach the cluster."""

    bootstrap: str
    client_id: str = "ottla-spark"
    credentials: Credentials | None = None
    timeout_ms: int = DEFAULT_REQUEST_TIMEOUT_MS
    # None: connections are not encrypted.
    tls: TlsSettings | None = None


@dataclass(frozen=True, slots=True)
class Subscription:
    """Which partitions: named topics, a pattern (as Python has it), or given partitions."""

    kind: str
    topics: tuple[str, ...] = ()
    pattern: str = ""
    partitions: tuple[tuple[str, tuple[int, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Bound:
    """Where to start or end: one word for all partitions, or given offsets or timestamps.

    `offsets` may hold EARLIEST and LATEST. With `by_timestamp` all numbers are milliseconds.
    """

    word: int | None = None
    timestamp_ms: int | None = None
    given: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    by_timestamp: bool = False
    latest_without_match: bool = True

    @property
    def moves_on(self) -> bool:
        """Whether it is another place when it is asked for later, because records came."""
        if self.by_timestamp:
            return self.latest_without_match
        named = (number for numbers in self.given.values() for number in numbers.values())
        return LATEST in (self.word, *named)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    connect: Connect
    subscription: Subscription
    starting: Bound
    ending: Bound
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    min_records_per_partition: int | None = None
    max_records_per_partition: int | None = None
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_trigger_delay_ms: int = _DEFAULT_TRIGGER_DELAY_MS
    include_headers: bool = False
    restart_recreated: bool = False
    # The group that the stream's position is kept in, to go on by in another topic of the name.
    kept_group: str | None = None
    read_committed: bool = False
    fetch_bytes: int = DEFAULT_FETCH_BYTES
    check_crcs: bool = True
    unused: Unused = NOTHING_UNUSED
    # None: those of the official connector, the value as it is.
    projection: Projection | None = None
    push_filters: bool = False
    # What can be done where records are missing, for one who has not set these options.
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    connect: Connect
    topic: str | None = None
    exactly_once: bool = False
    use_timestamps: bool = False
    acks: int = -1
    compression: int = 0
    batch_bytes: int | None = None
    transaction_timeout_ms: int = DEFAULT_TRANSACTION_TIMEOUT_MS
    # A topic that is not there is made with these; None leaves it to the brokers.
    topic_partitions: int | None = None
    topic_replication_factor: int = -1
    # Names a batch write (of foreachBatch) so that it counts once, however often it is run.
    txn_app_id: str | None = None
    txn_version: int = 0
    unused: Unused = NOTHING_UNUSED


class _ReadSettings(dict[str, str]):
    """Properties that keep count of the names they were asked for."""

    def __init__(self, properties: Mapping[str, str], read: set[str]) -> None:
        super().__init__(properties)
        self._read = read

    def get(self, name: str, default: Any = None) -> Any:
        self._read.add(name)
        return super().get(name, default)

    def __getitem__(self, name: str) -> str:
        self._read.add(name)
        return super().__getitem__(name)


class _Options:
    """Typed access with errors that name the option as the documentation writes it."""

    def __init__(
        self,
        options: Mapping[str, str],
        known: tuple[str, ...],
        refused: Mapping[str, str],
    ) -> None:
        self._values = {name.lower(): str(value) for name, value in options.items()}
        self._refused = refused
        self._read: set[str] = set()
        names = {name.lower(): name for name in (*known, *_CONNECTORS, *_SPARKS)}
        for name in self._values:
            if name not in names and not name.startswith(PREFIX):
                nearest = nearest_name(name, names)
                hint = f"; did you mean {names[nearest]}?" if nearest else ""
                raise OptionError(f"unknown option {name} of format ottla{hint}")

    def text(self, name: str) -> str | None:
        if name.startswith(PREFIX):
            self._read.add(name.removeprefix(PREFIX))
        return self._values.get(name.lower())

    def flag(self, name: str, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.strip().lower() not in ("true", "false"):
            raise OptionError(f"{name} must be true or false, not {text!r}")
        return text.strip().lower() == "true"

    def number(self, name: str, *, at_least: int) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        try:
            value = int(text.strip())
        except ValueError:
            raise OptionError(f"{name} must be a whole number, not {text!r}") from None
        if value < at_least:
            raise OptionError(f"{name} must be at least {at_least}, not {value}")
        return value

    def kafka(self, name: str) -> str | None:
        self._read.add(name)
        return self._values.get(PREFIX + name)

    def unused(self, of_no_use: tuple[str, ...]) -> Unused:
        """To be asked for last: what was not read by then is not used."""
        return find_unused(self._values, self._read, (*_CONNECTORS, *of_no_use))

    def kafka_number(self, name: str, default: int) -> int:
        found = self.number(PREFIX + name, at_least=1)
        return default if found is None else found

    def kafka_choice(self, name: str, choices: Mapping[str, int], default: int) -> int:
        text = self.kafka(name)
        if text is None:
            return default
        if text.lower() not in choices:
            raise OptionError(f"kafka.{name} must be one of {', '.join(choices)}, not {text!r}")
        return choices[text.lower()]

    def connect(self) -> Connect:
        servers = self.kafka("bootstrap.servers")
        if not servers:
            raise OptionError("the option kafka.bootstrap.servers is missing")
        for name, why in self._refused.items():
            if self.kafka(name) is not None:
                raise OptionError(f"kafka.{name} cannot be set: {why}")
        given = {
            name.removeprefix(PREFIX): value
            for name, value in self._values.items()
            if name.startswith(PREFIX)
        }
        properties = _ReadSettings(given, self._read)
        try:
            parse_bootstrap(servers)
            admin = AdminConfig.from_properties(properties)
        except ConfigError as error:
            raise OptionError(f"kafka.*: {error}") from None
        return Connect(
            servers,
            properties.get("client.id") or "ottla-spark",
            admin.credentials,
            # The first bounds a whole call of a Kafka client, as the time-out does here.
            self.kafka_number(
                "default.api.timeout.ms",
                self.kafka_number("request.timeout.ms", DEFAULT_REQUEST_TIMEOUT_MS),
            ),
            admin.tls,
        )


def parse_source_options(values: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Raises OptionError; knows nothing about the cluster yet."""
    options = _Options(values, _SOURCE_NAMES, _REFUSED_BY_SOURCE)
    recreated, group = _on_recreated(options)
    starting = _bound(options, "starting", LATEST if streaming else EARLIEST)
    ending = _bound(options, "ending", LATEST)
    if not streaming and starting.word == LATEST:
        raise OptionError("startingOffsets cannot be latest in a batch query: nothing is after it")
    if not streaming and not starting.by_timestamp:
        _refuse_latest(starting)
    if streaming and any(name.lower().startswith("ending") for name in values):
        raise OptionError("a streaming query has no end: endingOffsets is for batch queries")
    push_filters = options.flag("pushFilters", False)
    if streaming and push_filters:
        raise OptionError("pushFilters is for batch queries: Spark offers streams no filters")
    minimum = options.number("minOffsetsPerTrigger", at_least=1)
    maximum = options.number("maxOffsetsPerTrigger", at_least=1)
    if minimum and maximum and minimum > maximum:
        raise OptionError("minOffsetsPerTrigger cannot be larger than maxOffsetsPerTrigger")
    fewest = options.number("minRecordsPerPartition", at_least=1)
    most = options.number("maxRecordsPerPartition", at_least=1)
    if fewest and most and fewest > most:
        raise OptionError("minRecordsPerPartition cannot be larger than maxRecordsPerPartition")
    return SourceOptions(
        connect=options.connect(),
        subscription=_subscription(options),
        starting=starting,
        ending=ending,
        fail_on_data_loss=options.flag("failOnDataLoss", True),
        min_partitions=options.number("minPartitions", at_least=1),
        min_records_per_partition=fewest,
        max_records_per_partition=most,
        max_offsets=maximum,
        min_offsets=minimum,
        max_trigger_delay_ms=_duration_ms(options, "maxTriggerDelay", _DEFAULT_TRIGGER_DELAY_MS),
        include_headers=options.flag("includeHeaders", False),
        restart_recreated=recreated == "restart",
        kept_group=group,
        read_committed=bool(
            options.kafka_choice("isolation.level", {"read_uncommitted": 0, "read_committed": 1}, 0)
        ),
        fetch_bytes=options.kafka_number("max.partition.fetch.bytes", DEFAULT_FETCH_BYTES),
        check_crcs=(options.kafka("check.crcs") or "true").lower() != "false",
        unused=options.unused(() if streaming else _OF_STREAMS),
        push_filters=push_filters,
    )


def _on_recreated(options: _Options) -> tuple[str, str | None]:
    """What is done, and the group that it takes."""
    word = (options.text("onTopicRecreated") or "fail").lower()
    if word not in ("fail", "restart", "continue"):
        raise OptionError(f"onTopicRecreated must be fail, restart or continue, not {word!r}")
    if word != "continue":
        return word, None
    group = (options.kafka("group.id") or "").strip()
    if not group:
        raise OptionError(
            "onTopicRecreated=continue needs kafka.group.id: a group of this query's own, which "
            "keeps its position"
        )
    return word, group


def parse_sink_options(values: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    options = _Options(values, _SINK_NAMES, _REFUSED_BY_SINK)
    guarantee = (
        options.text("deliveryGuarantee") or ("exactly_once" if streaming else "at_least_once")
    ).lower()
    if guarantee not in ("exactly_once", "at_least_once"):
        raise OptionError(
            f"deliveryGuarantee must be exactly_once or at_least_once, not {guarantee!r}"
        )
    acks = options.kafka_choice("acks", {"all": -1, "-1": -1, "1": 1}, -1)
    if guarantee == "exactly_once" and acks != -1:
        raise OptionError("kafka.acks must be all with deliveryGuarantee=exactly_once")
    size = options.number("kafka.batch.size", at_least=1)
    partitions, replicas = _new_topic(options)
    topic = options.text("topic")
    if topic is not None and not topic.strip():
        raise OptionError("topic is empty")
    app_id, version = options.text("txnAppId"), options.number("txnVersion", at_least=0)
    if (app_id is None) != (version is None):
        raise OptionError("txnAppId and txnVersion go together")
    if app_id is not None and streaming:
        raise OptionError("txnAppId is for batch writes: a streaming query has its own id")
    return SinkOptions(
        connect=options.connect(),
        topic=None if topic is None else topic.strip(),
        topic_partitions=partitions,
        topic_replication_factor=replicas,
        exactly_once=guarantee == "exactly_once" or app_id is not None,
        txn_app_id=app_id,
        txn_version=version or 0,
        use_timestamps=options.flag("useTimestampColumn", False),
        acks=acks,
        compression=options.kafka_choice(
            "compression.type", {name: code for code, name in enumerate(CODEC_NAMES)}, 0
        ),
        batch_bytes=size,
        transaction_timeout_ms=options.kafka_number(
            "transaction.timeout.ms", DEFAULT_TRANSACTION_TIMEOUT_MS
        ),
        unused=options.unused(()),
    )


def _new_topic(options: _Options) -> tuple[int | None, int]:
    """Partitions and replicas of a topic that the sink makes; -1 is the brokers' default."""
    partitions = options.number("topicPartitions", at_least=1)
    replicas = options.number("topicReplicationFactor", at_least=1)
    if replicas is not None and partitions is None:
        raise OptionError("topicReplicationFactor goes with topicPartitions")
    if partitions is not None and partitions > _MAX_PARTITIONS:
        raise OptionError(f"topicPartitions must be at most {_MAX_PARTITIONS}, not {partitions}")
    if replicas is not None and replicas > _MAX_REPLICAS:
        raise OptionError(f"topicReplicationFactor must be at most {_MAX_REPLICAS}, not {replicas}")
    return partitions, -1 if replicas is None else replicas


def _subscription(options: _Options) -> Subscription:
    given = [name for name in SUBSCRIPTIONS if options.text(name) is not None]
    if len(given) != 1:
        said = f"given: {', '.join(given)}" if given else "none is given"
        raise OptionError(f"exactly one of {', '.join(SUBSCRIPTIONS)} is needed; {said}")
    kind, text = given[0], options.text(given[0]) or ""
    if kind == "subscribe":
        topics = tuple(sorted({topic.strip() for topic in text.split(",") if topic.strip()}))
        if not topics:
            raise OptionError("subscribe names no topic")
        return Subscription(kind, topics=topics)
    if kind == "subscribePattern":
        if not text:
            raise OptionError("subscribePattern is empty")
        try:
            return Subscription(kind, pattern=translate(text))
        except PatternError as error:
            raise OptionError(f"subscribePattern {text!r} cannot be used: {error}") from None
    assigned = _json_object(kind, text)
    partitions = []
    for topic, indexes in sorted(assigned.items()):
        if not isinstance(indexes, list) or not all(_is_index(index) for index in indexes):
            raise OptionError(f'assign must be like {{"topic":[0,1]}}, {topic} has {indexes!r}')
        partitions.append((topic, tuple(sorted(set(indexes)))))
    if not any(indexes for _, indexes in partitions):
        raise OptionError("assign names no partition")
    return Subscription(kind, partitions=tuple(partitions))


def _refuse_latest(starting: Bound) -> None:
    for topic, numbers in starting.given.items():
        for partition, number in numbers.items():
            if number == LATEST:
                raise OptionError(
                    f"startingOffsets of {topic}-{partition} cannot be -1 (latest) in a batch "
                    "query: nothing is after it"
                )


def _bound(options: _Options, side: str, default: int) -> Bound:
    """A timestamp for all wins over timestamps by partition, and those over offsets."""
    strategy = (options.text("startingOffsetsByTimestampStrategy") or "error").lower()
    if strategy not in ("error", "latest"):
        raise OptionError(
            f"startingOffsetsByTimestampStrategy must be error or latest, not {strategy!r}"
        )
    to_latest = side == "ending" or strategy == "latest"
    timestamp = options.number(f"{side}Timestamp", at_least=0)
    if timestamp is not None:
        return Bound(timestamp_ms=timestamp, by_timestamp=True, latest_without_match=to_latest)
    name = f"{side}OffsetsByTimestamp"
    text = options.text(name)
    if text is not None:
        given = parse_partition_numbers(name, text)
        return Bound(given=given, by_timestamp=True, latest_without_match=to_latest)
    name = f"{side}Offsets"
    text = (options.text(name) or "").strip()
    if not text:
        return Bound(word=default)
    if text.lower() == "latest":
        return Bound(word=LATEST)
    if text.lower() == "earliest":
        if side == "ending":
            raise OptionError("endingOffsets cannot be earliest: nothing is before it")
        return Bound(word=EARLIEST)
    given = parse_partition_numbers(name, text, minimum=EARLIEST)
    if side == "ending" and any(EARLIEST in numbers.values() for numbers in given.values()):
        raise OptionError("endingOffsets cannot hold -2 (earliest): nothing is before it")
    return Bound(given=given)


def parse_partition_numbers(name: str, text: str, *, minimum: int = 0) -> dict[str, dict[int, int]]:
    """`{"topic":{"0":23,"1":-1}}`, as the official connector writes it."""
    found: dict[str, dict[int, int]] = {}
    for topic, numbers in _json_object(name, text).items():
        if not isinstance(numbers, dict):
            like = '{"topic":{"0":23}}'
            raise OptionError(f"{name} must be like {like}, {topic} has {numbers!r}")
        found[topic] = {}
        for partition, number in numbers.items():
            if not partition.isascii() or not partition.isdigit():
                raise OptionError(f"{name}: {partition!r} of topic {topic} is not a partition")
            if not isinstance(number, int) or isinstance(number, bool) or number < minimum:
                raise OptionError(f"{name}: partition {partition} of {topic} has {number!r}")
            found[topic][int(partition)] = number
    return found


def _json_object(name: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict) or not value:
        raise OptionError(f"{name} is neither a known word nor a JSON object: {text!r}")
    return value


def _is_index(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _duration_ms(options: _Options, name: str, default: int) -> int:
    text = options.text(name)
    if text is None:
        return default
    match = _DURATION.fullmatch(text)
    if match is None:
        raise OptionError(f"{name} must be a duration such as 30s or 15m, not {text!r}")
    return int(match[1]) * _UNIT_MS[match[2].lower()]
