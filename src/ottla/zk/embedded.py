"""The metadata store in this process: sessions on a shared engine, without a wire.

Used by `ottla up` with one broker, by unit tests and by the simulator. Several stores may share
one engine; they then see each other's nodes and watches exactly as clients of one server do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from ottla.metadata.store import (
    ANY_VERSION,
    NO_TTL,
    OPEN_ACL,
    SEQUENTIAL_MODES,
    Acl,
    AuthFailedError,
    BadArgumentsError,
    Create,
    CreateMode,
    EventType,
    NoNodeError,
    Op,
    OpResult,
    RuntimeInconsistencyError,
    SessionExpiredError,
    SessionListener,
    SessionState,
    Stat,
    StoreError,
    Watcher,
    WatchEvent,
)
from ottla.zk.client.watches import ClientWatches, call_watchers
from ottla.zk.jute import MAX_PACKET_BYTES
from ottla.zk.paths import validate
from ottla.zk.server import acl as acls
from ottla.zk.server.acl import Identity, with_proof
from ottla.zk.server.engine import Engine
from ottla.zk.server.pipeline import Outlet
from ottla.zk.server.tree import Node

T = TypeVar("T")


class EmbeddedStore(Outlet):
    """A `MetadataStore`. The engine must be started before the first store is opened."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine = engine
        self._identities: tuple[Identity, ...] = (Identity("ip", "127.0.0.1"),)
        self._watches = ClientWatches()
        self._listeners: list[SessionListener] = []
        self._closed = False
        self._session = engine.open_local_session(self)

    @property
    def session_id(self) -> int:
        return self._session.id

    @property
    def session_timeout_ms(self) -> int:
        return self._session.timeout_ms

    def add_session_listener(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    def expire(self) -> None:
        """Ends the session as if its time-out had passed; a new one is opened right away."""
        self._engine.expire_session(self._session)

    async def close(self) -> None:
        if self._closed:
            return
        self._session.owner = None
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._engine.close_session(self._session, partial(gone.set_result, None))
        await gone
        self._engine.watches.remove_watcher(self)
        self._watches.clear()
        await self._answer("/", lambda: None)
        self._closed = True
        self._tell(SessionState.CLOSED)

    # --- reads ---

    async def get(self, path: str, watch: Watcher | None = None) -> tuple[bytes | None, Stat]:
        def read() -> tuple[bytes | None, Stat]:
            node = self._readable(path)
            if watch is not None:
                self._engine.watches.add_data(path, self)
                self._watches.add(self._watches.data, path, watch)
            return node.data, node.stat()

        return await self._answer(path, read)

    async def exists(self, path: str, watch: Watcher | None = None) -> Stat | None:
        def read() -> Stat | None:
            node = self._engine.tree.nodes.get(path)
            if node is not None:
                acls.check(node.acl, acls.READ, self._identities, path)
            if watch is not None:
                self._engine.watches.add_data(path, self)
                table = self._watches.exists if node is None else self._watches.data
                self._watches.add(table, path, watch)
            return node.stat() if node is not None else None

        return await self._answer(path, read)

    async def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        def read() -> list[str]:
            node = self._readable(path)
            if watch is not None:
                self._engine.watches.add_children(path, self)
                self._watches.add(self._watches.children, path, watch)
            return list(node.children or ())

        return await self._answer(path, read)

    async def get_acl(self, path: str) -> tuple[tuple[Acl, ...], Stat]:
        def read() -> tuple[tuple[Acl, ...], Stat]:
            node = self._engine.tree.nodes.get(path)
            if node is None:
                raise NoNodeError(path)
            acls.check(node.acl, acls.READ | acls.ADMIN, self._identities, path)
            if acls.allows(node.acl, acls.ADMIN, self._identities):
                return node.acl, node.stat()
            return acls.masked(node.acl), node.stat()

        return await self._answer(path, read)

    async def sync(self, path: str = "/") -> None:
        await self._answer(path, lambda: None)

    # --- writes ---

    async def create(
        self,
        path: str,
        data: bytes | None = None,
        *,
        mode: CreateMode = CreateMode.PERSISTENT,
        acl: tuple[Acl, ...] = OPEN_ACL,
        ttl_ms: int = NO_TTL,
    ) -> tuple[str, Stat]:
        def write() -> tuple[str, Stat]:
            _check_size(path, data)
            made, node = self._engine.create(
                self._session, self._identities, path, data, acl, mode, ttl_ms
            )
            return made, node.stat()

        return await self._answer(_final_path(path, mode), write)

    async def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Stat:
        def write() -> Stat:
            _check_size(path, data)
            return self._engine.set_data(self._identities, path, data, version).stat()

        return await self._answer(path, write)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._answer(path, lambda: self._engine.delete(self._identities, path, version))

    async def set_acl(self, path: str, acl: tuple[Acl, ...], version: int = ANY_VERSION) -> Stat:
        return await self._answer(
            path, lambda: self._engine.set_acl(self._identities, path, acl, version).stat()
        )

    async def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        def write() -> list[OpResult]:
            for op in ops:
                validate(_final_path(op.path, op.mode) if isinstance(op, Create) else op.path)
            done, failed, error = self._engine.multi(self._session, self._identities, ops)
            if error is not None:
                return [_failed_result(op, i == failed, error) for i, op in enumerate(ops)]
            return [OpResult(made, stat) for made, stat in done]

        return await self._answer("/", write)

    async def add_auth(self, scheme: str, credential: bytes) -> None:
        """Proves an identity for the rest of this store's life."""
        if scheme != "digest":
            raise AuthFailedError(scheme)
        self._identities = with_proof(
            self._identities, credential, self._engine.options.super_digest
        )

    # --- Outlet ---

    def deliver(self, items: list[Callable[[], None]]) -> None:
        for item in items:
            item()

    def may_read(self, acl: tuple[Acl, ...]) -> bool:
        return acls.allows(acl, acls.READ, self._identities)

    def notify(self, kind: EventType, path: str) -> None:
        watchers = self._watches.take(kind, path)
        if watchers:
            event = WatchEvent(kind, path)
            self._engine.pipeline.push_event(self, lambda: call_watchers(watchers, event))

    def session_ended(self) -> None:
        self._engine.watches.remove_watcher(self)
        self._watches.clear()
        self._session = self._engine.open_local_session(self)
        self._engine.pipeline.push(self, lambda: self._tell(SessionState.EXPIRED))
        self._engine.pipeline.push(self, lambda: self._tell(SessionState.CONNECTED))

    # --- helpers ---

    def _readable(self, path: str) -> Node:
        node = self._engine.tree.nodes.get(path)
        if node is None:
            raise NoNodeError(path)
        acls.check(node.acl, acls.READ, self._identities, path)
        return node

    async def _answer(self, path: str, work: Callable[[], T]) -> T:
        """Does `work` now; its outcome is told once everything it shows is on disk, and after
        the watch events that came before it."""
        if self._closed:
            raise SessionExpiredError(path)
        validate(path)
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        try:
            result = work()
        except StoreError as refusal:
            # Bound now: Python unbinds the name at the end of the except block.
            self._engine.pipeline.push(self, partial(_fail, future, refusal))
        else:
            self._engine.pipeline.push(self, partial(_resolve, future, result))
        return await future

    def _tell(self, state: SessionState) -> None:
        for listener in list(self._listeners):
            listener(state)


def _resolve(future: asyncio.Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[T], refusal: StoreError) -> None:
    if not future.done():
        future.set_exception(refusal)


def _check_size(path: str, data: bytes | None) -> None:
    """What no server would take is not taken here either."""
    if data is not None and len(data) + len(path) >= MAX_PACKET_BYTES:
        raise BadArgumentsError(f"{path}: {len(data)} bytes are too many for one node")


def _final_path(path: str, mode: CreateMode) -> str:
    """What is checked of a path that still gets its number: `/a/` is fine for a sequential."""
    return path + "0" if mode in SEQUENTIAL_MODES else path


def _failed_result(op: Op, is_cause: bool, error: StoreError) -> OpResult:
    return OpResult(error=error if is_cause else RuntimeInconsistencyError(op.path))
