"""`ottla topics --zookeeper` from arguments to lines, on a store in this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from ottla.cli import main as cli_main
from ottla.cli.topics.brokers import DeletionProgress
from ottla.client.admin.zookeeper import ZooKeeperAdmin
from ottla.metadata.znodes import BrokerIdZnode, BrokerInfo
from ottla.runtime import Runtime, system_runtime
from ottla.types import Endpoint
from ottla.zk.embedded import EmbeddedStore
from ottla.zk.server.engine import Engine

Topics = Callable[..., tuple[int, str, str]]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Brokers 0 to 2; each command has a session of its own."""
    engine = Engine(system_runtime())

    async def connect(
        _: Runtime, connect_string: str, credentials: Path | None = None
    ) -> ZooKeeperAdmin:
        assert connect_string == "h:2181/chroot"
        return ZooKeeperAdmin(EmbeddedStore(engine), Random(1))

    async def register() -> None:
        store = EmbeddedStore(engine)
        await store.create("/brokers")
        await store.create("/brokers/ids")
        for broker_id in range(3):
            info = BrokerInfo(broker_id, (Endpoint("PLAINTEXT", "h", 9092),))
            await store.create(BrokerIdZnode.path(broker_id), BrokerIdZnode.encode(info))

    monkeypatch.setattr(ZooKeeperAdmin, "connect", connect)
    asyncio.run(register())
    return engine


