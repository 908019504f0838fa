"""Kafka 2.8.2's kafka-configs sets and shows quotas on Ottla as it does on Apache Kafka, and
`ottla configs` does as kafka-configs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest

from ottla.testing.cluster import ProcessCluster
from ottla.testing.java import ApacheKafka, ApacheZooKeeper
from tests.support.peers.cli_java_tools import SETTLE_S, Answer, JavaTools, ask_ottla
from tests.support.peers.java_tools import need_jars

pytestmark = pytest.mark.peers

STEPS = [
    "--describe --entity-type clients",
    "--alter --entity-type clients --entity-name c --add-config producer_byte_rate=1024",
    "--alter --entity-type clients --entity-default --add-config consumer_byte_rate=2048",
    "--describe --entity-type clients --entity-name c",
    "--describe --entity-type clients --entity-default",
    "--alter --entity-type users --entity-name a/b --add-config "
    "request_percentage=50,controller_mutation_rate=2.5",
    "--alter --entity-type users --entity-name a/b --entity-type clients --entity-name c "
    "--add-config producer_byte_rate=1",
    "--alter --entity-type users --entity-default --entity-type clients --entity-default "
    "--add-config producer_byte_rate=2",
    "--describe --entity-type users",
    "--describe --entity-type users --entity-name a/b",
    "--describe --entity-type users --entity-type clients",
    "--describe --entity-type users --entity-name a/b --entity-type clients --entity-name c",
    "--alter --entity-type clients --entity-name c --add-config nope=1",
    "--alter --entity-type clients --entity-name c --delete-config producer_byte_rate",
    "--describe --entity-type clients --entity-name c",
    "--alter --entity-type clients --entity-name c --delete-config producer_byte_rate",
    "--alter --entity-type ips --entity-name 10.9.8.7 --add-config connection_creation_rate=5",
    "--alter --entity-type ips --entity-default --add-config connection_creation_rate=500",
    "--describe --entity-type ips",
    "--describe --ip 10.9.8.7",
    "--alter --entity-type ips --entity-name 10.9.8.7 --add-config producer_byte_rate=5",
    "--alter --entity-type ips --entity-name no.where.invalid --add-config nope=5",
    "--alter --entity-type ips --entity-name 10.9.8.7 --entity-type users --entity-name u "
    "--add-config connection_creation_rate=1",
    "--alter --ip 10.9.8.7 --delete-config connection_creation_rate",
    "--describe --ip 10.9.8.7",
    "--describe --entity-type ips --entity-default",
]


def answers(
    ask: Callable[..., Answer], bootstrap: str, *, settle_s: float = SETTLE_S
) -> dict[int, Answer]:
    found = {}
    for number, step in enumerate(STEPS):
        answer = ask("configs", "--bootstrap-server", bootstrap, *step.split())
        # Several entities come in the order of a hash map.
        found[number] = Answer(answer.code, sorted(answer.lines), answer.error)
        time.sleep(settle_s)
    return found


def test_kafka_configs_on_both(apache_zookeeper: ApacheZooKeeper) -> None:
    need_jars("kafka-2.8.2")
    with JavaTools() as java:
        with ApacheKafka(f"{apache_zookeeper.address}/quotas", brokers=1) as kafka:
            theirs = answers(java.ask, kafka.bootstrap_servers)
        with ProcessCluster(brokers=1) as cluster:
            ours = answers(java.ask, cluster.bootstrap_servers)
        with ProcessCluster(brokers=1) as cluster:
            # Brokers of Ottla describe quotas from the store.
            by_ottla = answers(ask_ottla, cluster.bootstrap_servers, settle_s=0)
    assert ours == theirs
    for number, answer in theirs.items():
        # A list of names is a Scala collection there.
        theirs[number] = answer._replace(error=re.sub(r"\w+\((\w+)\)$", r"\1", answer.error))
    assert by_ottla == theirs
    assert any("producer_byte_rate=1024.0" in line for line in theirs[3].lines), theirs
