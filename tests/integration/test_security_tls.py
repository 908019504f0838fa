"""TLS on real sockets with clients of others: who gets in and as whom, new certificates while
brokers run, and peers that do not keep to TLS."""

from __future__ import annotations

import logging
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaConsumer, KafkaProducer

from ottla.config.definitions import parse_properties
from ottla.metadata.acl_znodes import ResourcePattern as Pattern
from ottla.pipelines.topics import with_admin
from ottla.runtime import SystemDisk
from ottla.security.acls import PatternType
from ottla.security.acls import ResourceType as RightsOn
from ottla.testing.certificates import BROKER_HOSTS, Certificates, Issued
from ottla.testing.cluster import Cluster, ClusterError

HOST = "127.0.0.1"
TIMEOUT_S = 20
LOCATION = "listener.name.ssl.ssl.keystore.location"
SETTINGS = {
    "ssl.client.auth": "requested",
    "ssl.principal.mapping.rules": "RULE:^CN=(.*?)$/$1/,DEFAULT",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:broker;User:admin",
}


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


class People:
    def __init__(self, cluster: Cluster) -> None:
        assert cluster.certificates is not None
        self.cluster = cluster
        self.certificates: Certificates = cluster.certificates
        self.admin = self.certificates.issue("admin")
        self.alice = self.certificates.issue("alice")
        settings = self.librdkafka(self.admin)
        del settings["message.timeout.ms"]
        self.admin_client = AdminClient(settings)

    def librdkafka(self, who: Issued | None) -> dict[str, str | int]:
        given: dict[str, str | int] = {
            "bootstrap.servers": self.cluster.bootstrap_servers,
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.certificates.ca_pem),
            "message.timeout.ms": TIMEOUT_S * 1000,
        }
        if who is not None:
            given |= {"ssl.certificate.location": str(who.pem), "ssl.key.location": str(who.pem)}
        return given

    def make_topic(self, name: str, reader: str | None = None) -> None:
        properties = self.certificates.client_properties(self.admin)

        async def make(admin: object) -> None:
            from ottla.pipelines.spec_keys import TopicSpec
            from ottla.pipelines.topics import make_topic

            await make_topic(admin, TopicSpec(name, 1, 2, ()))  # type: ignore[arg-type]

        with_admin(self.cluster.bootstrap_servers, properties, make)
        if reader is None:
            return
        bindings = [
            AclBinding(
                kind, thing, ResourcePatternType.LITERAL, f"User:{reader}", "*",
                AclOperation.ALL, AclPermissionType.ALLOW,
            )
            for kind, thing in ((ResourceType.TOPIC, name), (ResourceType.GROUP, "*"))
        ]  # fmt: skip
        for made in self.admin_client.create_acls(bindings).values():
            made.result(TIMEOUT_S)
        pattern = Pattern(RightsOn.TOPIC, name, PatternType.LITERAL)
        rights = [node.services.authorizer for node in self.cluster._nodes.values()]
        until(lambda: all(r and r.entries(pattern) for r in rights), "every broker has the ACL")


@pytest.fixture(scope="module")
def people() -> Iterator[People]:
    with Cluster(brokers=2, tls=True, overrides=SETTINGS) as cluster:
        yield People(cluster)


def produced(settings: dict[str, str | int], topic: str, values: list[bytes]) -> list[str]:
    """The errors, empty where all was taken."""
    errors: list[str] = []
    producer = Producer({**settings, "acks": "all"})
    for value in values:
        producer.produce(
            topic, value, on_delivery=lambda error, _: errors.append(error.name()) if error else 0
        )
    assert producer.flush(TIMEOUT_S) == 0
    return errors


def test_a_certificate_names_who_may_write_and_read(people: People) -> None:
    people.make_topic("alices", "alice")
    values = [bytes([n % 256]) * 3000 for n in range(400)]
    assert produced(people.librdkafka(people.alice), "alices", values) == []
    assert set(produced(people.librdkafka(None), "alices", [b"x"])) == {
        "TOPIC_AUTHORIZATION_FAILED"
    }
    settings = people.librdkafka(people.alice) | {"auto.offset.reset": "earliest"}
    del settings["message.timeout.ms"]
    consumer = Consumer(settings | {"group.id": "g"})
    consumer.subscribe(["alices"])
    read: list[bytes | None] = []
    while len(read) < len(values):
        messages = consumer.consume(len(values) - len(read), TIMEOUT_S)
        assert messages, f"only {len(read)} records came"
        read += [message.value() for message in messages]
    consumer.close()
    assert read == values


