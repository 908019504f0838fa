"""Topics that somebody writes into the store with kazoo, as articles about Kafka do with zkCli."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from kazoo.client import KazooClient

from ottla.types import TopicPartition, format_topic_id
from tests.support.integration import lifecycle_helpers as h
from tests.support.integration.local_cluster import HOST, LocalCluster


class Hand:
    """kazoo in a thread: the store's server runs in the test's event loop."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._client = KazooClient(hosts=f"{HOST}:{cluster.store.port}", timeout=10)

    async def _run(self, call: Any, *args: Any, **kwargs: Any) -> Any:
        if not self._client.connected:
            await asyncio.to_thread(self._client.start, 10)
        return await asyncio.to_thread(call, *args, **kwargs)

    async def create(self, path: str, value: Any, *, parents: bool = False) -> None:
        await self._run(self._client.create, path, json.dumps(value).encode(), makepath=parents)

    async def set(self, path: str, value: Any) -> None:
        await self._run(self._client.set, path, json.dumps(value).encode())

    async def read(self, path: str) -> Any:
        data, _ = await self._run(self._client.get, path)
        return json.loads(data)

    async def delete(self, path: str) -> None:
        await self._run(self._client.delete, path)

    async def exists(self, path: str) -> bool:
        return await self._run(self._client.exists, path) is not None

    def stop(self) -> None:
        self._client.stop()
        self._client.close()


@pytest.fixture
async def hand(cluster: LocalCluster) -> AsyncIterator[Hand]:
    made = Hand(cluster)
    yield made
    await asyncio.to_thread(made.stop)


def topic(partitions: dict[int, list[int]]) -> dict[str, Any]:
    return {"version": 1, "partitions": {str(p): listed for p, listed in partitions.items()}}


def state_path(partition: int, topic_name: str = "t") -> str:
    return f"/brokers/topics/{topic_name}/partitions/{partition}/state"


def planted(leader: int, epoch: int = 0) -> dict[str, Any]:
    return {
        "controller_epoch": 1,
        "leader": leader,
        "version": 1,
        "leader_epoch": epoch,
        "isr": [leader],
    }


async def until_led(cluster: LocalCluster, partitions: dict[int, list[int]]) -> None:
    await cluster.until(
        lambda: all(
            h.replicas(node, "t", p) == listed
            and h.isr(node, "t", p) == set(listed)
            and h.leader(node, "t", p) == listed[0]
            for node in cluster.nodes.values()
            for p, listed in partitions.items()
        ),
        "every broker knows t with full in-sync sets",
    )


async def fail_over(cluster: LocalCluster) -> None:
    """The controller's session ends; another broker, or the same, takes office afresh."""
    node = cluster.controller
    epoch = node.controller.epoch
    session = cluster.store.engine.sessions.get(node.services.store.session_id)
    cluster.store.engine.expire_session(session)

    def in_office() -> bool:
        controllers = [n.controller for n in cluster.nodes.values()]
        return any(c.is_active and c.epoch > epoch for c in controllers)

    await cluster.until(in_office, "a new controller")
    await cluster.until(
        lambda: all(
            len(n.services.metadata_cache.alive_brokers()) == len(cluster.nodes)
            for n in cluster.nodes.values()
        ),
        "all brokers are back",
    )


