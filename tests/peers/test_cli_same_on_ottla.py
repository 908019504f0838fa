"""Kafka 2.8.2's own tools print the same on Ottla as on Apache Kafka 2.8.2, step by step."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cli_java_tools import Answer, JavaTools
from conftest import need_jars
from java_tools import eventually

from ottla.testing.cluster import ProcessCluster
from ottla.testing.java import ApacheKafka, ApacheZooKeeper

pytestmark = pytest.mark.peers

CREATE = "topics --create --topic same"
# `until N`: ask until the tool prints N lines, as the step before takes effect a moment later.
STEPS = [
    f"{CREATE} --replica-assignment 0:1,1:2 --config retention.ms=5 --config segment.bytes=1000",
    f"{CREATE} --partitions 1 --replication-factor 1",
    f"{CREATE} --partitions 1 --replication-factor 1 --if-not-exists",
    "until 3 topics --describe --topic same",
    "topics --describe --topic same --topics-with-overrides",
    "topics --describe --topic same --under-replicated-partitions",
    "topics --describe --topic same --unavailable-partitions",
    "topics --describe --topic same --under-min-isr-partitions",
    f"{CREATE}-wide --partitions 1 --replication-factor 4",
    f"{CREATE}! --partitions 1 --replication-factor 1",
    f"{CREATE}.x --partitions 1 --replication-factor 1",
    f"{CREATE}_x --partitions 1 --replication-factor 1",
    f"{CREATE}-ids --replica-assignment 0:7",
    "topics --alter --topic same --partitions 3 --replica-assignment 0:1,1:2,2:0",
    "until 4 topics --describe --topic same",
    "topics --alter --topic same --partitions 2",
    "topics --alter --topic same --partitions 3",
    "topics --alter --topic same --partitions 5 --replica-assignment 0:1,1:2,2:0,0:1",
    "topics --alter --topic same --partitions 4 --replica-assignment 0:1,1:2,2:0,9:1",
    "topics --alter --topic none --partitions 4",
    "configs --describe --topic same",
    "configs --describe --topic same --all",
    "configs --alter --topic same --add-config retention.ms=6,cleanup.policy=[compact,delete]",
    "until 4 configs --describe --topic same",
    "configs --alter --topic same --delete-config cleanup.policy,segment.bytes",
    "until 2 configs --describe --topic same",
    "configs --alter --topic same --delete-config flush.ms",
    "configs --alter --topic same --add-config retention.ms=x",
    "configs --alter --topic same --add-config nope=1",
    "configs --alter --topic none --add-config retention.ms=1",
    "configs --describe --topic none",
    "configs --describe --entity-type brokers",
    "elect --election-type preferred --topic same --partition 0",
    "elect --election-type unclean --topic same --partition 0",
    "elect --election-type preferred --all-topic-partitions",
    "elect --election-type preferred --topic none --partition 0",
    "reassign --list",
    "topics --list --topic same.*",
    "topics --delete --topic same,same.x,same-ids",
    "topics --delete --topic same",
    "topics --delete --topic same --if-exists",
    "topics --describe --topic same",
]


@pytest.fixture(scope="module")
def java() -> Iterator[JavaTools]:
    need_jars("kafka-2.8.2")
    with JavaTools() as java:
        yield java


def steps(java: JavaTools, bootstrap: str) -> dict[str, Answer]:
    answers = {}
    for step in STEPS:
        words = step.split()
        lines = int(words[1]) if words[0] == "until" else None
        command, *arguments = words[2:] if words[0] == "until" else words

        def ask(command: str = command, arguments: list[str] = arguments) -> Answer:
            return java.ask(command, "--bootstrap-server", bootstrap, *arguments)

        answers[step] = eventually(ask, lambda a, n=lines: n is None or len(a.lines) == n)
    return answers


def test_the_tools_see_no_difference(java: JavaTools, apache_zookeeper: ApacheZooKeeper) -> None:
    with ApacheKafka(f"{apache_zookeeper.address}/same", brokers=3) as kafka:
        theirs = steps(java, kafka.bootstrap_servers)
    with ProcessCluster(brokers=3) as cluster:
        ours = steps(java, cluster.bootstrap_servers)
    different = {
        step: {"kafka": theirs[step], "ottla": ours[step]}
        for step in STEPS
        if ours[step] != theirs[step]
    }
    assert different == {}
