"""A cluster inside the test's own event loop: store over TCP, brokers, clients in threads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from ottla.config.broker import BrokerConfig
from ottla.process.node import Node
from ottla.runtime import system_runtime
from ottla.zk.server.server import ZooKeeperServer
from ottla.zk.server.sessions import SessionLimits

HOST = "127.0.0.1"


class LocalCluster:
    """Brokers by id; each keeps its port over restarts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.nodes: dict[int, Node] = {}
        self.ports: dict[int, int] = {}
        self.store = ZooKeeperServer(
            system_runtime(), None, limits=SessionLimits(tick_ms=100, max_timeout_ms=60_000)
        )

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{node.port}" for node in self.nodes.values())

    @property
    def controller(self) -> Node:
        return next(node for node in self.nodes.values() if node.controller.is_active)

    def properties(self, broker_id: int) -> dict[str, str]:
        return {
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://{HOST}:{self.ports.get(broker_id, 0)}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{self.ports.get(broker_id, 0)}",
            "log.dirs": str(self.folder / f"broker-{broker_id}"),
            "zookeeper.connect": f"{HOST}:{self.store.port}",
            "zookeeper.session.timeout.ms": "2000",
            "offsets.topic.num.partitions": "4",
            "offsets.topic.replication.factor": "2",
            "group.initial.rebalance.delay.ms": "0",
            "controlled.shutdown.retry.backoff.ms": "200",
            "replica.fetch.backoff.ms": "50",
        }

    async def start(self, broker_id: int, **overrides: str) -> Node:
        given = {name.replace("_", "."): value for name, value in overrides.items()}
        config = BrokerConfig.from_properties(self.properties(broker_id) | given)
        node = Node(config, system_runtime(), strict_transitions=True)
        await node.start()
        self.nodes[broker_id] = node
        self.ports[broker_id] = node.port
        return node

    async def stop(self, broker_id: int, *, controlled: bool = True) -> None:
        await self.nodes.pop(broker_id).stop(controlled=controlled)

    async def until(self, condition: Callable[[], Any], what: str, timeout_s: float = 10) -> None:
        """Waits for something that another task brings about."""
        for _ in range(int(timeout_s / 0.02)):
            if condition():
                return
            await asyncio.sleep(0.02)
        raise AssertionError(f"not within {timeout_s} s: {what}")

    async def until_all_know(self, topic: str, partitions: int, isr: int) -> None:
        """Every broker sees a leader and a full in-sync set for every partition."""

        def known() -> bool:
            for node in self.nodes.values():
                states = node.services.metadata_cache.topic_partitions(topic)
                if len(states) != partitions:
                    return False
                if any(s.leader < 0 or len(s.isr) != isr for s in states.values()):
                    return False
            return True

        await self.until(known, f"{topic} with {partitions} partitions and ISR {isr} everywhere")


Kind = TypeVar("Kind", bound=LocalCluster)


@asynccontextmanager
async def running_brokers(cluster: Kind, brokers: int) -> AsyncIterator[Kind]:
    """The cluster with so many brokers, which all know of each other."""
    await cluster.store.start()
    try:
        await asyncio.gather(*(cluster.start(broker_id) for broker_id in range(brokers)))
        await cluster.until(
            lambda: all(
                len(node.services.metadata_cache.alive_brokers()) == brokers
                for node in cluster.nodes.values()
            ),
            "all brokers known everywhere",
        )
        yield cluster
    finally:
        for node in cluster.nodes.values():
            await node.stop(controlled=False)
        await cluster.store.stop()
