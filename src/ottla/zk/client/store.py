"""The metadata store on any ZooKeeper-protocol server: our own asyncio client.

Several hosts, one session kept over lost connections and server restarts, watches set again,
digest auth, TLS, chroot. A session that the server expired is replaced by a new one automatically;
its watches and ephemeral nodes are gone, as the listeners are told. Requests are pipelined.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from typing import Any

from ottla.metadata.store import (
    ANY_VERSION,
    NO_TTL,
    OPEN_ACL,
    SEQUENTIAL_MODES,
    Acl,
    Create,
    CreateMode,
    NodeExistsError,
    NoNodeError,
    Op,
    OpResult,
    SessionListener,
    SessionState,
    Stat,
    StoreError,
    StoreUnreachableError,
    Watcher,
)
from ottla.runtime import Runtime
from ottla.zk import jute
from ottla.zk.client import hosts as connect_strings
from ottla.zk.client import replies
from ottla.zk.client.chroot import Chroot
from ottla.zk.client.request import Decoder
from ottla.zk.client.session import ClientSession
from ottla.zk.client.watches import WatchTable

DEFAULT_SESSION_TIMEOUT_MS = 18_000


class ZooKeeperClient:
    """A `MetadataStore`. Made by `connect`.

    Says each operation in ZooKeeper's words, with the chroot put on paths and taken off again;
    `session` sends it."""

    def __init__(self, session: ClientSession, chroot: Chroot) -> None:
        self._session = session
        self._chroot = chroot

    @classmethod
    async def connect(
        cls,
        runtime: Runtime,
        connect_string: str,
        *,
        session_timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS,
        credentials: Sequence[tuple[str, bytes]] = (),
        ssl_context: ssl.SSLContext | None = None,
        connect_timeout_ms: int | None = None,
    ) -> ZooKeeperClient:
        """A client with an open session; StoreUnreachableError where no server answers in time."""
        hosts, chroot_path = connect_strings.parse(connect_string)
        chroot = Chroot(chroot_path)
        session = ClientSession(
            runtime, hosts, chroot, session_timeout_ms, credentials, ssl_context
        )
        try:
            await session.open(waited_ms := connect_timeout_ms or session_timeout_ms)
        except TimeoutError:
            raise StoreUnreachableError(connect_string, waited_ms, session.last_failure) from None
        return cls(session, chroot)

    # --- the session ---

    @property
    def session_id(self) -> int:
        return self._session.id

    @property
    def session_timeout_ms(self) -> int:
        """As negotiated with the server."""
        return self._session.timeout_ms

    @property
    def state(self) -> SessionState:
        return self._session.state

    @property
    def chroot(self) -> str:
        return self._chroot.path

    def add_session_listener(self, listener: SessionListener) -> None:
        self._session.add_listener(listener)

    async def add_auth(self, scheme: str, credential: bytes) -> None:
        """Proves an identity now and after every reconnection."""
        await self._session.add_auth(scheme, credential)

    async def close(self) -> None:
        await self._session.close()

    # --- reads: futures, so that reading many nodes at once needs no task for each ---

    def get(
        self, path: str, watch: Watcher | None = None
    ) -> asyncio.Future[tuple[bytes | None, Stat]]:
        table = self._session.watches.data
        return self._read(path, jute.OP_GET_DATA, replies.decode_get, table, watch)

    async def exists(self, path: str, watch: Watcher | None = None) -> Stat | None:
        full = self._chroot.full(path)
        body = jute.write_string(full) + (b"\1" if watch else b"\0")
        on_answer = self._session.watches.on_exists(full, watch) if watch else None
        try:
            stat: Stat = await self._session.send(
                path, jute.OP_EXISTS, body, replies.decode_stat, on_answer
            )
        except NoNodeError:
            return None
        return stat

    def children(self, path: str, watch: Watcher | None = None) -> asyncio.Future[list[str]]:
        table = self._session.watches.children
        return self._read(path, jute.OP_GET_CHILDREN, replies.decode_children, table, watch)

    def _read(
        self,
        path: str,
        operation: int,
        decode: Decoder,
        table: WatchTable,
        watch: Watcher | None,
    ) -> asyncio.Future[Any]:
        try:
            full = self._chroot.full(path)
            body = jute.write_string(full) + (b"\1" if watch else b"\0")
            on_answer = self._session.watches.on_read(table, full, watch) if watch else None
            return self._session.send(path, operation, body, decode, on_answer)
        except StoreError as error:
            # A bad path shows where the answer would: when it is awaited.
            refused = asyncio.get_running_loop().create_future()
            refused.set_exception(error)
            return refused

    async def get_acl(self, path: str) -> tuple[tuple[Acl, ...], Stat]:
        body = jute.write_string(self._chroot.full(path))
        result: tuple[tuple[Acl, ...], Stat] = await self._session.send(
            path, jute.OP_GET_ACL, body, replies.decode_acl
        )
        return result

    async def sync(self, path: str = "/") -> None:
        """When it returns, reads show everything acknowledged anywhere before the call."""
        await self._session.send(path, jute.OP_SYNC, jute.write_string(self._chroot.full(path)))

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
        full = self._chroot.full(path, is_sequential=mode in SEQUENTIAL_MODES)
        made, stat = await self._session.send(
            path,
            replies.create_operation(mode),
            replies.encode_create(full, data, acl, mode, ttl_ms),
            replies.decode_created,
        )
        return self._chroot.stripped(made), stat

    async def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Stat:
        body = b"".join(
            (
                jute.write_string(self._chroot.full(path)),
                jute.write_buffer(data),
                jute.INT.pack(version),
            )
        )
        stat: Stat = await self._session.send(path, jute.OP_SET_DATA, body, replies.decode_stat)
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        body = jute.write_string(self._chroot.full(path)) + jute.INT.pack(version)
        await self._session.send(path, jute.OP_DELETE, body)

    async def set_acl(self, path: str, acl: tuple[Acl, ...], version: int = ANY_VERSION) -> Stat:
        body = b"".join(
            (
                jute.write_string(self._chroot.full(path)),
                jute.write_acls(acl),
                jute.INT.pack(version),
            )
        )
        stat: Stat = await self._session.send(path, jute.OP_SET_ACL, body, replies.decode_stat)
        return stat

    async def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        if not ops:
            return []
        encoded = []
        for op in ops:
            is_sequential = isinstance(op, Create) and op.mode in SEQUENTIAL_MODES
            encoded.append(
                replies.encode_op(op, self._chroot.full(op.path, is_sequential=is_sequential))
            )
        body = replies.encode_multi(encoded)
        zxid, results = await self._session.send("", jute.OP_MULTI, body, replies.decode_multi)
        return [
            self._finish_result(op, result, zxid) for op, result in zip(ops, results, strict=True)
        ]

    async def create_chroot(self, acl: tuple[Acl, ...] = OPEN_ACL) -> None:
        """Makes the nodes of the chroot itself, as Kafka does at start."""
        for path in self._chroot.nodes():
            body = replies.encode_create(path, None, acl, CreateMode.PERSISTENT)
            try:
                await self._session.send(path, jute.OP_CREATE2, body)
            except NodeExistsError:
                continue

    def _finish_result(self, op: Op, result: OpResult, zxid: int) -> OpResult:
        if result.error is not None:
            result.error.path = op.path
            result.error.args = (op.path,)
            return result
        if result.path is not None:
            stat = result.stat
            if stat is None and isinstance(op, Create):
                stat = replies.stat_of_new(op, zxid, self._session.id)
            return OpResult(self._chroot.stripped(result.path), stat, None)
        return result
