"""Every line that `ottla topics`, `configs`, `reassign`, `elect` and `log-dirs` print is that of
Apache Kafka 2.8.2's tool for the same command on the same cluster.

Both tools go through the same steps, each with topics of its own: `@` in a command line stands for
`by-java` with the one and for `by-ottla` with the other.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ottla.client.admin.client import Admin
from ottla.runtime import system_runtime
from ottla.testing.cluster import ProcessCluster
from ottla.testing.java import ApacheKafka, ApacheZooKeeper
from tests.support.peers.cli_java_tools import (
    SETTLE_S,
    STEPS,
    Answer,
    JavaTools,
    ask_ottla,
    java_steps,
)
from tests.support.peers.java_tools import eventually, need_jars

pytestmark = pytest.mark.peers

# Words that no config has in its name.
JAVA = "by-java"
OURS = "by-ottla"


@pytest.fixture(scope="module")
def kafka(apache_zookeeper: ApacheZooKeeper) -> Iterator[ApacheKafka]:
    need_jars("kafka-2.8.2")
    with ApacheKafka(f"{apache_zookeeper.address}/cli", brokers=3) as kafka:
        yield kafka


class Both:
    """Runs a command line with both tools; they must answer the same."""

    def __init__(self, java: JavaTools, kafka: ApacheKafka) -> None:
        self.java = java
        self._places = {
            "bootstrap": ("--bootstrap-server", kafka.bootstrap_servers),
            "zookeeper": ("--zookeeper", kafka.zookeeper),
        }

    def __call__(self, command: str, line: str, *, at: str = "bootstrap") -> Answer:
        theirs = self.java_alone(command, line, at=at)
        ours = self.ours_alone(command, line, at=at)
        assert ours == theirs, f"ottla {command} {line}"
        return ours

    def java_alone(self, command: str, line: str, *, at: str = "bootstrap") -> Answer:
        answer = self.java.ask(command, *self._words(line, JAVA, at))
        lines = [text.replace(JAVA, "@") for text in answer.lines]
        return Answer(answer.code, lines, answer.error.replace(JAVA, "@"))

    def ours_alone(self, command: str, line: str, *, at: str = "bootstrap") -> Answer:
        answer = ask_ottla(command, *self._words(line, OURS, at))
        lines = [text.replace(OURS, "@") for text in answer.lines]
        return Answer(answer.code, lines, answer.error.replace(OURS, "@"))

    def _words(self, line: str, name: str, at: str) -> list[str]:
        place = () if at == "nowhere" else self._places[at]
        return [*place, *(word.replace("@", name) for word in line.split())]

    def settled(self, command: str, line: str, good: Callable[[list[str]], bool]) -> Answer:
        """Asks both until the cluster has done what the last step began."""
        for alone in (self.java_alone, self.ours_alone):
            eventually(lambda alone=alone: alone(command, line).lines, good)
        time.sleep(SETTLE_S)
        return self(command, line)


@pytest.fixture(scope="module")
def both(kafka: ApacheKafka) -> Iterator[Both]:
    with JavaTools() as java:
        yield Both(java, kafka)


def test_kafkas_tools_print_the_same_on_ottla(both: Both, kafka: ApacheKafka) -> None:
    """First of all: later tests leave elections to be made."""
    theirs = java_steps(both.java, kafka.bootstrap_servers)
    with ProcessCluster(brokers=3) as cluster:
        ours = java_steps(both.java, cluster.bootstrap_servers)
    different = {
        step: {"kafka": theirs[step], "ottla": ours[step]}
        for step in STEPS
        if ours[step] != theirs[step]
    }
    assert different == {}


def test_topics_through_a_broker(both: Both) -> None:
    create = "--create --topic @-b --replica-assignment 0:1,1:2"
    made = both("topics", f"{create} --config retention.ms=5 --config segment.bytes=1000")
    assert made == Answer(0, ["Created topic @-b."], "")
    assert both("topics", create).error.endswith("Topic '@-b' already exists.")
    assert both("topics", f"{create} --if-not-exists") == Answer(0, [], "")
    described = both.settled("topics", "--describe --topic @-b", lambda lines: len(lines) == 3)
    assert described.lines == [
        "Topic: @-b\tTopicId: *\tPartitionCount: 2\tReplicationFactor: 2"
        "\tConfigs: segment.bytes=1000,retention.ms=5",
        "\tTopic: @-b\tPartition: 0\tLeader: 0\tReplicas: 0,1\tIsr: 0,1",
        "\tTopic: @-b\tPartition: 1\tLeader: 1\tReplicas: 1,2\tIsr: 1,2",
    ]
    for report in ("under-replicated", "unavailable", "under-min-isr", "at-min-isr"):
        assert both("topics", f"--describe --topic @-b --{report}-partitions").code == 0
    assert len(both("topics", "--describe --topic @-b --topics-with-overrides").lines) == 1
    alter = "--alter --topic @-b --partitions"
    assert both("topics", f"{alter} 3 --replica-assignment 0:1,1:2,2:0") == Answer(0, [], "")
    both.settled("topics", "--describe --topic @-b", lambda lines: len(lines) == 4)
    for refused in (
        "2",
        "3",
        "0",
        "5 --replica-assignment 0:1,1:2,2:0,0:1",
        "4 --replica-assignment 0:1,1:2,2:0,9:1",
        "4 --replica-assignment 0,1,2,0",
    ):
        assert both("topics", f"{alter} {refused}").code == 1
    both("topics", "--create --topic @-c --partitions 1 --replication-factor 1")
    listed = both.settled("topics", "--list --topic @-b,@-c", lambda lines: len(lines) == 2)
    assert listed.lines == ["@-b", "@-c"]
    assert both("topics", "--list --topic @-none").lines == [""]
    assert both("topics", "--delete --topic @-.*") == Answer(0, [], "")
    both.settled("topics", "--list --topic @-.*", lambda lines: lines == [""])
    for action in ("--delete", "--describe", "--alter --partitions 2"):
        assert both("topics", f"{action} --topic @-b").error.endswith("does not exist as expected")
        assert both("topics", f"{action} --topic @-b --if-exists") == Answer(0, [], "")


def test_topics_through_znodes(both: Both) -> None:
    def znodes(line: str) -> Answer:
        return both("topics", line, at="zookeeper")

    create = "--create --topic @-z --replica-assignment 0:1,1:2"
    made = znodes(f"{create} --config retention.ms=5 --config cleanup.policy=compact")
    assert made == Answer(0, ["Created topic @-z."], "")
    assert znodes(create).code == 1
    assert znodes(f"{create} --if-not-exists") == Answer(0, [], "")
    both.settled("topics", "--describe --topic @-z", lambda lines: len(lines) == 3)
    assert len(znodes("--describe --topic @-z").lines) == 3
    assert znodes("--describe --topic @-z --unavailable-partitions").lines == []
    assert znodes("--describe --topic @-z --under-replicated-partitions").lines == []
    grown = znodes("--alter --topic @-z --partitions 3 --replica-assignment 0:1,1:2,2:0")
    assert grown.lines[-1] == "Adding partitions succeeded!"
    for refused in ("3", "4 --replica-assignment 0:1,1:2,2:0,9:1"):
        assert znodes(f"--alter --topic @-z --partitions {refused}").code == 1
    changed = znodes("--alter --topic @-z --config retention.ms=6 --delete-config cleanup.policy")
    assert changed.lines[-1] == "Updated config for topic @-z."
    assert znodes("--alter --topic @-z --delete-config nope").code == 1
    both.settled("topics", "--describe --topic @-z", lambda lines: len(lines) == 4)
    assert znodes("--describe --topic @-z").lines[0].endswith("Configs: retention.ms=6")
    assert znodes("--list --topic @-z") == Answer(0, ["@-z"], "")
    assert znodes("--list --topic @-none") == Answer(0, [], "")
    assert znodes("--alter --topic @-none --partitions 2").code == 1
    assert znodes("--delete --topic @-z").lines[0] == "Topic @-z is marked for deletion."


CREATE = "--create --topic @-bad"
NUMBERS = "--partitions 1 --replication-factor 1"
REFUSED = [
    f"{CREATE}.x --partitions 2 --replication-factor 4",
    f"{CREATE}! {NUMBERS}",
    f"{CREATE} {NUMBERS} --config nope=1",
    f"{CREATE} {NUMBERS} --config retention.ms=x",
    f"{CREATE} {NUMBERS} --config retention.ms",
    f"{CREATE} {NUMBERS} --config cleanup.policy=shred",
    f"{CREATE} {NUMBERS} --config min.compaction.lag.ms=5 --config max.compaction.lag.ms=4",
    f"{CREATE} --partitions 0 --replication-factor 1",
    f"{CREATE} --partitions 1 --replication-factor 0",
    f"{CREATE} --partitions x --replication-factor 1",
    f"{CREATE} --replica-assignment 0:0",
    f"{CREATE} --replica-assignment 0:x",
    f"{CREATE} --replica-assignment 0 --partitions 1",
    f"{CREATE} --describe",
    "--create",
    "--alter --topic @-bad",
    "--alter --topic @-bad --partitions 1 --replication-factor 2",
    "--delete",
    "--describe --if-exists",
    "--describe --topic @-bad --partitions 2",
    "--describe --topic (",
    "--describe --unavailable-partitions --topics-with-overrides",
    "--list --if-exists",
    "--list --config a=b",
    "",
]


@pytest.mark.parametrize("at", ["bootstrap", "zookeeper"])
def test_refused_topic_commands(both: Both, at: str) -> None:
    for line in REFUSED:
        assert both("topics", line, at=at).code == 1


def test_flags_of_one_way_only(both: Both) -> None:
    for line in (
        "--alter --topic a --config a=b",
        "--alter --topic a --partitions 1 --delete-config a",
    ):
        assert both("topics", line).code == 1
    for line in (
        "--create --topic a",
        "--create --topic a --partitions 1",
        "--describe --under-min-isr-partitions",
        "--describe --at-min-isr-partitions",
        "--bootstrap-server h:1 --list",
    ):
        assert both("topics", line, at="zookeeper").code == 1
    assert both("topics", "--list --force --topic @-none").code == 0


def test_warnings(both: Both) -> None:
    for at in ("bootstrap", "zookeeper"):
        name = f"@.{at}"
        made = both("topics", f"--create --topic {name} {NUMBERS}", at=at)
        assert made.lines[0].startswith("WARNING: Due to limitations in metric names")
        clash = both("topics", f"--create --topic @_{at} {NUMBERS}", at=at)
        assert "collides with existing topics" in clash.error
        versioned = both(
            "topics",
            f"--create --topic @-old-{at} {NUMBERS} --config message.format.version=2.0",
            at=at,
        )
        assert versioned.lines[0].startswith("WARNING: The configuration message.format.version")


def test_configs_of_topics(both: Both) -> None:
    both("topics", "--create --topic @-c --replica-assignment 0:1")
    both.settled("topics", "--describe --topic @-c", lambda lines: len(lines) == 2)
    topic = "--entity-type topics --entity-name @-c"
    added = "retention.ms=1000,cleanup.policy=[compact,delete],segment.bytes=2000"
    assert both("configs", f"--alter {topic} --add-config {added}").lines == [
        "Completed updating config for topic @-c."
    ]
    assert len(both("configs", f"--describe {topic}").lines) == 4
    assert len(both("configs", "--describe --topic @-c --all").lines) > 20
    assert (
        both("configs", "--alter --topic @-c --delete-config retention.ms,segment.bytes").code == 0
    )
    assert both("configs", "--alter --topic @-c --delete-config retention.ms").error == (
        "Invalid config(s): retention.ms"
    )
    assert both("configs", "--alter --topic @-c --add-config message.format.version=2.0").code == 0
    for refused in (
        "--topic @-c --add-config retention.ms",
        "--topic @-c --add-config retention.ms=x",
        "--topic @-c --add-config nope=x",
        "--topic @-c",
        "--topic @-c --add-config a=b --add-config-file /nowhere",
        "--entity-type topics --add-config a=b",
        "--describe --topic @-c",
        "",
    ):
        assert both("configs", f"--alter {refused}").code == 1
    for refused in (
        "--topic a/b",
        "",
        "--topic @-c --entity-type topics",
        "--topic x --add-config a=b",
    ):
        assert both("configs", f"--describe {refused}").code == 1


def test_configs_of_brokers(both: Both) -> None:
    """Java goes first and cleans up; both act on the same brokers."""
    setting = "background.threads"

    def steps(alone: Callable[[str, str], Answer], entity: str) -> list[Answer]:
        def described(has_own: bool) -> Answer:
            # Brokers hear of a change a moment later, and show the old value until then.
            return eventually(
                lambda: alone("configs", f"--describe {entity}"),
                lambda answer: any(f" {setting}=11 " in line for line in answer.lines) == has_own,
            )

        added = alone("configs", f"--alter {entity} --add-config {setting}=11")
        shown = described(True)
        removed = alone("configs", f"--alter {entity} --delete-config {setting}")
        return [added, shown, removed, described(False)]

    for entity, said in (
        ("--broker 0", "Completed updating config for broker 0."),
        ("--entity-type brokers --entity-default", "Completed updating default config for brokers"),
    ):
        theirs, ours = steps(both.java_alone, entity), steps(both.ours_alone, entity)
        assert ours == theirs
        assert ours[0].lines[0].startswith(said)
    everything = both.settled(
        "configs",
        "--describe --broker 1 --all",
        lambda lines: not any(f"{setting}=11" in line for line in lines),
    )
    assert len(everything.lines) > 100
    assert len(both("configs", "--describe --entity-type brokers").lines) == 4
    for refused in (
        "--broker 0 --add-config broker.id=11",
        "--broker 0 --add-config background.threads=x",
        "--broker x --add-config a=b",
        "--entity-type brokers --add-config a=b",
        "--broker 0 --delete-config background.threads",
    ):
        assert both("configs", f"--alter {refused}").code == 1


class Plans:
    """JSON files in two versions, one for each tool's topics."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, name: str, value: object) -> str:
        for who in (JAVA, OURS):
            text = json.dumps(value).replace("@", who)
            (self._folder / f"{who}-{name}.json").write_text(text)
        return str(self._folder / f"@-{name}.json")

    def moves(self, name: str, *partitions: tuple[int, list[int]]) -> str:
        topic = "@-f" if name.startswith("f-") else "@-r"
        entries = [{"topic": topic, "partition": p, "replicas": to} for p, to in partitions]
        return self.write(name, {"version": 1, "partitions": entries})


