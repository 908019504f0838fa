"""One store: tree, watches, sessions, and the pipeline that keeps what is written."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from ottla.bounds.collector import uncollected
from ottla.bounds.turns import TURN_MS
from ottla.metadata.store import NO_TTL, Acl, Op, StoreError
from ottla.runtime import Runtime
from ottla.zk.server import transactions
from ottla.zk.server.acl import Identity
from ottla.zk.server.endings import Endings
from ottla.zk.server.journal import SNAPSHOT_AFTER_BYTES
from ottla.zk.server.options import StoreOptions
from ottla.zk.server.pipeline import CommitPipeline, Outlet
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
from ottla.zk.server.turns import Turns
from ottla.zk.server.watches import Watcher, Watches

logger = logging.getLogger(__name__)

SERVER_ID = 0
SECRET_BYTES = 32
# Marks a session of this process in the journal.
LOCAL_TIMEOUT_MS = 0
# Idle nodes that one look removes, as many as ContainerManager does in a minute.
MAX_REMOVALS = 10_000
# Idle nodes looked at, watches of closed connections removed, between two looks at the clock.
AT_A_TIME = 200


class Engine:
    """Every change of the store goes through here, and whoever asked hears of it through
    `pipeline`, once it is on disk."""

    def __init__(
        self,
        runtime: Runtime,
        data_dir: Path | None = None,
        *,
        limits: SessionLimits | None = None,
        fsync: bool = True,
        snapshot_after_bytes: int = SNAPSHOT_AFTER_BYTES,
        options: StoreOptions | None = None,
    ) -> None:
        self.runtime = runtime
        self.options = options or StoreOptions()
        self.limits = limits or SessionLimits()
        self.tree = Tree()
        self.watches = Watches()
        self.sessions = self._new_sessions(runtime.random.randbytes(SECRET_BYTES))
        self._data_dir = data_dir
        self.pipeline = CommitPipeline(
            runtime,
            self.tree,
            data_dir,
            fsync=fsync,
            snapshot_after_bytes=snapshot_after_bytes,
        )
        self.turns = Turns(runtime.clock, lambda: self.pipeline.is_full)
        self.pipeline.on_written = self.turns.wake
        self._endings = Endings(
            self.turns,
            lambda session_id: self.tree.ephemerals.get(session_id, {}),
            self._commit_all,
            runtime.clock.monotonic_ms,
        )
        self._ticker: asyncio.Task[None] | None = None

    # --- life ---

    async def start(self) -> None:
        """Reads the data folder, gives every known session its time-out again, starts ticking."""
        if self._data_dir is not None:
            with uncollected():
                await self.runtime.blocking(partial(self._load, self._data_dir))
        self.sessions.restore(self.tree.sessions, self.runtime.clock.monotonic_ms())
        for session_id, timeout_ms in list(self.tree.sessions.items()):
            if timeout_ms == LOCAL_TIMEOUT_MS:
                # It lived in the process that is gone: nobody can ever come back to it.
                self.sessions.remove(session_id)
                self._endings.begin(session_id)
        for session_id in [owner for owner in self.tree.ephemerals if not self.sessions.get(owner)]:
            # As ZooKeeperServer.loadData: a node of nobody would stay for ever.
            logger.warning("session %#x is unknown: its nodes go", session_id)
            self._endings.begin(session_id)
        self._endings.finish()
        self._ticker = asyncio.get_running_loop().create_task(self._tick())

    async def stop(self) -> None:
        """Writes what is left and closes the files; sessions live on in the journal."""
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
        await self.pipeline.close()

    def _load(self, data_dir: Path) -> None:
        self.tree = self.pipeline.load()
        disk, path = self.runtime.disk, data_dir / "secret"
        if not disk.exists(path):
            disk.write_private(path, self.runtime.random.randbytes(SECRET_BYTES))
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
        ttl_ms: int = NO_TTL,
    ) -> tuple[str, Node]:
        txn = transactions.prepare_create(
            self.tree,
            session.id,
            identities,
            path,
            data,
            acl,
            mode,
            ttl_ms,
            extended_types=self.options.extended_types,
        )
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
        return Multi(
            self.tree,
            session.id,
            identities,
            self.runtime.clock.now_ms(),
            extended_types=self.options.extended_types,
        )

    def commit_multi(self, multi: Multi) -> None:
        if multi.log:
            self._record(multi.zxid, multi.time_ms, multi.log, multi.triggers)

    def open_session(self, asked_timeout_ms: int) -> Session | None:
        """None where there are too many already, and each of them is used or owns nodes."""
        if len(self.sessions) >= self.sessions.limits.max_sessions and not self._end_unused():
            return None
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

    def close_session(self, session: Session, done: Callable[[], None] | None = None) -> None:
        """Ends the session; its ephemeral nodes go in one transaction, or in several where they
        are many. `done` is called when they are gone."""
        if self.sessions.remove(session.id) is not None:
            self._endings.begin(session.id, done)
        elif done is not None:
            done()

    def _end_unused(self) -> bool:
        """Makes room for sessions, at the cost of some that no connection has and that own nothing:
        their clients get a new one when they come back. Whether there is room."""
        unused = self.sessions.unused(self.tree.ephemerals)
        for session in unused:
            self.sessions.remove(session.id)
        if unused:
            logger.warning("too many sessions: %d that nobody uses end early", len(unused))
            self._commit_all([CloseSessionTxn(session.id, ()) for session in unused])
        return bool(unused)

    def abandon_watches(self, watcher: Watcher) -> None:
        """Of a connection that is gone: they may be a million."""
        self.watches.abandon(watcher)
        self.turns.wait(self)

    def go_on(self, until_ms: float) -> None:
        """A turn for the watches of those who are gone."""
        while self.watches.sweep(AT_A_TIME):
            if self.runtime.clock.monotonic_ms() >= until_ms:
                self.turns.wait(self)
                return

    def expire_session(self, session: Session) -> None:
        self.close_session(session)
        owner, session.owner = session.owner, None
        if owner is not None:
            owner.session_ended()

    def _commit(self, txn: Txn) -> None:
        self._commit_all((txn,))

    def _commit_all(self, txns: Sequence[Txn]) -> None:
        """Several transactions in one write."""
        triggers: list[Trigger] = []
        zxid, time_ms = self.tree.last_zxid + 1, self.runtime.clock.now_ms()
        for txn in txns:
            self.tree.apply(zxid, time_ms, txn, triggers)
        self._record(zxid, time_ms, txns, triggers)

    def _record(
        self,
        zxid: int,
        time_ms: int,
        txns: Sequence[Txn | bytes],
        triggers: list[Trigger],
    ) -> None:
        """What the tree has done goes to the journal, and to those who watch for it."""
        self.pipeline.log(zxid, time_ms, txns)
        if triggers:
            self.watches.fire(triggers)

    # --- background ---

    async def _tick(self) -> None:
        check_ms = self.options.container_check_ms
        next_check_ms = self.runtime.clock.monotonic_ms() + check_ms
        while True:
            await asyncio.sleep(self.limits.tick_ms / 4000)
            now_ms = self.runtime.clock.monotonic_ms()
            await self._expire(now_ms)
            if now_ms >= next_check_ms:
                next_check_ms = now_ms + check_ms
                await self.remove_idle()

    async def _expire(self, now_ms: float) -> None:
        slice_end_ms = now_ms + TURN_MS
        for session in self.sessions.expired(now_ms):
            if self.sessions.get(session.id) is session and session.deadline_ms <= now_ms:
                logger.info("session %#x expired", session.id)
                self.expire_session(session)
            slice_end_ms = await self._give_turn(slice_end_ms)

    async def remove_idle(self) -> None:
        """Empty containers, and nodes that outlived their time to live."""
        slice_end_ms = self.turns.slice_end_ms()
        paths = [*self.tree.containers, *self.tree.ttls]
        removed = 0
        for start in range(0, len(paths), AT_A_TIME):
            for path in paths[start : start + AT_A_TIME]:
                if removed < MAX_REMOVALS and self.tree.is_idle(path, self.runtime.clock.now_ms()):
                    self._commit(DeleteTxn(path))
                    removed += 1
            slice_end_ms = await self._give_turn(slice_end_ms)

    async def _give_turn(self, slice_end_ms: float) -> float:
        """Lets others go on where the slice is over; when this one is."""
        if self.runtime.clock.monotonic_ms() < slice_end_ms:
            return slice_end_ms
        await asyncio.sleep(0)
        return self.turns.slice_end_ms()
