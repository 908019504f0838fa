"""Which logs a broker keeps when it is told to delete them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.replication import trashed_logs
from ottla.broker.replication.trashed_logs import TrashedLogs
from ottla.metadata.ended import EndedTopicZnode, Kept
from ottla.metadata.store import ConnectionLossError, NoNodeError
from ottla.types import TopicPartition

TP = TopicPartition("t", 0)


class LaggingStore:
    """Shows an entry only to whoever asks for what is newest, and is away at first."""

    def __init__(self, data: bytes, failures: int = 0) -> None:
        self._data = data
        self._failures = failures
        self._is_synced = False

    async def sync(self, path: str = "/") -> None:
        if self._failures:
            self._failures -= 1
            raise ConnectionLossError("/")
        self._is_synced = True

    async def get(self, path: str, watch: Any = None) -> tuple[bytes, None]:
        if not self._is_synced:
            raise NoNodeError(path)
        return self._data, None


async def test_an_entry_that_a_lagging_server_does_not_have_yet_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trashed_logs, "_ORDER_PAUSE_S", 0.0)
    kept = Kept(0, 1, {0: (0,)}, {}, 0, {})
    store = LaggingStore(EndedTopicZnode.encode("t", [0], kept), failures=3)
    log = SimpleNamespace(topic_id=bytes(range(16)))
    replicas = SimpleNamespace(log_manager=SimpleNamespace(get={TP: log}.get))

    async def strike_off(topic_id: bytes) -> None:
        raise AssertionError("nothing is removed")

    logs = TrashedLogs(store, replicas, strike_off)  # type: ignore[arg-type]
    assert await logs.to_keep([TP]) == {TP}


async def test_a_store_that_stays_away_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker then keeps everything, and the controller asks again."""
    monkeypatch.setattr(trashed_logs, "_ORDER_PAUSE_S", 0.0)
    log = SimpleNamespace(topic_id=bytes(range(16)))
    replicas = SimpleNamespace(log_manager=SimpleNamespace(get={TP: log}.get))
    logs = TrashedLogs(LaggingStore(b"", failures=1000), replicas, None)  # type: ignore[arg-type]
    with pytest.raises(ConnectionLossError):
        await logs.to_keep([TP])
