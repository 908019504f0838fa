"""A topic admin with everything around it, for the tests of topics."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from ottla.broker.admin.topics import TopicAdmin
from ottla.broker.membership.metadata_cache import LEADER_DURING_DELETE, MetadataCache
from ottla.broker.quotas.mutations import MutationQuotas
from ottla.config.broker import BrokerConfig
from ottla.runtime import system_runtime
from ottla.wire import messages as m
from ottla.zk.embedded import EmbeddedStore
from tests.support.broker.cluster_messages import broker, context, partition, update

Creatable = m.CreateTopicsRequest.CreatableTopic


class FakeRenames:
    def __init__(self) -> None:
        self.under_way: set[str] = set()

    def is_under_way(self, topic: str) -> bool:
        return topic in self.under_way


class FakeController:
    def __init__(self) -> None:
        self.is_active = True
        self.queued: set[str] = set()
        self.renames = FakeRenames()

    def is_queued_for_deletion(self, topic: str) -> bool:
        return topic in self.queued


class WatchedCache(MetadataCache):
    """Shows what those who wait for an update saw each time they looked."""

    def __init__(self) -> None:
        super().__init__()
        self.looks: list[bool] = []
        self.first_look = asyncio.Event()

    async def wait_until(
        self, topics: Collection[str], satisfied: Callable[[], bool], timeout_ms: int
    ) -> bool:
        def look() -> bool:
            self.looks.append(satisfied())
            self.first_look.set()
            return self.looks[-1]

        return await super().wait_until(topics, look, timeout_ms)


class FakeChannel:
    def __init__(self) -> None:
        self.sent: list[Any] = []
        # What is answered or raised, one after the other.
        self.answers: list[Any] = []
        self.answered = asyncio.Event()
        self.release = asyncio.Event()

    async def send(self, message: Any, version: int, *, timeout_ms: float) -> object:
        self.sent.append((message, version))
        await self.release.wait()
        answer = self.answers.pop(0)
        if not self.answers:
            self.answered.set()
        if isinstance(answer, Exception):
            raise answer
        return answer


class Broker:
    """A topic admin with everything around it."""

    def __init__(self, store: EmbeddedStore, **properties: str) -> None:
        self.store = store
        self.cache = WatchedCache()
        self.cache.update(update(brokers=[broker(i) for i in (1, 2, 3)]))
        self.controller = FakeController()
        self.channel = FakeChannel()
        given = {"zookeeper.connect": "x:1", "broker.id": "1"}
        given.update((name.replace("_", "."), value) for name, value in properties.items())
        self.config = BrokerConfig.from_properties(given)
        self.mutation_quotas = MutationQuotas(system_runtime().clock, self.config, self.cache)
        self.admin = TopicAdmin(
            self.config,
            replace(system_runtime(), random=random.Random(1)),
            store,
            self.cache,
            self.controller,  # type: ignore[arg-type]
            self.channel,
        )

    def context(self, version: int) -> Any:
        return context(
            version,
            cache=self.cache,
            controller=self.controller,
            topic_admin=self.admin,
            mutation_quotas=self.mutation_quotas,
            config=self.config,
            store=self.store,
        )

    async def create(self, *topics: Creatable, timeout_ms: int = 0, **kwargs: Any) -> Any:
        return await self.admin.create_topics(topics, timeout_ms=timeout_ms, **kwargs)

    def show(self, topic: str, partitions: int, leader: int = 1) -> None:
        states = [partition(i, leader=leader) for i in range(partitions)]
        self.cache.update(update({topic: states}, brokers=[broker(i) for i in (1, 2, 3)]))

    def hide(self, topic: str) -> None:
        self.show(topic, len(self.cache.topic_partitions(topic)), leader=LEADER_DURING_DELETE)