def test_kafka_python(people: People) -> None:
    people.make_topic("pythons", "alice")
    pem = str(people.alice.pem)
    settings = {
        "bootstrap_servers": people.cluster.bootstrap_servers,
        "security_protocol": "SSL",
        "ssl_cafile": str(people.certificates.ca_pem),
        "ssl_certfile": pem,
        "ssl_keyfile": pem,
    }
    producer = KafkaProducer(**settings)
    producer.send("pythons", b"hello").get(TIMEOUT_S)
    producer.close()
    consumer = KafkaConsumer(
        "pythons",
        auto_offset_reset="earliest",
        consumer_timeout_ms=TIMEOUT_S * 1000,
        **settings,
    )
    assert next(consumer).value == b"hello"
    consumer.close()


def write_properties(path: Path, given: dict[str, str]) -> Path:
    path.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    assert parse_properties(path.read_text()) == given
    return path


def ottla(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ottla", *words], capture_output=True, text=True, timeout=60
    )


def test_commands_speak_tls_with_both_kinds_of_stores(people: People, tmp_path: Path) -> None:
    people.make_topic("commanded")
    for kind in ("PEM", "PKCS12"):
        given = people.certificates.client_properties(people.admin, kind)  # type: ignore[arg-type]
        file = write_properties(tmp_path / f"{kind}.properties", given)
        servers = ("--bootstrap-server", people.cluster.bootstrap_servers)
        listed = ottla("topics", "--list", *servers, "--command-config", str(file))
        assert "commanded" in listed.stdout.split(), listed.stderr
    given = people.certificates.client_properties()
    del given["ssl.truststore.location"], given["ssl.truststore.type"]
    file = write_properties(tmp_path / "trusting-nobody.properties", given)
    refused = ottla("topics", "--list", *servers, "--command-config", str(file))
    assert refused.returncode == 1
    assert "ssl.truststore.location says whom to trust" in refused.stderr
    assert "Traceback" not in refused.stderr and len(refused.stderr.splitlines()) == 1
    given |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/no/such.pem"}
    file = write_properties(tmp_path / "no-file.properties", given)
    refused = ottla("topics", "--list", *servers, "--command-config", str(file))
    assert len(refused.stderr.splitlines()) == 1 and "No such file" in refused.stderr


def shown_certificate(people: People, broker_id: int = 0) -> str:
    return ssl.get_server_certificate((HOST, people.cluster.options.port + broker_id))


def alter(people: People, name: str, value: str) -> None:
    resource = ConfigResource(ConfigResource.Type.BROKER, "0")
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource.add_incremental_config(entry)
    for future in people.admin_client.incremental_alter_configs([resource]).values():
        future.result(TIMEOUT_S)


def renewed(people: People, file: str) -> Issued:
    return people.certificates.issue("broker", BROKER_HOSTS, file=file)


def test_new_certificates_without_a_restart(people: People) -> None:
    first = shown_certificate(people)
    file = renewed(people, "second").pem
    alter(people, LOCATION, str(file))
    until(lambda: shown_certificate(people) != first, "the new location is used")
    second = shown_certificate(people)
    # The same file, written again: altering the config to what it is reads it again.
    disk = SystemDisk()
    before_ms = disk.mtime_ms(file)
    file.write_bytes(renewed(people, "third").pem.read_bytes())
    disk.set_mtime_ms(file, before_ms + 5000)
    assert shown_certificate(people) == second
    alter(people, LOCATION, str(file))
    until(lambda: shown_certificate(people) not in (first, second), "the file is read again")
    # Names that clients know this broker by must stay.
    other = people.certificates.issue("other", BROKER_HOSTS)
    with pytest.raises(KafkaException, match="Keystore DistinguishedName does not match"):
        alter(people, LOCATION, str(other.pem))
    with pytest.raises(KafkaException, match="No such file or directory"):
        alter(people, LOCATION, "/no/such.pem")
    third = shown_certificate(people)
    assert third not in (first, second)
    # Brokers still talk to each other.
    people.make_topic("after-renewal", "alice")
    assert produced(people.librdkafka(people.alice), "after-renewal", [b"x"]) == []


