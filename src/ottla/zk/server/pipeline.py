"""The order in which a store's results come out.

A write changes the tree at once and its answer waits for the journal. Everything said to anyone
after that write (answers to reads, watch events) waits with it, in order: nobody ever sees a
state that a power cut could take back. Many waiting writes share one fsync, and what it lets out
leaves each connection in one piece.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ottla.errors import InvariantViolated, OttlaError
from ottla.metadata.store import EventType
from ottla.runtime import Runtime, Worker
from ottla.zk.server.gathering import WAIT_S, Gathering
from ottla.zk.server.journal import Journal
from ottla.zk.server.snapshots import Snapshots
from ottla.zk.server.tree import Tree, Txn

logger = logging.getLogger(__name__)

# What is written but not on disk may come to this before clients have to wait: who reads waits for
# the disk as well, so that it is not long.
MAX_UNWRITTEN_BYTES = 8 << 20

# Of the event loop: a connection that reads again is polled, serves what came, and is settled.
TURNS_TO_READ = 3


class StoreFailed(OttlaError):
    """The store cannot write any more; its message says why."""


class Outlet(ABC):
    """Someone who is told things in order: a connection, or a session in this process."""

    __slots__ = ("dirty", "held_zxid", "pending", "unasked")

    def __init__(self) -> None:
        self.pending: list[Any] = []
        self.dirty = False
        # How many of `pending` are events, which nobody asked for.
        self.unasked = 0
        # The write that the last answer held for it waits for.
        self.held_zxid = 0

    @abstractmethod
    def deliver(self, items: list[Any]) -> None:
        """Called when everything that `items` depend on is on disk."""

    def pause(self) -> None:  # noqa: B027 - whoever has nothing to pause need not
        """Until `resume` nothing more that it sends is needed: it may collect."""

    def resume(self) -> None:  # noqa: B027
        """What it has sent meanwhile is needed now."""

    @abstractmethod
    def notify(self, kind: EventType, path: str) -> None:
        """A watch of this outlet fired."""

    @abstractmethod
    def session_ended(self) -> None:
        """The session expired or moved to another outlet."""


class CommitPipeline:
    """From a write in the tree to its answer: journal, fsync, delivery. Without a `data_dir` a
    write is as safe as it will ever be once it is made."""

    def __init__(
        self,
        runtime: Runtime,
        tree: Tree,
        data_dir: Path | None,
        *,
        fsync: bool,
        snapshot_after_bytes: int,
    ) -> None:
        self.durable_zxid = 0
        self.on_failure: Callable[[StoreFailed], None] | None = None
        # Called when something has reached the disk.
        self.on_written: Callable[[], None] | None = None
        self._writing_bytes = 0
        # Whether the disk has to catch up before more is written.
        self.is_full = False
        self._runtime = runtime
        self._tree = tree
        self._data_dir = data_dir
        self._journal: Journal | None = None
        self._snapshots: Snapshots | None = None
        if data_dir is not None:
            self._journal = Journal(runtime.disk, data_dir, fsync=fsync)
            self._snapshots = Snapshots(
                runtime, self._journal, snapshot_after_bytes, self._until_durable
            )
        self._writer = Worker()
        self._dirty: list[Outlet] = []
        self._held: deque[tuple[int, Outlet, list[Any]]] = deque()
        self._gathering = Gathering()
        self._sent_on = 0
        self._senders: dict[Outlet, None] = {}
        self._settling = False
        self._flush: asyncio.Task[None] | None = None
        self._failed = False
        # Who waits for a write, by its zxid, to be on disk.
        self._awaited: dict[asyncio.Future[None], int] = {}

    def load(self) -> Tree:
        """Blocking. The tree as the journal has it, which later writes are made in."""
        if self._journal is None:
            raise InvariantViolated("a store in memory has nothing to load")
        self._tree = self._journal.load()
        self.durable_zxid = self._tree.last_zxid
        return self._tree

    async def close(self) -> None:
        """Writes what is left, lets out its answers and closes the files."""
        if self._snapshots is not None:
            self._snapshots.cancel()
        while not self._failed and (self._flush is not None or self.has_pending):
            self._settle()
            if self._flush is not None:
                await self._flush
        self._settle()
        self._writer.close()
        if self._journal is not None:
            self._journal.close(clean=not self._failed)

    @property
    def outstanding(self) -> int:
        """Answers that wait for the disk."""
        return sum(len(items) for _, _, items in self._held)

    @property
    def has_pending(self) -> bool:
        """Whether there are writes that no flush has taken yet."""
        return self._journal is not None and self._journal.has_pending

    def push(self, outlet: Outlet, item: object) -> None:
        """Hands `item` to the outlet once all writes so far are on disk, after earlier items."""
        outlet.pending.append(item)
        if not outlet.dirty:
            outlet.dirty = True
            self._dirty.append(outlet)
            if not self._settling:
                self._settling = True
                asyncio.get_running_loop().call_soon(self._settle)

    def push_event(self, outlet: Outlet, item: object) -> None:
        """As `push`, for something that answers nothing."""
        outlet.unasked += 1
        self.push(outlet, item)

    def log(self, zxid: int, time_ms: int, txns: Sequence[Txn | bytes]) -> None:
        """Takes in a write that the tree has made."""
        if self._journal is None:
            self.durable_zxid = zxid
            return
        self._journal.append(zxid, time_ms, txns)
        if self._writing_bytes + self._journal.pending_bytes > MAX_UNWRITTEN_BYTES:
            self.is_full = True
        if not self._settling:
            self._settling = True
            asyncio.get_running_loop().call_soon(self._settle)

    def _settle(self) -> None:
        """Once per turn of the loop: collects what was said, starts a flush, lets out the rest."""
        self._settling = False
        zxid = self._tree.last_zxid
        dirty, self._dirty = self._dirty, []
        if self.has_pending and self._flush is None and not self._failed:
            self._flush = asyncio.get_running_loop().create_task(self._flush_journal())
        is_durable = self.durable_zxid >= zxid
        for outlet in dirty:
            items, outlet.pending, outlet.dirty = outlet.pending, [], False
            answers, outlet.unasked = len(items) - outlet.unasked, 0
            if is_durable:
                outlet.deliver(items)
                continue
            self._held.append((zxid, outlet, items))
            if answers:
                if outlet.held_zxid > self.durable_zxid:
                    self._sent_on += answers
                    self._senders[outlet] = None
                outlet.held_zxid = zxid

    async def _flush_journal(self) -> None:
        journal, snapshots = self._journal, self._snapshots
        if journal is None or snapshots is None:
            raise InvariantViolated("a store in memory has no journal to flush")
        try:
            while journal.has_pending:
                if self._gathering.is_due(self._sent_on):
                    await self._gather()
                self._sent_on = 0
                self._senders.clear()
                zxid, batch = self._tree.last_zxid, journal.take()
                self._writing_bytes = len(batch)
                await self._runtime.blocking(partial(journal.write, batch), self._writer)
                self._writing_bytes = 0
                self.is_full = journal.pending_bytes > MAX_UNWRITTEN_BYTES
                self.durable_zxid = zxid
                self._release()
                if self.on_written is not None:
                    self.on_written()
                if snapshots.is_due:
                    await self._runtime.blocking(partial(journal.rotate, zxid + 1), self._writer)
                    snapshots.begin(self._tree, zxid)
        except OSError as error:
            self._fail(error)
        finally:
            self._flush = None

    async def _until_durable(self, zxid: int) -> None:
        if self.durable_zxid >= zxid:
            return
        future = asyncio.get_running_loop().create_future()
        self._awaited[future] = zxid
        try:
            await future
        finally:
            del self._awaited[future]

    async def _gather(self) -> None:
        """Lets those who send on do so for a while, unread: a read for each request would cost
        the server more than the request, and its client, who has to wake it, nearly as much."""
        before, senders = self._sent_on, list(self._senders)
        for outlet in senders:
            outlet.pause()
        await asyncio.sleep(WAIT_S)
        for outlet in senders:
            outlet.resume()
        for _ in range(TURNS_TO_READ):
            await asyncio.sleep(0)
        self._gathering.waited(self._sent_on - before)

    def _release(self) -> None:
        """One delivery for each outlet: every one is a system call and wakes the client."""
        held = self._held
        released: dict[Outlet, list[Any]] = {}
        while held and held[0][0] <= self.durable_zxid:
            _, outlet, items = held.popleft()
            earlier = released.setdefault(outlet, items)
            if earlier is not items:
                earlier += items
        for outlet, items in released.items():
            outlet.deliver(items)
        for future, zxid in self._awaited.items():
            if zxid <= self.durable_zxid and not future.done():
                future.set_result(None)

    def _fail(self, error: OSError) -> None:
        """After a failed write nothing may be promised: the held answers are never given."""
        self._failed = True
        self._held.clear()
        if self._snapshots is not None:
            self._snapshots.cancel()
        failure = StoreFailed(f"cannot write to {self._data_dir}: {error.strerror or error}")
        logger.error("%s", failure)
        if self.on_failure is not None:
            self.on_failure(failure)
