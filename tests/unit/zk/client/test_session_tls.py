"""Server and client over TLS."""

from __future__ import annotations

import shutil
import ssl
import subprocess

import pytest

from ottla.metadata.store import ConnectionLossError
from ottla.runtime import system_runtime
from ottla.zk.client.store import ZooKeeperClient
from ottla.zk.server.server import ZooKeeperServer


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = folder / "key.pem", folder / "cert.pem"
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )
    return key, certificate


@pytest.fixture
async def server(certificate):
    key, chain = certificate
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(chain, key)
    made = ZooKeeperServer(system_runtime(), None, ssl_context=context)
    await made.start()
    yield made
    await made.stop()


async def test_a_session_over_tls(server, certificate):
    trusting = ssl.create_default_context(cafile=str(certificate[1]))
    client = await ZooKeeperClient.connect(
        system_runtime(), f"127.0.0.1:{server.port}", ssl_context=trusting
    )
    await client.create("/a", bytes(500_000))
    assert len((await client.get("/a"))[0]) == 500_000
    await client.close()


async def test_strangers_get_no_session(server):
    for context in (None, ssl.create_default_context()):
        with pytest.raises(ConnectionLossError):
            await ZooKeeperClient.connect(
                system_runtime(),
                f"127.0.0.1:{server.port}",
                ssl_context=context,
                connect_timeout_ms=300,
            )
