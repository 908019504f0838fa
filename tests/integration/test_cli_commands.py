"""The command line on a running cluster of Ottla, command by command."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from ottla.cli import main as cli_main
from ottla.testing.cluster import Cluster

COMMAND = [sys.executable, "-m", "ottla"]
WAIT_S = 15.0


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with Cluster(brokers=3) as cluster:
        yield cluster


Cli = Callable[..., list[str]]


@pytest.fixture
def ottla(running: Cluster, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs a command that must succeed; `at` is where it connects to."""

    def run(command: str, *arguments: str, at: str = "bootstrap") -> list[str]:
        place = (
            ["--zookeeper", running.zookeeper]
            if at == "zookeeper"
            else ["--bootstrap-server", running.bootstrap_servers]
        )
        code = cli_main.run([command, *place, *arguments])
        out, err = capsys.readouterr()
        assert (code, err) == (0, ""), err
        return out.splitlines()

    return run


def eventually(ask: Callable[[], Any], good: Callable[[Any], bool]) -> Any:
    deadline = time.monotonic() + WAIT_S
    while not good(answer := ask()):
        assert time.monotonic() < deadline, f"still not so: {answer}"
        time.sleep(0.05)
    return answer


def described(ottla: Cli, topic: str) -> dict[str, Any]:
    """Empty where the broker that is asked has not heard of the topic yet."""
    (line,) = ottla("topics", "--describe", "--topic", topic, "--if-exists", "--output", "json")
    found = json.loads(line)
    return dict(found[0]) if found else {"partitions": [], "partition_count": 0}


def settled(ottla: Cli, topic: str, partitions: int) -> dict[str, Any]:
    """A topic whose partitions all have their leader and all replicas in sync."""

    def good(value: dict[str, Any]) -> bool:
        found = value["partitions"]
        return len(found) == partitions and all(
            p["leader"] is not None and len(p["isr"]) == len(p["replicas"]) for p in found
        )

    value: dict[str, Any] = eventually(lambda: described(ottla, topic), good)
    return value


def test_a_topic_from_znodes_to_its_end(ottla: Cli) -> None:
    """No broker is asked until the topic is there: the controller sees the znodes."""
    made = ottla(
        "topics", "--create", "--topic", "by-hand", "--partitions", "2",
        "--replication-factor", "3", "--config", "retention.ms=5000", at="zookeeper",
    )  # fmt: skip
    assert made == ["Created topic by-hand."]
    topic = settled(ottla, "by-hand", 2)
    assert topic["topic_id"] is not None, "the controller gave it an id"
    assert topic["configs"] == {"retention.ms": "5000"}
    ottla(
        "topics", "--alter", "--topic", "by-hand", "--partitions", "3",
        "--config", "retention.ms=6000", at="zookeeper",
    )  # fmt: skip
    settled(ottla, "by-hand", 3)
    eventually(
        lambda: described(ottla, "by-hand")["configs"],
        lambda configs: configs == {"retention.ms": "6000"},
    )
    by_broker = ottla("topics", "--describe", "--topic", "by-hand")
    assert ottla("topics", "--describe", "--topic", "by-hand", at="zookeeper") == by_broker
    (found,) = ottla("topics", "--describe", "--topic-id", topic["topic_id"], "--output", "json")
    assert json.loads(found)[0]["topic"] == "by-hand"
    gone = ottla("topics", "--delete", "--topic", "by-hand", "--wait", at="zookeeper")
    assert gone[0] == "Topic by-hand is marked for deletion."
    assert gone[-1] == "Deleted topic by-hand (1 of 1)."
    assert "by-hand" not in ottla("topics", "--list", at="zookeeper")


def test_many_topics_are_waited_for(ottla: Cli, running: Cluster) -> None:
    for name in ("wait-a", "wait-b"):
        ottla(
            "topics", "--create", "--topic", name, "--partitions", "2", "--replication-factor", "2"
        )
        settled(ottla, name, 2)
    gone = ottla("topics", "--delete", "--topic", "wait-.*", "--wait")
    assert gone[-1].endswith("(2 of 2).")
    folders = running.options.data.glob("broker-*/wait-*")
    assert [folder for folder in folders if not folder.name.endswith("-delete")] == []
    assert not any(name.startswith("wait-") for name in ottla("topics", "--list", at="zookeeper"))
    for address in running.bootstrap_servers.split(","):
        assert cli_main.run(["topics", "--bootstrap-server", address, "--list"]) == 0
        assert not any(name.startswith("wait-") for name in ottla("topics", "--list"))


