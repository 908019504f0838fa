"""SASL PLAIN on real sockets: who gets in, who does not, and what they are told."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from ottla.client.connection import Connection
from ottla.errors import ErrorCode
from ottla.runtime import system_runtime
from ottla.security.acls import Operation, ResourceType
from ottla.security.sasl.plain import PlainCredentials
from ottla.wire import messages as m
from tests.support.integration.local_cluster import HOST
from tests.support.integration.sasl_peer import SaslPeer
from tests.support.integration.secure_cluster import ADMIN, ALICE, JAAS, SecureCluster, running


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[SecureCluster]:
    async with running(tmp_path) as cluster:
        yield cluster


async def test_the_right_password_opens_everything(cluster: SecureCluster) -> None:
    answer = await cluster.ask(ADMIN, m.MetadataRequest(topics=None), 9)
    assert [broker.port for broker in answer.brokers] == [cluster.port(0)]


@pytest.mark.parametrize(
    ("user", "text"),
    [
        (PlainCredentials("alice", "wrong"), "Authentication failed: Invalid username or password"),
        (PlainCredentials("eve", "x"), "Authentication failed: Invalid username or password"),
        (PlainCredentials("", "x"), "Authentication failed: username not specified"),
        (PlainCredentials("alice", ""), "Authentication failed: password not specified"),
    ],
)
async def test_anything_else_is_refused_and_the_connection_closed(
    cluster: SecureCluster, user: PlainCredentials, text: str
) -> None:
    peer = await SaslPeer.open(cluster)
    await peer.answer(m.SaslHandshakeRequest(mechanism="PLAIN"), 1)
    answer = await peer.answer(m.SaslAuthenticateRequest(auth_bytes=user.token), 2)
    assert answer == m.SaslAuthenticateResponse(
        error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=text
    )
    assert await peer.frame() is None


async def test_a_refusal_waits(tmp_path: Path) -> None:
    slow = {"connection.failed.authentication.delay.ms": "400"}
    async with running(tmp_path, settings=slow) as cluster:
        peer = await SaslPeer.open(cluster)
        await peer.answer(m.SaslHandshakeRequest(mechanism="PLAIN"), 1)
        before = time.monotonic()
        await peer.answer(m.SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 0)
        assert time.monotonic() - before > 0.35
        assert await peer.frame() is None


async def test_another_authorization_id_is_refused(cluster: SecureCluster) -> None:
    peer = await SaslPeer.open(cluster)
    await peer.answer(m.SaslHandshakeRequest(mechanism="PLAIN"), 1)
    token = b"admin\0alice\0alice-secret"
    answer = await peer.answer(m.SaslAuthenticateRequest(auth_bytes=token), 1)
    assert answer is not None and answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED  # type: ignore[attr-defined]


async def test_requests_before_authentication_get_no_answer(cluster: SecureCluster) -> None:
    for message, version in (
        (m.MetadataRequest(topics=None), 9),
        (m.SaslAuthenticateRequest(auth_bytes=ADMIN.token), 1),
        (m.ListGroupsRequest(), 0),
    ):
        peer = await SaslPeer.open(cluster)
        assert await peer.answer(message, version) is None


async def test_versions_may_be_asked_for_once(cluster: SecureCluster) -> None:
    peer = await SaslPeer.open(cluster)
    versions = m.ApiVersionsRequest(client_software_name="t", client_software_version="1")
    told = await peer.answer(versions, 3)
    assert isinstance(told, m.ApiVersionsResponse) and told.error_code == 0
    assert await peer.answer(versions, 3) is None


async def test_versions_may_be_asked_for_again_after_an_error(cluster: SecureCluster) -> None:
    peer = await SaslPeer.open(cluster)
    bad = m.ApiVersionsRequest(client_software_name="a b", client_software_version="1")
    told = await peer.answer(bad, 3)
    assert isinstance(told, m.ApiVersionsResponse)
    assert told.error_code == ErrorCode.INVALID_REQUEST
    peer.send_frame(struct.pack(">hhih", 18, 99, 7, -1))
    frame = await peer.frame()
    assert frame is not None
    assert m.ApiVersionsResponse.decode(frame, 0, 4)[0].error_code == ErrorCode.UNSUPPORTED_VERSION
    good = m.ApiVersionsRequest(client_software_name="t", client_software_version="1")
    told = await peer.answer(good, 3)
    assert isinstance(told, m.ApiVersionsResponse) and told.error_code == 0


async def test_an_unknown_mechanism_is_told_which_there_are(cluster: SecureCluster) -> None:
    peer = await SaslPeer.open(cluster)
    answer = await peer.answer(m.SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
    assert answer == m.SaslHandshakeResponse(
        error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=["PLAIN"]
    )
    assert await peer.frame() is None


async def test_another_request_in_the_middle_is_an_illegal_state(cluster: SecureCluster) -> None:
    peer = await SaslPeer.open(cluster)
    await peer.answer(m.SaslHandshakeRequest(mechanism="PLAIN"), 1)
    answer = await peer.answer(m.ListGroupsRequest(), 0)
    assert isinstance(answer, m.ListGroupsResponse)
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert await peer.frame() is None


async def test_tokens_without_frames_of_kafka_after_handshake_0(cluster: SecureCluster) -> None:
    peer = await SaslPeer.open(cluster)
    await peer.answer(m.SaslHandshakeRequest(mechanism="PLAIN"), 0)
    peer.send_frame(ADMIN.token)
    assert await peer.frame() == b""
    assert await peer.answer(m.MetadataRequest(topics=None), 9) is not None

    refused = await SaslPeer.open(cluster)
    await refused.answer(m.SaslHandshakeRequest(mechanism="PLAIN"), 0)
    refused.send_frame(b"\0admin\0wrong")
    assert await refused.frame() is None


async def test_large_frames_only_after_authentication(tmp_path: Path) -> None:
    limits = {"sasl.server.max.receive.size": "300"}
    async with running(tmp_path, settings=limits) as cluster:
        peer = await SaslPeer.open(cluster)
        peer.send_frame(bytes(301))
        assert await peer.frame() is None

        connection = await cluster.connect(ADMIN)
        topic = m.MetadataRequest.MetadataRequestTopic
        request = m.MetadataRequest(topics=[topic(name="n" * 240), topic(name="m" * 240)])
        assert len((await connection.send(request, 9)).topics) == 2
        connection.close()


async def test_sasl_on_a_connection_that_is_through(cluster: SecureCluster) -> None:
    for listener, user in (("CLIENTS", ADMIN), ("INTERNAL", None)):
        connection = await cluster.connect(user, listener=listener)
        shaken = await connection.send(m.SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert (shaken.error_code, shaken.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
        token = await connection.send(m.SaslAuthenticateRequest(auth_bytes=ADMIN.token), 1)
        assert token.error_code == ErrorCode.ILLEGAL_SASL_STATE
        connection.close()


async def test_librdkafka_with_the_right_and_the_wrong_password(cluster: SecureCluster) -> None:
    def settings(user: PlainCredentials) -> dict[str, str | int]:
        return {
            "bootstrap.servers": cluster.clients_bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user.username,
            "sasl.password": user.password,
        }

    await cluster.create_topic("t")
    await cluster.add_acl("User:alice", Operation.ALL, ResourceType.TOPIC, "t")
    await cluster.add_acl("User:alice", Operation.READ, ResourceType.GROUP, "g")

    def produce_and_consume() -> bytes | None:
        producer = Producer(settings(ALICE) | {"enable.idempotence": "true"})
        producer.produce("t", b"hello")
        assert producer.flush(10) == 0
        group = {"group.id": "g", "auto.offset.reset": "earliest"}
        consumer = Consumer(settings(ALICE) | group)
        consumer.subscribe(["t"])
        message = consumer.poll(15)
        consumer.close()
        assert message is not None and message.error() is None, message and message.error()
        return message.value()

    assert await asyncio.to_thread(produce_and_consume) == b"hello"

    errors: list[KafkaError] = []

    def list_topics() -> None:
        wrong = settings(PlainCredentials("alice", "wrong"))
        client = AdminClient(wrong | {"error_cb": errors.append, "log_level": 0})
        with pytest.raises(KafkaException):
            client.list_topics(timeout=1.5)
        client.poll(0)

    await asyncio.to_thread(list_topics)
    assert KafkaError._AUTHENTICATION in {error.code() for error in errors}


async def test_brokers_authenticate_to_each_other(tmp_path: Path) -> None:
    """One listener for all: replication, the controller's and the brokers' requests."""
    sasl = {
        "inter.broker.listener.name": "CLIENTS",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "super.users": "User:admin",
        "min.insync.replicas": "2",
    }
    async with running(tmp_path, brokers=2, settings=sasl) as cluster:
        await cluster.create_topic("t", replicas=2)
        # Created by the broker that is not the controller, on behalf of a client of its own.
        other = 1 - cluster.controller_id
        request = m.MetadataRequest(topics=[m.MetadataRequest.MetadataRequestTopic(name="auto")])
        await cluster.ask(ADMIN, request, 9, other)
        await cluster.until_all_know("auto", 1, 1)
        await cluster.stop(other)


async def test_brokers_with_a_wrong_password_stay_apart(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        with pytest.raises(ConnectionError, match="Invalid username or password"):
            await Connection.open(
                system_runtime().network,
                HOST,
                cluster.port(0),
                client_id="1",
                sasl=PlainCredentials("admin", "wrong"),
            )


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "supported: PLAIN"),
        ({"listener.name.clients.plain.sasl.jaas.config": JAAS * 2}, "contains 2 login modules"),
        ({"authorizer.class.name": "org.example.Other"}, "org.example.Other is not supported"),
        ({"super.users": "admin"}, "principalType:principalName"),
        (
            {"inter.broker.listener.name": "CLIENTS"},
            "must be included in sasl.enabled.mechanisms",
        ),
    ],
)
async def test_what_cannot_be_served_stops_the_start(
    tmp_path: Path, settings: dict[str, str], text: str
) -> None:
    from ottla.config.definitions import ConfigError

    with pytest.raises(ConfigError, match=text):
        async with running(tmp_path, settings=settings):
            pass


async def test_failed_logins_cost_more_and_more(tmp_path: Path) -> None:
    """Of one name: its neighbours on the same address are let in meanwhile."""
    async with running(tmp_path) as cluster:
        waits = []
        for _ in range(5):
            peer = await SaslPeer.open(cluster)
            await peer.answer(m.SaslHandshakeRequest(mechanism="PLAIN"), 1)
            before = time.monotonic()
            await peer.answer(m.SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 0)
            waits.append(time.monotonic() - before)
        # 20 ms, doubled four times.
        assert waits[4] > 0.3
        guesses = []
        for _ in range(100):
            peer = await SaslPeer.open(cluster)
            await peer.answer(m.SaslHandshakeRequest(mechanism="PLAIN"), 1)
            peer.send(m.SaslAuthenticateRequest(auth_bytes=b"\0alice\0guess"), 0)
            guesses.append(asyncio.ensure_future(peer.frame()))
        # What is too many for one name is closed without a word.
        await cluster.until(
            lambda: any(guess.done() and guess.result() is None for guess in guesses),
            "a guess that is not looked at",
        )
        await cluster.ask(ADMIN, m.MetadataRequest(topics=[]), 9)
        assert not all(guess.done() for guess in guesses)
        for guess in guesses:
            guess.cancel()
        await asyncio.gather(*guesses, return_exceptions=True)


async def test_a_right_password_after_wrong_ones_waits_with_them(tmp_path: Path) -> None:
    slow = {"connection.failed.authentication.delay.ms": "500"}
    async with running(tmp_path, settings=slow) as cluster:
        peer = await SaslPeer.open(cluster)
        await peer.answer(m.SaslHandshakeRequest(mechanism="PLAIN"), 1)
        peer.send(m.SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 0)
        before = time.monotonic()
        await cluster.until(
            lambda: cluster.nodes[0]._servers[1]._login_delays._names,  # type: ignore[union-attr]
            "the failure",
        )
        answer = await cluster.ask(ALICE, m.MetadataRequest(topics=[]), 9)
        assert time.monotonic() - before > 0.4
        assert len(answer.brokers) == 1
