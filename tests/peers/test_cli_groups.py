"""Every line of `ottla groups` is a line of Apache Kafka 2.8.2's kafka-consumer-groups.

Commands that only look are run by both tools on the same groups; for those that change something
`@` stands for a group of the tool's own, with names of one length. Kafka prints rows in the order
of a hash map: they are compared in order of their text.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.cli import main as cli_main
from ottla.testing.cluster import ProcessCluster
from ottla.testing.java import ApacheKafka, ApacheZooKeeper
from tests.support.peers.cli_java_tools import CLASSES, JavaTools
from tests.support.peers.java_tools import eventually, need_jars

pytestmark = pytest.mark.peers

JAVA, OURS = "javas", "ottla"
# One group only: there is no plan for any other.
CSV = Path(__file__).parent / "cli_java" / "plan_of_one.csv"
CLASSES["groups"] = "kafka.admin.ConsumerGroupCommand"
_LOGGED = re.compile(r"^WARN \S+: ", re.MULTILINE)

LOOK = [
    "--list --state",
    "--list --state Empty",
    "--list --state Stable,PreparingRebalance",
    "--list --state nope",
    "--describe --group one",
    "--describe --group two",
    "--describe --group one --group two",
    "--describe --group one --offsets",
    "--describe --group one --members",
    "--describe --group one --state",
    "--describe --group none",
    "--describe --group none --state",
    "--describe --group none --members",
    "--describe --group live",
    "--describe --group live --members",
    "--describe --group live --members --verbose",
    "--describe --group live --state",
    "--describe --all-groups",
    "--describe --all-groups --state",
    "--describe --all-groups --members --verbose",
    "--describe",
    "--describe --group one --state --members",
    "--describe --group one --state Empty",
    "--describe --group one --all-groups",
    "--describe --group one --topic t1",
    "--list --group one",
    "--list --topic t1",
    "--list --describe",
    "",
    "--delete",
    "--delete --group one --topic t1",
    "--delete --group none",
    "--delete --group live",
    "--delete-offsets --group one",
    "--delete-offsets --group none --topic t1",
    "--delete-offsets --group live --topic t1",
    "--delete-offsets --group none --topic nope",
    "--reset-offsets --group one --topic t1 --to-earliest",
    "--reset-offsets --group one --topic t1 --to-earliest --dry-run --execute",
    "--reset-offsets --group one --topic t1:x --to-latest --dry-run",
    "--reset-offsets --group one --topic nope --to-latest --dry-run",
    "--reset-offsets --group one --topic t1 --to-offset 4 --dry-run",
    "--reset-offsets --group one --topic t1 --to-offset 500 --dry-run",
    "--reset-offsets --group one --topic t1 --shift-by 2 --dry-run",
    "--reset-offsets --group one --topic t1 --shift-by -20 --dry-run",
    "--reset-offsets --group one --topic t2 --shift-by 2 --dry-run",
    "--reset-offsets --group two --topic t1 --to-current --dry-run",
    "--reset-offsets --group one --topic t1 --to-datetime 2020-01-01T00:00:00.000 --dry-run",
    "--reset-offsets --group one --topic t1 --to-datetime 2150-01-01T00:00:00.000+02:00 --dry-run",
    "--reset-offsets --group one --topic t1 --to-datetime 2020-01-01 --dry-run",
    "--reset-offsets --group one --topic t1 --by-duration P1DT1H --dry-run",
    "--reset-offsets --group one --topic t1 --by-duration PT0S --dry-run",
    "--reset-offsets --group one --topic t1 --by-duration 5 --dry-run",
    "--reset-offsets --group one --topic t1 --to-datetime 2020-13-01T00:00:00.000 --dry-run",
    f"--reset-offsets --group one --from-file {CSV} --dry-run",
    f"--reset-offsets --group one --group two --from-file {CSV} --dry-run --export",
    f"--reset-offsets --group two --from-file {CSV} --dry-run",
    "--reset-offsets --group two --all-topics --to-earliest --dry-run",
    "--reset-offsets --group one --to-earliest --dry-run",
    "--reset-offsets --topic t1 --to-earliest --dry-run",
    "--reset-offsets --group live --topic t1 --to-earliest --dry-run",
    "--reset-offsets --group one --topic t1 --to-earliest --to-latest --dry-run",
    "--reset-offsets --group one --topic t1 --to-earliest --export --dry-run",
    "--reset-offsets --group one --group two --topic t1 --to-earliest --export --dry-run",
    "--reset-offsets --group one --group live --topic t1 --to-earliest --export --dry-run",
    "--reset-offsets --all-groups --topic t1 --to-earliest --export --dry-run",
]
CHANGE = [
    "--reset-offsets --group @-g --topic t1 --to-latest --execute",
    "--describe --group @-g",
    "--reset-offsets --group @-g --topic t1:1,2 --shift-by -4 --execute",
    "--describe --group @-g",
    "--delete-offsets --group @-g --topic t1:0",
    "--delete-offsets --group @-g --topic t1:0,9",
    "--describe --group @-g",
    "--reset-offsets --group @-h --topic t1 --topic t2 --to-offset 1 --execute",
    "--describe --group @-h",
    "--delete --group @-h --group live",
    "--describe --group @-h",
    "--delete --group @-g",
    "--delete --group @-g",
]


class Said:
    """What a tool said: its exit code, the lines of its result, its notes and its error."""

    def __init__(self, code: int, out: str, err: str) -> None:
        lines = out.splitlines()
        failed = [line for line in lines if line.startswith("Error: ")]
        notes = [line for line in _LOGGED.sub("WARN ", err).splitlines() if line]
        if code and notes:  # below it Kafka prints how to use the tool
            failed.append(notes.pop() if len(notes) == 1 or not failed else "")
        self.error = (failed[0] if failed else "").rstrip(":")
        self.lines = [line for line in lines if line and line not in failed]
        self.lines.sort()
        self.notes = notes

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, Said)
        return vars(self) == vars(other)

    def __repr__(self) -> str:
        return f"\n{self.error!r} {self.notes}\n" + "\n".join(self.lines)


def ask_java(java: JavaTools, bootstrap: str, line: str) -> Said:
    words = line.replace("@", JAVA).split()
    code, out, err = java.run("groups", "--bootstrap-server", bootstrap, *words)
    if "Error: " in out or code:
        # A stack follows one, the usage the other.
        err = err.partition("\n")[0] if code else ""
    return _renamed(Said(code, out, err), JAVA)


def ask_ottla(bootstrap: str, line: str) -> Said:
    words = line.replace("@", OURS).split()
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli_main.run(["groups", "--bootstrap-server", bootstrap, *words])
    said = err.getvalue()
    notes = [text for text in said.splitlines() if text]
    failures = notes[-1:] if code else []
    assert code in (0, 1)
    result = Said(0, out.getvalue(), "\n".join(notes[: len(notes) - len(failures)]))
    result.error = failures[0] if failures else ""
    return _renamed(result, OURS)


def _renamed(said: Said, name: str) -> Said:
    said.lines = [line.replace(name, "@") for line in said.lines]
    said.notes = [line.replace(name, "@") for line in said.notes]
    said.error = said.error.replace(name, "@")
    return said


def _fill(bootstrap: str) -> Consumer:
    """Two topics, two groups without members, and one with a static member, which is returned."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic("t1", 3, 1), NewTopic("t2", 6, 1)]).values():
        made.result()
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(30):
        producer.produce("t1", b"x", partition=number % 3)
        producer.produce("t2", b"y", partition=number % 6)
    assert producer.flush(30) == 0
    for group, offsets in (
        ("one", [("t1", 0, 3), ("t1", 1, 10), ("t1", 2, 0)]),
        ("two", [("t1", 0, 3), ("t2", 0, 1), ("t2", 5, 2)]),
    ):
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
        consumer.commit(offsets=[TopicPartition(*o) for o in offsets], asynchronous=False)
        consumer.close()
    member = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "live",
            "client.id": "somebody",
            "group.instance.id": "instance",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    member.subscribe(["t1"])
    eventually(lambda: member.poll(0.5) and member.assignment(), bool)
    member.commit(asynchronous=False)
    return member


def _compare(bootstrap: str) -> dict[str, object]:
    member = _fill(bootstrap)
    different: dict[str, object] = {}
    try:
        with JavaTools() as java:
            for line in [*LOOK, *CHANGE]:
                theirs, ours = ask_java(java, bootstrap, line), ask_ottla(bootstrap, line)
                if theirs != ours:
                    different[line] = {"kafka": theirs, "ottla": ours}
    finally:
        member.close()
    return different


@pytest.fixture(scope="module")
def kafka(apache_zookeeper: ApacheZooKeeper) -> Iterator[ApacheKafka]:
    need_jars("kafka-2.8.2")
    with ApacheKafka(f"{apache_zookeeper.address}/groups", brokers=1) as kafka:
        yield kafka


def test_both_tools_on_apache_kafka(kafka: ApacheKafka) -> None:
    assert _compare(kafka.bootstrap_servers) == {}


def test_both_tools_on_ottla() -> None:
    need_jars("kafka-2.8.2")
    with ProcessCluster(brokers=1) as cluster:
        assert _compare(cluster.bootstrap_servers) == {}
