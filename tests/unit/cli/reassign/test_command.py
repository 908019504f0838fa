"""`ottla reassign` from arguments and files to lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.cli import main as cli_main
from ottla.client.admin import client as admin_module
from ottla.client.admin.types import ConfigEdit, ConfigOperation, ConfigResource, Reassignment
from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicPartition, TopicPartitionReplica
from tests.support.cli.partition_stand_in import PartitionStandIn

Reassign = Callable[..., tuple[int, str, str]]
T0 = TopicPartition("t", 0)
REPLICA = TopicPartitionReplica("t", 0, 1)


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> PartitionStandIn:
    stand_in = PartitionStandIn()
    monkeypatch.setattr(admin_module.Admin, "connect", lambda *_, **__: stand_in)
    return stand_in


@pytest.fixture
def reassign(admin: PartitionStandIn, capsys: pytest.CaptureFixture[str]) -> Reassign:
    def run(*arguments: str) -> tuple[int, str, str]:
        code = cli_main.run(["reassign", *arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def plan(tmp_path: Path) -> Callable[..., list[str]]:
    """Writes a plan and gives the option that names it."""

    def write(*replicas: list[int], **more: Any) -> list[str]:
        entries = [
            {"topic": "t", "partition": p, "replicas": ids} | more for p, ids in enumerate(replicas)
        ]
        path = tmp_path / "plan.json"
        path.write_text(json.dumps({"version": 1, "partitions": entries}))
        return ["--reassignment-json-file", str(path)]

    return write


CURRENT = (
    '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2],"log_dirs":["any",'
    '"any"]}]}'
)


def test_execute_then_verify_then_cancel(
    admin: PartitionStandIn, reassign: Reassign, plan: Callable[..., list[str]]
) -> None:
    moves = plan([3, 2])
    assert reassign("--execute", *moves, "--throttle", "1000") == (
        0,
        f"Current partition replica assignment\n\n{CURRENT}\n\n"
        "Save this to use as the --reassignment-json-file option during rollback\n"
        "Warning: You must run --verify periodically, until the reassignment completes, to ensure "
        "the throttle is removed.\n"
        "The inter-broker throttle limit was set to 1000 B/s\n"
        "Successfully started partition reassignment for t-0\n",
        "",
    )
    assert admin.edits[ConfigResource.topic("t")] == [
        ConfigEdit("leader.replication.throttled.replicas", "0:1,0:2"),
        ConfigEdit("follower.replication.throttled.replicas", "0:3"),
    ]
    rates = [
        ConfigEdit(f"{side}.replication.throttled.rate", "1000") for side in ("leader", "follower")
    ]
    assert [admin.edits[ConfigResource.broker(i)] for i in (1, 2, 3)] == [rates] * 3
    assert reassign("--list")[1] == (
        "Current partition reassignments:\nt-0: replicas: 3,2,1. adding: 3. removing: 1.\n"
    )
    assert reassign("--verify", *moves)[1] == (
        "Status of partition reassignment:\nReassignment of partition t-0 is still in progress.\n\n"
    )
    code, _, err = reassign("--execute", *moves)
    assert code == 1
    assert err.startswith("Cannot execute because there is an existing partition assignment.  Use")
    assert reassign("--execute", *moves, "--additional")[0] == 0
    admin.edits.clear()
    assert reassign("--cancel", *moves)[1] == (
        "Successfully cancelled partition reassignment for: t-0\n"
        "None of the specified partition moves are active.\n"
        "Clearing broker-level throttles on brokers 1,2,3\n"
        "Clearing topic-level throttles on topic t\n"
    )
    assert admin.edits[ConfigResource.topic("t")][0] == ConfigEdit(
        "leader.replication.throttled.replicas", None, ConfigOperation.DELETE
    )
    assert len(admin.edits[ConfigResource.broker(3)]) == 3
    assert reassign("--cancel", *moves, "--preserve-throttles")[1] == (
        "None of the specified partition reassignments are active.\n"
        "None of the specified partition moves are active.\n"
    )
    assert reassign("--list")[1] == "No partition reassignments found.\n"


def test_verify_tells_what_came_of_it(
    admin: PartitionStandIn, reassign: Reassign, plan: Callable[..., list[str]]
) -> None:
    moves = plan([1, 2], [1, 3], [1])
    assert reassign("--verify", *moves, "--preserve-throttles")[1] == (
        "Status of partition reassignment:\n"
        "Reassignment of partition t-0 is complete.\n"
        "There is no active reassignment of partition t-1, but replica set is 2,3 rather than "
        "1,3.\n"
        "There is no active reassignment of partition t-2, but replica set is  rather than 1.\n\n"
    )
    assert admin.edits == {}
    admin.moves[TopicPartition("other", 0)] = Reassignment([1, 2], [2], [])
    out = reassign("--verify", *moves)[1]
    assert "Clearing" not in out, "someone else's move still needs the throttle"
    code, out, err = reassign("--verify", *moves, "--output", "json")
    value = json.loads(out)
    assert (code, err, value["done"]) == (0, "", False)
    assert [p["state"] for p in value["partitions"]] == ["complete", "not active", "not active"]


def test_refusals_of_the_server(
    admin: PartitionStandIn, reassign: Reassign, plan: Callable[..., list[str]]
) -> None:
    admin.refused[T0] = KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "dead broker")
    code, _, err = reassign("--execute", *plan([3, 2]))
    assert (code, err) == (1, "Error reassigning partition(s): t-0: dead broker\n")
    admin.moves[T0] = Reassignment([3, 1, 2], [3], [1])
    code, _, err = reassign("--cancel", *plan([3, 2]))
    assert (code, err) == (1, "Error cancelling partition reassignment for: t-0: dead broker\n")
    del admin.moves[T0]
    assert reassign("--execute", *plan([3, 9]))[::2] == (1, "Error: Unknown broker id 9\n")


def test_generate(admin: PartitionStandIn, reassign: Reassign, tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    path.write_text('{"topics":[{"topic":"t"}]}')
    asked = ("--generate", "--topics-to-move-json-file", str(path), "--broker-list", "1,3")
    code, out, _ = reassign(*asked)
    title, current, blank, heading, proposed = out.splitlines()
    assert (code, title, blank) == (0, "Current partition replica assignment", "")
    assert heading == "Proposed partition reassignment configuration"
    assert [p["replicas"] for p in json.loads(current)["partitions"]] == [[1, 2], [2, 3]]
    assert all(set(p["replicas"]) == {1, 3} for p in json.loads(proposed)["partitions"])
    value = json.loads(reassign(*asked, "--output", "json")[1])
    assert value["current"] == json.loads(current) and len(value["proposed"]["partitions"]) == 2
    admin.racks = ["r1", None, None]
    assert reassign(*asked)[2].startswith("Error: Not all brokers have rack information.")
    assert reassign(*asked, "--disable-rack-aware")[0] == 0


def test_moves_between_directories_wait_for_the_replica(
    admin: PartitionStandIn, reassign: Reassign, plan: Callable[..., list[str]]
) -> None:
    moves = plan([1], log_dirs=["/b"])
    admin.not_yet = 1
    code, out, _ = reassign("--execute", *moves, "--replica-alter-log-dirs-throttle", "9")
    assert code == 0
    assert "The replica-alter-dir throttle limit was set to 9 B/s\n" in out
    assert out.endswith("Successfully started log directory move for: t-0-1\n")
    assert admin.asked == [{REPLICA: "/b"}] * 2
    admin.moves.clear()
    admin.not_yet = 10**6
    code, _, err = reassign("--execute", *moves, "--timeout", "0")
    assert (code, err) == (
        1,
        "Timed out before log directory move could be started for: t-0-1\n",
    )


@pytest.mark.parametrize(
    ("places", "text", "is_done"),
    [
        (("/b", None), "Reassignment of replica t-0-1 completed successfully.", True),
        (("/a", None),
         "Partition t-0 on broker 1 is not being moved from log dir /a to /b.", True),
        (("/a", "/b"), "Reassignment of replica t-0-1 is still in progress.", False),
        (("/a", "/c"),
         "Partition t-0 on broker 1 is being moved to log dir /c instead of /b.", False),
        ((None, None),
         "Partition t-0 is not found in any live log dir on broker 1. There is likely an offline "
         "log directory on the broker.", False),
    ],
)  # fmt: skip
def test_directories_are_verified(
    admin: PartitionStandIn,
    reassign: Reassign,
    plan: Callable[..., list[str]],
    places: tuple[str | None, str | None],
    text: str,
    is_done: bool,
) -> None:
    admin.dirs[REPLICA] = places
    out = reassign("--verify", *plan([1], log_dirs=["/b"]))[1]
    assert out.splitlines()[2] == text
    assert ("Clearing" in out) is is_done


def test_a_move_between_directories_is_cancelled_by_moving_back(
    admin: PartitionStandIn, reassign: Reassign, plan: Callable[..., list[str]]
) -> None:
    admin.dirs[REPLICA] = ("/a", "/b")
    code, out, _ = reassign("--cancel", *plan([1], log_dirs=["/b"]))
    assert code == 0 and "Successfully started log directory move for: t-0-1\n" in out
    assert admin.asked == [{REPLICA: "/a"}]


def test_json_keeps_stdout_clean(
    admin: PartitionStandIn, reassign: Reassign, plan: Callable[..., list[str]]
) -> None:
    moves = plan([3, 2])
    code, out, err = reassign("--execute", *moves, "--throttle", "5", "--output", "json")
    assert (code, json.loads(out)) == (
        0,
        {"started": ["t-0"], "rollback": json.loads(CURRENT)},
    )
    assert "throttle limit was set" in err
    assert json.loads(reassign("--list", "--output", "json")[1]) == [
        {"topic": "t", "partition": 0, "replicas": [3, 2, 1], "adding_replicas": [3],
         "removing_replicas": [1]}
    ]  # fmt: skip
    assert json.loads(reassign("--cancel", *moves, "--output", "json")[1]) == {"cancelled": ["t-0"]}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("", "Command must include exactly one action: --generate, --execute, --verify, --cancel, "
         "--list"),
        ("--list --verify", "Command must include exactly one action: --generate, --execute, "
         "--verify, --cancel, --list"),
        ("--verify", 'Missing required argument "[reassignment-json-file]"'),
        ("--generate", 'Missing required argument "[topics-to-move-json-file]"'),
        ("--list --throttle 5", 'Option "[throttle]" can\'t be used with action "[list]"'),
        ("--verify --reassignment-json-file x --additional",
         'Option "[additional]" can\'t be used with action "[verify]"'),
        ("--execute --reassignment-json-file /nowhere",
         "Error: /nowhere: No such file or directory"),
        ("--execute --reassignment-json-file x --throttle fast",
         "Invalid value for '--throttle': 'fast' is not a valid integer."),
    ],
)  # fmt: skip
def test_usage(reassign: Reassign, arguments: str, text: str) -> None:
    assert reassign(*arguments.split()) == (1, "", text + "\n")


def test_a_file_that_is_no_text(reassign: Reassign, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(b"\xff\xfe")
    assert reassign("--verify", "--reassignment-json-file", str(path)) == (
        1,
        "",
        f"Error: {path} is not UTF-8 text\n",
    )
