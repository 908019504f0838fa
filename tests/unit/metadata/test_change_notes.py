"""Following change notes: order, garbage, old ones, new sessions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from ottla.metadata.change_notes import CHANGE_EXPIRATION_MS, ChangeNotes
from ottla.metadata.store import CreateMode
from ottla.metadata.znode_values import BadZnodeError
from ottla.runtime import system_runtime
from ottla.zk.embedded import EmbeddedStore
from ottla.zk.server.engine import Engine


class FakeClock:
    offset_ms = 0

    def now_ms(self) -> int:
        return system_runtime().clock.now_ms() + self.offset_ms

    def monotonic_ms(self) -> float:
        return system_runtime().clock.monotonic_ms()


class Follower:
    def __init__(self, store: EmbeddedStore) -> None:
        self.store = store
        self.taken: list[bytes | None] = []
        self.clock = FakeClock()
        self.notes = ChangeNotes(store, self.clock, "/notes", "n_", self._take)

    async def _take(self, data: bytes | None) -> None:
        if data == b"bad":
            raise BadZnodeError("bad")
        if data == b"unforeseen":
            raise RuntimeError("whoever follows notes must not die of one")
        self.taken.append(data)

    async def leave(self, data: bytes) -> str:
        made, _ = await self.store.create("/notes/n_", data, mode=CreateMode.PERSISTENT_SEQUENTIAL)
        return made

    async def until(self, count: int) -> None:
        for _ in range(200):
            if len(self.taken) >= count:
                return
            await asyncio.sleep(0.005)
        raise AssertionError(self.taken)


@pytest.fixture
async def follower() -> AsyncIterator[Follower]:
    engine = Engine(system_runtime())
    await engine.start()
    store = EmbeddedStore(engine)
    await store.create("/notes")
    follower = Follower(store)
    yield follower
    await follower.notes.stop()
    await store.close()
    await engine.stop()


async def test_notes_are_taken_once_and_in_order(follower: Follower) -> None:
    await follower.leave(b"1")
    await follower.notes.start()
    assert follower.taken == [b"1"]
    for data in (b"2", b"bad", b"3"):
        await follower.leave(data)
    await follower.store.create("/notes/something-else")
    await follower.until(3)
    assert follower.taken == [b"1", b"2", b"3"]


async def test_an_unforeseen_failure_does_not_end_the_following(follower: Follower) -> None:
    await follower.notes.start()
    await follower.leave(b"unforeseen")
    await follower.leave(b"after")
    await follower.until(1)
    assert follower.taken == [b"after"]


async def test_a_new_session_takes_all_again(follower: Follower) -> None:
    await follower.leave(b"1")
    await follower.notes.start()
    follower.notes.on_new_session()
    await follower.until(2)
    assert follower.taken == [b"1", b"1"]


async def test_old_notes_are_removed(follower: Follower) -> None:
    old = await follower.leave(b"1")
    await follower.notes.start()
    assert await follower.store.exists(old) is not None
    follower.clock.offset_ms = CHANGE_EXPIRATION_MS + 1000
    follower.notes.on_new_session()
    for _ in range(200):
        if await follower.store.exists(old) is None:
            return
        await asyncio.sleep(0.005)
    raise AssertionError("the note is still there")