@pytest.fixture
def plans(tmp_path: Path) -> Plans:
    return Plans(tmp_path)


def test_reassignment(both: Both, kafka: ApacheKafka, plans: Plans) -> None:
    both("topics", "--create --topic @-r --replica-assignment 0:1,1:2")
    both.settled("topics", "--describe --topic @-r", lambda lines: len(lines) == 3)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "acks": "all"})
    for name in (f"{JAVA}-r", f"{OURS}-r"):
        for _ in range(50):
            producer.produce(name, bytes(100_000), partition=0)
    assert producer.flush(30) == 0
    del producer
    assert both("reassign", "--list").lines == ["No partition reassignments found."]

    slow = plans.moves("slow", (0, [2, 0]), (1, [1, 2]))
    wrong = plans.moves("wrong", (0, [1, 0]))
    answers = []
    for alone in (both.java_alone, both.ours_alone):
        # 5 MB at 1 kB/s after a first fetch of 1 MB: under way for as long as this takes.
        steps = [alone("reassign", f"--execute --reassignment-json-file {slow} --throttle 1000")]
        assert len(steps[0].lines) == 8
        steps.append(alone("reassign", f"--verify --reassignment-json-file {slow}"))
        steps.append(alone("reassign", "--list"))
        steps.append(alone("reassign", f"--execute --reassignment-json-file {wrong}"))
        steps.append(alone("topics", "--describe --topic @-r"))
        steps.append(alone("topics", "--describe --topic @-r --under-replicated-partitions"))
        steps.append(alone("configs", "--describe --topic @-r"))
        steps.append(alone("configs", "--describe --broker 2"))
        steps.append(alone("reassign", f"--cancel --reassignment-json-file {slow}"))
        eventually(
            lambda alone=alone: alone("reassign", "--list").lines[0],
            lambda line: line == "No partition reassignments found.",
        )
        answers.append(steps)
    assert answers[0] == answers[1]
    assert "Adding Replicas: 2\tRemoving Replicas: 1" in answers[0][4].lines[1]
    assert answers[0][5].lines == [], "a replica on its way in is not missed"
    # A broker takes over that its throttles are gone when it is told.
    both.settled("configs", "--describe --broker 2", lambda lines: len(lines) == 1)
    assert "rather than" in both("reassign", f"--verify --reassignment-json-file {wrong}").lines[1]
    done = both("reassign", f"--cancel --reassignment-json-file {slow} --preserve-throttles")
    assert len(done.lines) == 2


