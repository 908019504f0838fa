"""Delegation tokens and OAUTHBEARER on real sockets, with real clients."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka.errors import KafkaError as PythonKafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider

from ottla.cli import main as cli_main
from ottla.errors import ErrorCode
from ottla.security.sasl.oauth.credentials import OAuthCredentials
from ottla.security.sasl.scram_client import ScramCredentials
from ottla.wire import messages as m
from tests.support.integration.secure_cluster import ADMIN, ALICE, BOB, JAAS, SecureCluster, running
from tests.support.oauth import Issuer

SCRAM_JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
async def cluster(tmp_path: Path, issuer: Issuer) -> AsyncIterator[SecureCluster]:
    (tmp_path / "jwks.json").write_bytes(issuer.jwks())
    settings = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.clients.plain.sasl.jaas.config": JAAS,
        "listener.name.clients.scram-sha-256.sasl.jaas.config": SCRAM_JAAS,
        "listener.name.clients.scram-sha-512.sasl.jaas.config": SCRAM_JAAS,
        "listener.name.clients.oauthbearer.sasl.jaas.config": f"{OAUTH_MODULE} required;",
        "sasl.oauthbearer.jwks.endpoint.url": (tmp_path / "jwks.json").as_uri(),
        "delegation.token.secret.key": "the-key-of-all-brokers",
        "super.users": "User:admin;User:ANONYMOUS;User:service",
    }
    async with running(tmp_path, 2, settings) as cluster:
        yield cluster


async def _create(cluster: SecureCluster, user: Any = ALICE, broker_id: int = 0) -> Any:
    answer = await cluster.ask(
        user, m.CreateDelegationTokenRequest(max_lifetime_ms=-1), 2, broker_id
    )
    assert answer.error_code == 0
    return answer


def _token_login(answer: Any, mechanism: str = "SCRAM-SHA-256") -> ScramCredentials:
    password = base64.b64encode(answer.hmac).decode()
    return ScramCredentials(mechanism, answer.token_id, password, by_token=True)


async def test_a_token_is_its_owner_on_every_broker(cluster: SecureCluster) -> None:
    token = await _create(cluster)
    await cluster.until(
        lambda: all(
            (tokens := node.services.delegation_tokens) is not None and tokens.live(token.token_id)
            for node in cluster.nodes.values()
        ),
        "the token on both brokers",
    )
    for broker_id, mechanism in ((0, "SCRAM-SHA-256"), (1, "SCRAM-SHA-512")):
        login = _token_login(token, mechanism)
        # Nobody gets a token by a token.
        answer = await cluster.ask(login, m.CreateDelegationTokenRequest(), 1, broker_id)
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert answer.principal_name == "alice"
    # As a user of that name it is nobody.
    nobody = ScramCredentials("SCRAM-SHA-256", token.token_id, _token_login(token).password)
    with pytest.raises(ConnectionError, match="invalid credentials"):
        await cluster.connect(nobody)


async def test_a_token_ends(cluster: SecureCluster) -> None:
    token = await _create(cluster)
    ended = await cluster.ask(
        ALICE, m.ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1), 2
    )
    assert ended.error_code == 0
    with pytest.raises(ConnectionError, match="invalid credentials"):
        await cluster.connect(_token_login(token))


async def test_who_sees_which(cluster: SecureCluster) -> None:
    token = await _create(cluster)

    async def seen(user: Any) -> list[str]:
        answer = await cluster.ask(user, m.DescribeDelegationTokenRequest(owners=None), 2)
        return [found.token_id for found in answer.tokens]

    assert await seen(ALICE) == await seen(ADMIN) == [token.token_id]
    assert await seen(BOB) == []


class _TokenOf(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, make: Callable[[], str]) -> None:
        self._make = make

    def token(self) -> str:
        return self._make()


async def test_clients_with_signed_tokens(
    cluster: SecureCluster, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad = issuer.token("service"), Issuer().token("service")

    def by_librdkafka(token: str, timeout_s: float) -> set[int]:
        client = AdminClient(
            {
                "bootstrap.servers": cluster.clients_bootstrap,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "oauth_cb": lambda _: (token, time.time() + 3600),
            }
        )
        return set(client.list_topics(timeout=timeout_s).brokers)

    def by_kafka_python(token: str) -> int:
        client = KafkaAdminClient(
            bootstrap_servers=cluster.clients_bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=_TokenOf(lambda: token),
            bootstrap_timeout_ms=3000,
        )
        try:
            return len(client.describe_cluster()["brokers"])
        finally:
            client.close()

    assert await asyncio.to_thread(by_librdkafka, good, 10) == {0, 1}
    assert await asyncio.to_thread(by_kafka_python, good) == 2
    with pytest.raises(KafkaException):
        await asyncio.to_thread(by_librdkafka, bad, 1)
    assert '{"status":"invalid_token"}' in caplog.text
    with pytest.raises(PythonKafkaError):
        await asyncio.to_thread(by_kafka_python, bad)


class _TokenEndpoint(BaseHTTPRequestHandler):
    issuer: Issuer

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        # "job:s3cret" in base64.
        known = self.headers["Authorization"] == "Basic am9iOnMzY3JldA=="
        self.send_response(200 if known and form["scope"] == ["kafka"] else 401)
        self.end_headers()
        self.wfile.write(json.dumps({"access_token": self.issuer.token("service")}).encode())

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def token_endpoint(issuer: Issuer) -> Iterator[str]:
    _TokenEndpoint.issuer = issuer
    server = HTTPServer(("127.0.0.1", 0), _TokenEndpoint)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/token"
    server.shutdown()
    thread.join()
    server.server_close()


async def test_our_own_commands(
    cluster: SecureCluster,
    issuer: Issuer,
    token_endpoint: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def ottla(settings: str, *words: str) -> tuple[int, str]:
        config = tmp_path / "client.properties"
        config.write_text(f"security.protocol=SASL_PLAINTEXT\n{settings}\n")
        words = (
            *words, "--bootstrap-server", cluster.clients_bootstrap,
            "--command-config", str(config),
        )  # fmt: skip
        code = cli_main.run(list(words))
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    token_file = tmp_path / "token"
    token_file.write_text(issuer.token("service") + "\n")
    oauth = "sasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url="
    secret = (
        f'sasl.jaas.config={OAUTH_MODULE} required clientId="job" clientSecret="%s" scope="kafka";'
    )
    by_file = f"{oauth}{token_file.as_uri()}\nsasl.jaas.config={OAUTH_MODULE} required;"
    by_endpoint = f"{oauth}{token_endpoint}\n{secret % 's3cret'}"
    run = asyncio.to_thread
    for settings in (by_file, by_endpoint):
        assert (await run(ottla, settings, "topics", "--list"))[0] == 0
    code, text = await run(
        ottla, f"{oauth}{token_endpoint}\n{secret % 'wr0ng'}", "topics", "--list"
    )
    assert code == 1 and "no token from http://127.0.0.1/token: " in text
    assert "wr0ng" not in text and text.count("\n") == 1
    plain = (
        "sasl.mechanism=PLAIN\nsasl.jaas.config=org.apache.kafka.common.security.plain."
        'PlainLoginModule required username="alice" password="alice-secret";'
    )
    tokens = ("delegation-tokens",)
    code, text = await run(
        ottla, plain, *tokens, "--create", "--max-life-time-period", "-1",
        "--renewer-principal", "User:bob", "--output", "json",
    )  # fmt: skip
    assert code == 0, text
    (made,) = json.loads(text)
    assert made["owner"] == "User:alice" and made["renewers"] == ["User:bob"]
    code, text = await run(
        ottla, plain, *tokens, "--renew", "--hmac", made["hmac"], "--renew-time-period", "1000"
    )
    assert code == 0 and "Completed renew operation. New expiry date : " in text, text
    code, text = await run(ottla, plain, *tokens, "--describe")
    assert code == 0 and made["hmac"] in text and "Total number of tokens : 1" in text
    code, text = await run(
        ottla, plain, *tokens, "--expire", "--hmac", "AAAA", "--expiry-time-period", "-1"
    )
    assert (code, text.splitlines()[-1]) == (
        1,
        "Error while executing delegation token command : Delegation Token is not found on server.",
    )


async def test_a_session_lasts_as_long_as_its_token(tmp_path: Path, issuer: Issuer) -> None:
    (tmp_path / "jwks.json").write_bytes(issuer.jwks())
    settings = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.clients.oauthbearer.sasl.jaas.config": f"{OAUTH_MODULE} required;",
        "sasl.oauthbearer.jwks.endpoint.url": (tmp_path / "jwks.json").as_uri(),
        "connections.max.reauth.ms": "3600000",
    }
    async with running(tmp_path, 1, settings) as cluster:
        (tmp_path / "token").write_text(issuer.token("admin", exp=int(time.time()) + 5))
        connection = await cluster.connect(OAuthCredentials((tmp_path / "token").as_uri()))  # type: ignore[arg-type]
        answer = await connection.send(m.MetadataRequest(topics=None), 9)
        assert len(answer.brokers) == 1
        lifetime = connection._authenticate_at
        assert lifetime is not None and lifetime - asyncio.get_running_loop().time() < 5
        connection.close()


async def test_no_token_on_a_listener_in_the_clear(cluster: SecureCluster) -> None:
    connection = await cluster.connect(None, listener="INTERNAL")
    answer = await connection.send(m.CreateDelegationTokenRequest(), 2)
    assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    connection.close()


async def test_brokers_without_a_key(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        answer = await cluster.ask(ALICE, m.CreateDelegationTokenRequest(), 2)
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
