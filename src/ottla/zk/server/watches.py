"""Who watches what, and who hears of an event (ZooKeeper's WatchManager). Pure.

Data watches and child watches are separate; a standard watch fires once, persistent ones
(ZOOKEEPER-1416) stay, recursive ones hear of everything below except child changes. Only who may
read a node hears of it; a standard watch is spent all the same (CVE-2024-23944).
"""

from __future__ import annotations

from typing import Protocol

from ottla.metadata.store import OPEN_ACL, Acl, EventType
from ottla.zk.server.tree import Trigger

STANDARD = 1
PERSISTENT = 2
RECURSIVE = 4

# WatcherType of removeWatches and checkWatches.
CHILDREN = 1
DATA = 2
ANY = 3

# What a watched path takes in memory beside its text, measured with a million of them.
WATCH_BYTES = 400


class Watcher(Protocol):
    def notify(self, kind: EventType, path: str) -> None: ...

    def may_read(self, acl: tuple[Acl, ...]) -> bool: ...


_Table = dict[str, dict[Watcher, int]]


class Watches:
    """The watches of all sessions of one store, by path and by watcher."""

    def __init__(self) -> None:
        self._data: _Table = {}
        self._children: _Table = {}
        # Paths per watcher, so that a closed connection costs only what it watched.
        self._paths: dict[Watcher, set[str]] = {}
        # About what these paths take in memory, in bytes.
        self.held: dict[Watcher, int] = {}
        # How many recursive watches there are at paths of each length.
        self._recursive: dict[int, int] = {}
        # Who is gone, with paths that are still in the tables.
        self._gone: dict[Watcher, set[str]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

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
        """All of its watches go; it may watch again."""
        self.held.pop(watcher, None)
        for path in self._paths.pop(watcher, ()):
            self._discard(self._data, path, watcher)
            self._discard(self._children, path, watcher)

    def abandon(self, watcher: Watcher) -> None:
        """It is gone for good and hears of nothing any more; its watches, which may be a million,
        go with the next calls of `sweep`."""
        self.held.pop(watcher, None)
        paths = self._paths.pop(watcher, None)
        if paths:
            self._gone[watcher] = paths

    def sweep(self, limit: int) -> bool:
        """Removes up to so many watches of watchers that are gone; whether any are left."""
        while self._gone and limit > 0:
            watcher, paths = next(iter(self._gone.items()))
            while paths and limit > 0:
                path = paths.pop()
                self._discard(self._data, path, watcher)
                self._discard(self._children, path, watcher)
                limit -= 1
            if not paths:
                del self._gone[watcher]
        return bool(self._gone)

    def fire(self, triggers: list[Trigger]) -> None:
        """Notifies whoever watches; a deletion is told once to one that watches both ways."""
        if not self._paths:
            return
        for kind, path, acl in triggers:
            if kind is EventType.CHILDREN_CHANGED:
                self._notify(self._children, kind, path, acl, ())
            elif kind is EventType.DELETED:
                told = self._notify(self._data, kind, path, acl, ())
                self._notify(self._children, kind, path, acl, told)
            else:
                self._notify(self._data, kind, path, acl, ())

    def _notify(
        self,
        table: _Table,
        kind: EventType,
        path: str,
        acl: tuple[Acl, ...],
        skip: dict[Watcher, None] | tuple[()],
    ) -> dict[Watcher, None] | tuple[()]:
        watchers = table.get(path)
        hearing: dict[Watcher, None] = {}
        if watchers is not None:
            self._take(table, watchers, kind, path, hearing)
        if self._recursive and kind is not EventType.CHILDREN_CHANGED and path != "/":
            self._take_recursive(table, path, hearing)
        for watcher in hearing:
            if watcher not in skip and (acl is OPEN_ACL or watcher.may_read(acl)):
                watcher.notify(kind, path)
        return hearing or ()

    def _take_recursive(self, table: _Table, path: str, hearing: dict[Watcher, None]) -> None:
        """Adds those who hear of everything below a node above `path`. Looked for only where such
        watches are: paths are deep where somebody wants them to be."""
        for length in self._recursive:
            if length == 1:
                above = "/"
            elif length < len(path) and path[length] == "/":
                above = path[:length]
            else:
                continue
            for watcher, modes in table.get(above, {}).items():
                if modes & RECURSIVE and watcher in self._paths:
                    hearing[watcher] = None

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
            if watcher not in self._paths:
                # Gone; what it watched goes with `sweep`.
                lasting[watcher] = modes
                continue
            if modes & (STANDARD | PERSISTENT) or kind is not EventType.CHILDREN_CHANGED:
                hearing[watcher] = None
            modes &= ~STANDARD
            if modes:
                lasting[watcher] = modes
        self._count -= len(watchers) - len(lasting)
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
        if not before:
            self._count += 1
        watchers[watcher] = before | mode
        if mode == RECURSIVE and not before & RECURSIVE:
            self._recursive[len(path)] = self._recursive.get(len(path), 0) + 1
        paths = self._paths.get(watcher)
        if paths is None:
            paths = self._paths[watcher] = set()
        if path not in paths:
            paths.add(path)
            self.held[watcher] = self.held.get(watcher, 0) + WATCH_BYTES + len(path)

    def _discard(self, table: _Table, path: str, watcher: Watcher) -> bool:
        watchers = table.get(path)
        if watchers is None or watcher not in watchers:
            return False
        self._count -= 1
        if watchers.pop(watcher) & RECURSIVE:
            self._recursive[len(path)] -= 1
            if not self._recursive[len(path)]:
                del self._recursive[len(path)]
        if not watchers:
            del table[path]
        other = self._children if table is self._data else self._data
        if watcher not in other.get(path, ()):
            self._forget_path(watcher, path)
        return True

    def _forget_path(self, watcher: Watcher, path: str) -> None:
        paths = self._paths.get(watcher)
        if paths is not None and path in paths:
            paths.discard(path)
            self.held[watcher] -= WATCH_BYTES + len(path)
            if not paths:
                del self._paths[watcher]
                del self.held[watcher]
