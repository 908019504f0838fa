"""Java as the judge of TLS: names of certificates, its clients with both kinds of stores, a cluster
of brokers of both kinds, and ZooKeeper's own client and server."""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from cryptography import x509
from cryptography.x509.oid import NameOID
from kazoo.client import KazooClient

from ottla.client.admin.client import Admin
from ottla.config.broker import BrokerConfig
from ottla.config.definitions import ConfigError
from ottla.pipelines.spec_keys import TopicSpec
from ottla.pipelines.topics import ensure_topics, with_admin
from ottla.process.node import Node
from ottla.runtime import system_runtime
from ottla.security.tls.names import subject_name
from ottla.security.tls.principals import NoMatchingRule, PrincipalMapper
from ottla.testing.certificates import PASSWORD, Certificates
from ottla.testing.cluster import ProcessCluster, free_ports
from ottla.testing.java import HOST, ApacheZooKeeper, java_command, run_tool
from ottla.testing.peers import peer_folder
from tests.support.peers.client_suites import need_suite
from tests.support.peers.java_tools import ToolSession, need_jars
from tests.support.peers.ottla_brokers import ottla_zookeeper
from tests.support.peers.secured_kafka import SecuredKafka

pytestmark = pytest.mark.peers

NAMES_PROGRAM = Path(__file__).parent / "tls_java" / "Names.java"
TOOLS = "org.apache.kafka.tools"
RULES = (
    "DEFAULT",
    "RULE:^CN=(.*?),OU=(.*?)$/$1@$2/L,DEFAULT",
    "RULE:^CN=(.*?)(,.*)?$/$1/U",
    "RULE:^.*CN=([a-zA-Z]*).*$/$1-$2-$12-$0/",
    r"RULE:^CN=(.*)$/\$1\/x/",
    "RULE:.*/x/, DEFAULT",
    "RULE:^O=(.*)$/$1/",
    "default",
    "DEFAULT/L",
    "RULE:^CN=(.*)$/$1/LU",
    " , RULE:^CN=(.*)$/ $1 /,",
)


def subjects() -> list[x509.Name]:
    common, country, company = (
        NameOID.COMMON_NAME, NameOID.COUNTRY_NAME, NameOID.ORGANIZATION_NAME,
    )  # fmt: skip
    texts = [
        "alice", "  lead", "trail  ", " ", "a,b", 'q"q', "a+b=c", "<x>;y", "back\\slash", "#hash",
        "Müller", "日本", "a\nb", "tab\tx", "a/b", "very-" + "long" * 14,
    ]  # fmt: skip
    made = [x509.Name([x509.NameAttribute(common, text)]) for text in texts]
    unit = x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "Service Users")
    made.append(x509.Name([unit, x509.NameAttribute(common, "Duke")]))
    rest = [
        NameOID.LOCALITY_NAME, NameOID.STATE_OR_PROVINCE_NAME, NameOID.STREET_ADDRESS,
        NameOID.DOMAIN_COMPONENT, NameOID.USER_ID, NameOID.EMAIL_ADDRESS, NameOID.SERIAL_NUMBER,
        NameOID.TITLE, NameOID.GIVEN_NAME, NameOID.SURNAME, NameOID.POSTAL_CODE, company,
    ]  # fmt: skip
    parts = [x509.NameAttribute(country, "DE"), *(x509.NameAttribute(oid, "x y") for oid in rest)]
    made.append(x509.Name(parts))
    made.append(x509.Name([x509.RelativeDistinguishedName([unit, parts[-1], parts[0]])]))
    return made


def mapped(rules: str, name: str) -> str:
    try:
        return PrincipalMapper(rules).principal(name).removeprefix("User:")
    except (ConfigError, NoMatchingRule) as error:
        return f"! {error}"


