"""Our client on a real ensemble of three: one server dies, the session and its nodes live on."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

import pytest

from ottla.metadata.store import (
    ConnectionLossError,
    CreateMode,
    EventType,
    NodeExistsError,
    SessionState,
    WatchEvent,
)
from ottla.runtime import system_runtime
from ottla.testing import java
from ottla.zk.client.store import ZooKeeperClient
from tests.support.conformance.store_backends import until
from tests.support.judges import need

pytestmark = pytest.mark.peers

SIZE = 3
SESSION_TIMEOUT_MS = 15_000
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


class Ensemble:
    def __init__(self, folder: Path) -> None:
        ports = [[java.free_port() for _ in range(3)] for _ in range(SIZE)]
        peers = "".join(
            f"server.{i + 1}=127.0.0.1:{quorum}:{election}\n"
            for i, (_, quorum, election) in enumerate(ports)
        )
        self.servers = []
        for number, (client_port, _, _) in enumerate(ports, start=1):
            data = folder / str(number)
            data.mkdir()
            (data / "myid").write_text(str(number))
            config = folder / f"{number}.cfg"
            config.write_text(
                f"dataDir={data}\nclientPort={client_port}\nclientPortAddress=127.0.0.1\n"
                "tickTime=500\ninitLimit=20\nsyncLimit=10\nadmin.enableServer=false\n"
                f"maxSessionTimeout=30000\n4lw.commands.whitelist=*\n{peers}"
            )
            command = [*java.java_command("zookeeper-3.8", MAIN, java.SERVER_FLAGS), str(config)]
            self.servers.append(
                java.JavaServer(f"server {number}", command, client_port, folder / f"{number}.log")
            )

    @property
    def addresses(self) -> str:
        return ",".join(f"127.0.0.1:{server.port}" for server in self.servers)

    def start(self) -> None:
        for server in self.servers:
            server.start()
        for server in self.servers:
            server.await_ready(java.accepts)

    def stop(self) -> None:
        for server in self.servers:
            server.stop()


@pytest.fixture
def ensemble():
    need(java.missing_reason("zookeeper-3.8"))
    folder = Path(tempfile.mkdtemp(prefix="ottla-ensemble-"))
    made = Ensemble(folder)
    try:
        made.start()
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder, ignore_errors=True)


async def retrying(operation):
    """As every user of ZooKeeper does: a lost connection is tried again."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await operation()
            except ConnectionLossError:
                await asyncio.sleep(0.05)


async def both_reads(client):
    """Asked together, so one MultiRead, which every server of an ensemble answers by itself."""
    (data, _), children = await asyncio.gather(client.get("/mine"), client.children("/mine"))
    return [data, children]


async def test_a_session_outlives_each_server_in_turn(ensemble):
    client = await ZooKeeperClient.connect(
        system_runtime(),
        ensemble.addresses,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        connect_timeout_ms=60_000,
    )
    states: list[SessionState] = []
    heard: list[WatchEvent] = []
    client.add_session_listener(states.append)
    session = client.session_id
    await client.create("/mine", b"", mode=CreateMode.EPHEMERAL)
    assert await both_reads(client) == [b"", []]
    await client.get("/mine", heard.append)

    connected_port = client._session.connection._transport.get_extra_info("peername")[1]  # type: ignore[union-attr]
    victim = next(server for server in ensemble.servers if server.port == connected_port)
    victim.stop(java.signal.SIGKILL)
    await until(lambda: SessionState.SUSPENDED in states)
    stat = await retrying(lambda: client.exists("/mine"))
    assert stat.ephemeral_owner == client.session_id == session
    assert SessionState.EXPIRED not in states
    assert await retrying(lambda: both_reads(client)) == [b"", []]

    # The watch was set again on the other server; a second client changes what it watches.
    other = await ZooKeeperClient.connect(
        system_runtime(),
        ensemble.addresses,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        connect_timeout_ms=60_000,
    )
    await retrying(lambda: other.set("/mine", b"changed"))
    await until(lambda: heard == [WatchEvent(EventType.DATA_CHANGED, "/mine")])
    with pytest.raises(NodeExistsError):
        await retrying(lambda: other.create("/mine"))
    await client.close()
    await retrying(other.sync)
    assert await retrying(lambda: other.exists("/mine")) is None
    await other.close()
