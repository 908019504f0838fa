"""Who watches what, and who hears of an event (ZooKeeper's WatchManager). Pure.

Data watches and child watches are separate; a standard watch fires once, persistent ones
(ZOOKEEPER-1416) stay, recursive ones hear of everything below except child changes.
"""

from __future__ import annotations

from typing import Protocol

from ottla.metadata.store import EventType
from ottla.zk.server.tree import Trigger

STANDARD = 1
PERSISTENT = 2
RECURSIVE = 4

# WatcherType of removeWatches and checkWatches.
CHILDREN = 1
DATA = 2
ANY = 3


class Watcher(Protocol):
    def notify(self, kind: EventType, path: str) -> None: ...


_Table = dict[str, dict[Watcher, int]]


class Watches:
    """The watches of all sessions of one store, by path and by watcher."""

    def __init__(self) -> None:
        self._data: _Table = {}
        self._children: _Table = {}
        # Paths per watcher, so that a closed connection costs only what it watched.
        self._paths: dict[Watcher, set[str]] = {}
        self._recursive = 0

    def __len__(self) -> int:
        return sum(map(len, self._data.values())) + sum(map(len, self._children.values()))

    def watched_paths(self) -> int:
        return len(self._data.keys() | self._children.keys())

    def add_data(self, path: str, watcher: Watcher) -> None:
        self._add(self._data, path, watcher, STANDARD)

    def add_children(self, path: str, watcher: Watcher) -> None:
        self._add(self._children, path, watcher, STANDARD)

    def add_persistent(self, path: str, watcher: Watcher, *, recursive: bool) -> None:
        mode = RECURSIVE if recursive else PERSISTENT
        self._add(self._data, path, watcher, mode)
        self._add(self._children, path, watcher, mode)

    def contains(self, path: str, watcher: Watcher, kind: int) -> bool:
        in_data = watcher in self._data.get(path, ())
        in_children = watcher in self._children.get(path, ())
        return (kind != CHILDREN and in_data) or (kind != DATA and in_children)

    def remove(self, path: str, watcher: Watcher, kind: int) -> bool:
        """Whether there was anything to remove."""
        removed = False
        if kind != CHILDREN:
            removed = self._discard(self._data, path, watcher)
        if kind != DATA:
            removed = self._discard(self._children, path, watcher) or removed
        return removed

    def remove_watcher(self, watcher: Watcher) -> None:
        for path in self._paths.pop(watcher, ()):
            self._discard(self._data, path, watcher)
            self._discard(self._children, path, watcher)

    def fire(self, triggers: list[Trigger]) -> None:
        """Notifies whoever watches; a deletion is told once to one that watches both ways."""
        if not self._paths:
            return
        for kind, path in triggers:
            if kind is EventType.CHILDREN_CHANGED:
                self._notify(self._children, kind, path, ())
            elif kind is EventType.DELETED:
                told = self._notify(self._data, kind, path, ())
                self._notify(self._children, kind, path, told)
            else:
                self._notify(self._data, kind, path, ())

    def _notify(
        self,
        table: _Table,
        kind: EventType,
        path: str,
        skip: dict[Watcher, None] | tuple[()],
    ) -> dict[Watcher, None] | tuple[()]:
        watchers = table.get(path)
        hearing: dict[Watcher, None] = {}
        if watchers is not None:
            self._take(table, watchers, kind, path, hearing)
        if self._recursive and kind is not EventType.CHILDREN_CHANGED and path != "/":
            ancestor = path
            while ancestor:
                ancestor = ancestor[: ancestor.rfind("/")]
                for watcher, modes in table.get(ancestor or "/", {}).items():
                    if modes & RECURSIVE:
                        hearing[watcher] = None
        for watcher in hearing:
            if watcher not in skip:
                watcher.notify(kind, path)
        return hearing or ()

    def _take(
        self,
        table: _Table,
        watchers: dict[Watcher, int],
        kind: EventType,
        path: str,
        hearing: dict[Watcher, None],
    ) -> None:
        """Adds those who hear at the path itself and spends their one-shot watches."""
        lasting: dict[Watcher, int] = {}
        for watcher, modes in watchers.items():
            if modes & (STANDARD | PERSISTENT) or kind is not EventType.CHILDREN_CHANGED:
                hearing[watcher] = None
            modes &= ~STANDARD
            if modes:
                lasting[watcher] = modes
        if lasting:
            table[path] = lasting
        else:
            del table[path]
        other = self._children if table is self._data else self._data
        elsewhere = other.get(path, ())
        for watcher in watchers:
            if watcher not in lasting and watcher not in elsewhere:
                self._forget_path(watcher, path)

    def _add(self, table: _Table, path: str, watcher: Watcher, mode: int) -> None:
        watchers = table.get(path)
        if watchers is None:
            watchers = table[path] = {}
        before = watchers.get(watcher, 0)
        watchers[watcher] = before | mode
        if mode == RECURSIVE and not before & RECURSIVE:
            self._recursive += 1
        paths = self._paths.get(watcher)
        if paths is None:
            paths = self._paths[watcher] = set()
        paths.add(path)

    def _discard(self, table: _Table, path: str, watcher: Watcher) -> bool:
        watchers = table.get(path)
        if watchers is None or watcher not in watchers:
            return False
        if watchers.pop(watcher) & RECURSIVE:
            self._recursive -= 1
        if not watchers:
            del table[path]
        other = self._children if table is self._data else self._data
        if watcher not in other.get(path, ()):
            self._forget_path(watcher, path)
        return True

    def _forget_path(self, watcher: Watcher, path: str) -> None:
        paths = self._paths.get(watcher)
        if paths is not None:
            paths.discard(path)
            if not paths:
                del self._paths[watcher]
