"""`ottla elect` from arguments to lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.cli import main as cli_main
from ottla.client.admin import client as admin_module
from ottla.client.admin.types import ElectionType
from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicPartition
from tests.support.cli.partition_stand_in import PartitionStandIn

Elect = Callable[..., tuple[int, str, str]]
T0, T1, T2 = (TopicPartition("t", p) for p in range(3))
ONE = ("--election-type", "preferred", "--topic", "t", "--partition", "0")


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> PartitionStandIn:
    stand_in = PartitionStandIn()
    monkeypatch.setattr(admin_module.Admin, "connect", lambda *_, **__: stand_in)
    return stand_in


@pytest.fixture
def elect(admin: PartitionStandIn, capsys: pytest.CaptureFixture[str]) -> Elect:
    def run(*arguments: str) -> tuple[int, str, str]:
        code = cli_main.run(["elect", *arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_what_was_elected(admin: PartitionStandIn, elect: Elect) -> None:
    admin.elections = {T1: None, T0: None}
    assert elect(*ONE) == (
        0,
        "Successfully completed leader election (PREFERRED) for partitions t-0, t-1\n",
        "",
    )
    assert admin.asked == [(ElectionType.PREFERRED, [T0])]


def test_what_was_not(admin: PartitionStandIn, elect: Elect) -> None:
    admin.elections = {
        T0: None,
        T1: KafkaError(ErrorCode.ELECTION_NOT_NEEDED),
        T2: KafkaError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "none is alive"),
    }
    asked = ("--election-type", "UNCLEAN", "--all-topic-partitions")
    assert elect(*asked) == (
        1,
        "Successfully completed leader election (UNCLEAN) for partitions t-0\n"
        # Kafka 2.8 lists the elected ones once more here.
        "Valid replica already elected for partitions t-0\n"
        "Error completing leader election (UNCLEAN) for partition: t-2: "
        "org.apache.kafka.common.errors.EligibleLeadersNotAvailableException: none is alive\n",
        "1 replica(s) could not be elected\n",
    )
    assert admin.asked == [(ElectionType.UNCLEAN, None)]
    code, out, err = elect(*asked, "--output", "json")
    assert (code, err) == (1, "1 replica(s) could not be elected\n")
    assert json.loads(out) == {
        "election_type": "UNCLEAN",
        "elected": ["t-0"],
        "not_needed": ["t-1"],
        "failed": {"t-2": "none is alive"},
    }


def test_partitions_from_a_file(admin: PartitionStandIn, elect: Elect, tmp_path: Path) -> None:
    path = tmp_path / "partitions.json"
    asked = ("--election-type", "preferred", "--path-to-json-file", str(path))
    path.write_text('{"partitions":[{"topic":"t","partition":1},{"topic":"t","partition":0}]}')
    assert elect(*asked)[0] == 0
    assert admin.asked == [(ElectionType.PREFERRED, [T1, T0])]
    for text, reason in (
        ("{}", 'Replica election data is missing "partitions" field'),
        ("", "Replica election data cannot be read: The input string is not a valid JSON"),
        ('{"partitions":[{"topic":"t","partition":1},{"topic":"t","partition":1}]}',
         "Replica election data contains duplicate partitions: t-1"),
    ):  # fmt: skip
        path.write_text(text)
        code, out, err = elect(*asked)
        assert (code, out) == (1, "") and err.startswith(reason) and err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("--topic t --partition 0", "Missing required option(s): election-type"),
        ("--election-type preferred",
         "One and only one of the following options is required: topic, all-topic-partitions, "
         "path-to-json-file"),
        ("--election-type preferred --topic t --all-topic-partitions",
         "One and only one of the following options is required: topic, all-topic-partitions, "
         "path-to-json-file"),
        ("--election-type preferred --topic t", "Missing required option(s): partition"),
        ("--election-type preferred --all-topic-partitions --partition 0",
         "Option partition is only allowed if topic is used"),
    ],
)  # fmt: skip
def test_usage(elect: Elect, arguments: str, text: str) -> None:
    assert elect(*arguments.split()) == (1, "", text + "\n")