def test_a_topic_in_the_trash_is_told_of_and_another_goes_past_it(ottla: Cli) -> None:
    make = ("topics", "--create", "--topic", "kept", "--partitions", "1")
    config = ("--config", "ottla.delete.retention.ms=86400000")
    ottla(*make, *config)
    settled(ottla, "kept", 1)
    told = ottla("topics", "--delete", "--topic", "kept", "--wait")
    assert told[0] == "Deleted topic kept (1 of 1)."
    assert told[1].startswith("Topic kept is in the trash until 20")
    (before,) = ottla("topics", "--list-deleted")
    ottla(*make, *config)
    settled(ottla, "kept", 1)
    gone = ottla("topics", "--delete", "--topic", "kept", "--purge")
    assert gone == ["Deleted topic kept (1 of 1).", "Purged topic kept."]
    assert ottla("topics", "--list-deleted") == [before], "the first one stays"
    ottla("purge", "kept")
    assert ottla("topics", "--list-deleted") == []


class Terminal:
    """A command whose input and errors are a terminal; `until` gives what it has shown."""

    def __init__(self, *words: str) -> None:
        self._fd, its_end = pty.openpty()
        self.process = subprocess.Popen(
            [*COMMAND, *words],
            stdin=its_end, stderr=its_end, stdout=subprocess.DEVNULL, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(its_end)

    def until(self, text: str) -> str:
        shown = ""
        while text not in shown:
            ready, _, _ = select.select([self._fd], [], [], WAIT_S)
            assert ready, f"only this came: {shown}"
            shown += os.read(self._fd, 1000).decode()
        return shown.replace("\r", "")

    def type(self, keys: bytes) -> int:
        os.write(self._fd, keys)
        code = self.process.wait(WAIT_S)
        os.close(self._fd)
        return code

    def interrupt(self) -> int:
        """Ctrl-C; once more where it fell between the prompt and the read that follows it, one
        call of Python's in which a signal is not noticed."""
        os.write(self._fd, b"\x03")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(2)
        return self.type(b"\x03" if self.process.poll() is None else b"")


def test_a_deletion_by_pattern_asks_on_a_terminal(ottla: Cli, running: Cluster) -> None:
    for name in ("ask-a", "ask-b"):
        ottla("topics", "--create", "--topic", name, "--partitions", "1")
        settled(ottla, name, 1)
    words = ["topics", "--bootstrap-server", running.bootstrap_servers, "--delete", "--topic"]
    question = "  ask-a\n  ask-b\nDelete these 2 topics? [y/N]: "
    for keys, code in ((b"n\n", 1), (b"\n", 1), (None, 130), (b"y\n", 0)):
        assert ottla("topics", "--list", "--topic", "ask-.*") == ["ask-a", "ask-b"]
        terminal = Terminal(*words, "ask-.*", "--wait")
        assert terminal.until("[y/N]: ") == question
        assert (terminal.interrupt() if keys is None else terminal.type(keys)) == code
    eventually(lambda: ottla("topics", "--list", "--topic", "ask-.*"), lambda names: names == [""])


def test_one_topic_that_cannot_grow_does_not_stop_the_others(
    ottla: Cli, running: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, partitions in (("grow-a", 2), ("grow-b", 4), ("grow-c", 2)):
        ottla(
            "topics", "--create", "--topic", name, "--partitions", str(partitions),
            "--replication-factor", "1",
        )  # fmt: skip
        settled(ottla, name, partitions)
    code = cli_main.run(
        ["topics", "--bootstrap-server", running.bootstrap_servers, "--alter", "--topic", "grow-.*",
         "--partitions", "3"]
    )  # fmt: skip
    assert code == 1
    assert capsys.readouterr().err == (
        "Error while executing topic command : Topic currently has 4 partitions, which is higher "
        "than the requested 3.\n"
    )
    eventually(
        lambda: [described(ottla, f"grow-{x}")["partition_count"] for x in "abc"],
        lambda counts: counts == [3, 4, 3],
    )


def test_configs_of_a_topic(ottla: Cli) -> None:
    ottla("topics", "--create", "--topic", "conf", "--partitions", "1", "--replication-factor", "1")
    settled(ottla, "conf", 1)
    assert ottla("configs", "--alter", "--topic", "conf", "--add-config", "retention.ms=77") == [
        "Completed updating config for topic conf."
    ]

    def shown() -> list[str]:
        return ottla("configs", "--describe", "--topic", "conf")

    lines = eventually(shown, lambda lines: len(lines) == 2)
    assert lines[1].startswith("  retention.ms=77 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:")
    ottla("configs", "--alter", "--topic", "conf", "--delete-config", "retention.ms")
    eventually(shown, lambda lines: len(lines) == 1)


def test_who_is_there(ottla: Cli) -> None:
    ottla("topics", "--create", "--topic", "led", "--replica-assignment", "1:2,1:0")
    settled(ottla, "led", 2)
    value = json.loads(ottla("cluster", "--output", "json")[0])
    assert [broker["id"] for broker in value["brokers"]] == [0, 1, 2]
    assert value["controller"] in (0, 1, 2) and len(value["cluster_id"]) == 22
    assert value["partitions"] == sum(broker["leaders"] for broker in value["brokers"])
    assert value["brokers"][1]["leaders"] >= 2
    head, *lines = ottla("cluster")
    assert head.startswith(f"Cluster: {value['cluster_id']}\tController: {value['controller']}\t")
    (leader,) = [line for line in lines if line.endswith("\tController: true")]
    assert leader.startswith(f"\tBroker: {value['controller']}\tHost: 127.0.0.1\tPort: ")


def test_a_partition_moves_and_its_leader_is_elected(
    ottla: Cli, running: Cluster, tmp_path: Path
) -> None:
    ottla("topics", "--create", "--topic", "move", "--replica-assignment", "0:1")
    settled(ottla, "move", 1)
    producer = Producer({"bootstrap.servers": running.bootstrap_servers, "acks": "all"})
    for number in range(100):
        producer.produce("move", str(number).encode())
    assert producer.flush(10) == 0
    plan = tmp_path / "plan.json"
    plan.write_text('{"partitions":[{"topic":"move","partition":0,"replicas":[2,0]}]}')
    file = ("--reassignment-json-file", str(plan))
    started = ottla("reassign", "--execute", *file)
    assert started[-1] == "Successfully started partition reassignment for move-0"
    done = "Reassignment of partition move-0 is complete."
    eventually(
        lambda: ottla("reassign", "--verify", *file, "--preserve-throttles"),
        lambda lines: done in lines,
    )
    assert ottla("reassign", "--list") == ["No partition reassignments found."]
    (partition,) = settled(ottla, "move", 1)["partitions"]
    assert (partition["leader"], partition["replicas"]) == (0, [2, 0])
    assert ottla(
        "elect", "--election-type", "preferred", "--topic", "move", "--partition", "0"
    ) == ["Successfully completed leader election (PREFERRED) for partitions move-0"]
    eventually(lambda: described(ottla, "move")["partitions"][0]["leader"], lambda led: led == 2)


EVENTS = [
    {"ts_ms": 1_700_000_000_123, "controller_epoch": 3, "event": "TopicChange", "kind": "partition",
     "topic": "clicks", "partition": 0, "from": "New", "to": "Online", "cause": "created"},
    {"ts_ms": 1_700_000_000_124, "controller_epoch": 3, "event": "BrokerChange", "kind": "broker",
     "broker": 2, "to": "alive"},
    {"ts_ms": 1_700_000_000_125, "controller_epoch": 3, "event": "TopicDeletion", "kind": "topic",
     "topic": "orders", "cause": "\x1b[31mred"},
]  # fmt: skip
LINES = [
    "2023-11-14 22:13:20.123Z epoch=3 TopicChange partition clicks-0 New -> Online (created)",
    "2023-11-14 22:13:20.124Z epoch=3 BrokerChange broker broker=2 alive",
    "2023-11-14 22:13:20.125Z epoch=3 TopicDeletion topic orders (?[31mred)",
]


def publish(running: Cluster, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": running.bootstrap_servers, "acks": "all"})
    for value in values:
        producer.produce("__ottla_lifecycle", value, partition=0)
    assert producer.flush(10) == 0


def test_events(ottla: Cli, running: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--bootstrap-server", running.bootstrap_servers]
    assert cli_main.run(["events", *where]) == 1
    assert capsys.readouterr().err.startswith("Error: there is no topic __ottla_lifecycle: ")
    ottla("topics", "--create", "--topic", "__ottla_lifecycle", "--replica-assignment", "2:0")
    settled(ottla, "__ottla_lifecycle", 1)
    assert ottla("events") == []
    publish(running, *(json.dumps(event).encode() for event in EVENTS))
    assert ottla("events") == LINES
    assert [json.loads(line) for line in ottla("events", "--output", "json")] == EVENTS
    assert ottla("events", "--topic", "clicks") == LINES[:1]
    follower = subprocess.Popen(
        [*COMMAND, "events", *where, "--follow", "--new"], stdout=subprocess.PIPE, text=True
    )
    assert follower.stdout is not None
    # What was there before is left out; what comes once it reads is shown.
    os.set_blocking(follower.stdout.fileno(), False)

    def heard() -> str:
        publish(running, json.dumps(EVENTS[1]).encode())
        assert follower.stdout is not None
        return follower.stdout.readline()

    assert eventually(heard, bool) == LINES[1] + "\n"
    follower.send_signal(signal.SIGINT)
    assert follower.wait(10) == 0, "following ends with Ctrl-C: that is no error"
    follower.stdout.close()
    publish(running, b"not json", b"[]", b"")
    assert cli_main.run(["events", *where]) == 0
    assert capsys.readouterr().err.count("is not an event\n") == 3
