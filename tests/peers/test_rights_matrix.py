"""The table (principal, API, resource) -> refused or let through, the same as on Apache Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from ottla.client.connection import Connection
from ottla.runtime import system_runtime
from ottla.security.sasl.plain import PlainCredentials
from ottla.testing.cluster import Cluster, free_ports
from ottla.testing.java import ApacheZooKeeper
from ottla.wire import messages as m
from tests.support.peers import rights_matrix as matrix
from tests.support.peers.secured_kafka import secured_kafka
from tests.support.peers.side_by_side import side_by_side

HOST = "127.0.0.1"
MIN_CELLS = 150
pytestmark = pytest.mark.peers

Table = dict[tuple[str, str], str]


@pytest.fixture(scope="module")
def kafka_port(apache_zookeeper: ApacheZooKeeper) -> Iterator[int]:
    """The SASL listener of Apache Kafka 2.8.2 with its authoriser."""
    zookeeper = f"{apache_zookeeper.address}/rights"
    with secured_kafka(zookeeper, matrix.broker_settings) as broker:
        yield broker.internal_port + 1


@pytest.fixture(scope="module")
def ottla_port() -> Iterator[int]:
    first = free_ports(2)
    settings = matrix.broker_settings(first, first + 1)
    with Cluster(brokers=1, overrides=settings):
        yield first + 1


async def _connect(port: int, user: str) -> Connection:
    return await Connection.open(
        system_runtime().network,
        HOST,
        port,
        client_id="matrix",
        sasl=PlainCredentials(user, matrix.password(user)),
    )


async def _table(port: int) -> Table:
    """Every principal tries everything, one after the other."""
    await _prepare(port)
    cells: Table = {}
    for user in matrix.PRINCIPALS:
        connection = await _connect(port, user)
        for name, message, version in matrix.calls():
            try:
                answer = await connection.send(message, version, timeout_ms=10_000)
            except ConnectionError:
                cells[user, name] = "closed"
                connection = await _connect(port, user)
            else:
                cells[user, name] = matrix.decision(name, answer)
        connection.close()
    return cells


async def _prepare(port: int) -> None:
    """A topic, ACLs, and coordinators that are ready."""
    admin = await _connect(port, matrix.ADMIN)
    created = await admin.send(matrix.new_topics(), 5)
    assert [topic.error_code for topic in created.topics] == [0]
    added = await admin.send(matrix.creations(), 2)
    assert {result.error_code for result in added.results} == {0}
    for key_type in (0, 1):
        await _await_coordinator(admin, key_type)
    commit = m.OffsetCommitRequest
    at = commit.OffsetCommitRequestPartition(committed_offset=0)
    topic = commit.OffsetCommitRequestTopic(name=matrix.TOPIC, partitions=[at])
    answer = await admin.send(commit(group_id=matrix.GROUP, topics=[topic]), 6)
    assert answer.topics[0].partitions[0].error_code == 0
    admin.close()


async def _await_coordinator(connection: Connection, key_type: int) -> None:
    for _ in range(200):
        answer = await connection.send(m.FindCoordinatorRequest(key="g", key_type=key_type), 2)
        if answer.error_code == 0:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"no coordinator of type {key_type}")


@pytest.fixture(scope="module")
def tables(kafka_port: int, ottla_port: int) -> tuple[Table, Table]:
    theirs, ours = side_by_side(lambda port: asyncio.run(_table(port)), kafka_port, ottla_port)
    return theirs, ours


def test_every_cell_is_kafkas(tables: tuple[Table, Table]) -> None:
    theirs, ours = tables
    assert len(theirs) >= MIN_CELLS
    different = {
        cell: {"kafka": expected, "ottla": ours[cell]}
        for cell, expected in theirs.items()
        if ours[cell] != expected
    }
    assert different == {}


def test_the_table_is_not_all_of_one_kind(tables: tuple[Table, Table]) -> None:
    """Each request is refused to somebody, and each right lets somebody through."""
    _, ours = tables
    is_let_through = {cell: not said.startswith("refused") for cell, said in ours.items()}
    nobodys = {name for (user, name) in ours if user == "nobody"}
    always_open = {
        name
        for name in nobodys
        if all(ok for (_, other), ok in is_let_through.items() if other == name)
    }
    assert always_open <= {
        "DescribeCluster", "Metadata of all", "ListGroups", "DescribeLogDirs", "OffsetFetch of all",
    }, always_open  # fmt: skip
    for user in matrix.PRINCIPALS:
        more = sum(ours[user, name] != ours["nobody", name] for name in nobodys)
        assert (more > 0) == (user != "nobody"), user
