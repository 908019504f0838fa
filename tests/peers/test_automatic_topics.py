"""Automatic creation where articles about old releases and Kafka 2.8.2 differ (ADRs 29, 30).

Broker 0, the controller, has a rack and creates topics; broker 1 has neither.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla.client.cluster import Cluster
from ottla.errors import ErrorCode
from ottla.runtime import system_runtime
from ottla.testing.java import ApacheKafka, brokers_known
from ottla.wire import messages as m
from tests.support.peers.java_tools import kazoo, need_jars
from tests.support.peers.ottla_brokers import OttlaBrokers

pytestmark = [pytest.mark.peers, pytest.mark.timeout(200)]

KNOWN_TIMEOUT_S = 30.0
WITH_A_RACK = {"broker.rack": "r1"}
CREATES_NOTHING = {"auto.create.topics.enable": "false"}


class Side(NamedTuple):
    bootstrap_servers: str
    zookeeper: str

    def ask(self, broker_id: int, name: str) -> tuple[ErrorCode, bool]:
        """The code in the answer to Metadata, and whether the topic is there afterwards."""
        code = asyncio.run(self._ask(broker_id, name))
        with kazoo(self.zookeeper) as zookeeper:
            return ErrorCode(code), zookeeper.exists(f"/brokers/topics/{name}") is not None

    async def _ask(self, broker_id: int, name: str) -> int:
        topics = [m.MetadataRequest.MetadataRequestTopic(name=name)]
        request = m.MetadataRequest(topics=topics, allow_auto_topic_creation=True)
        async with Cluster(system_runtime(), self.bootstrap_servers) as cluster:
            answer = await cluster.send_to_broker(
                broker_id, request, timeout_ms=20_000, min_version=8, max_version=8
            )
        return int(answer.topics[0].error_code)


@pytest.fixture(scope="module", params=["kafka-2.8.2", "ottla"])
def side(request: pytest.FixtureRequest, ottla_store: str, tmp_path_factory) -> Iterator[Side]:
    address = f"{ottla_store}/automatic-{request.param}"
    with ExitStack() as stack:
        servers = []
        for broker_id, settings in enumerate((WITH_A_RACK, CREATES_NOTHING)):
            if request.param == "ottla":
                folder: Path = tmp_path_factory.mktemp(f"automatic-{broker_id}")
                running = stack.enter_context(OttlaBrokers(address, folder, [broker_id], settings))
            else:
                need_jars("kafka-2.8.2")
                running = stack.enter_context(
                    ApacheKafka(address, brokers=1, first_id=broker_id, overrides=settings)
                )
            servers.append(running.bootstrap_servers)
        side = Side(",".join(servers), address)
        _wait_until_both_are_known(servers)
        yield side


def _wait_until_both_are_known(servers: list[str]) -> None:
    deadline = time.monotonic() + KNOWN_TIMEOUT_S
    for server in servers:
        while brokers_known(int(server.rpartition(":")[2])) < 2:
            assert time.monotonic() < deadline, f"{server} does not know the other broker"
            time.sleep(0.05)


def test_racks_on_some_brokers_only_fail_an_automatic_creation(side: Side) -> None:
    assert side.ask(0, "t") == (ErrorCode.UNKNOWN_SERVER_ERROR, False)


def test_metadata_does_not_make_the_offsets_topic_where_nothing_is_made(side: Side) -> None:
    assert side.ask(1, "__consumer_offsets") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False)