def test_secrets_are_not_described(people: People) -> None:
    resource = ConfigResource(ConfigResource.Type.BROKER, "1")
    (found,) = people.admin_client.describe_configs([resource]).values()
    configs = found.result(TIMEOUT_S)
    for name in ("ssl.keystore.key", "ssl.keystore.password", "ssl.key.password"):
        assert configs[name].is_sensitive and configs[name].value is None
    assert configs["ssl.keystore.type"].value == "PEM"


def test_rude_peers_harm_nobody(people: People, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    people.make_topic("calm", "alice")
    port = people.cluster.options.port
    rude = []
    for number in range(1000):
        peer = socket.create_connection((HOST, port), timeout=TIMEOUT_S)
        # A plain request, half a hello, nothing.
        peer.sendall((b"\0\0\0\x17\0\x12\0\x03", b"\x16\x03\x01\x02\0\x01\0", b"")[number % 3])
        rude.append(peer)
        if number % 3:
            continue
        assert peer.recv(1) == b""
    assert produced(people.librdkafka(people.alice), "calm", [b"x"] * 100) == []
    for peer in rude:
        peer.close()
    lines = [r for r in caplog.records if "SSL handshake failed" in r.getMessage()]
    assert len(lines) <= 2  # limited: `test_transport.py` reads them
    assert not [r for r in caplog.records if r.exc_info or r.levelno >= logging.ERROR]


@pytest.mark.parametrize(
    ("flag", "spoken"), [("-tls1_2", True), ("-tls1_3", True), ("-tls1_1", False)]
)
def test_versions_as_openssl_sees_them(people: People, flag: str, spoken: bool) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is missing on this machine")
    said = subprocess.run(
        [openssl, "s_client", flag, "-connect", f"{HOST}:{people.cluster.options.port}",
         "-CAfile", str(people.certificates.ca_pem), "-verify_return_error", "-brief"],
        input="", capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert ("Verification: OK" in said.stderr) == spoken, said.stderr


def test_a_password_over_tls(tmp_path: Path) -> None:
    """SASL_SSL: the certificate encrypts, the password says who it is."""
    certificates = Certificates(tmp_path / "tls")
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    users = 'username="broker" password="b" user_broker="b" user_ann="a";'
    settings = {
        "security.inter.broker.protocol": "SASL_SSL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN",
        "plain.sasl.jaas.config": f"{module} {users}",
        # Of SSL listeners alone: nobody needs a certificate here.
        "ssl.client.auth": "required",
        **certificates.broker_properties("PKCS12"),
    }
    with Cluster(brokers=2, overrides=settings) as cluster:
        given = certificates.client_properties() | {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{module} username="ann" password="a";',
        }

        async def topics(admin: object) -> object:
            return await admin.list_topics()  # type: ignore[attr-defined]

        assert list(with_admin(cluster.bootstrap_servers, given, topics)) == []  # type: ignore[call-overload]
        librdkafka = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(certificates.ca_pem),
            "sasl.mechanism": "PLAIN",
            "sasl.username": "ann",
            "sasl.password": "a",
            "message.timeout.ms": TIMEOUT_S * 1000,
        }
        assert produced(librdkafka, "made-by-asking", [b"x"]) == []


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"ssl.keystore.location": "/no/such.pem"}, "No such file or directory"),
        ({"ssl.truststore.location": "/dev/null"}, "it is not a regular file"),
        ({"ssl.principal.mapping.rules": "default"}, "Invalid rule: `default`"),
        ({"ssl.cipher.suites": "TLS_X"}, "Unsupported CipherSuite: TLS_X"),
    ],
)
def test_a_broker_that_cannot_speak_tls_does_not_start(
    tmp_path: Path, changed: dict[str, str], text: str
) -> None:
    certificates = Certificates(tmp_path / "tls")
    settings = {"security.inter.broker.protocol": "SSL", **certificates.broker_properties()}
    with (
        pytest.raises(Exception, match=text) as refused,
        Cluster(brokers=1, overrides=settings | changed),
    ):
        pass
    assert not isinstance(refused.value, ClusterError)