def test_names_and_principals_are_javas(tmp_path: Path) -> None:
    need_jars("kafka-2.8.2")
    authority = Certificates(tmp_path)
    certificates = []
    for subject in subjects():
        text = authority.issue(subject).pem.read_text()
        certificates.append(ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERT") :]))
    asked = [(certificate, rules) for certificate in certificates for rules in RULES]
    lines = [
        " ".join(base64.b64encode(part).decode() for part in (certificate, rules.encode()))
        for certificate, rules in asked
    ]
    said = subprocess.run(
        java_command("kafka-2.8.2", str(NAMES_PROGRAM)),
        input="\n".join(lines), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr
    answers = [
        tuple(base64.b64decode(word[:-1]).decode() for word in line.split(" "))
        for line in said.stdout.splitlines()
    ]
    ours = []
    for certificate, rules in asked:
        name = subject_name(certificate)
        ours.append((name, mapped(rules, name)))
    assert len(answers) == len(asked) > 200
    assert [pair for pair in zip(ours, answers, strict=True) if pair[0] != pair[1]] == []


class Secured:
    """One broker that asks for certificates and gives rights to those it knows."""

    def __init__(self, cluster: ProcessCluster, folder: Path) -> None:
        assert cluster.certificates is not None
        self.servers = cluster.bootstrap_servers
        self.certificates: Certificates = cluster.certificates
        self._folder = folder

    def file(self, who: str, kind: str = "PEM") -> str:
        issued = self.certificates.issue(who)
        given = self.certificates.client_properties(issued, kind)  # type: ignore[arg-type]
        path = self._folder / f"{who}-{kind}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
        return str(path)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    settings = {
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*?)$/$1/L",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:broker;User:admin",
    }
    with ProcessCluster(brokers=1, tls=True, overrides=settings) as cluster:
        yield Secured(cluster, tmp_path_factory.mktemp("clients"))


def test_java_clients_with_pem_and_pkcs12(secured: Secured) -> None:
    need_jars("kafka-4.1")
    servers = ("--bootstrap-server", secured.servers)
    with ToolSession("kafka-4.1") as tools:
        for kind in ("PEM", "PKCS12"):
            made = tools.run(
                f"{TOOLS}.TopicCommand", *servers, "--create", "--topic", f"java-{kind}",
                "--command-config", secured.file("ADMIN", kind),
            )  # fmt: skip
            assert f"Created topic java-{kind}." in made.stdout, made
        for rights in (("--producer",), ("--consumer", "--group", "*")):
            given = tools.run(
                f"{TOOLS}.AclCommand", *servers, "--add", "--allow-principal", "User:alice",
                *rights, "--topic", "java-PEM", "--command-config", secured.file("admin"),
            )  # fmt: skip
            assert given.returncode == 0, given
        sent = run_tool(
            "kafka-4.1", f"{TOOLS}.ConsoleProducer", *servers, "--topic", "java-PEM",
            "--producer.config", secured.file("alice", "PKCS12"), stdin="one\ntwo\n",
        )  # fmt: skip
        assert sent.returncode == 0 and "ERROR" not in sent.stderr, sent.stderr

        def consume(who: str) -> str:
            read = tools.run(
                f"{TOOLS}.consumer.ConsoleConsumer", *servers, "--topic", "java-PEM",
                "--from-beginning", "--max-messages", "2", "--timeout-ms", "30000",
                "--consumer.config", secured.file(who),
            )  # fmt: skip
            return read.stdout + read.stderr

        assert "one\ntwo" in consume("alice")
        assert "one" not in (refused := consume("mallory"))
        assert "TopicAuthorizationException" in refused or "GroupAuthorization" in refused


@pytest.mark.parametrize("client", ["franz-go", "kafka-go"])
def test_go_clients_with_certificates(secured: Secured, client: str) -> None:
    need_suite("go-clients", "Go")
    program = peer_folder("go-clients") / "program"
    own = secured.certificates.issue("admin")  # may make its topic

    def run(**more: str) -> subprocess.CompletedProcess[str]:
        words = (client, secured.servers, "none", "", "", "go", f"by-{client}")
        trust = {"TLS_CA": str(secured.certificates.ca_pem)}
        return subprocess.run(
            [program, *words], env={**os.environ, **trust, **more},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    settings = secured.certificates.client_properties(own)
    with_admin(secured.servers, settings, make_go_topic)
    assert run(TLS_CERTIFICATE=str(own.pem)).stdout == f"by-{client}\n"
    assert "certificate required" in run().stderr


async def make_go_topic(admin: Admin) -> None:
    await ensure_topics(admin, [TopicSpec("go", 1, 1, ())])


def store_properties(certificates: Certificates) -> dict[str, str]:
    """In ZooKeeper's names, for its server as well as for ours."""
    return {
        "ssl.keyStore.location": str(certificates.broker.p12),
        "ssl.keyStore.password": PASSWORD,
        "ssl.trustStore.location": str(certificates.ca_p12),
        "ssl.trustStore.password": PASSWORD,
    }


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


def test_clients_of_zookeeper_on_our_secure_port(authority: Certificates, tmp_path: Path) -> None:
    need_jars("zookeeper-3.8")
    file = tmp_path / "store.properties"
    given = store_properties(authority)
    file.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    port = free_ports(1)
    more = ("--secure-client-port", str(port), "--tls-properties", str(file))
    client = authority.issue("client")
    with ottla_zookeeper(tmp_path / "store", *more):
        kazoo = KazooClient(
            f"{HOST}:{port}", use_ssl=True, verify_certs=True, ca=str(authority.ca_pem),
            certfile=str(client.pem), keyfile=str(client.pem), check_hostname=False,
        )  # fmt: skip
        kazoo.start(30)
        kazoo.create("/kazoo", b"over tls")
        flags = [
            "-Dzookeeper.client.secure=true",
            "-Dzookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty",
            f"-Dzookeeper.ssl.keyStore.location={client.p12}",
            f"-Dzookeeper.ssl.keyStore.password={PASSWORD}",
            f"-Dzookeeper.ssl.trustStore.location={authority.ca_p12}",
            f"-Dzookeeper.ssl.trustStore.password={PASSWORD}",
        ]
        said = subprocess.run(
            [*java_command("zookeeper-3.8", "org.apache.zookeeper.ZooKeeperMain", flags),
             "-server", f"localhost:{port}", "get", "/kazoo"],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert "over tls" in said.stdout, said.stderr[-2000:]
        ours = tmp_path / "tool.properties"
        ours.write_text(
            f"zookeeper.ssl.keystore.location={client.pem}\n"
            f"zookeeper.ssl.truststore.location={authority.ca_pem}\n"
        )
        words = ("zk", "get", "/kazoo", "--zookeeper", f"localhost:{port}")
        shown = subprocess.run(
            [sys.executable, "-m", "ottla", *words, "--zk-tls-config-file", str(ours)],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert shown.stdout == "over tls\n", shown.stderr
        kazoo.stop()
        kazoo.close()


def broker_settings(certificates: Certificates, first_port: int) -> dict[str, str]:
    listeners = f"INSIDE://{HOST}:{first_port + 1},OPEN://{HOST}:{first_port}"
    return certificates.broker_properties("PKCS12") | {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "INSIDE:SSL,OPEN:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
        "ssl.client.auth": "required",
        "min.insync.replicas": "2",
        "default.replication.factor": "2",
        "offsets.topic.replication.factor": "1",
        "ssl.endpoint.identification.algorithm": "https",
    }


@pytest.fixture
def secure_zookeeper(authority: Certificates) -> Iterator[tuple[ApacheZooKeeper, int]]:
    need_jars("zookeeper-3.8", "kafka-2.8.2")
    port = free_ports(1)
    lines = {
        "secureClientPort": str(port),
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
    }
    flags = ["-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory"]
    settings = lines | store_properties(authority)
    with ApacheZooKeeper(flags=flags, settings=settings) as zookeeper:
        yield zookeeper, port


async def test_brokers_of_both_kinds_over_tls(
    authority: Certificates, secure_zookeeper: tuple[ApacheZooKeeper, int], tmp_path: Path
) -> None:
    """Apache Kafka 2.8.2 and Ottla replicate to each other; Ottla's session is on ZooKeeper's
    secure port."""
    zookeeper, secure_port = secure_zookeeper
    first = free_ports(4)
    kafka = SecuredKafka(f"{zookeeper.address}/tls", overrides=broker_settings(authority, first))
    kafka.internal_port = first
    await asyncio.to_thread(kafka.start)
    properties = broker_settings(authority, first + 2) | {
        "broker.id": "1",
        "zookeeper.connect": f"{HOST}:{secure_port}/tls",
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.keystore.location": str(authority.broker.pem),
        "zookeeper.ssl.truststore.location": str(authority.ca_pem),
        "log.dirs": str(tmp_path / "ottla"),
    }
    node = Node(BrokerConfig.from_properties(properties), system_runtime())
    try:
        await node.start()
        own = authority.issue("client")
        settings = {
            "bootstrap.servers": f"localhost:{first + 1},localhost:{first + 3}",
            "security.protocol": "SSL",
            "ssl.ca.location": str(authority.ca_pem),
            "ssl.certificate.location": str(own.pem),
            "ssl.key.location": str(own.pem),
        }
        led_by = await asyncio.to_thread(write_to_both, settings)
        assert led_by == {0, 1}
    finally:
        await node.stop(controlled=False)
        await asyncio.to_thread(kafka.stop)


def write_to_both(settings: dict[str, str]) -> set[int]:
    """Records that two brokers have to have, and who leads their partitions."""
    admin = AdminClient(settings)
    for made in admin.create_topics([NewTopic("both", 4, 2)]).values():
        made.result(30)
    producer = Producer({**settings, "acks": "all", "message.timeout.ms": 30_000})
    errors: list[object] = []
    for number in range(200):
        producer.produce(
            "both", b"x" * 1000, partition=number % 4,
            on_delivery=lambda error, _: errors.append(error) if error else None,
        )  # fmt: skip
    assert producer.flush(60) == 0 and errors == []
    return {
        partition.leader
        for partition in admin.list_topics("both").topics["both"].partitions.values()
    }