@pytest.fixture
def topics(engine: Engine, capsys: pytest.CaptureFixture[str]) -> Topics:
    def run(*arguments: str) -> tuple[int, str, str]:
        code = cli_main.run(["topics", "--zookeeper", "h:2181/chroot", *arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def write(engine: Engine, path: str, data: bytes | None) -> None:
    asyncio.run(_create(EmbeddedStore(engine), path, data))


async def _create(store: EmbeddedStore, path: str, data: bytes | None) -> None:
    await store.create(path, data)


KEYS = (
    "WARNING: If partitions are increased for a topic that has a key, the partition logic or "
    "ordering of the messages will be affected\n"
)


def test_a_topics_life(topics: Topics, engine: Engine) -> None:
    create = ("--create", "--topic", "t", "--replica-assignment", "0:1,1:2")
    assert topics(*create, "--config", "flush.ms=1") == (0, "Created topic t.\n", "")
    assert topics(*create)[::2] == (
        1,
        "Error while executing topic command : Topic 't' already exists.\n",
    )
    assert topics(*create, "--if-not-exists") == (0, "", "")
    assert topics("--alter", "--topic", "t", "--partitions", "3") == (
        0,
        f"{KEYS}Adding partitions succeeded!\n",
        "",
    )
    assert topics("--alter", "--topic", "t", "--delete-config", "flush.ms")[1] == (
        "WARNING: Altering topic configuration from this script has been deprecated and may be "
        "removed in future releases.\n"
        "         Going forward, please use kafka-configs.sh for this functionality\n"
        "Updated config for topic t.\n"
    )
    state = b'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0]}'
    for path in ("/partitions", "/partitions/0"):
        write(engine, "/brokers/topics/t" + path, None)
    write(engine, "/brokers/topics/t/partitions/0/state", state)
    head = "Topic: t\tPartitionCount: 3\tReplicationFactor: 2\tConfigs: "
    first = "\tTopic: t\tPartition: 0\tLeader: 0\tReplicas: 0,1\tIsr: 0"
    second = "\tTopic: t\tPartition: 1\tLeader: none\tReplicas: 1,2\tIsr: "
    code, out, _ = topics("--describe")
    assert (code, out.splitlines()[:3]) == (0, [head, first, second])
    assert topics("--describe", "--under-replicated-partitions")[1].startswith(first)
    assert topics("--describe", "--unavailable-partitions")[1].startswith(second)
    assert topics("--describe", "--topics-with-overrides") == (0, "", "")
    assert topics("--delete", "--topic", "t")[1] == (
        "Topic t is marked for deletion.\n"
        "Note: This will have no impact if delete.topic.enable is not set to true.\n"
    )
    assert topics("--delete", "--topic", "t")[1] == "Topic t is already marked for deletion.\n"
    assert topics("--list")[1] == "t - marked for deletion\n"
    marked = "\tMarkedForDeletion: true"
    assert topics("--describe")[1].splitlines()[:2] == [head + marked, first + marked]


def test_what_is_only_refused_here(topics: Topics, engine: Engine) -> None:
    assert topics("--create", "--topic", "t")[2] == 'Missing required argument "[partitions]"\n'
    assert topics("--create", "--topic", "t", "--partitions", "1")[2] == (
        'Missing required argument "[replication-factor]"\n'
    )
    topics("--create", "--topic", "__consumer_offsets", "--replica-assignment", "0")
    assert topics("--alter", "--topic", "__consumer_offsets", "--partitions", "2")[2] == (
        "Error while executing topic command : The number of partitions for the internal topic "
        "__consumer_offsets cannot be changed.\n"
    )
    assert topics("--delete", "--topic", "__consumer_offsets")[2] == (
        "Error while executing topic command : Topic __consumer_offsets is a kafka internal topic "
        "and is not allowed to be marked for deletion.\n"
    )
    assert topics("--list", "--exclude-internal") == (0, "", "")
    rack = BrokerInfo(7, (Endpoint("PLAINTEXT", "h", 9092),), rack="r")
    write(engine, BrokerIdZnode.path(7), BrokerIdZnode.encode(rack))
    numbers = ("--partitions", "2", "--replication-factor", "2")
    assert topics("--create", "--topic", "t", *numbers)[2] == (
        "Error while executing topic command : Not all brokers have rack information. Add "
        "--disable-rack-aware in command line to make replica assignment without rack "
        "information.\n"
    )
    assert topics("--create", "--topic", "t", *numbers, "--disable-rack-aware")[0] == 0


def test_json(topics: Topics) -> None:
    json_output = ("--output", "json")
    code, out, err = topics("--create", "--topic", "a.b", "--replica-assignment", "0", *json_output)
    assert (code, json.loads(out)) == (0, {"topic": "a.b", "created": True})
    assert err.startswith("WARNING: Due to limitations in metric names")
    out = topics("--alter", "--topic", "a.b", "--partitions", "2", *json_output)[1]
    assert json.loads(out) == {"altered": ["a.b"]}
    out = topics("--delete", "--topic", "a.b", *json_output)[1]
    assert json.loads(out) == {"marked_for_deletion": ["a.b"]}
    assert json.loads(topics("--list", *json_output)[1]) == [
        {"topic": "a.b", "marked_for_deletion": True}
    ]
    (described,) = json.loads(topics("--describe", *json_output)[1])
    assert described["marked_for_deletion"] is True and described["topic_id"] is None


def test_waiting_ends(topics: Topics) -> None:
    topics("--create", "--topic", "t", "--replica-assignment", "0")
    code, _, err = topics("--delete", "--topic", "t", "--wait", "--wait-timeout", "0.05")
    assert (code, err) == (
        1,
        "Error while executing topic command : still there after 0.05 s: t\n",
    )


def test_progress_is_told_in_growing_steps(capsys: pytest.CaptureFixture[str]) -> None:
    progress = DeletionProgress(["a", "b", "c"], to_stderr=False)
    left = {"a", "b", "c"}
    for tenths in range(100):
        if tenths == 50:
            left -= {"b", "c"}
        progress.update(left, tenths / 10)
    progress.update(set(), 10)
    assert capsys.readouterr().out.splitlines() == [
        "Waiting for a, b, c (1 s)",
        "Waiting for a, b, c (2 s)",
        "Waiting for a, b, c (4 s)",
        "Deleted topic b (1 of 3).",
        "Deleted topic c (2 of 3).",
        "Waiting for a (8 s)",
        "Deleted topic a (3 of 3).",
    ]


def test_a_bad_address_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli_main.run(["topics", "--zookeeper", "h:x", "--list"]) == 1
    assert capsys.readouterr().err.count("\n") == 1
