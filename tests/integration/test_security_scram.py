"""SCRAM on real sockets: credentials in the store, changed while brokers run, and who gets in."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ottla.client.admin.client import Admin
from ottla.client.admin.scram import NewScramCredential
from ottla.errors import ErrorCode
from ottla.metadata.entity_configs import change_entity, user_path
from ottla.runtime import system_runtime
from ottla.security.sasl.scram import (
    SCRAM_HASHES,
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    salted_password,
)
from ottla.security.sasl.scram_client import ScramCredentials
from ottla.security.scram_alterations import MECHANISM_NUMBERS, Upsertion, altered
from ottla.wire import messages as m
from ottla.zk.client.store import ZooKeeperClient
from tests.support.integration.local_cluster import HOST
from tests.support.integration.secure_cluster import ADMIN, ALICE, SecureCluster, running

SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
ALL = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
    "listener.name.clients.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
}


def _admin(cluster: SecureCluster) -> Admin:
    return Admin.connect(system_runtime(), cluster.clients_bootstrap, credentials=ADMIN)


async def _metadata(cluster: SecureCluster, user: ScramCredentials, broker_id: int = 0) -> None:
    await cluster.ask(user, m.MetadataRequest(topics=[]), 9, broker_id)


async def test_users_come_and_go_while_brokers_run(tmp_path: Path) -> None:
    async with running(tmp_path, brokers=2, settings=ALL) as cluster, _admin(cluster) as admin:
        names = ["dora", "CN=dora,O=x", "d o/r~a+é"]
        new = [NewScramCredential(mechanism, 4096, "pässword") for mechanism in SCRAM_HASHES]
        done = await admin.alter_user_scram_credentials(dict.fromkeys(names, new))
        assert done == dict.fromkeys(names)
        both = {SCRAM_SHA_256: 4096, SCRAM_SHA_512: 4096}
        described = await admin.describe_user_scram_credentials()
        assert described == dict.fromkeys(sorted(names), both)
        for node in cluster.nodes.values():
            users = node.parts.scram_users
            assert users is not None
            await cluster.until(
                lambda users=users: all(users.find(SCRAM_SHA_512, name) for name in names),
                "all users on every broker",
            )
        # A name beyond ASCII can have a credential but cannot be sent, as in Kafka.
        for name in names[:2]:
            for mechanism in SCRAM_HASHES:
                for broker_id in cluster.nodes:
                    user = ScramCredentials(mechanism, name, "pässword")
                    await _metadata(cluster, user, broker_id)

        done = await admin.alter_user_scram_credentials({}, {"dora": [SCRAM_SHA_256]})
        assert done == {"dora": None}
        for node in cluster.nodes.values():
            users = node.parts.scram_users
            assert users is not None
            await cluster.until(
                lambda users=users: users.find(SCRAM_SHA_256, "dora") is None, "dora is gone"
            )
        with pytest.raises(ConnectionError, match="invalid credentials with SASL mechanism SCRAM"):
            await _metadata(cluster, ScramCredentials(SCRAM_SHA_256, "dora", "pässword"))
        await _metadata(cluster, ScramCredentials(SCRAM_SHA_512, "dora", "pässword"))


async def test_a_wrong_password_and_an_unknown_user_look_the_same(tmp_path: Path) -> None:
    async with running(tmp_path, settings=ALL) as cluster, _admin(cluster) as admin:
        await admin.alter_user_scram_credentials(
            {"dora": [NewScramCredential(SCRAM_SHA_256, 4096, "p")]}
        )
        users = cluster.nodes[0].parts.scram_users
        assert users is not None
        await cluster.until(lambda: users.find(SCRAM_SHA_256, "dora"), "the user")
        texts = set()
        for name, password in (("dora", "wrong"), ("dora", ""), ("eve", "p")):
            with pytest.raises(ConnectionError) as caught:
                await _metadata(cluster, ScramCredentials(SCRAM_SHA_256, name, password))
            texts.add(str(caught.value))
        assert texts == {
            "the other side refuses this user: Authentication failed during authentication due to "
            "invalid credentials with SASL mechanism SCRAM-SHA-256"
        }


async def test_rights_and_the_controller(tmp_path: Path) -> None:
    async with running(tmp_path, brokers=2, settings=ALL) as cluster:
        request_class = m.AlterUserScramCredentialsRequest
        deletion = request_class.ScramCredentialDeletion
        request = request_class(deletions=[deletion(name="b", mechanism=1)] * 2)
        request.deletions.append(deletion(name="a", mechanism=1))
        for user, broker_id, code in (
            (ALICE, cluster.controller_id, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
            (ADMIN, 1 - cluster.controller_id, ErrorCode.NOT_CONTROLLER),
        ):
            answer = await cluster.ask(user, request, 0, broker_id)
            assert [(result.user, result.error_code) for result in answer.results] == [
                ("a", code),
                ("b", code),
            ]
        answer = await cluster.ask(ALICE, m.DescribeUserScramCredentialsRequest(), 0)
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_brokers_authenticate_to_each_other(tmp_path: Path) -> None:
    """With a user that was written to the store before any of them started."""
    among = ALL | {
        "inter.broker.listener.name": "CLIENTS",
        "sasl.mechanism.inter.broker.protocol": SCRAM_SHA_512,
        "listener.name.clients.scram-sha-512.sasl.jaas.config": (
            f'{SCRAM_MODULE} required username="broker" password="b";'
        ),
        "super.users": "User:admin;User:broker",
        "min.insync.replicas": "2",
        "connections.max.reauth.ms": "3000",
    }
    cluster = SecureCluster(tmp_path)
    cluster.settings = among
    await cluster.store.start()
    try:
        store = await ZooKeeperClient.connect(system_runtime(), f"{HOST}:{cluster.store.port}")
        salted = salted_password(SCRAM_SHA_512, "b", b"salt", 4096)
        upsertion = Upsertion("broker", MECHANISM_NUMBERS[SCRAM_SHA_512], 4096, b"salt", salted)
        await change_entity(store, user_path("broker"), lambda c: altered(c, [upsertion], []))
        await store.close()
        await asyncio.gather(*(cluster.start(broker_id) for broker_id in range(2)))
        await cluster.create_topic("t", replicas=2)
    finally:
        for node in cluster.nodes.values():
            await node.stop(controlled=False)
        await cluster.store.stop()


async def test_a_thousand_users_at_once(tmp_path: Path) -> None:
    """The client computes the rounds; a broker stores what it is given, others are served."""
    async with running(tmp_path, settings=ALL) as cluster:
        upsertion = m.AlterUserScramCredentialsRequest.ScramCredentialUpsertion
        request = m.AlterUserScramCredentialsRequest(
            upsertions=[
                upsertion(
                    name=f"u{i}", mechanism=1, iterations=16384, salt=b"s", salted_password=b"p"
                )
                for i in range(1000)
            ]
        )
        connection = await cluster.connect(ADMIN)
        other = await cluster.connect(ALICE)
        altering = asyncio.ensure_future(connection.send(request, 0))
        served = 0
        while not altering.done():
            await other.send(m.MetadataRequest(topics=[]), 9)
            served += 1
        results = (await altering).results
        assert [result.error_code for result in results] == [0] * 1000
        assert served > 10
        connection.close()
        other.close()
