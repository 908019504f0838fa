"""`ottla topics` from arguments to lines, with a stand-in for the admin client."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from ottla.cli import main as cli_main
from ottla.client.admin import client as admin_module
from ottla.client.admin.types import (
    ClusterDescription,
    ConfigItem,
    ConfigResource,
    CreatedTopic,
    NewPartitions,
    NewTopic,
    PartitionDescription,
    Reassignment,
    TopicDescription,
    TopicListing,
)
from ottla.client.cluster import Node
from ottla.config.definitions import ConfigSource, ConfigType
from ottla.errors import ErrorCode, KafkaError
from ottla.types import ZERO_TOPIC_ID, TopicPartition

TOPIC_ID = bytes(range(16))


class StandIn:
    """Answers from memory; keeps what it was asked to do."""

    def __init__(self) -> None:
        self.topics = [
            TopicDescription(
                "clicks",
                TOPIC_ID,
                False,
                [
                    PartitionDescription(0, 1, 5, [1, 2], [1, 2], []),
                    PartitionDescription(1, -1, 5, [2, 1], [2], []),
                    PartitionDescription(2, 9, 5, [2, 1], [], []),
                ],
            ),
            TopicDescription(
                "__consumer_offsets",
                ZERO_TOPIC_ID,
                True,
                [PartitionDescription(0, 2, 0, [2], [2], [])],
            ),
        ]
        self.moves: dict[TopicPartition, Reassignment] = {}
        self.refuse: KafkaError | None = None
        self.refuse_moves: KafkaError | None = None
        self.done: list[Any] = []
        self.bootstrap = ""

    async def __aenter__(self) -> StandIn:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def list_topics(self, *, include_internal: bool) -> list[TopicListing]:
        return sorted(
            TopicListing(t.name, t.topic_id, t.is_internal)
            for t in self.topics
            if include_internal or not t.is_internal
        )

    async def describe_topics(self, names: Iterable[str]) -> dict[str, TopicDescription]:
        return {t.name: t for t in self.topics if t.name in set(names)}

    async def describe_configs(
        self, resources: Iterable[ConfigResource]
    ) -> dict[ConfigResource, list[ConfigItem]]:
        def item(name: str, value: str, source: ConfigSource) -> ConfigItem:
            return ConfigItem(name, value, source, ConfigType.LONG, False, False)

        own = [item("retention.ms", "5", ConfigSource.TOPIC)]
        file = [item("segment.bytes", "100", ConfigSource.STATIC_BROKER)]
        default = [item("min.insync.replicas", "2", ConfigSource.DEFAULT)]
        return {r: default + own + file if r.name == "clicks" else default for r in resources}

    async def describe_cluster(self) -> ClusterDescription:
        return ClusterDescription("c", 1, [Node(1, "h", 1), Node(2, "h", 2)])

    async def list_reassignments(self) -> dict[TopicPartition, Reassignment]:
        if self.refuse_moves:
            raise self.refuse_moves
        return self.moves

    async def create_topics(self, topics: list[NewTopic]) -> dict[str, CreatedTopic | KafkaError]:
        self.done.append(topics)
        return {t.name: self.refuse or CreatedTopic(t.name, TOPIC_ID, 1, 1) for t in topics}

    async def create_partitions(
        self, wanted: Mapping[str, NewPartitions]
    ) -> dict[str, KafkaError | None]:
        self.done.append(wanted)
        return dict.fromkeys(wanted, self.refuse)

    async def delete_topics(self, names: Iterable[str]) -> dict[str, KafkaError | None]:
        self.done.append(list(names))
        return dict.fromkeys(names, self.refuse)


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    stand_in = StandIn()

    def connect(_: object, bootstrap: str, **_settings: object) -> StandIn:
        stand_in.bootstrap = bootstrap
        return stand_in

    monkeypatch.setattr(admin_module.Admin, "connect", connect)
    return stand_in


class Topics:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        code = cli_main.run(["topics", *arguments])
        out, err = self._capsys.readouterr()
        return code, out, err


@pytest.fixture
def topics(admin: StandIn, capsys: pytest.CaptureFixture[str]) -> Topics:
    return Topics(capsys)


WARNING = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') "
    "could collide. To avoid issues it is best to use either, but not both.\n"
)


def test_create(admin: StandIn, topics: Topics) -> None:
    assert topics(
        "--create", "--topic", "new", "--partitions", "3", "--replication-factor", "2",
        "--config", "retention.ms=5",
    ) == (0, "Created topic new.\n", "")  # fmt: skip
    assert admin.done == [[NewTopic("new", 3, 2, {}, {"retention.ms": "5"})]]


def test_create_with_defaults_or_by_hand(admin: StandIn, topics: Topics) -> None:
    topics("--create", "--topic", "a")
    topics("--create", "--topic", "b", "--replica-assignment", "1:2,2:1")
    assert admin.done == [[NewTopic("a")], [NewTopic("b", assignments={0: [1, 2], 1: [2, 1]})]]


def test_names_that_could_collide_get_a_warning(topics: Topics) -> None:
    assert topics("--create", "--topic", "a.b") == (0, WARNING + "Created topic a.b.\n", "")
    assert topics("--create", "--topic", "a_b", "--output", "json") == (
        0,
        '{"topic": "a_b", "created": true}\n',
        WARNING,
    )


def test_a_topic_that_exists(admin: StandIn, topics: Topics) -> None:
    admin.refuse = KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'a' already exists.")
    assert topics("--create", "--topic", "a") == (
        1,
        "",
        "Error while executing topic command : Topic 'a' already exists.\n",
    )
    assert topics("--create", "--topic", "a", "--if-not-exists") == (0, "", "")
    code, out, _ = topics("--create", "--topic", "a", "--if-not-exists", "--output", "json")
    assert (code, json.loads(out)) == (0, {"topic": "a", "created": False})


def test_an_error_without_a_message_shows_the_default_text(admin: StandIn, topics: Topics) -> None:
    admin.refuse = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert topics("--create", "--topic", "a", "--if-not-exists") == (
        1,
        "",
        "Error while executing topic command : The server experienced an unexpected error when "
        "processing the request.\n",
    )


def test_local_checks_come_before_any_request(admin: StandIn, topics: Topics) -> None:
    assert topics("--create", "--topic", "a", "--partitions", "0") == (
        1,
        "",
        "Error while executing topic command : The partitions must be greater than 0\n",
    )
    assert admin.done == []


def test_list(admin: StandIn, topics: Topics) -> None:
    assert topics("--list") == (0, "__consumer_offsets\nclicks\n", "")
    assert topics("--list", "--exclude-internal") == (0, "clicks\n", "")
    assert topics("--list", "--topic", "no.*") == (0, "\n", "")
    assert topics("--list", "--output", "json") == (0, '["__consumer_offsets", "clicks"]\n', "")
    assert admin.bootstrap == "localhost:9092"


def test_the_bootstrap_server_comes_from_the_environment(
    admin: StandIn, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", "h:1")
    topics("--list")
    assert admin.bootstrap == "h:1"
    topics("--list", "--bootstrap-server", "g:2")
    assert admin.bootstrap == "g:2"


def test_describe(topics: Topics) -> None:
    assert topics("--describe", "--topic", "clicks") == (
        0,
        "Topic: clicks\tTopicId: AAECAwQFBgcICQoLDA0ODw\tPartitionCount: 3\tReplicationFactor: 2\t"
        "Configs: retention.ms=5,segment.bytes=100\n"
        "\tTopic: clicks\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n"
        "\tTopic: clicks\tPartition: 1\tLeader: none\tReplicas: 2,1\tIsr: 2\n"
        "\tTopic: clicks\tPartition: 2\tLeader: 9\tReplicas: 2,1\tIsr: \n",
        "",
    )
    assert topics("--describe", "--topic", "__.*")[1] == (
        "Topic: __consumer_offsets\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: \n"
        "\tTopic: __consumer_offsets\tPartition: 0\tLeader: 2\tReplicas: 2\tIsr: 2\n"
    )


def test_describe_shows_moves(admin: StandIn, topics: Topics) -> None:
    admin.moves = {TopicPartition("clicks", 0): Reassignment([1, 2], [2], [])}
    lines = topics("--describe", "--topic", "clicks")[1].splitlines()
    assert "ReplicationFactor: 1\t" in lines[0]
    assert lines[1].endswith("\tIsr: 1,2\tAdding Replicas: 2\tRemoving Replicas: ")
    admin.refuse_moves = KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    assert "Adding" not in topics("--describe")[1]
    admin.refuse_moves = KafkaError(ErrorCode.REQUEST_TIMED_OUT)
    assert topics("--describe")[0] == 1


@pytest.mark.parametrize(
    ("flag", "partitions"),
    [
        ("--unavailable-partitions", [("clicks", 1), ("clicks", 2)]),
        ("--under-replicated-partitions", [("clicks", 1), ("clicks", 2)]),
        (
            "--under-min-isr-partitions",
            [("__consumer_offsets", 0), ("clicks", 1), ("clicks", 2)],
        ),
        ("--at-min-isr-partitions", [("clicks", 0)]),
    ],
)
def test_reports_show_partitions_alone(
    flag: str, partitions: list[tuple[str, int]], topics: Topics
) -> None:
    lines = topics("--describe", flag)[1].splitlines()
    assert [line.split("\t")[1:3] for line in lines] == [
        [f"Topic: {name}", f"Partition: {number}"] for name, number in partitions
    ]
    shown = json.loads(topics("--describe", flag, "--output", "json")[1])
    assert [(t["topic"], p["partition"]) for t in shown for p in t["partitions"]] == partitions


@pytest.mark.parametrize(
    ("replicas", "isr", "move", "is_shown"),
    [
        # A replica on its way in is not missed.
        ([3, 1, 2], [1, 2], Reassignment([3, 1, 2], [3], []), False),
        ([3, 2, 1], [1, 2], Reassignment([3, 2, 1], [3], [1]), False),
        # One that was there before is, also where a new one makes up the number.
        ([3, 2, 1], [1], Reassignment([3, 2, 1], [3], [1]), True),
        ([3, 4, 1, 2], [1], Reassignment([3, 4, 1, 2], [3, 4], [1, 2]), True),
        # One on its way out counts until it is gone.
        ([1, 2, 3], [1, 2], Reassignment([1, 2, 3], [], [3]), True),
        ([1, 2, 3], [1, 2, 3], Reassignment([1, 2, 3], [], [3]), False),
        # The move ended after it was listed: the partition's own replicas count.
        ([4, 5], [4, 5], Reassignment([4, 5, 1, 2, 3], [], [1, 2, 3]), False),
        ([4, 5], [4], Reassignment([4, 5, 1], [], [1]), True),
    ],
)
def test_under_replicated_partitions_while_they_move(
    replicas: list[int],
    isr: list[int],
    move: Reassignment,
    admin: StandIn,
    topics: Topics,
    *,
    is_shown: bool,
) -> None:
    """TopicCommand.PartitionDescription.isUnderReplicated. Partition 1 stays where it is."""
    moving = PartitionDescription(0, 1, 5, replicas, isr, [])
    still = PartitionDescription(1, 1, 5, [1, 2, 3], [1, 2], [])
    admin.topics = [TopicDescription("clicks", TOPIC_ID, False, [moving, still])]
    admin.moves = {TopicPartition("clicks", 0): move}
    lines = topics("--describe", "--under-replicated-partitions")[1].splitlines()
    shown = [line.split("\t")[2] for line in lines]
    assert shown == ["Partition: 0"] * is_shown + ["Partition: 1"]


def test_overrides_show_topics_alone(topics: Topics) -> None:
    lines = topics("--describe", "--topics-with-overrides")[1].splitlines()
    assert len(lines) == 1 and lines[0].startswith("Topic: clicks\t")


def test_describe_as_json(admin: StandIn, topics: Topics) -> None:
    admin.moves = {TopicPartition("clicks", 1): Reassignment([2, 1, 3], [3], [1])}
    shown = json.loads(topics("--describe", "--topic", "clicks", "--output", "json")[1])
    assert shown == [
        {
            "topic": "clicks",
            "topic_id": "AAECAwQFBgcICQoLDA0ODw",
            "partition_count": 3,
            "replication_factor": 2,
            "configs": {"retention.ms": "5", "segment.bytes": "100"},
            "partitions": [
                {"partition": 0, "leader": 1, "replicas": [1, 2], "isr": [1, 2]},
                {
                    "partition": 1,
                    "leader": None,
                    "replicas": [2, 1],
                    "isr": [2],
                    "adding_replicas": [3],
                    "removing_replicas": [1],
                },
                {"partition": 2, "leader": 9, "replicas": [2, 1], "isr": []},
            ],
        }
    ]


@pytest.mark.parametrize("action", [["--describe"], ["--delete"], ["--alter", "--partitions", "9"]])
def test_a_missing_topic(action: list[str], admin: StandIn, topics: Topics) -> None:
    assert topics(*action, "--topic", "ghost") == (
        1,
        "",
        "Error while executing topic command : Topic 'ghost' does not exist as expected\n",
    )
    assert topics(*action, "--topic", "ghost", "--if-exists") == (0, "", "")
    assert admin.done == []


def test_alter(admin: StandIn, topics: Topics) -> None:
    assert topics("--alter", "--topic", "clicks", "--partitions", "5") == (0, "", "")
    topics(
        "--alter", "--topic", "clicks", "--partitions", "4",
        "--replica-assignment", "1:2,1:2,1:2,2:1",
    )  # fmt: skip
    assert admin.done == [
        {"clicks": NewPartitions(5, None)},
        {"clicks": NewPartitions(4, [[2, 1]])},
    ]
    admin.refuse = KafkaError(ErrorCode.INVALID_PARTITIONS, "Topic already has 3 partitions.")
    assert topics("--alter", "--topic", "clicks", "--partitions", "3")[2] == (
        "Error while executing topic command : Topic already has 3 partitions.\n"
    )


def test_delete(admin: StandIn, topics: Topics) -> None:
    assert topics("--delete", "--topic", "clicks") == (0, "", "")
    assert topics("--delete", "--topic", "cl.*", "--output", "json")[1] == (
        '{"deleted": ["clicks"]}\n'
    )
    assert admin.done == [["clicks"], ["clicks"]]
    admin.refuse = KafkaError(ErrorCode.TOPIC_DELETION_DISABLED)
    assert topics("--delete", "--topic", "clicks") == (
        1,
        "",
        "Error while executing topic command : Topic deletion is disabled.\n",
    )
