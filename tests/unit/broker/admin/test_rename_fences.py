"""A fence stands until it is lifted, or until the rename's entry is gone from the store."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.admin import fence_watches
from ottla.broker.admin.rename_fences import RenameFences
from ottla.coordinator.fenced_topics import FencedTopics
from ottla.coordinator.groups.uncarried import UncarriedNames
from ottla.errors import ErrorCode
from ottla.metadata.renames import RenameZnode
from ottla.metadata.store import ConnectionLossError, NoNodeError

ID, ANOTHER_ID = b"i" * 16, b"a" * 16


class Coordinator:
    """Transactions, or offsets in them, that are open: as a coordinator tells of them."""

    def __init__(self) -> None:
        self.fenced_topics = FencedTopics()
        self.answers: list[int | ErrorCode] = [0]

    def open_on(self, topic: str) -> int | ErrorCode:
        assert topic in self.fenced_topics  # first the fence, then the count
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class Store:
    def __init__(self) -> None:
        self.entries = {RenameZnode.path(ID)}
        self.lost = 0
        self.looks = 0

    async def sync(self, path: str) -> None:
        self.looks += 1
        if self.lost:
            self.lost -= 1
            raise ConnectionLossError(path)

    async def get(self, path: str) -> tuple[bytes, object]:
        if path not in self.entries:
            raise NoNodeError(path)
        return b"{}", object()


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fence_watches, "_LOOK_EVERY_S", 0.001)
    monkeypatch.setattr(fence_watches, "_PAUSE_S", 0.001)
    monkeypatch.setattr(fence_watches, "_PATIENCE_S", 0.01)


class Rig:
    def __init__(self) -> None:
        self.store, self.transactions, self.offsets = Store(), Coordinator(), Coordinator()
        self.uncarried = UncarriedNames(cast("Any", None))
        groups = SimpleNamespace(in_transactions=self.offsets, uncarried=self.uncarried)
        self.fences = RenameFences(
            cast("Any", self.store), cast("Any", groups), cast("Any", self.transactions)
        )

    @property
    def fenced(self) -> list[set[str]]:
        return [set(self.transactions.fenced_topics), set(self.offsets.fenced_topics)]


async def test_open_transactions_get_a_moment() -> None:
    rig = Rig()
    rig.transactions.answers = [2, 1, 1, 0]
    assert await rig.fences.raise_for("old", "new", ID) == 0
    assert rig.fenced == [{"old"}, {"old"}]
    rig.transactions.answers = [3]
    rig.offsets.answers = [2]
    assert await rig.fences.raise_for("old", "new", ID) == 5
    rig.offsets.answers = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    assert await rig.fences.raise_for("old", "new", ID) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    rig.fences.lift("old")
    assert rig.fenced == [set(), set()]


async def test_a_fence_goes_with_the_entry() -> None:
    """Of a controller that died before it could say that the rename is given up."""
    rig = Rig()
    rig.store.lost = 3
    await rig.fences.raise_for("old", "new", ID)
    async with asyncio.timeout(20):
        while rig.store.looks < 6:  # noqa: ASYNC110 (the store's looks are counted, not signalled)
            await asyncio.sleep(0)
        assert rig.fenced == [{"old"}, {"old"}]
        rig.store.entries.clear()
        while rig.fenced != [set(), set()]:  # noqa: ASYNC110 (sets, as the coordinators have them)
            await asyncio.sleep(0)
    await rig.fences.close()


async def test_the_end_of_another_topics_rename_does_not_lift_the_fence() -> None:
    """The first topic of that name is gone, and the broker has not heard that its rename is."""
    rig = Rig()
    await rig.fences.raise_for("old", "new", ANOTHER_ID)
    await rig.fences.raise_for("old", "new", ID)
    looks = rig.store.looks
    async with asyncio.timeout(20):
        while rig.store.looks < looks + 3:  # noqa: ASYNC110 (looks are counted, not signalled)
            await asyncio.sleep(0)
    assert rig.fenced == [{"old"}, {"old"}]
    await rig.fences.close()
    assert rig.fenced == [{"old"}, {"old"}], "a broker that stops lets nothing more through"


async def test_a_resize_of_the_topic_keeps_its_own_fence() -> None:
    rig = Rig()
    await rig.fences.raise_for("old", "new", ID)
    for coordinator in (rig.transactions, rig.offsets):
        coordinator.fenced_topics.add("old", "resize")
    rig.fences.lift("old")
    assert rig.fenced == [{"old"}, {"old"}]


async def test_offsets_are_waited_for_until_the_entry_is_gone() -> None:
    """Given up or done: groups with offsets of another topic of that name are not to wait."""
    rig = Rig()
    expected = rig.uncarried._expected
    await rig.fences.raise_for("old", "new", ID)
    assert expected == {"old": ("old", "new")}
    rig.fences.lift("old")
    assert expected == {}
    # A broker that came since the fence.
    rig.fences.begin_carrying("old", "new", ID)
    assert (expected, rig.fenced) == ({"old": ("old", "new")}, [set(), set()])
    rig.store.entries.clear()
    async with asyncio.timeout(20):
        while expected:  # noqa: ASYNC110 (the names are a dict, as the coordinator has them)
            await asyncio.sleep(0)
    await rig.fences.close()
