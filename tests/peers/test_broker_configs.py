"""Changes of broker configs: the same steps on Apache Kafka 2.8.2 and on Ottla, the same codes,
texts, znodes and descriptions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from itertools import zip_longest
from typing import NamedTuple

import pytest

from ottla.testing.cluster import ProcessCluster
from ottla.testing.java import ApacheKafka, ApacheZooKeeper
from tests.support.peers.broker_config_script import (
    DELETE,
    KAFKA_FAILS,
    KRAFT_NAMES,
    OWN_DEFAULTS,
    OWN_NAMES,
    PLACES,
    READ_AT_START,
    SET,
    STEPS,
    Entry,
    Refusal,
    Step,
    alter,
    describe,
    dynamic_value,
    stored,
)
from tests.support.peers.cli_java_tools import SETTLE_S, Answer, JavaTools
from tests.support.peers.java_tools import eventually, need_jars
from tests.support.peers.side_by_side import side_by_side

pytestmark = pytest.mark.peers


class Side(NamedTuple):
    """One of the two clusters, each of one broker."""

    bootstrap: str
    store: str

    @property
    def port(self) -> int:
        return int(self.bootstrap.rpartition(":")[2])


@pytest.fixture(scope="module")
def kafka(apache_zookeeper: ApacheZooKeeper) -> Iterator[Side]:
    need_jars("kafka-2.8.2")
    with ApacheKafka(f"{apache_zookeeper.address}/configs", brokers=1) as kafka:
        yield Side(kafka.bootstrap_servers, kafka.zookeeper)


@pytest.fixture(scope="module")
def ottla() -> Iterator[Side]:
    with ProcessCluster(brokers=1) as cluster:
        yield Side(cluster.bootstrap_servers, cluster.zookeeper)


@pytest.fixture(scope="module")
def java() -> Iterator[JavaTools]:
    need_jars("kafka-2.8.2")
    with JavaTools() as tools:
        yield tools


def names_printed(java: JavaTools, side: Side) -> list[str]:
    everything = ["--describe", "--broker", "0", "--all"]
    answer = java.ask("configs", "--bootstrap-server", side.bootstrap, *everything)
    assert answer.code == 0
    names = [line.strip().partition("=")[0] for line in answer.lines[1:]]
    return [name for name in names if name not in OWN_NAMES]


def test_everything_in_kafkas_order(java: JavaTools, kafka: Side, ottla: Side) -> None:
    """First of all: once a config was changed, Kafka also shows some that are not for users."""
    assert names_printed(java, ottla) == names_printed(java, kafka)


TOOL_STEPS = [
    "--alter --broker 0 --add-config log.retention.ms=77",
    "--describe --broker 0",
    "--alter --entity-type brokers --entity-default --add-config log.segment.bytes=5000",
    "--describe --entity-type brokers --entity-default",
    "--describe --broker 0",
    "--alter --broker 0 --add-config leader.replication.throttled.rate=5",
    "--describe --broker 0",
    "--alter --broker 0 --add-config broker.id=5",
    "--alter --broker 0 --add-config num.io.threads=50",
    "--alter --broker 0 --delete-config log.segment.bytes",
    "--alter --broker 0 --delete-config log.retention.ms,leader.replication.throttled.rate",
    "--alter --entity-type brokers --entity-default --delete-config log.segment.bytes",
    "--describe --broker 0",
    "--describe --entity-type brokers",
]


def tool_answers(java: JavaTools, side: Side) -> list[Answer]:
    answers = []
    for step in TOOL_STEPS:
        answers.append(java.ask("configs", "--bootstrap-server", side.bootstrap, *step.split()))
        if "--alter" in step:
            time.sleep(2 * SETTLE_S)
    return answers


def test_kafkas_tool_prints_the_same(java: JavaTools, kafka: Side, ottla: Side) -> None:
    theirs, ours = tool_answers(java, kafka), tool_answers(java, ottla)
    assert dict(zip(TOOL_STEPS, ours, strict=True)) == dict(zip(TOOL_STEPS, theirs, strict=True))


def sent(side: Side) -> list[tuple[int, str | None]]:
    answers = []
    for step in STEPS:
        answers.append(asyncio.run(alter(side.port, step)))
        if answers[-1].code == 0:
            time.sleep(2 * SETTLE_S)
    return [(answer.code, answer.message) for answer in answers]


def shown(side: Side, resource: str) -> list[Entry]:
    entries = asyncio.run(describe(side.port, resource))
    hidden = {*PLACES, *OWN_DEFAULTS, *OWN_NAMES, *KRAFT_NAMES}
    return [entry for entry in entries if entry.name not in hidden]


def different(ours: list[Entry], theirs: list[Entry]) -> list[tuple[Entry | None, Entry | None]]:
    """The places where the two lists are not the same."""
    return [pair for pair in zip_longest(ours, theirs) if pair[0] != pair[1]]


def test_changes_good_and_bad(kafka: Side, ottla: Side) -> None:
    theirs, ours = side_by_side(sent, kafka, ottla)
    for step, their, our in zip(STEPS, theirs, ours, strict=True):
        if step.why_different is None:
            assert our == their, step
        else:
            assert (our[0], their) == (Refusal.INVALID_REQUEST, KAFKA_FAILS), step
    for entity in ("0", "<default>"):
        assert stored(ottla.store, entity) == stored(kafka.store, entity)
    for resource in ("0", ""):
        eventually(
            lambda resource=resource: different(shown(ottla, resource), shown(kafka, resource)),
            lambda pairs: not pairs,
        )


SCOPES = [("0", ""), ("", ""), ("0", "listener.name.plaintext.")]


def validated(side: Side, values: dict[str, str]) -> dict[tuple[str, str], tuple[int, str | None]]:
    """What the broker says to each value in each scope, without taking it."""
    answers = {}
    for resource, prefix in SCOPES:
        for name, text in values.items():
            step = Step(resource, [(SET, prefix + name, text)], validate_only=True)
            answer = asyncio.run(alter(side.port, step))
            answers[resource, prefix + name] = (answer.code, answer.message)
    return answers


def test_every_dynamic_config_is_taken(kafka: Side, ottla: Side) -> None:
    """Those that Kafka says may change (DynamicBrokerConfig.AllDynamicConfigs), also where they
    mean nothing here."""
    dynamic = [entry for entry in asyncio.run(describe(kafka.port, "0")) if not entry.read_only]
    values = {entry.name: dynamic_value(entry) for entry in dynamic}
    assert len(values) > 70
    theirs, ours = side_by_side(lambda side: validated(side, values), kafka, ottla)
    refused = {key: answer for key, answer in ours.items() if answer != theirs[key]}
    assert {name for _, name in refused} == READ_AT_START
    for (_, name), (code, message) in refused.items():
        assert code == Refusal.INVALID_REQUEST
        assert f"{name} cannot be changed while this broker runs" in message
    # For good: stored, shown, and taken back again.
    taken = [name for name in values if theirs["0", name][0] == 0 and name not in READ_AT_START]
    taken = [name for name in taken if name.startswith(("sasl.", "ssl.", "principal."))]
    taken.remove("sasl.jaas.config")
    assert "sasl.kerberos.min.time.before.relogin" in taken
    sides = (kafka, ottla)
    for changes in (
        [(SET, name, values[name]) for name in taken],
        [(DELETE, name, None) for name in taken],
    ):
        for side in sides:
            assert asyncio.run(alter(side.port, Step("0", changes))) == (0, None)
        assert stored(ottla.store, "0")[0] == stored(kafka.store, "0")[0]
        eventually(lambda: different(shown(ottla, "0"), shown(kafka, "0")), lambda pairs: not pairs)