def test_refused_reassignments(both: Both, plans: Plans) -> None:
    both("topics", "--create --topic @-f --replica-assignment 0:1,1:2")
    both.settled("topics", "--describe --topic @-f", lambda lines: len(lines) == 3)
    topics = plans.write("topics", {"topics": [{"topic": "@-f"}], "version": 1})
    twice = plans.write("twice", {"topics": [{"topic": "@-f"}, {"topic": "@-f"}]})
    absent = plans.write("absent", {"topics": [{"topic": "@-none"}]})
    newer = plans.write("newer", {"version": 2, "topics": [], "partitions": []})
    dirs = {"topic": "@-f", "partition": 0, "replicas": [1, 2], "log_dirs": ["any"]}
    for line in (
        f"--generate --topics-to-move-json-file {topics} --broker-list 0,1,1",
        f"--generate --topics-to-move-json-file {topics} --broker-list 0,x",
        f"--generate --topics-to-move-json-file {topics} --broker-list 0",
        f"--generate --topics-to-move-json-file {twice} --broker-list 0,1",
        f"--generate --topics-to-move-json-file {absent} --broker-list 0,1",
        f"--generate --topics-to-move-json-file {newer} --broker-list 0,1",
        f"--generate --topics-to-move-json-file {topics}",
        f"--execute --reassignment-json-file {newer}",
        f"--execute --reassignment-json-file {plans.moves('f-empty')}",
        f"--execute --reassignment-json-file {plans.moves('f-bare', (0, []))}",
        f"--execute --reassignment-json-file {plans.moves('f-pair', (0, [1]), (0, [2]))}",
        f"--execute --reassignment-json-file {plans.moves('f-same', (0, [1, 1]))}",
        f"--execute --reassignment-json-file {plans.moves('f-broker', (0, [1, 9]))}",
        f"--execute --reassignment-json-file {plans.moves('f-partition', (7, [1, 2]))}",
        f"--execute --reassignment-json-file {plans.write('dirs', {'partitions': [dirs]})}",
        "--verify",
        "--list --throttle 5",
        "--list --execute",
        f"--verify --reassignment-json-file {topics} --additional",
        "",
    ):
        assert both("reassign", line).code == 1
    generated = both.ours_alone(
        "reassign", f"--generate --topics-to-move-json-file {topics} --broker-list 0,1"
    )
    theirs = both.java_alone(
        "reassign", f"--generate --topics-to-move-json-file {topics} --broker-list 0,1"
    )
    assert generated.lines[:4] == theirs.lines[:4], "only the proposal is drawn at random"
    assert len(generated.lines) == len(theirs.lines) == 5


