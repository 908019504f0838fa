"""Sessions that end (KIP-368): who shows again who it is stays, who does not is closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ottla.client.admin.client import Admin
from ottla.client.connection import Connection
from ottla.errors import ErrorCode
from ottla.runtime import system_runtime
from ottla.security.sasl.plain import PlainCredentials
from ottla.wire import messages as m
from tests.support.integration.sasl_peer import SaslPeer
from tests.support.integration.secure_cluster import ADMIN, ALICE, SecureCluster, running

LIFETIME_MS = 1500
SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.clients.scram-sha-256.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
    "connections.max.reauth.ms": "999999",
    "listener.name.clients.plain.connections.max.reauth.ms": str(LIFETIME_MS),
}
METADATA = m.MetadataRequest(topics=[])


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[SecureCluster]:
    async with running(tmp_path, settings=SETTINGS) as cluster:
        yield cluster


async def _log_in(peer: SaslPeer, user: PlainCredentials) -> m.SaslAuthenticateResponse:
    shaken = await peer.answer(m.SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert shaken == m.SaslHandshakeResponse(mechanisms=["PLAIN", "SCRAM-SHA-256"])
    answer = await peer.answer(m.SaslAuthenticateRequest(auth_bytes=user.token), 1)
    assert isinstance(answer, m.SaslAuthenticateResponse)
    return answer


async def test_who_shows_again_who_it_is_stays(cluster: SecureCluster) -> None:
    peer = await SaslPeer.open(cluster)
    for _ in range(3):
        answer = await _log_in(peer, ALICE)
        assert (answer.error_code, answer.session_lifetime_ms) == (0, LIFETIME_MS)
        assert await peer.answer(METADATA, 9) is not None
        # Longer than a second: no connection authenticates more often.
        await asyncio.sleep(1.1)


async def test_after_the_end_a_request_closes_but_a_handshake_saves(cluster: SecureCluster) -> None:
    late, saved = await SaslPeer.open(cluster), await SaslPeer.open(cluster)
    for peer in (late, saved):
        await _log_in(peer, ALICE)
        assert await peer.answer(METADATA, 9) is not None
    await asyncio.sleep(LIFETIME_MS / 1000 + 0.1)
    assert await late.answer(METADATA, 9) is None
    assert (await _log_in(saved, ALICE)).error_code == 0
    assert await saved.answer(METADATA, 9) is not None


async def test_not_twice_within_a_second(cluster: SecureCluster) -> None:
    peer = await SaslPeer.open(cluster)
    await _log_in(peer, ALICE)
    await _log_in(peer, ALICE)
    again = await peer.answer(m.SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert again == m.SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    assert await peer.answer(METADATA, 9) is not None


async def test_another_user_or_a_wrong_password_is_the_end(cluster: SecureCluster) -> None:
    for user, text in (
        (ADMIN, "Cannot change principals during re-authentication from User.alice: User.admin"),
        (PlainCredentials("alice", "x"), "Authentication failed: Invalid username or password"),
    ):
        peer = await SaslPeer.open(cluster)
        await _log_in(peer, ALICE)
        answer = await _log_in(peer, user)
        assert answer == m.SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=text
        )
        assert await peer.frame() is None


async def test_another_mechanism_is_the_end(cluster: SecureCluster) -> None:
    peer = await SaslPeer.open(cluster)
    await _log_in(peer, ALICE)
    shaken = await peer.answer(m.SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
    assert shaken == m.SaslHandshakeResponse(mechanisms=["PLAIN", "SCRAM-SHA-256"])
    assert await peer.answer(m.SaslAuthenticateRequest(auth_bytes=b"n,,n=a,r=b"), 1) is None


async def test_other_requests_have_to_wait(cluster: SecureCluster) -> None:
    peer = await SaslPeer.open(cluster)
    await _log_in(peer, ALICE)
    await peer.answer(m.SaslHandshakeRequest(mechanism="PLAIN"), 1)
    answer = await peer.answer(m.ListGroupsRequest(), 0)
    assert isinstance(answer, m.ListGroupsResponse)
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert await peer.frame() is None


async def test_a_session_of_the_old_way(cluster: SecureCluster) -> None:
    """Tokens without Kafka's frames, which tell no lifetime: it ends all the same."""
    peer = await SaslPeer.open(cluster)
    await peer.answer(m.SaslHandshakeRequest(mechanism="PLAIN"), 0)
    peer.send_frame(ALICE.token)
    assert await peer.frame() == b""
    assert await peer.answer(METADATA, 9) is not None
    await asyncio.sleep(LIFETIME_MS / 1000 + 0.1)
    assert await peer.answer(METADATA, 9) is None


async def test_our_client_keeps_its_connection(cluster: SecureCluster) -> None:
    """Requests at any time, many at once, across sessions: one connection, every answer."""
    connection = await cluster.connect(ALICE)
    ends = asyncio.get_running_loop().time() + 2 * LIFETIME_MS / 1000
    answered = 0
    while asyncio.get_running_loop().time() < ends:
        futures = [connection.send_nowait(METADATA, 9) for _ in range(20)]
        answered += len([answer for answer in await asyncio.gather(*futures) if answer.brokers])
        await asyncio.sleep(0.05)
    assert answered > 100
    # Silent for longer than a session lasts.
    await asyncio.sleep(LIFETIME_MS / 1000 + 0.2)
    assert (await connection.send(METADATA, 9)).brokers
    connection.close()


async def test_our_client_whose_password_was_changed(tmp_path: Path) -> None:
    """It is told so, and nothing hangs."""
    from dataclasses import replace

    async with running(tmp_path, settings=SETTINGS) as cluster:
        connection = await cluster.connect(ALICE)
        server = cluster.nodes[0]._servers[1]
        assert server._sasl is not None
        server._sasl = replace(server._sasl, plain_users={"alice": "new"})
        await asyncio.sleep(LIFETIME_MS / 1000)
        futures = [connection.send_nowait(METADATA, 9) for _ in range(3)]
        for future in futures:
            with pytest.raises(ConnectionError, match="Invalid username or password"):
                await future
        assert connection.closed
        with pytest.raises(ConnectionError, match="Invalid username or password"):
            await connection.send(METADATA, 9)


async def test_the_admin_client_too(cluster: SecureCluster) -> None:
    bootstrap = cluster.clients_bootstrap
    async with Admin.connect(system_runtime(), bootstrap, credentials=ADMIN) as admin:
        await admin.list_topics()
        (channel,) = admin.cluster._channels.values()
        await asyncio.sleep(LIFETIME_MS / 1000 + 0.1)
        await admin.list_topics()
        assert list(admin.cluster._channels.values()) == [channel]
        assert isinstance(channel._connection, Connection) and not channel.closed
