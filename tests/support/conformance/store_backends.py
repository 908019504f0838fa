"""Everything that implements the metadata store port, made ready for the conformance suite."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Protocol

from ottla.metadata.store import ConnectionLossError, MetadataStore
from ottla.runtime import Runtime, system_runtime
from ottla.testing.java import ApacheZooKeeper
from ottla.zk import jute
from ottla.zk.client.connection import Connection
from ottla.zk.client.store import ZooKeeperClient
from ottla.zk.embedded import EmbeddedStore
from ottla.zk.server.acl import digest_identity
from ottla.zk.server.engine import Engine
from ottla.zk.server.options import StoreOptions
from ottla.zk.server.server import ZooKeeperServer

SESSION_TIMEOUT_MS = 10_000
ATTEMPTS = 20
SUPER_USER = b"super:secret"
# Everything that ZooKeeper leaves out unless it is told, and a look at idle nodes twice a second.
OPTIONS = StoreOptions(
    extended_types=True, super_digest=digest_identity(SUPER_USER).id, container_check_ms=500
)
APACHE_FLAGS = (
    "-Dzookeeper.extendedTypesEnabled=true",
    f"-Dzookeeper.DigestAuthenticationProvider.superDigest={OPTIONS.super_digest}",
    f"-Dznode.container.checkIntervalMs={OPTIONS.container_check_ms}",
)


class Backend(Protocol):
    name: str

    async def open(self) -> MetadataStore:
        """A new session."""

    async def expire(self, store: MetadataStore) -> None:
        """Ends the session behind the store's back."""

    async def stop(self) -> None: ...


class EmbeddedBackend:
    """With a folder it is on disk: answers wait for the journal, which must not change any."""

    def __init__(self, runtime: Runtime, folder: Path | None = None) -> None:
        self._engine = Engine(runtime, folder, options=OPTIONS)
        self._is_started = False

    async def open(self) -> EmbeddedStore:
        if not self._is_started:
            self._is_started = True
            await self._engine.start()
        return EmbeddedStore(self._engine)

    async def expire(self, store: MetadataStore) -> None:
        assert isinstance(store, EmbeddedStore)
        store.expire()

    async def stop(self) -> None:
        await self._engine.stop()


class WireBackend:
    """Our client on some server that speaks the protocol."""

    def __init__(self, runtime: Runtime, address: str) -> None:
        self.address = address
        self._runtime = runtime

    async def open(self) -> ZooKeeperClient:
        return await ZooKeeperClient.connect(
            self._runtime, self.address, session_timeout_ms=SESSION_TIMEOUT_MS
        )

    async def expire(self, store: MetadataStore) -> None:
        """A second connection takes the session over and closes it, before it is taken back."""
        assert isinstance(store, ZooKeeperClient)
        host, port = self.address.split("/")[0].split(":")
        greeting = (
            jute.CONNECT_REQUEST.pack(0, 0, SESSION_TIMEOUT_MS, store.session_id)
            + jute.write_buffer(store._session._password)
            + b"\0"
        )
        for _ in range(ATTEMPTS):
            _, protocol = await self._runtime.network.connect(
                lambda: Connection(_Nobody(), self._runtime.clock), host, int(port)
            )
            assert isinstance(protocol, Connection)
            protocol.greet(greeting)
            closing = protocol.request(jute.OP_CLOSE_SESSION, b"")
            try:
                is_gone = (await protocol.connected).timeout_ms <= 0
                if not is_gone:
                    await closing
                return
            except ConnectionLossError:
                # Apache may hang up before it answers; then the next attempt is told so.
                continue
            finally:
                protocol.abort()
                await asyncio.gather(closing, return_exceptions=True)
        raise AssertionError("the session could not be taken over")

    async def stop(self) -> None:
        return None


class OurServerBackend(WireBackend):
    def __init__(self, runtime: Runtime, server: ZooKeeperServer, below: str = "") -> None:
        super().__init__(runtime, f"127.0.0.1:{server.port}{below}")
        self._server = server

    async def stop(self) -> None:
        await self._server.stop()


class _Nobody:
    def event_received(self, kind: object, path: str) -> None:
        return None

    def connection_closed(self, connection: Connection) -> None:
        return None

    def answers_taken(self) -> None:
        return None


async def make_backend(name: str, folder: Path, apache: ApacheZooKeeper | None) -> Backend:
    runtime = system_runtime()
    if name == "embedded":
        return EmbeddedBackend(runtime)
    if name == "journaled":
        return EmbeddedBackend(runtime, folder)
    if name in ("server", "chroot"):
        server = ZooKeeperServer(runtime, folder, options=OPTIONS)
        await server.start()
        backend = OurServerBackend(runtime, server)
    else:
        assert apache is not None
        backend = WireBackend(runtime, apache.address)  # type: ignore[assignment]
    # Tests share one Apache ZooKeeper, so each gets a chroot of its own there.
    if name != "server":
        backend.address += f"/run-{runtime.random.randrange(1 << 40):x}"
        client = await backend.open()
        await client.create_chroot()
        await client.close()
    return backend


async def until(condition: object, timeout_s: float = 15.0) -> None:
    """Waits for a callable to be true."""
    assert callable(condition)
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - nobody announces it
            await asyncio.sleep(0.01)