async def log_dirs(kafka: ApacheKafka, broker_id: int) -> list[str]:
    async with Admin.connect(system_runtime(), kafka.bootstrap_servers) as admin:
        return list(await admin.describe_log_dirs(broker_id))


def test_moves_between_directories(both: Both, kafka: ApacheKafka, plans: Plans) -> None:
    """One directory only, so that a move ends where it begins."""
    both("topics", "--create --topic @-d --replica-assignment 0")
    both.settled("topics", "--describe --topic @-d", lambda lines: len(lines) == 2)
    (folder,) = asyncio.run(log_dirs(kafka, broker_id=0))
    entry = {"topic": "@-d", "partition": 0, "replicas": [0], "log_dirs": [folder]}
    plan = plans.write("dir", {"partitions": [entry]})
    started = both("reassign", f"--execute --reassignment-json-file {plan}")
    assert started.lines[-1] == "Successfully started log directory move for: @-d-0-0"
    verified = both("reassign", f"--verify --reassignment-json-file {plan}")
    assert "Reassignment of replica @-d-0-0 completed successfully." in verified.lines
    other = plans.write("other", {"partitions": [entry | {"log_dirs": ["/elsewhere"]}]})
    verified = both("reassign", f"--verify --reassignment-json-file {other}")
    assert f"is not being moved from log dir {folder} to /elsewhere." in verified.lines[2]


