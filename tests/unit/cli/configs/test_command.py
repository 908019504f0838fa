"""`ottla configs` from arguments to lines, on a scripted admin client."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import click
import pytest

from ottla.cli import main as cli_main
from ottla.cli.configs.options import parse_added, parse_deleted
from ottla.client.admin import client as admin_module
from ottla.client.admin.quotas import QuotaEntity
from ottla.client.admin.types import (
    ClusterDescription,
    ConfigEdit,
    ConfigItem,
    ConfigOperation,
    ConfigResource,
    TopicListing,
)
from ottla.client.cluster import Node
from ottla.config.definitions import ConfigSource, ConfigType, Synonym
from ottla.errors import ErrorCode, KafkaError
from ottla.types import ZERO_TOPIC_ID

RETENTION = ConfigItem(
    "retention.ms", "5", ConfigSource.TOPIC, ConfigType.LONG, False, False,
    (Synonym("retention.ms", "5", ConfigSource.TOPIC),
     Synonym("log.retention.hours", "168", ConfigSource.DEFAULT)),
)  # fmt: skip
DEFAULT = ConfigItem("flush.ms", "9", ConfigSource.DEFAULT, ConfigType.LONG, False, False)
SECRET = ConfigItem("pass", None, ConfigSource.DYNAMIC_BROKER, ConfigType.PASSWORD, True, False)
SHARED = ConfigItem("x", "1", ConfigSource.DYNAMIC_DEFAULT_BROKER, ConfigType.INT, False, False)


class StandIn:
    def __init__(self) -> None:
        self.edits: list[Mapping[ConfigResource, Sequence[ConfigEdit]]] = []
        self.refuse: KafkaError | None = None
        self.quotas: dict[QuotaEntity, dict[str, float | None]] = {}

    async def __aenter__(self) -> StandIn:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def describe_configs(
        self, resources: Iterable[ConfigResource], **_: bool
    ) -> dict[ConfigResource, list[ConfigItem] | KafkaError]:
        return {
            resource: KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if resource.name == "none"
            else [RETENTION, DEFAULT]
            if resource.type == 2
            else [SECRET, SHARED]
            for resource in resources
        }

    async def incremental_alter_configs(
        self, edits: Mapping[ConfigResource, Sequence[ConfigEdit]]
    ) -> dict[ConfigResource, KafkaError | None]:
        self.edits.append(edits)
        return dict.fromkeys(edits, self.refuse)

    async def describe_client_quotas(
        self, components: Iterable[tuple[str, str | None]]
    ) -> dict[QuotaEntity, dict[str, float | None]]:
        self.asked = list(components)
        return self.quotas

    async def alter_client_quotas(
        self, entity: QuotaEntity, quotas: dict[str, float | None]
    ) -> None:
        self.quotas = {entity: quotas}

    async def describe_cluster(self) -> ClusterDescription:
        return ClusterDescription("c", 1, [Node(1, "h", 1), Node(2, "h", 2)])

    async def list_topics(self) -> list[TopicListing]:
        return [TopicListing(name, ZERO_TOPIC_ID, False) for name in ("a", "b")]


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    stand_in = StandIn()
    monkeypatch.setattr(admin_module.Admin, "connect", lambda *_, **__: stand_in)
    return stand_in


class Run:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        code = cli_main.run(["configs", *arguments])
        out, err = self._capsys.readouterr()
        return code, out, err


@pytest.fixture
def configs(admin: StandIn, capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(capsys)


TOPIC_LINE = (
    "  retention.ms=5 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5, "
    "DEFAULT_CONFIG:log.retention.hours=168}\n"
)
SECRET_LINE = "  pass=null sensitive=true synonyms={}\n"


def test_describe_shows_what_was_set(configs: Run) -> None:
    assert configs("--describe", "--topic", "t") == (
        0,
        f"Dynamic configs for topic t are:\n{TOPIC_LINE}",
        "",
    )
    assert configs("--describe", "--topic", "t", "--all")[1] == (
        f"All configs for topic t are:\n  flush.ms=9 sensitive=false synonyms={{}}\n{TOPIC_LINE}"
    )


def test_describe_all_entities(configs: Run) -> None:
    assert configs("--describe", "--entity-type", "topics")[1] == (
        f"Dynamic configs for topic a are:\n{TOPIC_LINE}"
        f"Dynamic configs for topic b are:\n{TOPIC_LINE}"
    )
    assert configs("--describe", "--entity-type", "brokers")[1] == (
        f"Dynamic configs for broker 1 are:\n{SECRET_LINE}"
        f"Dynamic configs for broker 2 are:\n{SECRET_LINE}"
        "Default configs for brokers in the cluster are:\n  x=1 sensitive=false synonyms={}\n"
    )


def test_describe_as_json(configs: Run) -> None:
    code, out, _ = configs("--describe", "--topic", "t", "--output", "json")
    assert code == 0
    assert json.loads(out) == [
        {
            "entity_type": "topics",
            "entity_name": "t",
            "configs": [
                {
                    "name": "retention.ms",
                    "value": "5",
                    "source": "DYNAMIC_TOPIC_CONFIG",
                    "type": "LONG",
                    "sensitive": False,
                    "read_only": False,
                    "synonyms": [
                        {"source": "DYNAMIC_TOPIC_CONFIG", "name": "retention.ms", "value": "5"},
                        {"source": "DEFAULT_CONFIG", "name": "log.retention.hours", "value": "168"},
                    ],
                }
            ],
        }
    ]


def test_alter(admin: StandIn, configs: Run, tmp_path: Path) -> None:
    assert configs(
        "--alter", "--entity-type", "topics", "--entity-name", "t",
        "--add-config", "a=1,b=[x,y],c=", "--delete-config", "retention.ms",
    ) == (0, "Completed updating config for topic t.\n", "")  # fmt: skip
    assert admin.edits == [
        {
            ConfigResource.topic("t"): [
                ConfigEdit("a", "1"),
                ConfigEdit("b", "x,y"),
                ConfigEdit("c", ""),
                ConfigEdit("retention.ms", "", ConfigOperation.DELETE),
            ]
        }
    ]
    file = tmp_path / "added.properties"
    file.write_text("# some\na = 1\n")
    assert configs("--alter", "--broker", "7", "--add-config-file", str(file))[1] == (
        "Completed updating config for broker 7.\n"
    )
    assert admin.edits[-1] == {ConfigResource.broker(7): [ConfigEdit("a", "1")]}
    for default in (["--broker-defaults"], ["--entity-type", "brokers", "--entity-default"]):
        assert configs("--alter", *default, "--add-config", "a=1")[1] == (
            "Completed updating default config for brokers in the cluster.\n"
        )
        assert admin.edits[-1] == {ConfigResource.all_brokers(): [ConfigEdit("a", "1")]}
    code, out, _ = configs("--alter", "--topic", "t", "--add-config", "a=1", "--output", "json")
    assert (code, json.loads(out)) == (
        0,
        {"entity_type": "topics", "entity_name": "t", "set": ["a"], "deleted": []},
    )


def test_only_what_the_entity_has_itself_can_be_deleted(admin: StandIn, configs: Run) -> None:
    assert configs("--alter", "--topic", "t", "--delete-config", "flush.ms, nope") == (
        1,
        "",
        "Invalid config(s): flush.ms,nope\n",
    )
    assert configs("--alter", "--broker", "1", "--delete-config", "x")[2] == (
        "Invalid config(s): x\n"
    )
    assert admin.edits == []


def test_errors_are_one_line(admin: StandIn, configs: Run) -> None:
    assert configs("--describe", "--topic", "none") == (
        1,
        "Dynamic configs for topic none are:\n",
        "Error while executing config command : This server does not host this topic-partition.\n",
    )
    admin.refuse = KafkaError(ErrorCode.INVALID_CONFIG, "no")
    assert configs("--alter", "--topic", "t", "--add-config", "a=1")[::2] == (
        1,
        "Error while executing config command : no\n",
    )
    assert configs("--alter", "--topic", "t", "--add-config-file", "/nowhere/x")[::2] == (
        1,
        "Error: /nowhere/x: No such file or directory\n",
    )


def test_quotas(admin: StandIn, configs: Run) -> None:
    both = ("--entity-type", "clients", "--entity-default", "--entity-type", "users")
    added = ("--add-config", "producer_byte_rate=5,request_percentage=1.5")
    done = configs("--alter", *both, "--entity-name", "u", *added)
    assert done == (0, "Completed updating default config for clients in the cluster.\n", "")
    entity = (("client-id", None), ("user", "u"))
    assert admin.quotas == {entity: {"producer_byte_rate": 5.0, "request_percentage": 1.5}}
    line = (
        "Quota configs for user-principal 'u', the default client-id are producer_byte_rate=5.0, "
        "request_percentage=1.5\n"
    )
    assert configs("--describe", *both) == (0, line, "")
    assert admin.asked == [("client-id", ""), ("user", None)]
    removal = ("--delete-config", "producer_byte_rate", "--output", "json")
    code, out, err = configs("--alter", "--client-defaults", "--user", "u", *removal)
    assert (code, err) == (0, "") and json.loads(out)["deleted"] == ["producer_byte_rate"]
    assert admin.quotas == {(("user", "u"), ("client-id", None)): {"producer_byte_rate": None}}
    refused = configs("--alter", "--user", "u", "--delete-config", "consumer_byte_rate")
    assert refused == (1, "", "Invalid config(s): consumer_byte_rate\n")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("", "Command must include exactly one action: --describe, --alter"),
        ("--describe --topic t --delete-config a",
         'Option "[describe]" can\'t be used with option "[delete-config]"'),
        ("--describe", "At least one entity type must be specified"),
        ("--describe --ip nowhere",
         "The entity name for ips must be a valid IP or resolvable host, but it is: nowhere"),
        ("--alter --ip 10.0.0.1 --add-config producer_byte_rate=1",
         "Only connection quota configs can be added for 'ips' using --bootstrap-server. "
         "Unexpected config names: producer_byte_rate"),
        ("--describe --entity-type nope",
         "Invalid entity type nope, the entity type must be one of topics,clients,users,"
         "brokers,ips "
         "with the --bootstrap-server argument"),
        ("--describe --entity-type topics --entity-type topics",
         "Duplicate entity type(s) specified: topics"),
        ("--describe --entity-type topics --entity-type brokers",
         "Only 'users' and 'clients' entity types may be specified together"),
        ("--describe --topic t --entity-name t",
         "--entity-{type,name,default} should not be used in conjunction with specific entity "
         "flags"),
        ("--describe --entity-type topics --entity-name a --entity-name b",
         "An entity name must be specified for every entity type"),
        ("--describe --broker x",
         "The entity name for brokers must be a valid integer broker id, but it is: x"),
        ("--alter --entity-type topics --add-config a=1",
         "an entity name must be specified with --alter of topics"),
        ("--alter --entity-type brokers --add-config a=1",
         "an entity-name or default entity must be specified with --alter of users, clients, "
         "brokers or ips"),
        ("--alter --entity-type users --entity-type clients --entity-name c --add-config a=1",
         "An entity name must be specified for every entity type"),
        ("--alter --user u --add-config producer_byte_rate=x",
         "Cannot parse quota configuration value for producer_byte_rate: x"),
        ("--alter --user u --client c --delete-config nope",
         "Only quota configs can be deleted for 'clients' using --bootstrap-server. Unexpected "
         "config names: nope"),
        ("--alter --topic t",
         "At least one of --add-config, --add-config-file, or --delete-config must be specified "
         "with --alter"),
        ("--alter --topic t --add-config a=1 --add-config-file f",
         "Only one of --add-config or --add-config-file must be specified"),
    ],
)  # fmt: skip
def test_usage(configs: Run, arguments: str, text: str) -> None:
    assert configs(*arguments.split()) == (1, "", text + "\n")


def test_pairs() -> None:
    assert parse_added("a=1,b = [x,y] ,c=,d=[p=q]") == {"a": "1", "b": "x,y", "c": "", "d": "p=q"}
    assert parse_added("a=1,") == {"a": "1"}
    for bad in ("a", "", "a=1,b", "a=1=2"):
        with pytest.raises(click.UsageError, match="all configs to be added must be in the format"):
            parse_added(bad)
    assert parse_deleted(["a,b", " c "]) == ["a", "b", "c"]