async def expand(cluster: LocalCluster, total: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    call = admin.create_partitions([NewPartitions("t", total)], operation_timeout=1)["t"].result
    try:
        await asyncio.to_thread(call, 10)
    except Exception as error:
        assert "timed out" in str(error).lower(), error  # a planted partition gets no leader


async def test_made_while_the_cluster_is_up(cluster: LocalCluster, hand: Hand) -> None:
    """With unequal replica counts, which no API would let pass."""
    wish = {0: [0, 1], 1: [1], 2: [2, 0, 1], 3: [1, 0]}
    await hand.create("/brokers/topics/t", topic(wish))
    await until_led(cluster, wish)
    stored = await hand.read("/brokers/topics/t")
    assert stored["version"] == 3
    assert stored["partitions"] == {str(p): listed for p, listed in wish.items()}
    known = cluster.controller.services.metadata_cache.topic_id("t")
    assert stored["topic_id"] == format_topic_id(known)
    await h.produce(cluster, "t", range(10), 2)
    assert await hand.read(state_path(1)) == planted(1)


async def test_made_while_its_brokers_are_down(cluster: LocalCluster, hand: Hand) -> None:
    away = next(b for b in cluster.nodes if b != cluster.controller.broker_id)
    await cluster.stop(away)
    await hand.create("/brokers/topics/t", topic({0: [away], 1: [away]}))
    await h.controller_has_caught_up(cluster)
    assert not await hand.exists(state_path(0)), "no replica is alive: no state, no leader"
    await cluster.start(away)
    await until_led(cluster, {0: [away], 1: [away]})
    await h.produce(cluster, "t", range(10))


async def test_made_while_everything_is_down(cluster: LocalCluster, hand: Hand) -> None:
    """Kafka 2.8.2 brings it up, and so does Ottla (ADR 15)."""
    for broker_id in list(cluster.nodes):
        await cluster.stop(broker_id, controlled=False)
    await hand.create("/brokers/topics/t", topic({0: [0, 1], 1: [2]}))
    await asyncio.gather(*(cluster.start(broker_id) for broker_id in (0, 1, 2)))
    await cluster.until(
        lambda: all(
            h.leader(n, "t", p) in (0, 1, 2) for n in cluster.nodes.values() for p in (0, 1)
        ),
        "both partitions are led",
    )
    await h.produce(cluster, "t", range(10), 1)


async def test_planted_states_and_as_many_new_partitions(cluster: LocalCluster, hand: Hand) -> None:
    """No log is made for a partition whose state was there before it; a failover takes it over."""
    await h.create(cluster, "t", [0], [0])
    await hand.create(state_path(2), planted(1), parents=True)
    await expand(cluster, 3)
    target = (await hand.read("/brokers/topics/t"))["partitions"]["2"][0]
    await h.controller_has_caught_up(cluster)
    assert not h.folder(cluster, target, "t", 2).exists()
    assert await hand.read(state_path(2)) == planted(1), "what was planted stays"
    assert h.leader(cluster.controller, "t", 2) is None
    await fail_over(cluster)
    await cluster.until(
        lambda: h.folder(cluster, target, "t", 2).exists(), "the next controller made the log"
    )


async def test_planted_states_and_more_new_partitions(cluster: LocalCluster, hand: Hand) -> None:
    await h.create(cluster, "t", [0], [0])
    await hand.create(state_path(2), planted(1), parents=True)
    await expand(cluster, 4)
    target = (await hand.read("/brokers/topics/t"))["partitions"]["3"][0]
    await cluster.until(
        lambda: all(h.leader(n, "t", 3) == target for n in cluster.nodes.values()),
        "the partition that nobody planted is led",
    )
    assert h.leader(cluster.controller, "t", 2) is None


async def test_a_planted_partition_without_a_state_does_no_harm(
    cluster: LocalCluster, hand: Hand
) -> None:
    await h.create(cluster, "t", [0], [0])
    await hand.create("/brokers/topics/t/partitions/2", {})
    await expand(cluster, 3)
    target = (await hand.read("/brokers/topics/t"))["partitions"]["2"][0]
    await cluster.until(lambda: h.leader(cluster.controller, "t", 2) == target, "it is led")


async def test_a_deleted_state_is_written_again_by_the_next_controller(
    cluster: LocalCluster, hand: Hand
) -> None:
    await h.create(cluster, "t", [0, 1])
    before = await hand.read(state_path(0))
    await hand.delete(state_path(0))
    await h.controller_has_caught_up(cluster)
    assert not await hand.exists(state_path(0)), "nobody watches it"
    await fail_over(cluster)

    async def written() -> bool:
        return await hand.exists(state_path(0))

    await h.until_true(written, "the state is there again")
    after = await hand.read(state_path(0))
    assert after["leader_epoch"] == 0 == before["leader_epoch"]
    assert after["controller_epoch"] > before["controller_epoch"]


async def test_other_replicas_count_only_after_a_failover(
    cluster: LocalCluster, hand: Hand
) -> None:
    """ADR 19. The new replica then follows a leader that does not know it."""
    await h.create(cluster, "t", [1])
    await h.produce(cluster, "t", range(10))
    stored = await hand.read("/brokers/topics/t")
    await hand.set("/brokers/topics/t", stored | {"partitions": {"0": [2]}})
    await h.controller_has_caught_up(cluster)
    assert h.replicas(cluster.controller, "t") == [1]
    assert not h.folder(cluster, 2, "t").exists()
    await fail_over(cluster)
    await cluster.until(
        lambda: all(h.replicas(n, "t") == [2] for n in cluster.nodes.values()), "the edit counts"
    )
    node = cluster.controller
    assert (h.leader(node, "t"), h.isr(node, "t")) == (1, {1})
    await cluster.until(lambda: h.folder(cluster, 2, "t").exists(), "broker 2 has a replica")
    log = cluster.nodes[2].services.replica_manager.partitions.log(TopicPartition("t", 0))
    assert log is not None and log.end_offset == 0


async def test_garbage_is_left_alone_and_can_be_repaired(cluster: LocalCluster, hand: Hand) -> None:
    await hand._run(hand._client.create, "/brokers/topics/t", b"{nonsense")
    await h.controller_has_caught_up(cluster)
    assert h.leader(cluster.controller, "t") is None
    await hand.set("/brokers/topics/t", topic({0: [1, 2]}))
    await until_led(cluster, {0: [1, 2]})
