"""The client's side of watches: who asked for what, and what to ask again after a reconnection."""

from __future__ import annotations

import logging

from ottla.metadata.store import EventType, NoNodeError, Watcher, WatchEvent
from ottla.zk import jute
from ottla.zk.client.request import OnAnswer

logger = logging.getLogger(__name__)

# One setWatches packet carries at most this much (ClientCnxn.SET_WATCHES_MAX_LENGTH).
SET_WATCHES_BYTES = 128 * 1024

WatchTable = dict[str, dict[Watcher, None]]


class ClientWatches:
    """One-shot watches by the server's path. The same callable twice on a path counts once."""

    def __init__(self) -> None:
        self.data: WatchTable = {}
        self.exists: WatchTable = {}
        self.children: WatchTable = {}

    def add(self, table: WatchTable, path: str, watcher: Watcher) -> None:
        table.setdefault(path, {})[watcher] = None

    def on_read(self, table: WatchTable, path: str, watcher: Watcher) -> OnAnswer:
        """A node that is not there has no watch."""

        def on_answer(code: int) -> None:
            if code == 0:
                self.add(table, path, watcher)

        return on_answer

    def on_exists(self, path: str, watcher: Watcher) -> OnAnswer:
        """A node that is not there is waited for."""

        def on_answer(code: int) -> None:
            if code == 0:
                self.add(self.data, path, watcher)
            elif code == NoNodeError.code:
                self.add(self.exists, path, watcher)

        return on_answer

    def clear(self) -> None:
        self.data.clear()
        self.exists.clear()
        self.children.clear()

    def take(self, kind: EventType, path: str) -> list[Watcher]:
        """Who hears of the event; their watches are spent (ZKWatchManager.materialize)."""
        heard: dict[Watcher, None] = {}
        if kind is EventType.CHILDREN_CHANGED:
            heard.update(self.children.pop(path, {}))
        else:
            heard.update(self.data.pop(path, {}))
            heard.update(self.exists.pop(path, {}))
            if kind is EventType.DELETED:
                heard.update(self.children.pop(path, {}))
        return list(heard)

    def set_watches_packets(self, seen_zxid: int) -> list[bytes]:
        """Bodies of the setWatches requests that make a server watch everything again."""
        packets: list[bytes] = []
        lists: tuple[list[str], list[str], list[str]] = ([], [], [])
        size = 0
        for index, table in enumerate((self.data, self.exists, self.children)):
            for path in table:
                lists[index].append(path)
                size += 4 + len(path.encode())
                if size >= SET_WATCHES_BYTES:
                    packets.append(_set_watches(seen_zxid, lists))
                    lists, size = ([], [], []), 0
        if size:
            packets.append(_set_watches(seen_zxid, lists))
        return packets


def call_watchers(watchers: list[Watcher], event: WatchEvent) -> None:
    """A watcher that fails must not take the connection, or the other watchers, with it."""
    for watcher in watchers:
        try:
            watcher(event)
        except Exception:
            logger.exception("a watcher of %s failed", event.path)


def _set_watches(seen_zxid: int, lists: tuple[list[str], list[str], list[str]]) -> bytes:
    return jute.LONG.pack(seen_zxid) + b"".join(map(jute.write_strings, lists))
