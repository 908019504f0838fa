"""What happens to znodes, as it happens: watches that are set again, and the differences."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ottla.errors import OttlaError
from ottla.metadata.store import EventType, NoNodeError, SessionState, WatchEvent

if TYPE_CHECKING:
    from ottla.metadata.store import MetadataStore, Stat

MAX_NODES = 100_000


class TooManyNodes(OttlaError):
    """More than can be watched."""


class Change(NamedTuple):
    kind: str  # there, created, changed, deleted
    path: str
    data: bytes | None = None


@dataclass(slots=True)
class _Known:
    """What was last seen of a node; `children` stays empty where only its parent is watched."""

    stat: Stat
    children: set[str] = field(default_factory=set)


class TreeWatch:
    """A node with its children, or with all that is below. A watch fires once and is set again by
    the read that answers it, so that nothing is missed; of several writes in between, one shows."""

    def __init__(self, store: MetadataStore, root: str, *, recursive: bool) -> None:
        self._store = store
        self._root = root
        self._recursive = recursive
        self._known: dict[str, _Known] = {}
        self._found: list[Change] = []
        self._unread: list[str] = []  # new nodes whose children were not looked at
        # Every watch puts one event in: there are never more than two for each node.
        self._events: asyncio.Queue[WatchEvent | None] = asyncio.Queue()
        self._has_expired = False

    async def changes(self) -> AsyncGenerator[Change, None]:
        """What is there to begin with, then what changes, without an end."""
        self._store.add_session_listener(self._hear_session)
        await self._read_root()
        await self._read_below()
        for change in self._take():
            yield change._replace(kind="there")
        while True:
            event = await self._events.get()
            if event is None:
                await self._read_everything()
            else:
                await self._answer(event)
            await self._read_below()
            for change in self._take():
                yield change

    def _take(self) -> list[Change]:
        found, self._found = self._found, []
        return found

    def _hear_session(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED:
            self._has_expired = True
        elif state is SessionState.CONNECTED and self._has_expired:
            # The watches went with the old session.
            self._has_expired = False
            self._events.put_nowait(None)

    async def _answer(self, event: WatchEvent) -> None:
        if event.type is EventType.CHILDREN_CHANGED:
            await self._read_children(event.path)
        elif event.path == self._root and event.type in (EventType.CREATED, EventType.DELETED):
            await self._read_root()
        else:
            await self._read_data(event.path)

    async def _read_everything(self) -> None:
        await self._read_root()
        for path in list(self._known):
            if path in self._known and path != self._root:
                await self._read_node(path)

    async def _read_root(self) -> None:
        await self._read_node(self._root)
        if self._root not in self._known and await self._store.exists(
            self._root, self._events.put_nowait
        ):
            await self._read_node(self._root)  # made between the two

    async def _read_node(self, path: str) -> None:
        """Sees its data and, where they are watched, its children."""
        await self._read_data(path)
        if path in self._known and self._is_watched(path):
            await self._read_children(path)

    async def _read_below(self) -> None:
        while self._unread:
            await self._read_children(self._unread.pop())

    def _is_watched(self, path: str) -> bool:
        return self._recursive or path == self._root

    async def _read_data(self, path: str) -> None:
        watch = self._events.put_nowait if self._is_watched(path) else None
        try:
            data, stat = await self._store.get(path, watch)
        except NoNodeError:
            self._forget(path)
            return
        known = self._known.get(path)
        if known is not None and known.stat.czxid != stat.czxid:
            self._forget(path)
            known = None
        if known is None:
            if len(self._known) >= MAX_NODES:
                raise TooManyNodes(f"there are more than {MAX_NODES} znodes below {self._root}")
            self._known[path] = _Known(stat)
            self._found.append(Change("created", path, data))
            if self._recursive and path != self._root:
                self._unread.append(path)
        elif known.stat.mzxid != stat.mzxid:
            known.stat = stat
            self._found.append(Change("changed", path, data))

    async def _read_children(self, path: str) -> None:
        try:
            names = set(await self._store.children(path, self._events.put_nowait))
        except NoNodeError:
            self._forget(path)
            return
        known = self._known.get(path)
        if known is None:
            return
        gone, known.children = known.children - names, names
        for name in sorted(gone):
            self._forget(child_of(path, name))
        for name in sorted(names):
            if child_of(path, name) not in self._known:
                await self._read_data(child_of(path, name))

    def _forget(self, path: str) -> None:
        """A node is gone, and what was below it before."""
        below = [path]
        gone = []
        while below:
            node = below.pop()
            known = self._known.pop(node, None)
            if known is not None:
                gone.append(Change("deleted", node))
                below += [child_of(node, name) for name in sorted(known.children)]
        self._found += reversed(gone)


def child_of(path: str, name: str) -> str:
    return f"/{name}" if path == "/" else f"{path}/{name}"
