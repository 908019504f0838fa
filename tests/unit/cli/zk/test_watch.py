"""Every change of a watched tree shows once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from ottla.cli.zk import watch as watch_module
from ottla.cli.zk.watch import Change, TooManyNodes, TreeWatch
from ottla.runtime import system_runtime
from ottla.zk.embedded import EmbeddedStore
from ottla.zk.server.engine import Engine

WAIT_S = 10.0


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    engine = Engine(system_runtime())
    await engine.start()
    yield engine
    await engine.stop()


@pytest.fixture
async def store(engine: Engine) -> AsyncIterator[EmbeddedStore]:
    """The one that writes."""
    store = EmbeddedStore(engine)
    yield store
    await store.close()


@pytest.fixture
async def watching(engine: Engine) -> AsyncIterator[EmbeddedStore]:
    store = EmbeddedStore(engine)
    yield store
    await store.close()


async def take(changes: AsyncIterator[Change], count: int) -> list[Change]:
    async with asyncio.timeout(WAIT_S):
        return [await anext(changes) for _ in range(count)]


async def test_a_node_and_its_children(store: EmbeddedStore, watching: EmbeddedStore) -> None:
    await store.create("/a", b"1")
    await store.create("/a/b", b"2")
    await store.create("/a/b/c")
    async with aclosing(TreeWatch(watching, "/a", recursive=False).changes()) as changes:
        assert await take(changes, 2) == [
            Change("there", "/a", b"1"),
            Change("there", "/a/b", b"2"),
        ]
        await store.set("/a/b", b"unseen")
        await store.set("/a", b"3")
        assert await take(changes, 1) == [Change("changed", "/a", b"3")]
        await store.create("/a/d", b"4")
        assert await take(changes, 1) == [Change("created", "/a/d", b"4")]
        await store.delete("/a/d")
        assert await take(changes, 1) == [Change("deleted", "/a/d")]


async def test_all_that_is_below(store: EmbeddedStore, watching: EmbeddedStore) -> None:
    await store.create("/a")
    async with aclosing(TreeWatch(watching, "/a", recursive=True).changes()) as changes:
        assert await take(changes, 1) == [Change("there", "/a")]
        await store.create("/a/b", b"1")
        await store.create("/a/b/c", b"2")
        assert await take(changes, 2) == [
            Change("created", "/a/b", b"1"),
            Change("created", "/a/b/c", b"2"),
        ]
        await store.set("/a/b/c", b"3")
        assert await take(changes, 1) == [Change("changed", "/a/b/c", b"3")]
        await store.delete("/a/b/c")
        assert await take(changes, 1) == [Change("deleted", "/a/b/c")]


async def test_a_node_that_comes_and_goes(store: EmbeddedStore, watching: EmbeddedStore) -> None:
    async with aclosing(TreeWatch(watching, "/a", recursive=True).changes()) as changes:
        first = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0)
        await store.create("/a", b"1")
        assert (await asyncio.wait_for(first, WAIT_S))[1:] == ("/a", b"1")
        await store.delete("/a")
        assert await take(changes, 1) == [Change("deleted", "/a")]
        await store.create("/a", b"2")
        assert await take(changes, 1) == [Change("created", "/a", b"2")]


async def test_a_new_session_shows_what_was_missed(
    store: EmbeddedStore, watching: EmbeddedStore
) -> None:
    for path in ("/a", "/a/b", "/a/c"):
        await store.create(path, b"1")
    async with aclosing(TreeWatch(watching, "/a", recursive=True).changes()) as changes:
        await take(changes, 3)
        watching.expire()
        await store.delete("/a/b")
        await store.set("/a/c", b"2")
        found = await take(changes, 2)
        assert sorted(found) == [Change("changed", "/a/c", b"2"), Change("deleted", "/a/b")]
        await store.set("/a/c", b"3")
        assert await take(changes, 1) == [Change("changed", "/a/c", b"3")], "watched again"


async def test_there_is_a_limit(
    store: EmbeddedStore, watching: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_module, "MAX_NODES", 2)
    for path in ("/a", "/a/b", "/a/c"):
        await store.create(path)
    async with aclosing(TreeWatch(watching, "/a", recursive=True).changes()) as changes:
        with pytest.raises(TooManyNodes, match="more than 2 znodes below /a"):
            await take(changes, 1)
