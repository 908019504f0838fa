"""One store: tree, watches, sessions and journal, and the order in which results come out.

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
from ottla.metadata.store import Acl, EventType, Op, StoreError
from ottla.runtime import Runtime, Worker
from ottla.zk.server import records, transactions
from ottla.zk.server.acl import Identity
from ottla.zk.server.gathering import WAIT_S, Gathering
from ottla.zk.server.journal import SNAPSHOT_AFTER_BYTES, Journal
from ottla.zk.server.sessions import Session, SessionLimits, Sessions, first_session_id
from ottla.zk.server.transactions import Multi, MultiResult
from ottla.zk.server.tree import (
    CloseSessionTxn,
    CreateSessionTxn,
    DeleteTxn,
    Node,
    SetAclTxn,
    SetDataTxn,
    Tree,
    Trigger,
    Txn,
)
from ottla.zk.server.watches import Watches

log = logging.getLogger(__name__)

SERVER_ID = 0
SECRET_BYTES = 32
# Marks a session of this process in the journal.
LOCAL_TIMEOUT_MS = 0
# Nodes encoded for a snapshot between two turns of the event loop.
SNAPSHOT_SLICE = 500
# Of the event loop: a connection that reads again is polled, serves what came, and is settled.
TURNS_TO_READ = 3
# ContainerManager's interval: an empty container goes at the next look.
CONTAINER_CHECK_MS = 60_000


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


class Engine:
    def __init__(
        self,
        runtime: Runtime,
        data_dir: Path | None = None,
        *,
        limits: SessionLimits | None = None,
        fsync: bool = True,
        snapshot_after_bytes: int = SNAPSHOT_AFTER_BYTES,
    ) -> None:
        self.runtime = runtime
        self.limits = limits or SessionLimits()
        self.tree = Tree()
        self.watches = Watches()
        self.sessions = self._new_sessions(runtime.random.randbytes(SECRET_BYTES))
        self.on_failure: Callable[[StoreFailed], None] | None = None
        self._data_dir = data_dir
        self._journal = Journal(runtime.disk, data_dir, fsync=fsync) if data_dir else None
        self._writer = Worker()
        self._snapshot_after_bytes = snapshot_after_bytes
        self._durable_zxid = 0
        self._dirty: list[Outlet] = []
        self._held: deque[tuple[int, Outlet, list[Any]]] = deque()
        self._gathering = Gathering()
        self._sent_on = 0
        self._senders: dict[Outlet, None] = {}
        self._settling = False
        self._flush: asyncio.Task[None] | None = None
        self._snapshot: asyncio.Task[None] | None = None
        self._ticker: asyncio.Task[None] | None = None
        self._failed = False

    # --- life ---

    async def start(self) -> None:
        """Reads the data folder, gives every known session its time-out again, starts ticking."""
        if self._journal is not None:
            await self.runtime.blocking(self._load)
        self._durable_zxid = self.tree.last_zxid
        self.sessions.restore(self.tree.sessions, self.runtime.clock.monotonic_ms())
        for session_id, timeout_ms in list(self.tree.sessions.items()):
            if timeout_ms == LOCAL_TIMEOUT_MS:
                # It lived in the process that is gone: nobody can ever come back to it.
                self.sessions.remove(session_id)
                self._end_session(session_id)
        self._ticker = asyncio.get_running_loop().create_task(self._tick())

    @property
    def is_running(self) -> bool:
        return self._ticker is not None

    async def stop(self) -> None:
        """Writes what is left and closes the files; sessions live on in the journal."""
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
        if self._snapshot is not None:
            self._snapshot.cancel()
            self._snapshot = None
        while not self._failed and (self._flush is not None or self._has_pending()):
            self._settle()
            if self._flush is not None:
                await self._flush
        self._settle()
        self._writer.close()
        if self._journal is not None:
            self._journal.close(clean=not self._failed)

    def _load(self) -> None:
        if self._journal is None or self._data_dir is None:
            raise InvariantViolated("a store in memory has nothing to load")
        self.tree = self._journal.load()
        disk, path = self.runtime.disk, self._data_dir / "secret"
        if not disk.exists(path):
            disk.write_atomically(path, self.runtime.random.randbytes(SECRET_BYTES))
        self.sessions = self._new_sessions(disk.read_bytes(path))

    def _new_sessions(self, secret: bytes) -> Sessions:
        first_id = first_session_id(SERVER_ID, self.runtime.clock.now_ms())
        return Sessions(self.limits, secret, first_id)

    # --- writes: each applies one transaction or raises a StoreError ---

    def create(
        self,
        session: Session,
        identities: tuple[Identity, ...],
        path: str,
        data: bytes | None,
        acl: tuple[Acl, ...],
        mode: int,
    ) -> tuple[str, Node]:
        txn = transactions.prepare_create(self.tree, session.id, identities, path, data, acl, mode)
        self._commit(txn)
        return txn.path, self.tree.nodes[txn.path]

    def set_data(
        self, identities: tuple[Identity, ...], path: str, data: bytes | None, version: int
    ) -> Node:
        txn: SetDataTxn = transactions.prepare_set_data(self.tree, identities, path, data, version)
        self._commit(txn)
        return self.tree.nodes[path]

    def delete(self, identities: tuple[Identity, ...], path: str, version: int) -> None:
        self._commit(transactions.prepare_delete(self.tree, identities, path, version))

    def set_acl(
        self,
        identities: tuple[Identity, ...],
        path: str,
        acl: tuple[Acl, ...],
        version: int,
    ) -> Node:
        txn: SetAclTxn = transactions.prepare_set_acl(self.tree, identities, path, acl, version)
        self._commit(txn)
        return self.tree.nodes[path]

    def multi(
        self, session: Session, identities: tuple[Identity, ...], ops: Sequence[Op]
    ) -> tuple[list[MultiResult], int, StoreError | None]:
        """The result of each operation; or the index and the error of the one that failed."""
        multi = self.begin_multi(session, identities)
        results: list[MultiResult] = []
        for index, op in enumerate(ops):
            try:
                results.append(multi.perform(op))
            except StoreError as error:
                multi.take_back()
                return [], index, error
        self.commit_multi(multi)
        return results, -1, None

    def begin_multi(self, session: Session, identities: tuple[Identity, ...]) -> Multi:
        """To be committed or taken back before anything else touches the tree."""
        return Multi(self.tree, session.id, identities, self.runtime.clock.now_ms())

    def commit_multi(self, multi: Multi) -> None:
        if multi.log:
            self._log(multi.zxid, multi.time_ms, multi.log)
            self.watches.fire(multi.triggers)

    def open_session(self, asked_timeout_ms: int) -> Session:
        timeout_ms = self.limits.negotiate(asked_timeout_ms)
        session_id = self.sessions.new_id()
        self._commit(CreateSessionTxn(session_id, timeout_ms))
        return self.sessions.adopt(session_id, timeout_ms, self.runtime.clock.monotonic_ms())

    def open_local_session(self, owner: Outlet) -> Session:
        """A session of this very process: it has no time-out and does not outlive it."""
        session_id = self.sessions.new_id()
        self._commit(CreateSessionTxn(session_id, LOCAL_TIMEOUT_MS))
        session = self.sessions.adopt(session_id, LOCAL_TIMEOUT_MS, float("inf"))
        session.owner = owner
        return session

    def close_session(self, session: Session) -> None:
        """Ends the session; its ephemeral nodes go in one transaction."""
        if self.sessions.remove(session.id) is not None:
            self._end_session(session.id)

    def _end_session(self, session_id: int) -> None:
        paths = tuple(self.tree.ephemerals.get(session_id, ()))
        self._commit(CloseSessionTxn(session_id, paths))

    def expire_session(self, session: Session) -> None:
        self.close_session(session)
        owner, session.owner = session.owner, None
        if owner is not None:
            owner.session_ended()

    # --- the order of what is said ---

    @property
    def outstanding(self) -> int:
        """Answers that wait for the disk."""
        return sum(len(items) for _, _, items in self._held)

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
        """As `push`, for what is no answer to anything."""
        outlet.unasked += 1
        self.push(outlet, item)

    def _commit(self, txn: Txn) -> None:
        triggers: list[Trigger] = []
        zxid, time_ms = self.tree.last_zxid + 1, self.runtime.clock.now_ms()
        self.tree.apply(zxid, time_ms, txn, triggers)
        self._log(zxid, time_ms, (txn,))
        if triggers:
            self.watches.fire(triggers)

    def _log(self, zxid: int, time_ms: int, txns: Sequence[Txn | bytes]) -> None:
        if self._journal is None:
            self._durable_zxid = zxid
            return
        self._journal.append(zxid, time_ms, txns)
        if not self._settling:
            self._settling = True
            asyncio.get_running_loop().call_soon(self._settle)

    def _settle(self) -> None:
        """Once per turn of the loop: collects what was said, starts a flush, lets out the rest."""
        self._settling = False
        zxid = self.tree.last_zxid
        dirty, self._dirty = self._dirty, []
        if self._has_pending() and self._flush is None and not self._failed:
            self._flush = asyncio.get_running_loop().create_task(self._flush_journal())
        is_durable = self._durable_zxid >= zxid
        for outlet in dirty:
            items, outlet.pending, outlet.dirty = outlet.pending, [], False
            answers, outlet.unasked = len(items) - outlet.unasked, 0
            if is_durable:
                outlet.deliver(items)
                continue
            self._held.append((zxid, outlet, items))
            if answers:
                if outlet.held_zxid > self._durable_zxid:
                    self._sent_on += answers
                    self._senders[outlet] = None
                outlet.held_zxid = zxid

    async def _flush_journal(self) -> None:
        journal = self._journal
        if journal is None:
            raise InvariantViolated("a store in memory has no journal to flush")
        try:
            while journal.has_pending:
                if self._gathering.is_due(self._sent_on):
                    await self._gather()
                self._sent_on = 0
                self._senders.clear()
                zxid, batch = self.tree.last_zxid, journal.take()
                await self.runtime.blocking(partial(journal.write, batch), self._writer)
                self._durable_zxid = zxid
                self._release()
                if self._snapshot is None and (
                    journal.bytes_since_snapshot >= self._snapshot_after_bytes
                ):
                    await self.runtime.blocking(partial(journal.rotate, zxid + 1), self._writer)
                    loop = asyncio.get_running_loop()
                    self._snapshot = loop.create_task(self._take_snapshot(zxid))
        except OSError as error:
            self._fail(error)
        finally:
            self._flush = None

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
        while held and held[0][0] <= self._durable_zxid:
            _, outlet, items = held.popleft()
            earlier = released.setdefault(outlet, items)
            if earlier is not items:
                earlier += items
        for outlet, items in released.items():
            outlet.deliver(items)

    def _has_pending(self) -> bool:
        return self._journal is not None and self._journal.has_pending

    def _fail(self, error: OSError) -> None:
        """After a failed write nothing may be promised: the held answers are never given."""
        self._failed = True
        self._held.clear()
        failure = StoreFailed(f"cannot write to {self._data_dir}: {error.strerror or error}")
        log.error("%s", failure)
        if self.on_failure is not None:
            self.on_failure(failure)

    # --- background ---

    async def _take_snapshot(self, zxid: int) -> None:
        """Writes go on meanwhile: replaying the journal after `zxid` over it is harmless."""
        journal = self._journal
        if journal is None:
            raise InvariantViolated("a store in memory has no snapshots")
        try:
            nodes = self.tree.nodes
            paths = list(nodes)
            parts: list[bytes] = []
            for start in range(0, len(paths), SNAPSHOT_SLICE):
                for path in paths[start : start + SNAPSHOT_SLICE]:
                    node = nodes.get(path)
                    if node is not None:
                        parts.append(records.encode_node(path, node))
                await asyncio.sleep(0)
            head = records.encode_snapshot_head(zxid, self.tree.sessions, len(parts))
            await self.runtime.blocking(
                lambda: journal.write_snapshot(zxid, records.seal_snapshot([head, *parts]))
            )
        except OSError as error:
            # The journal still holds everything; the next one may succeed.
            log.warning("no snapshot at %#x: %s", zxid, error)
        finally:
            self._snapshot = None

    async def _tick(self) -> None:
        next_container_check = self.runtime.clock.monotonic_ms() + CONTAINER_CHECK_MS
        while True:
            await asyncio.sleep(self.limits.tick_ms / 4000)
            now_ms = self.runtime.clock.monotonic_ms()
            for session in self.sessions.expired(now_ms):
                log.info("session %#x expired", session.id)
                self.expire_session(session)
            if now_ms >= next_container_check:
                next_container_check = now_ms + CONTAINER_CHECK_MS
                self.remove_empty_containers()

    def remove_empty_containers(self) -> None:
        """A container that had children and has none left goes (ContainerManager)."""
        for path in list(self.tree.containers):
            node = self.tree.nodes[path]
            if node.creations > 0 and not node.children:
                self._commit(DeleteTxn(path))