def test_log_directories(both: Both) -> None:
    both("topics", "--create --topic @-l --replica-assignment 0:1")
    both.settled("topics", "--describe --topic @-l", lambda lines: len(lines) == 2)
    for brokers in ("1,0", "1", "0,0"):
        found = both("log-dirs", f"--describe --broker-list {brokers} --topic-list @-l")
        assert found.code == 0 and '"partition":"@-l-0"' in found.lines[2]
    assert both("log-dirs", "--describe --topic-list @-none").lines[1].endswith(" 0,1,2")


def test_elections(both: Both, plans: Plans) -> None:
    both("topics", "--create --topic @-e --replica-assignment 0:1,1:2")
    both.settled("topics", "--describe --topic @-e", lambda lines: len(lines) == 3)
    for kind in ("preferred", "unclean"):
        quiet = both("elect", f"--election-type {kind} --topic @-e --partition 0")
        assert quiet.lines == ["Valid replica already elected for partitions "]
    partitions = [{"topic": "@-e", "partition": p} for p in (0, 1)]
    plan = plans.write("elect", {"partitions": partitions})
    assert both("elect", f"--election-type preferred --path-to-json-file {plan}").code == 0
    # What other tests left to elect is done by the first.
    both.java_alone("elect", "--election-type preferred --all-topic-partitions")
    assert both("elect", "--election-type preferred --all-topic-partitions") == Answer(0, [], "")
    repeated = plans.write("repeated", {"partitions": [partitions[0], partitions[0]]})
    for line in (
        "--election-type preferred --topic @-none --partition 0",
        f"--election-type preferred --path-to-json-file {repeated}",
        f"--election-type preferred --path-to-json-file {plans.write('none', {})}",
        "--election-type preferred",
        "--election-type preferred --topic a",
        "--election-type preferred --topic a --all-topic-partitions",
        "--election-type preferred --all-topic-partitions --partition 0",
        "--topic a --partition 0",
    ):
        assert both("elect", line).code == 1
