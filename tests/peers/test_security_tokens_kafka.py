"""Delegation tokens beside Apache Kafka 2.8.2, and Java's clients with tokens on Ottla."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ottla.client.connection import Connection
from ottla.process.data_folder import digest_path
from ottla.runtime import system_runtime
from ottla.security.sasl.plain import PlainCredentials
from ottla.testing.cluster import Cluster, free_ports
from ottla.testing.java import ApacheZooKeeper
from ottla.wire import messages as m
from tests.support.oauth import Issuer
from tests.support.peers.java_tools import ToolSession, kazoo
from tests.support.peers.secured_kafka import secured_kafka

HOST = "127.0.0.1"
USERS = ("admin", "alice", "bob", "eve")
MODULES = "org.apache.kafka.common.security"
OAUTH_MODULE = f"{MODULES}.oauthbearer.OAuthBearerLoginModule"
pytestmark = pytest.mark.peers


class Judged(NamedTuple):
    internal_port: int
    port: int
    zookeeper: str
    # What its owner shows to the store, where others may not read all of it.
    digest: str = ""


def broker_settings(internal_port: int, clients_port: int) -> dict[str, str]:
    users = " ".join(f'user_{user}="{user}-secret"' for user in USERS)
    both = f"INTERNAL://{HOST}:{internal_port},CLIENTS://{HOST}:{clients_port}"
    return {
        "listeners": both,
        "advertised.listeners": both,
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.clients.plain.sasl.jaas.config": (
            f"{MODULES}.plain.PlainLoginModule required {users};"
        ),
        "listener.name.clients.scram-sha-256.sasl.jaas.config": (
            f"{MODULES}.scram.ScramLoginModule required;"
        ),
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
        "offsets.topic.num.partitions": "1",
        "delegation.token.master.key": "the-key",
        "delegation.token.max.lifetime.ms": "100000",
        "delegation.token.expiry.time.ms": "50000",
    }


@pytest.fixture(scope="module")
def kafka(apache_zookeeper: ApacheZooKeeper) -> Iterator[Judged]:
    with secured_kafka(f"{apache_zookeeper.address}/tokens", broker_settings) as broker:
        yield Judged(broker.internal_port, broker.internal_port + 1, broker.zookeeper)


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture(scope="module")
def ottla(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    keys = tmp_path_factory.mktemp("keys") / "jwks.json"
    keys.write_bytes(issuer.jwks())
    internal = free_ports(2)
    settings = broker_settings(internal, internal + 1) | {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        "listener.name.clients.oauthbearer.sasl.jaas.config": f"{OAUTH_MODULE} required;",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
    }
    with Cluster(brokers=1, overrides=settings) as cluster:
        digest = digest_path(cluster.options.data).read_text().strip()
        yield Judged(internal, internal + 1, cluster.zookeeper, digest)


async def _connect(port: int, user: str | None) -> Connection:
    credentials = None if user is None else PlainCredentials(user, f"{user}-secret")
    return await Connection.open(
        system_runtime().network, HOST, port, client_id="tokens", sasl=credentials
    )


def _renewer(name: str, kind: str = "User") -> Any:
    return m.CreateDelegationTokenRequest.CreatableRenewers(
        principal_type=kind, principal_name=name
    )


def _owner(name: str, kind: str = "User") -> Any:
    return m.DescribeDelegationTokenRequest.DescribeDelegationTokenOwner(
        principal_type=kind, principal_name=name
    )


Told = list[tuple[str, object]]
Ask = Callable[[str, Any, int], Awaitable[Any]]


async def _story(judged: Judged) -> Told:
    """What is answered, with times as what they are after the token was made."""
    connections = {user: await _connect(judged.port, user) for user in USERS}
    connections["nobody"] = await _connect(judged.internal_port, None)

    async def ask(user: str, request: Any, version: int) -> Any:
        return await connections[user].send(request, version)

    told: Told = []
    made = await _creations(ask, told)
    await _changes(ask, made["longest"], told)
    await _descriptions(ask, made, told)
    end = m.ExpireDelegationTokenRequest(hmac=made["longest"].hmac, expiry_time_period_ms=-1)
    told.append(("expire at once", (await ask("bob", end, 1)).error_code))
    told.append(("expire what is gone", (await ask("bob", end, 1)).error_code))
    for connection in connections.values():
        connection.close()
    return told


async def _creations(ask: Ask, told: Told) -> dict[str, Any]:
    create = m.CreateDelegationTokenRequest
    made: dict[str, Any] = {}
    for user, name, request in (
        ("nobody", "in the clear", create()),
        ("alice", "no user", create(renewers=[_renewer("g", "Group")])),
        ("alice", "no type", create(renewers=[_renewer("g", "")])),
        ("alice", "longest", create(renewers=[_renewer("bob")], max_lifetime_ms=-1)),
        ("alice", "longer than there is", create(max_lifetime_ms=10**15)),
        ("alice", "short", create(max_lifetime_ms=20_000)),
        ("bob", "odd names", create(renewers=[_renewer("ü *%/"), _renewer("")])),
    ):
        for version in (0, 2) if name == "in the clear" else (2,):
            answer = await ask(user, request, version)
            began = answer.issue_timestamp_ms
            told.append(
                (
                    f"create {name} v{version}",
                    (
                        answer.error_code, answer.principal_type, answer.principal_name,
                        answer.expiry_timestamp_ms - began, answer.max_timestamp_ms - began,
                        len(answer.token_id), len(answer.hmac),
                    ),
                )
            )  # fmt: skip
        made[name] = answer
    return made


async def _changes(ask: Ask, token: Any, told: Told) -> None:
    secret, issued = token.hmac, token.issue_timestamp_ms
    longest_ms = token.max_timestamp_ms - issued
    for user, verb, hmac, period in (
        ("nobody", "renew", secret, -1),
        ("alice", "renew", b"wrong", -1),
        ("alice", "renew", b"", 0),
        ("eve", "renew", secret, -1),
        ("admin", "renew", secret, -1),
        ("bob", "renew", secret, 10**15),
        ("nobody", "expire", secret, -1),
        ("eve", "expire", secret, -1),
        ("alice", "expire", b"wrong", -1),
        ("bob", "expire", secret, 10**15),
    ):
        request = (
            m.RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period)
            if verb == "renew"
            else m.ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period)
        )
        answer = await ask(user, request, 2)
        ends_ms = answer.expiry_timestamp_ms
        told.append(
            (
                f"{verb} {user} {hmac[:5]!r} {period}"
                if hmac != secret
                else f"{verb} {user} {period}",
                (answer.error_code, "longest" if ends_ms - issued == longest_ms else ends_ms),
            )
        )


async def _descriptions(ask: Ask, made: dict[str, Any], told: Told) -> None:
    names = {answer.token_id: name for name, answer in made.items()}
    for user, owners in (
        ("nobody", None),
        ("alice", None),
        ("bob", None),
        ("eve", None),
        ("admin", None),
        ("admin", []),
        ("admin", [_owner("bob")]),
        ("admin", [_owner("bob", "Group")]),
        ("alice", [_owner("alice"), _owner("alice"), _owner("nobody")]),
    ):
        answer = await ask(user, m.DescribeDelegationTokenRequest(owners=owners), 2)
        found = sorted(
            (
                names[token.token_id],
                token.principal_name,
                tuple((each.principal_type, each.principal_name) for each in token.renewers),
                token.hmac == made[names[token.token_id]].hmac,
            )
            for token in answer.tokens
        )
        shown = None if owners is None else [each.principal_name for each in owners]
        told.append((f"describe {user} {shown}", (answer.error_code, found)))


def _nodes(judged: Judged) -> list[dict[str, object]]:
    """What the store holds of tokens, without what differs from run to run."""
    with kazoo(judged.zookeeper) as client:
        if judged.digest:
            client.add_auth("digest", judged.digest)
        ids = client.get_children("/delegation_token/tokens")
        values = [json.loads(client.get(f"/delegation_token/tokens/{each}")[0]) for each in ids]
    for value in values:
        assert value.pop("tokenId")
        began = value.pop("issueTimestamp")
        value["maxTimestamp"] -= began
        value["expiryTimestamp"] -= began
    return sorted(values, key=lambda value: json.dumps(value, sort_keys=True))


def test_the_same_answers_and_the_same_nodes(kafka: Judged, ottla: Judged) -> None:
    expected = asyncio.run(_story(kafka))
    found = asyncio.run(_story(ottla))
    assert len(expected) >= 28
    different = [pair for pair in zip(expected, found, strict=True) if pair[0] != pair[1]]
    assert different == []
    assert _nodes(ottla) == _nodes(kafka)


def test_javas_tools_with_tokens(ottla: Judged, issuer: Issuer, tmp_path: Path) -> None:
    def config(name: str, mechanism: str, jaas: str, more: str = "") -> str:
        path = tmp_path / name
        path.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
            f"sasl.jaas.config={jaas}\n{more}"
        )
        return str(path)

    admin = config(
        "admin", "PLAIN",
        f'{MODULES}.plain.PlainLoginModule required username="admin" password="admin-secret";',
    )  # fmt: skip
    (tmp_path / "token").write_text(issuer.token("admin"))
    oauth = config(
        "oauth", "OAUTHBEARER", f"{OAUTH_MODULE} required;",
        f"sasl.oauthbearer.token.endpoint.url={(tmp_path / 'token').as_uri()}\n"
        f"sasl.login.callback.handler.class={MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler\n"
        f"sasl.oauthbearer.jwt.retriever.class={MODULES}.oauthbearer.FileJwtRetriever\n",
    )  # fmt: skip
    server = ("--bootstrap-server", f"{HOST}:{ottla.port}")
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={(tmp_path / 'token').as_uri()}"
    with ToolSession("kafka-4.1", allowed) as tools:
        tokens = "org.apache.kafka.tools.DelegationTokenCommand"
        made = tools.run(
            tokens, *server, "--command-config", admin, "--create", "--max-life-time-period", "-1",
            "--renewer-principal", "User:bob",
        )  # fmt: skip
        assert made.returncode == 0, made
        line = next(line for line in made.stdout.splitlines() if "User:admin" in line)
        token_id, hmac = line.split()[:2]
        scram = config(
            "scram", "SCRAM-SHA-256",
            f'{MODULES}.scram.ScramLoginModule required username="{token_id}" password="{hmac}" '
            'tokenauth="true";',
        )  # fmt: skip
        topics = "org.apache.kafka.tools.TopicCommand"
        for name, login in (("by-token", scram), ("by-oauth", oauth)):
            done = tools.run(
                topics, *server, "--command-config", login, "--create", "--topic", name
            )
            assert done.returncode == 0, done
        refused = tools.run(tokens, *server, "--command-config", scram, "--describe")
        assert "Delegation Token requests are not allowed" in refused.stdout + refused.stderr
        # Without an owner the tool of 4.1 asks for the tokens of nobody.
        described = tools.run(
            tokens, *server, "--command-config", admin, "--describe",
            "--owner-principal", "User:bob",
        )  # fmt: skip
        assert hmac in described.stdout
        ended = tools.run(
            tokens, *server, "--command-config", admin, "--expire", "--hmac", hmac,
            "--expiry-time-period", "-1",
        )  # fmt: skip
        assert "Completed expire operation" in ended.stdout
        listed = tools.run(topics, *server, "--command-config", oauth, "--list")
        assert {"by-token", "by-oauth"} <= set(listed.stdout.split())
