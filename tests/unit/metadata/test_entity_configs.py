"""Configs of users in the store: names, nodes that are missing, and two that write at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from ottla.errors import KafkaError
from ottla.metadata.entity_configs import (
    change_entity,
    desanitize,
    read_entity,
    sanitize,
    user_names,
    user_path,
)
from ottla.metadata.store import StoreError
from ottla.metadata.znodes import ConfigChangeZnode
from ottla.runtime import system_runtime
from ottla.zk.embedded import EmbeddedStore
from ottla.zk.server.engine import Engine


@pytest.fixture
async def store() -> AsyncIterator[EmbeddedStore]:
    engine = Engine(system_runtime())
    await engine.start()
    yield EmbeddedStore(engine)
    await engine.stop()


@pytest.mark.parametrize("name", ["a", "CN=a,O=b", "a/b c~*é%", "<default>"])
def test_names_in_paths(name: str) -> None:
    assert desanitize(sanitize(name)) == name
    assert "/" not in sanitize(name)


async def test_a_store_without_any_node(store: EmbeddedStore) -> None:
    assert await user_names(store) == []
    assert await read_entity(store, user_path("a")) == {}
    await change_entity(store, user_path("a/b"), lambda configs: configs | {"k": "v"})
    await change_entity(store, "users/<default>/clients/c", lambda configs: configs | {"q": "1"})
    assert await user_names(store) == ["a%2Fb"]
    assert await read_entity(store, user_path("a/b")) == {"k": "v"}
    notes = await store.children(ConfigChangeZnode.parent())
    told = [
        ConfigChangeZnode.decode((await store.get(ConfigChangeZnode.path(note)))[0]).entity_path
        for note in sorted(notes)
    ]
    assert told == ["users/a%2Fb", "users/<default>/clients/c"]


async def test_two_that_write_at_once_both_get_their_way(store: EmbeddedStore) -> None:
    async def add(key: str) -> None:
        await change_entity(store, user_path("a"), lambda configs: configs | {key: "v"})

    await asyncio.gather(*(add(f"k{i}") for i in range(5)))
    assert (await read_entity(store, user_path("a"))).keys() == {f"k{i}" for i in range(5)}


async def test_somebody_who_is_always_quicker(store: EmbeddedStore) -> None:
    await change_entity(store, user_path("a"), lambda _: {})
    quicker = 0

    class Busy(EmbeddedStore):
        async def set(self, path: str, data: bytes | None, version: int = -1):  # type: ignore[no-untyped-def]
            nonlocal quicker
            quicker += 1
            await store.set(path, b"{}")
            return await store.set(path, data, version)

    with pytest.raises(StoreError):
        await change_entity(Busy(store._engine), user_path("a"), lambda _: {"k": "v"})
    assert quicker == 10


async def test_more_than_a_znode_holds(store: EmbeddedStore) -> None:
    with pytest.raises(KafkaError, match="bytes together, at most"):
        await change_entity(store, user_path("a"), lambda _: {"k": "v" * 2_000_000})
    assert await user_names(store) == []
