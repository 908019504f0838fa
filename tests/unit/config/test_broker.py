"""BrokerConfig: Kafka's names, defaults, precedence, start-up checks, dynamic entries."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.config.broker import BrokerConfig
from ottla.config.catalog import broker_definitions
from ottla.config.definitions import ConfigEntry, ConfigError, ConfigSource, ConfigType, Synonym
from ottla.errors import InvariantViolated
from ottla.types import Endpoint

BASE = {"zookeeper.connect": "localhost:2181", "broker.id": "1", "listeners": "PLAINTEXT://h:9092"}


def config(**given: str) -> BrokerConfig:
    """Dots are written as two underscores: `log__dirs="x"`."""
    return BrokerConfig.from_properties(
        BASE | {name.replace("__", "."): value for name, value in given.items()}
    )


def entry(entries: list[ConfigEntry], name: str) -> ConfigEntry:
    return next(item for item in entries if item.name == name)


def test_defaults_are_kafkas() -> None:
    plain = config()
    assert plain.broker_id == 1
    assert plain.rack is None
    assert plain.zookeeper_connect == "localhost:2181"
    assert plain.integer("num.partitions") == 1
    assert plain.integer("offsets.topic.replication.factor") == 3
    assert plain.number("log.cleaner.io.max.bytes.per.second") == 1.7976931348623157e308
    assert plain.boolean("auto.create.topics.enable") is True
    assert plain.text("compression.type") == "producer"
    assert plain.optional_text("replica.selector.class") is None
    assert plain.items("log.cleanup.policy") == ["delete"]
    assert plain.log_dirs == [Path("/tmp/kafka-logs")]
    assert plain.boolean("ottla.lifecycle.topic.enable") is False
    assert len(broker_definitions()) > 130


def test_every_default_passes_its_own_validator() -> None:
    for definition in broker_definitions().values():
        if definition.default is not None and definition.validator is not None:
            definition.validator.check(definition.name, definition.default)


def test_every_config_has_documentation() -> None:
    assert [d.name for d in broker_definitions().values() if len(d.documentation) < 10] == []


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({}, "log.retention.ms", 604_800_000),
        ({"log.retention.hours": "1"}, "log.retention.ms", 3_600_000),
        (
            {"log.retention.hours": "1", "log.retention.minutes": "2"},
            "log.retention.ms",
            120_000,
        ),
        (
            {
                "log.retention.hours": "1",
                "log.retention.minutes": "2",
                "log.retention.ms": "3",
            },
            "log.retention.ms",
            3,
        ),
        ({"log.retention.hours": "-1"}, "log.retention.ms", -1),
        ({"log.retention.minutes": "-5"}, "log.retention.ms", -1),
        ({}, "log.roll.ms", 604_800_000),
        ({"log.roll.hours": "1", "log.roll.ms": "5"}, "log.roll.ms", 5),
        ({"log.roll.jitter.hours": "1"}, "log.roll.jitter.ms", 3_600_000),
        ({}, "log.flush.interval.ms", 2**63 - 1),
        ({"log.flush.scheduler.interval.ms": "9"}, "log.flush.interval.ms", 9),
        ({}, "zookeeper.connection.timeout.ms", 18_000),
        ({"log.dirs": "/a,/b"}, "num.replica.alter.log.dirs.threads", 2),
    ],
)
def test_precedence(given: dict[str, str], name: str, value: int) -> None:
    assert BrokerConfig.from_properties(BASE | given).integer(name) == value


def test_log_dirs_win_over_log_dir() -> None:
    assert config(log__dir="/x").log_dirs == [Path("/x")]
    assert config(log__dir="/x", log__dirs=" /a , /b ").log_dirs == [Path("/a"), Path("/b")]


def test_listeners() -> None:
    several = config(
        listeners="PLAINTEXT://:9092,inside://[::1]:9093",
        advertised__listeners="PLAINTEXT://public:9092,INSIDE://[::1]:9093",
        listener__security__protocol__map="PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
        inter__broker__listener__name="inside",
    )
    assert several.listeners == [
        Endpoint("PLAINTEXT", "", 9092),
        Endpoint("INSIDE", "::1", 9093),
    ]
    assert several.advertised_listeners[0] == Endpoint("PLAINTEXT", "public", 9092)
    assert several.inter_broker_listener == "INSIDE"


def test_a_listener_on_every_interface_is_advertised_by_name() -> None:
    everywhere = config(listeners="PLAINTEXT://:9092")
    assert everywhere.listeners[0].host == ""
    assert everywhere.advertised_listeners[0].host != ""


MAP = "listener.security.protocol.map"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"broker.id": "x"},
            "Invalid value x for configuration broker.id: Not a number of type INT",
        ),
        (
            {"broker.id": "1001"},
            "broker.id must be greater than or equal to -1 and not greater than "
            "reserved.broker.max.id",
        ),
        (
            {"broker.id": "-1", "broker.id.generation.enable": "false"},
            "broker.id must be greater than or equal to 0",
        ),
        (
            {"log.retention.ms": "0"},
            "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
        ),
        ({"log.roll.ms": "0"}, "log.roll.ms must be greater than or equal to 1"),
        ({"log.roll.jitter.ms": "-1"}, "log.roll.jitter.ms must be greater than or equal to 0"),
        (
            {"log.dirs": ","},
            "At least one log directory must be defined via log.dirs or log.dir.",
        ),
        (
            {"log.cleaner.dedupe.buffer.size": "1048576"},
            "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
        ),
        (
            {"replica.fetch.wait.max.ms": "30001"},
            "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to "
            "prevent unnecessary socket timeouts",
        ),
        (
            {"replica.lag.time.max.ms": "499"},
            "replica.fetch.wait.max.ms should always be less than or equal to "
            "replica.lag.time.max.ms to prevent frequent changes in ISR",
        ),
        (
            {"offsets.commit.required.acks": "4"},
            "offsets.commit.required.acks must be greater or equal -1 and less or equal to "
            "offsets.topic.replication.factor",
        ),
        (
            {"compression.type": "brotli"},
            "compression.type : brotli is not valid. Valid options are "
            "uncompressed,zstd,lz4,snappy,gzip,producer",
        ),
        (
            {"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"},
            "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable "
            "IP address.",
        ),
        (
            {"inter.broker.listener.name": "SSL"},
            "inter.broker.listener.name must be a listener name defined in advertised.listeners. "
            "The valid options based on currently configured listeners are PLAINTEXT",
        ),
        (
            {"inter.broker.listener.name": "other"},
            "Listener with name OTHER defined in inter.broker.listener.name not found in "
            "listener.security.protocol.map.",
        ),
        (
            {"inter.broker.listener.name": "A", "security.inter.broker.protocol": "PLAINTEXT"},
            "Only one of inter.broker.listener.name and security.inter.broker.protocol should be "
            "set.",
        ),
        (
            {"security.inter.broker.protocol": "TLS"},
            "Invalid security protocol `TLS` defined in security.inter.broker.protocol",
        ),
        (
            {"advertised.listeners": "PLAINTEXT://a:1,SSL://a:2"},
            "advertised.listeners listener names must be equal to or a subset of the ones defined "
            "in listeners. Found PLAINTEXT,SSL. The valid options based on the current "
            "configuration are PLAINTEXT",
        ),
        (
            {"listeners": "PLAINTEXT:9092"},
            "Error creating broker listeners from 'PLAINTEXT:9092': Unable to parse PLAINTEXT:9092 "
            "to a broker endpoint",
        ),
        (
            {"listeners": "INSIDE://a:9092"},
            "Error creating broker listeners from 'INSIDE://a:9092': No security protocol defined "
            "for listener INSIDE",
        ),
        (
            {"listeners": "PLAINTEXT://a:1,PLAINTEXT://a:2"},
            "Each listener must have a different name, listeners: PLAINTEXT://a:1,PLAINTEXT://a:2",
        ),
        (
            {"listeners": "PLAINTEXT://a:1,B://a:1", MAP: "PLAINTEXT:PLAINTEXT,B:PLAINTEXT"},
            "Each listener must have a different port, listeners: PLAINTEXT://a:1,B://a:1",
        ),
        (
            {MAP: "PLAINTEXT"},
            "Error parsing configuration property 'listener.security.protocol.map': PLAINTEXT is "
            "not NAME:PROTOCOL",
        ),
        (
            {MAP: "PLAINTEXT:CLEAR"},
            "Invalid security protocol `CLEAR` defined in listener.security.protocol.map",
        ),
        (
            {"queued.max.request.bytes": "5"},
            "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
        ),
        (
            {"max.connections.per.ip": "0"},
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides "
            "property is set.",
        ),
        (
            {"max.connections.per.ip.overrides": "a:b"},
            "Error parsing configuration property 'max.connections.per.ip.overrides': a:b",
        ),
        (
            {"connections.max.idle.ms": "50"},
            "connection.failed.authentication.delay.ms=100 should always be less than "
            "connections.max.idle.ms=50 to prevent failed authentication responses from timing out",
        ),
        ({"brokr.id": "1"}, "Unknown configuration brokr.id, did you mean broker.id?"),
        ({"port": "9092"}, "Unknown configuration port, did you mean listeners?"),
        ({"qqqqqq": "1"}, "Unknown configuration qqqqqq"),
    ],
)
def test_start_up_checks(given: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.from_properties(BASE | given)
    assert str(caught.value) == text


def test_a_store_is_required() -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.from_properties({"broker.id": "1"})
    assert str(caught.value) == (
        "Missing required configuration `zookeeper.connect` which has no default value."
    )


def test_names_without_meaning_are_accepted_with_a_warning() -> None:
    given = BASE | {"zookeeper.sync.time.ms": "1", "ssl.protocol": "TLS"}
    assert BrokerConfig.from_properties(given).warnings == (
        "zookeeper.sync.time.ms has no meaning here and is ignored",
        "ssl.protocol has no meaning here and is ignored",
    )
    assert config().warnings == ()


def test_listener_prefixes_are_accepted() -> None:
    prefixed = {"listener.name.plaintext.plain.sasl.jaas.config": "secret"}
    read = BrokerConfig.from_properties(BASE | prefixed)
    shown = entry(read.describe(), "listener.name.plaintext.plain.sasl.jaas.config")
    assert shown.value is None and shown.is_sensitive


def test_files_are_read_with_overrides_on_top(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(
        "# a broker\nbroker.id=3\nzookeeper.connect=a:1,\\\n   b:2/chroot\n"
        "listeners=PLAINTEXT\\://h:1\n"
    )
    read = BrokerConfig.from_file(path, {"num.partitions": "7"})
    assert (read.broker_id, read.zookeeper_connect) == (3, "a:1,b:2/chroot")
    assert read.integer("num.partitions") == 7
    assert read.listeners == [Endpoint("PLAINTEXT", "h", 1)]


def test_latin_1_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes(b"zookeeper.connect=a:1\nlisteners=PLAINTEXT://h:1\nbroker.rack=K\xf6ln\n")
    assert BrokerConfig.from_file(path).rack == "Köln"


def test_the_wrong_accessor_is_an_error() -> None:
    plain = config()
    for accessor in (plain.integer, plain.boolean, plain.number, plain.items):
        with pytest.raises(InvariantViolated):
            accessor("compression.type")
    with pytest.raises(InvariantViolated):
        plain.text("broker.id")
    with pytest.raises(InvariantViolated):
        plain.text("broker.rack")
    with pytest.raises(InvariantViolated):
        plain.integer("no.such.config")


def test_dynamic_entries_win_over_the_file() -> None:
    plain = config(log__retention__hours="1")
    dynamic = plain.with_dynamic({"log.retention.ms": "5", "message.max.bytes": "9"}, {})
    assert dynamic.integer("log.retention.ms") == 5
    both = plain.with_dynamic({"log.retention.ms": "5"}, {"log.retention.ms": "6"})
    assert both.integer("log.retention.ms") == 6
    assert plain.integer("log.retention.ms") == 3_600_000
    with pytest.raises(ConfigError):
        plain.proposed({}, {"log.retention.ms": "0"})


def test_described_entries_name_their_sources() -> None:
    described = config(log__segment__bytes="100").with_dynamic({"log.segment.bytes": "200"}, {})
    assert entry(described.describe(), "log.segment.bytes") == ConfigEntry(
        "log.segment.bytes",
        "200",
        ConfigSource.DYNAMIC_DEFAULT_BROKER,
        ConfigType.INT,
        False,
        False,
        [
            Synonym("log.segment.bytes", "200", ConfigSource.DYNAMIC_DEFAULT_BROKER),
            Synonym("log.segment.bytes", "100", ConfigSource.STATIC_BROKER),
            Synonym("log.segment.bytes", "1073741824", ConfigSource.DEFAULT),
        ],
        "Size of a segment file.",
    )
    only = described.describe(["broker.id"])
    assert [(e.name, e.value, e.read_only) for e in only] == [("broker.id", "1", True)]


def test_unit_variants_are_synonyms_only_behind_the_config_itself() -> None:
    """ConfigHelper drops what comes before the described name."""
    hours = config(log__retention__hours="1")
    assert entry(hours.describe(), "log.retention.ms").synonyms == []
    described = entry(hours.describe(), "log.retention.hours")
    assert [s.value for s in described.synonyms] == ["1", "168"]
    millis = entry(hours.with_dynamic({}, {"log.retention.ms": "5"}).describe(), "log.retention.ms")
    assert [(s.name, s.value) for s in millis.synonyms] == [
        ("log.retention.ms", "5"),
        ("log.retention.hours", "1"),
        ("log.retention.hours", "168"),
    ]


def test_the_cluster_wide_default_shows_only_itself() -> None:
    dynamic = config().with_dynamic({"message.max.bytes": "9"}, {"message.max.bytes": "8"})
    shown = dynamic.describe_dynamic_defaults()
    assert [(e.name, e.value, e.source) for e in shown] == [
        ("message.max.bytes", "9", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    ]


def test_importing_does_not_parse_the_table() -> None:
    code = "import ottla.config.broker, sys; print('ottla.config.table' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
