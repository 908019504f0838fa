"""Server and client over TLS: the store's secure port."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ottla.config.broker import BrokerConfig
from ottla.config.definitions import ConfigError
from ottla.metadata.store import Acl, InvalidAclError, NoAuthError, StoreUnreachableError
from ottla.runtime import SystemDisk, system_runtime
from ottla.security.tls.network import TlsNetwork
from ottla.security.tls.store import StoreTls, broker_context, tool_runtime
from ottla.security.tls.transport import TlsServer
from ottla.testing.certificates import PASSWORD, Certificates, Issued
from ottla.zk.client.store import ZooKeeperClient
from ottla.zk.server.secure_port import SecurePort
from ottla.zk.server.server import ZooKeeperServer


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


def server_properties(authority: Certificates) -> dict[str, str]:
    return {
        "ssl.keyStore.location": str(authority.broker.p12),
        "ssl.keyStore.password": PASSWORD,
        "ssl.trustStore.location": str(authority.ca_pem),
    }


def context(authority: Certificates, own: Issued | None = None) -> ssl.SSLContext | None:
    """As a broker with these properties has it."""
    shown = {} if own is None else {"zookeeper.ssl.keystore.location": str(own.pem)}
    config = BrokerConfig.from_properties(
        {
            "zookeeper.connect": "127.0.0.1:1",
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            "zookeeper.ssl.truststore.location": str(authority.ca_p12),
            "zookeeper.ssl.truststore.password": PASSWORD,
            **shown,
        }
    )
    return broker_context(config, SystemDisk())


@asynccontextmanager
async def serving(authority: Certificates, **more: str) -> AsyncIterator[ZooKeeperServer]:
    given = server_properties(authority) | {k.replace("_", "."): v for k, v in more.items()}
    tls = TlsServer(StoreTls(given, SystemDisk()), "secureClientPort")
    server = ZooKeeperServer(system_runtime(), None, secure=SecurePort(0, tls.wrap))
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def connect(
    server: ZooKeeperServer, context: ssl.SSLContext | None, timeout_ms: int = 10_000
) -> ZooKeeperClient:
    return await ZooKeeperClient.connect(
        system_runtime(),
        f"127.0.0.1:{server.secure_port}",
        ssl_context=context,
        connect_timeout_ms=timeout_ms,
    )


async def test_a_session_over_tls(authority: Certificates) -> None:
    async with serving(authority) as server:
        client = await connect(server, context(authority, authority.issue("broker-1")))
        await client.create("/a", bytes(500_000))
        assert len((await client.get("/a"))[0]) == 500_000
        await client.close()


async def test_strangers_get_no_session(authority: Certificates) -> None:
    """In the clear, without trust, and without a certificate where one is needed (the default)."""
    async with serving(authority) as server:
        strangers = (None, ssl.create_default_context(), context(authority))
        for stranger in strangers:
            with pytest.raises(StoreUnreachableError):
                await connect(server, stranger, 300)


async def test_clients_without_a_certificate_may_be_let_in(authority: Certificates) -> None:
    async with serving(authority, ssl_clientAuth="none") as server:
        client = await connect(server, context(authority))
        await client.create("/a", b"")
        with pytest.raises(InvalidAclError):  # nobody has proved who it is
            await client.create("/mine", b"", acl=(Acl(31, "auth", ""),))
        await client.close()


async def test_a_certificate_is_an_identity_for_acls(authority: Certificates) -> None:
    async with serving(authority) as server:
        alice = await connect(server, context(authority, authority.issue("alice")))
        bob = await connect(server, context(authority, authority.issue("bob")))
        await alice.create("/alices", b"", acl=(Acl(31, "auth", ""),))
        await alice.create("/bobs", b"", acl=(Acl(31, "x509", "CN=bob"),))
        assert await alice.get_acl("/alices")
        with pytest.raises(NoAuthError):
            await bob.get("/alices")
        assert (await bob.get("/bobs"))[0] == b""
        with pytest.raises(NoAuthError):
            await alice.get("/bobs")
        await alice.close()
        await bob.close()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "a secure port needs a certificate: set ssl.keyStore.location"),
        ({"ssl.keystore.location": "/x"}, "Unknown configuration ssl.keystore.location; known: "),
        ({"ssl.keyStore.location": "/x/y"}, "/x/y: the type of the store is not in its name"),
        ({"ssl.keyStore.location": "/x.pem"}, "Failed to load SSL keystore /x.pem of type PEM"),
        ({"ssl.clientAuth": "maybe"}, "ssl.clientAuth=maybe is not one of none, want, need"),
    ],
)
def test_properties_that_cannot_be_used(given: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        StoreTls(given, SystemDisk())


def test_a_brokers_properties_that_cannot_be_used() -> None:
    given = {
        "zookeeper.connect": "a:1",
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.truststore.location": "/nowhere.pem",
    }
    with pytest.raises(ConfigError, match=r"zookeeper\.ssl\.\*: Failed to load SSL keystore"):
        broker_context(BrokerConfig.from_properties(given), SystemDisk())
    given["zookeeper.ssl.client.enable"] = "false"
    assert broker_context(BrokerConfig.from_properties(given), SystemDisk()) is None


def test_a_file_for_tools(authority: Certificates, tmp_path: Path) -> None:
    runtime = system_runtime()
    given = {"zookeeper.ssl.truststore.location": str(authority.ca_pem)}
    assert isinstance(tool_runtime(runtime, given).network, TlsNetwork)
    assert tool_runtime(runtime, given | {"zookeeper.ssl.client.enable": "false"}) is runtime
    with pytest.raises(ConfigError, match=r"Unknown configuration ssl\.truststore\.location"):
        tool_runtime(runtime, {"ssl.truststore.location": "/x"})
