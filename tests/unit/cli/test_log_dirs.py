"""`ottla log-dirs` from arguments to lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.cli import main as cli_main
from ottla.client.admin import client as admin_module
from ottla.client.admin.types import LogDir, ReplicaOnDisk, StrayOnDisk
from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicPartition

Run = Callable[..., tuple[int, str, str]]


class StandIn:
    """Brokers 0 and 1, of which the second is Apache Kafka's."""

    strays: list[StrayOnDisk]

    def __init__(self) -> None:
        self.strays = []

    async def __aenter__(self) -> StandIn:
        return self

    async def __aexit__(self, *_error: object) -> None:
        pass

    async def describe_cluster(self) -> Any:
        return SimpleNamespace(nodes=[SimpleNamespace(id=0), SimpleNamespace(id=1)])

    async def describe_log_dirs(self, broker_id: int) -> dict[str, LogDir]:
        replicas = [
            ReplicaOnDisk(TopicPartition(name, broker_id), 7, 1, is_future=name == "u")
            for name in ("t", "u")
        ]
        failure = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        return {"/a": LogDir("/a", None, replicas), "/b": LogDir("/b", failure, [])}

    async def describe_strays(self, broker_id: int) -> list[StrayOnDisk]:
        if broker_id == 1:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        return self.strays


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    stand_in = StandIn()
    monkeypatch.setattr(admin_module.Admin, "connect", lambda *_, **__: stand_in)
    return stand_in


@pytest.fixture
def log_dirs(admin: StandIn, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str) -> tuple[int, str, str]:
        code = cli_main.run(["log-dirs", *arguments])
        return code, *capsys.readouterr()

    return run


def test_kafkas_lines(log_dirs: Run) -> None:
    code, out, err = log_dirs("--describe", "--broker-list", "1", "--topic-list", "u,x")
    first, second, text = out.splitlines()
    assert (code, err) == (0, "")
    assert first == "Querying brokers for log directories information"
    assert second == "Received log directory information from brokers 1"
    replica = {"partition": "u-1", "size": 7, "offsetLag": 1, "isFuture": True}
    failure = "org.apache.kafka.common.errors.KafkaStorageException"
    assert json.loads(text) == {
        "version": 1,
        "brokers": [
            {
                "broker": 1,
                "logDirs": [
                    {"logDir": "/a", "error": None, "partitions": [replica]},
                    {"logDir": "/b", "error": failure, "partitions": []},
                ],
            }
        ],
    }


def test_json_alone(log_dirs: Run) -> None:
    _, out, _ = log_dirs("--describe", "--output", "json")
    assert [broker["broker"] for broker in json.loads(out)["brokers"]] == [0, 1]


def test_strays(admin: StandIn, log_dirs: Run) -> None:
    foreign = "Broker 1 is not Ottla's and cannot be asked.\n"
    assert log_dirs("--strays") == (0, "No strays.\n", foreign)
    admin.strays = [
        StrayOnDisk("/a/t-0", "6xnKwYNRTxynbpWvdOMpNw", 5),
        StrayOnDisk("/a/u-1", None, 0),
    ]
    code, out, _ = log_dirs("--strays", "--broker-list", "0")
    lines = out.splitlines()
    assert code == 0 and len(lines) == 4
    assert lines[0] == "Broker: 0\tTopicId: 6xnKwYNRTxynbpWvdOMpNw\tSize: 5\tFolder: /a/t-0"
    assert lines[1] == "Broker: 0\tTopicId: unknown\tSize: 0\tFolder: /a/u-1"
    _, out, _ = log_dirs("--strays", "--output", "json")
    assert json.loads(out)[1] == {"broker": 0, "path": "/a/u-1", "topic_id": None, "size": 0}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "Exactly one of --describe and --strays is needed."),
        (["--describe", "--strays"], "Exactly one of --describe and --strays is needed."),
        (["--strays", "--topic-list", "t"], "a stray has no topic"),
        (["--describe", "--broker-list", "0,x"], "is not a list of broker ids"),
        (["--describe", "--broker-list", "0,7"], "no broker 7 is alive; there are 0, 1"),
    ],
)
def test_what_cannot_be_asked(log_dirs: Run, arguments: list[str], text: str) -> None:
    code, out, err = log_dirs(*arguments)
    assert code != 0 and out == "" and text in err and err.count("\n") == 1
