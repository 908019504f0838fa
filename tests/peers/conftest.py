"""Fixtures of the judges: Java's tools, Apache ZooKeeper and Kafka, and the cluster they judge.

The same tests run on Apache Kafka itself, to show that they ask for nothing that Kafka does not
do: `OTTLA_JUDGED=kafka-2.8.2 pytest tests/peers`. Not part of the regular suite.
"""

import os
import subprocess
from collections.abc import Callable, Iterator

import pytest

from ottla.testing.cluster import ProcessCluster
from ottla.testing.java import (
    TOOL_TIMEOUT_S,
    ApacheKafka,
    ApacheZooKeeper,
    run_tool,
)
from tests.support.peers.java_tools import Tool, need_jars
from tests.support.peers.ottla_brokers import ottla_zookeeper

JUDGED = os.environ.get("OTTLA_JUDGED", "ottla")


@pytest.fixture(scope="session")
def java_tool() -> Callable[[str, str], Tool]:
    """`java_tool(set, main_class)` gives a function that runs the tool with its arguments."""

    def make(jars: str, main_class: str) -> Tool:
        need_jars(jars)

        def run(
            *arguments: str, timeout_s: float = TOOL_TIMEOUT_S
        ) -> subprocess.CompletedProcess[str]:
            return run_tool(jars, main_class, *arguments, timeout_s=timeout_s)

        return run

    return make


@pytest.fixture(scope="session")
def apache_zookeeper() -> Iterator[ApacheZooKeeper]:
    need_jars("zookeeper-3.8")
    with ApacheZooKeeper() as server:
        yield server


@pytest.fixture(scope="session")
def apache_cluster(apache_zookeeper: ApacheZooKeeper) -> Iterator[ApacheKafka]:
    """Three Apache Kafka 2.8.2 brokers shared by the session: the oracle."""
    need_jars("kafka-2.8.2")
    # Leaders move when a test wants it, not some seconds after a controller took office.
    steady = {"auto.leader.rebalance.enable": "false"}
    address = f"{apache_zookeeper.address}/oracle"
    with ApacheKafka(address, brokers=3, overrides=steady) as kafka:
        yield kafka


@pytest.fixture(scope="session")
def ottla_processes(
    request: pytest.FixtureRequest,
) -> Iterator[ProcessCluster | ApacheKafka]:
    """Three broker processes shared by the session; whoever kills one uses `own_cluster`."""
    yield from _judged_cluster(request)


@pytest.fixture
def own_cluster(request: pytest.FixtureRequest) -> Iterator[ProcessCluster | ApacheKafka]:
    """Three broker processes for one test that will break them."""
    yield from _judged_cluster(request)


@pytest.fixture(scope="session")
def ottla_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`ottla zookeeper` as a process; gives its address."""
    with ottla_zookeeper(tmp_path_factory.mktemp("store")) as address:
        yield address


def _judged_cluster(request: pytest.FixtureRequest) -> Iterator[ProcessCluster | ApacheKafka]:
    if JUDGED == "ottla":
        with ProcessCluster(brokers=3) as cluster:
            yield cluster
        return
    zookeeper = request.getfixturevalue("apache_zookeeper")
    chroot = f"judged-{os.urandom(4).hex()}"
    with ApacheKafka(f"{zookeeper.address}/{chroot}", brokers=3, name=JUDGED) as kafka:
        yield kafka
