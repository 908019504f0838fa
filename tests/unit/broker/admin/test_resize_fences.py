"""A fence stands until it is lifted, or until the entry of its own resize says so."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.admin import fence_watches
from ottla.broker.admin.resize_fences import ResizeFences
from ottla.coordinator.fenced_topics import FencedTopics
from ottla.metadata.resizes import ResizePhase, ResizeZnode, StoredResize
from ottla.metadata.store import NoNodeError

OLD, NEW = b"o" * 16, b"n" * 16


class Store:
    def __init__(self) -> None:
        self.entries: dict[str, bytes] = {}

    def put(self, topic_id: bytes, phase: ResizePhase) -> None:
        resize = StoredResize("t", topic_id, "shadow", b"s" * 16, 2, 1, "murmur2", phase, 1, 0)
        self.entries[ResizeZnode.path(topic_id)] = ResizeZnode.encode(resize)

    async def sync(self, path: str) -> None:
        """There is one server."""

    async def get(self, path: str) -> tuple[bytes, object]:
        if path not in self.entries:
            raise NoNodeError(path)
        return self.entries[path], object()


class Partitions(list[Any]):
    def __init__(self) -> None:
        super().__init__()
        self.fenced_topics: set[str] = set()
        self.closed_topics: set[str] = set()


class Uncarried(dict[str, str]):
    def expect(self, topic: str, *, source: str, target: str) -> None:
        assert target == topic
        self[topic] = source

    def forget(self, topic: str) -> None:
        self.pop(topic, None)


class Rig:
    """Coordinators that have nothing to do."""

    def __init__(self) -> None:
        self.store, self.partitions = Store(), Partitions()
        self.forgotten: list[str] = []
        self.uncarried = Uncarried()
        self.transactions = SimpleNamespace(fenced_topics=FencedTopics(), open_on=lambda topic: 0)
        self.groups = SimpleNamespace(
            in_transactions=SimpleNamespace(fenced_topics=FencedTopics()),
            offsets=SimpleNamespace(fenced_topics=set()),
            uncarried=self.uncarried,
            switch=SimpleNamespace(forget=self.forgotten.append, busy_with=lambda topic: 0),
            registry=SimpleNamespace(shards=SimpleNamespace(is_loading=False)),
        )
        self.fences = ResizeFences(
            cast("Any", self.store),
            cast("Any", self.partitions),
            cast("Any", self.groups),
            cast("Any", self.transactions),
        )

    @property
    def standing(self) -> list[bool]:
        places = (
            self.partitions,
            self.transactions,
            self.groups.in_transactions,
            self.groups.offsets,
        )
        return ["t" in place.fenced_topics for place in places]


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fence_watches, "_LOOK_EVERY_S", 0.001)


@pytest.mark.parametrize("lifted", [ResizePhase.COPYING, None])
async def test_a_word_that_does_not_come_is_in_the_store(lifted: ResizePhase | None) -> None:
    rig = Rig()
    rig.store.put(OLD, ResizePhase.FENCED)
    assert await rig.fences.fence("t", OLD) == 0
    await asyncio.sleep(0.02)
    assert all(rig.standing)
    if lifted is None:
        rig.store.entries.clear()
    else:
        rig.store.put(OLD, lifted)
    await asyncio.sleep(0.05)
    assert not any(rig.standing)


async def test_the_end_of_an_earlier_resize_does_not_lift_the_fence_of_the_next() -> None:
    """The broker has not heard that the first one is over, and looks for its entry again."""
    rig = Rig()
    rig.store.put(OLD, ResizePhase.CARRYING)
    rig.fences.close_topic("t", OLD, "shadow")
    assert rig.uncarried == {"t": "shadow"}
    rig.store.entries.clear()
    rig.store.put(NEW, ResizePhase.FENCED)
    assert await rig.fences.fence("t", NEW) == 0
    await asyncio.sleep(0.02)
    assert all(rig.standing)
    # Nor is what it had closed closed any longer, or whom it sent away sent away.
    assert rig.partitions.closed_topics == set()
    assert rig.forgotten == ["t", "t"]
    rig.fences.lift("t")
    assert not any(rig.standing)
    assert rig.uncarried == {}
