"""A broker that has logs and looks at the store, and topics as the store has them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

from ottla.broker.membership.metadata_cache import MetadataCache
from ottla.broker.replication.catch_up import CatchUp
from ottla.broker.replication.stale_logs import StaleLogs
from ottla.metadata.ended import EndedTopicZnode
from ottla.metadata.znodes import (
    LeaderAndIsr,
    ReplicaAssignment,
    TopicPartitionStateZnode,
    TopicZnode,
)
from ottla.types import TopicPartition
from ottla.zk.embedded import EmbeddedStore
from tests.support.broker.cluster_messages import update


class Logs:
    """Broker 1's logs as far as the look at them goes."""

    def __init__(self) -> None:
        self.by_partition: dict[TopicPartition, SimpleNamespace] = {}
        self.removals = self.dirs = self.renamed = self
        self.new_names: list[str] = []
        self.trash = SimpleNamespace(topic_ids=set)
        self.offline_dirs: list[str] = []

    def add(self, topic: str, number: int, topic_id: bytes, epoch: int = 0) -> SimpleNamespace:
        tp = TopicPartition(topic, number)
        epochs = SimpleNamespace(latest=epoch)
        log = self.by_partition[tp] = SimpleNamespace(
            tp=tp, topic_id=topic_id, end_offset=3, epochs=epochs, is_stray=False
        )
        return log

    def logs(self) -> list[SimpleNamespace]:
        return list(self.by_partition.values())

    def futures(self) -> dict[TopicPartition, SimpleNamespace]:
        return {}

    def get(self, tp: TopicPartition) -> SimpleNamespace | None:
        return self.by_partition.get(tp)

    async def rename(self, found: dict[TopicPartition, SimpleNamespace]) -> None:
        for tp, log in found.items():
            del self.by_partition[log.tp]
            log.tp = tp
            self.by_partition[tp] = log
            self.new_names.append(str(tp))

    def delete_future(self, tp: TopicPartition) -> None:
        pass

    def offline(self) -> list[str]:
        return self.offline_dirs

    async def make_durable(self) -> bool:
        return True


class BrokerWithLogs:
    def __init__(self, store: EmbeddedStore) -> None:
        self.broker_id = 1
        self.partitions = self
        self.metadata_cache = MetadataCache()
        self.log_manager = Logs()
        self.hosts: set[TopicPartition] = set()
        self.aside: list[str] = []
        self.work: list[asyncio.Task[None]] = []
        self.stale_logs = StaleLogs(store, self)  # type: ignore[arg-type]
        listener = CatchUp(self.stale_logs, self.metadata_cache, self._spawn)
        self.metadata_cache.add_listener(listener.metadata_came)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.work.append(asyncio.get_running_loop().create_task(work))

    def get(self, tp: TopicPartition) -> TopicPartition | None:
        return tp if tp in self.hosts else None

    def delete(self, tp: TopicPartition) -> None:
        del self.log_manager.by_partition[tp]

    def stop_hosting(self, tp: TopicPartition) -> None:
        self.hosts.discard(tp)

    async def set_aside(self, tp: TopicPartition) -> None:
        self.aside.append(str(tp))
        del self.log_manager.by_partition[tp]

    async def told(self, *arguments: Any, epoch: int, **named: Any) -> list[str]:
        """Hears from the controller of this epoch; the logs that are left then."""
        request = update(*arguments, **named)
        request.controller_epoch = epoch
        self.metadata_cache.update(request)
        await asyncio.gather(*self.work)
        return self.left()

    def left(self) -> list[str]:
        return sorted(map(str, self.log_manager.by_partition))

    def strays(self) -> list[str]:
        return sorted(str(log.tp) for log in self.log_manager.logs() if log.is_stray)


async def broker_with_logs(store: EmbeddedStore) -> BrokerWithLogs:
    await store.create("/brokers")
    await store.create("/brokers/topics")
    await store.create("/ottla")
    await store.create("/ottla/ended")
    return BrokerWithLogs(store)


async def write_topic(
    store: EmbeddedStore, name: str, topic_id: bytes | None, *replicas: int
) -> None:
    value = TopicZnode.encode({0: ReplicaAssignment(replicas)}, topic_id)
    await store.create(TopicZnode.path(name), value)


async def write_state(store: EmbeddedStore, name: str, leader: int, epoch: int, *isr: int) -> None:
    state = LeaderAndIsr(leader, epoch, isr or (leader,), 1, 0)
    tp = TopicPartition(name, 0)
    await store.create(f"/brokers/topics/{name}/partitions")
    await store.create(f"/brokers/topics/{name}/partitions/0")
    await store.create(TopicPartitionStateZnode.path(tp), TopicPartitionStateZnode.encode(state))


async def write_end(store: EmbeddedStore, name: str, topic_id: bytes, *brokers: int) -> None:
    await store.create(EndedTopicZnode.path(topic_id), EndedTopicZnode.encode(name, brokers))
