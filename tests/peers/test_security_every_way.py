"""Clients of five makers over every protocol and mechanism there is: each writes a record and reads
it back; a wrong secret is refused in every way."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider

from ottla.cli import main as cli_main
from ottla.testing.certificates import Certificates, Issued
from ottla.testing.cluster import Cluster, free_ports
from ottla.testing.peers import peer_folder
from tests.support.oauth import Issuer
from tests.support.peers.client_suites import need_suite
from tests.support.peers.java_tools import ToolSession, need_jars

HOST = "127.0.0.1"
MODULES = "org.apache.kafka.common.security"
MECHANISMS = {
    "PLAIN": f"{MODULES}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{MODULES}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{MODULES}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{MODULES}.oauthbearer.OAuthBearerLoginModule",
}
USER, SECRET = "alice", "alice-secret"
CLIENTS = ("java", "librdkafka", "kafka-python", "franz-go", "kafka-go")
pytestmark = pytest.mark.peers


class Way(NamedTuple):
    protocol: str
    mechanism: str = ""

    def __str__(self) -> str:
        return f"{self.protocol}-{self.mechanism}".rstrip("-")


WAYS = [
    Way("SSL"),
    *(Way(protocol, each) for protocol in ("SASL_PLAINTEXT", "SASL_SSL") for each in MECHANISMS),
]


class Secured(NamedTuple):
    ports: dict[str, int]
    certificates: Certificates
    own: Issued
    token: str
    token_file: Path
    folder: Path

    def server(self, way: Way) -> str:
        return f"{HOST}:{self.ports[way.protocol]}"

    def properties(self, way: Way, secret: str = SECRET) -> str:
        """A client's file for Java's tools and for ours."""
        lines = [f"security.protocol={way.protocol}"]
        if way.protocol.endswith("SSL"):
            lines += [
                "ssl.truststore.type=PEM",
                f"ssl.truststore.location={self.certificates.ca_pem}",
            ]
        if way.protocol == "SSL":
            lines += [f"{name}={value}" for name, value in self.own.properties().items()]
        if way.mechanism:
            options = ""
            if way.mechanism == "OAUTHBEARER":
                oauth = f"{MODULES}.oauthbearer"
                lines += [
                    f"sasl.oauthbearer.token.endpoint.url={self.token_file.as_uri()}",
                    f"sasl.login.callback.handler.class={oauth}.OAuthBearerLoginCallbackHandler",
                    f"sasl.oauthbearer.jwt.retriever.class={oauth}.FileJwtRetriever",
                ]
            else:
                options = f' username="{USER}" password="{secret}"'
            module = MECHANISMS[way.mechanism]
            lines += [
                f"sasl.mechanism={way.mechanism}",
                f"sasl.jaas.config={module} required{options};",
            ]
        path = self.folder / f"{way}-{secret}.properties"
        path.write_text("\n".join(lines) + "\n")
        return str(path)


def _settings(ports: dict[str, int], certificates: Certificates, keys: Path) -> dict[str, str]:
    names = {"SSL": "CERT", "SASL_PLAINTEXT": "CLEAR", "SASL_SSL": "TLS", "PLAINTEXT": "INTERNAL"}
    listeners = ",".join(f"{names[kind]}://{HOST}:{port}" for kind, port in ports.items())
    settings = {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": ",".join(f"{n}:{kind}" for kind, n in names.items()),
        "inter.broker.listener.name": "INTERNAL",
        "listener.name.cert.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "offsets.topic.num.partitions": "1",
        "connection.failed.authentication.delay.ms": "0",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.ca_pem),
        **certificates.broker.properties(),
    }
    for mechanism, module in MECHANISMS.items():
        users = f' user_{USER}="{SECRET}"' if mechanism == "PLAIN" else ""
        settings[f"{mechanism.lower()}.sasl.jaas.config"] = f"{module} required{users};"
    return settings


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("every-way")
    certificates, issuer = Certificates(folder / "tls"), Issuer()
    (folder / "jwks.json").write_bytes(issuer.jwks())
    (folder / "token").write_text(issuer.token(USER))
    first = free_ports(4)
    kinds = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
    ports = {kind: first + number for number, kind in enumerate(kinds)}
    settings = _settings(ports, certificates, folder / "jwks.json")
    internal = f"{HOST}:{ports['PLAINTEXT']}"
    with Cluster(brokers=1, overrides=settings):
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            words = f"--bootstrap-server {internal} --alter --entity-type users"
            credential = f"{mechanism}=[password={SECRET}]"
            user = ["--entity-name", USER, "--add-config", credential]
            assert cli_main.run(["configs", *words.split(), *user]) == 0
        for client in CLIENTS:
            made = ["topics", "--bootstrap-server", internal, "--create"]
            assert cli_main.run([*made, "--topic", client, "--partitions", "1"]) == 0
        own = certificates.issue(USER)
        token = (folder / "token").read_text()
        yield Secured(ports, certificates, own, token, folder / "token", folder)


@pytest.fixture(scope="module")
def java(secured: Secured) -> Iterator[ToolSession]:
    need_jars("kafka-4.1")
    urls = secured.token_file.as_uri()
    with ToolSession(
        "kafka-4.1", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={urls}"
    ) as tools:
        yield tools


def _librdkafka(secured: Secured, way: Way, secret: str) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap.servers": secured.server(way),
        "security.protocol": way.protocol,
    }
    if way.protocol.endswith("SSL"):
        settings["ssl.ca.location"] = str(secured.certificates.ca_pem)
    if way.protocol == "SSL":
        settings["ssl.certificate.location"] = settings["ssl.key.location"] = str(secured.own.pem)
    if way.mechanism:
        settings["sasl.mechanism"] = way.mechanism
    if way.mechanism == "OAUTHBEARER":
        settings["oauth_cb"] = lambda _: (secured.token, time.time() + 3600)
    elif way.mechanism:
        settings |= {"sasl.username": USER, "sasl.password": secret}
    return settings


def by_librdkafka(secured: Secured, way: Way, value: str) -> None:
    settings = _librdkafka(secured, way, SECRET)
    producer = Producer(settings)
    producer.produce("librdkafka", value)
    assert producer.flush(20) == 0
    consumer = Consumer({**settings, "group.id": value, "auto.offset.reset": "earliest"})
    consumer.subscribe(["librdkafka"])
    deadline = time.monotonic() + 20
    found = ""
    while found != value and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found = message.value().decode()
    consumer.close()
    assert found == value


class _Token(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, text: str) -> None:
        self._text = text

    def token(self) -> str:
        return self._text


def by_kafka_python(secured: Secured, way: Way, value: str) -> None:
    settings: dict[str, Any] = {
        "bootstrap_servers": secured.server(way),
        "security_protocol": way.protocol,
    }
    if way.protocol.endswith("SSL"):
        settings["ssl_cafile"] = str(secured.certificates.ca_pem)
    if way.protocol == "SSL":
        settings["ssl_certfile"] = str(secured.own.pem)
    if way.mechanism:
        settings["sasl_mechanism"] = way.mechanism
    if way.mechanism == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = _Token(secured.token)
    elif way.mechanism:
        settings |= {"sasl_plain_username": USER, "sasl_plain_password": SECRET}
    producer = KafkaProducer(**settings)
    producer.send("kafka-python", value.encode()).get(20)
    producer.close()
    consumer = KafkaConsumer(
        "kafka-python", auto_offset_reset="earliest", consumer_timeout_ms=20_000, **settings
    )
    found = next((True for message in consumer if message.value == value.encode()), False)
    consumer.close()
    assert found


def by_go(client: str, secured: Secured, way: Way, secret: str, value: str) -> str:
    need_suite("go-clients", "Go")
    program = peer_folder("go-clients") / "program"
    environment = dict(os.environ)
    if way.protocol.endswith("SSL"):
        environment["TLS_CA"] = str(secured.certificates.ca_pem)
    if way.protocol == "SSL":
        environment["TLS_CERTIFICATE"] = str(secured.own.pem)
    mechanism = way.mechanism or "none"
    ran = subprocess.run(
        [program, client, secured.server(way), mechanism, USER, secret, client, value],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return ran.stdout + ran.stderr


def by_java(java: ToolSession, secured: Secured, way: Way, value: str) -> None:
    file, server = secured.properties(way), secured.server(way)
    sent = java.run(
        "org.apache.kafka.tools.ProducerPerformance", "--topic", "java", "--num-records", "1",
        "--record-size", "10", "--throughput", "-1", "--producer.config", file,
        "--producer-props", f"bootstrap.servers={server}",
    )  # fmt: skip
    assert "1 records sent" in sent.stdout, sent
    read = java.run(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", server,
        "--topic", "java", "--from-beginning", "--max-messages", "1", "--timeout-ms", "20000",
        "--consumer.config", file, "--group", value,
    )  # fmt: skip
    assert "Processed a total of 1 messages" in read.stdout + read.stderr, read
    listed = java.run(
        "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", server, "--list",
        "--command-config", file,
    )  # fmt: skip
    assert set(CLIENTS) <= set(listed.stdout.split()), listed


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_every_client_gets_through(way: Way, secured: Secured, java: ToolSession) -> None:
    by_librdkafka(secured, way, f"librdkafka-{way}")
    by_kafka_python(secured, way, f"kafka-python-{way}")
    secret = secured.token if way.mechanism == "OAUTHBEARER" else SECRET
    assert by_go("franz-go", secured, way, secret, f"franz-{way}") == f"franz-{way}\n"
    said = by_go("kafka-go", secured, way, secret, f"kafka-go-{way}")
    if way.mechanism == "OAUTHBEARER":
        assert said == "kafka-go has no OAUTHBEARER\n"
    else:
        assert said == f"kafka-go-{way}\n"
    by_java(java, secured, way, f"java-{way}")
    file = secured.properties(way)
    words = ["--bootstrap-server", secured.server(way), "--command-config", file]
    assert cli_main.run(["topics", *words, "--list"]) == 0


@pytest.mark.parametrize("way", WAYS[1:], ids=str)
def test_a_wrong_secret_is_refused(
    way: Way, secured: Secured, capsys: pytest.CaptureFixture[str]
) -> None:
    if way.mechanism == "OAUTHBEARER":
        stranger = Issuer().token(USER)
        # franz-go does not repeat what the broker says of the token.
        assert "unexpected data in oauth response" in by_go(
            "franz-go", secured, way, stranger, "no"
        )
        return
    assert "uthentication failed" in by_go("franz-go", secured, way, "wrong", "no")
    file = secured.properties(way, "wrong")
    words = ["--bootstrap-server", secured.server(way), "--command-config", file]
    assert cli_main.run(["topics", *words, "--list"]) == 1
    assert "Authentication failed" in capsys.readouterr().err
    refused = Producer({**_librdkafka(secured, way, "wrong"), "log_level": 0})
    with pytest.raises(KafkaException):
        refused.list_topics(timeout=0.5)
