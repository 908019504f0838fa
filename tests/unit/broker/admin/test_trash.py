"""Until when a topic that ended is kept, where the store is late or away."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ottla.broker.admin import trash
from ottla.metadata.ended import EndedTopicZnode, Kept
from ottla.metadata.store import ConnectionLossError, NoNodeError
from tests.support.coordinator.coordinator_fakes import VirtualClock

ID = b"i" * 16


class LaggingStore:
    """Has the entry once it was asked to catch up; away for so many calls."""

    def __init__(self, entry: bytes | None, away: int = 0) -> None:
        self.entry, self.away = entry, away
        self.has_caught_up = False

    async def sync(self, path: str) -> None:
        if self.away:
            self.away -= 1
            raise ConnectionLossError(path)
        self.has_caught_up = True

    async def get(self, path: str) -> tuple[bytes, object]:
        if not self.has_caught_up or self.entry is None:
            raise NoNodeError(path)
        return self.entry, object()


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trash, "_PAUSE_S", 0)


def entry_until(until_ms: int) -> bytes:
    return EndedTopicZnode.encode("t", [0], Kept(1, until_ms, {0: (0,)}, {}, 0, {}))


@pytest.mark.parametrize("away", [0, 3])
async def test_an_entry_is_found_that_the_server_has_not_seen_yet(away: int) -> None:
    store = LaggingStore(entry_until(77), away)
    assert await trash.kept_until(cast("Any", store), VirtualClock())(ID) == 77


async def test_a_topic_without_an_entry_is_not_kept() -> None:
    assert await trash.kept_until(cast("Any", LaggingStore(None)), VirtualClock())(ID) is None


async def test_what_nobody_can_tell_is_kept_for_a_while() -> None:
    clock = VirtualClock()
    until_ms = await trash.kept_until(cast("Any", LaggingStore(None, away=10_000)), clock)(ID)
    assert until_ms is not None
    assert clock.now_ms() < until_ms <= clock.now_ms() + 7 * 86_400_000
