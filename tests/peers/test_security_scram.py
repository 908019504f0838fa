"""SCRAM beside Apache Kafka 2.8.2: its brokers and ours in one cluster, its answers and ours, and
clients of five makers."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from ottla.cli import main as cli_main
from ottla.client.connection import Connection
from ottla.errors import ErrorCode
from ottla.runtime import system_runtime
from ottla.security.sasl.plain import PlainCredentials
from ottla.security.sasl.scram_client import ScramCredentials
from ottla.testing.cluster import free_ports
from ottla.testing.java import ApacheZooKeeper
from ottla.testing.peers import peer_folder
from ottla.wire import messages as m
from ottla.wire.codec import Message
from tests.support.peers import acl_matrix, scram_users
from tests.support.peers.client_suites import need_suite
from tests.support.peers.java_tools import ToolSession, eventually, kazoo, need_jars
from tests.support.peers.ottla_brokers import OttlaBrokers
from tests.support.peers.secured_kafka import SecuredKafka

HOST = "127.0.0.1"
ADMIN = PlainCredentials("admin", acl_matrix.password("admin"))
CONFIG_COMMAND_4_1 = "kafka.admin.ConfigCommand"
pytestmark = pytest.mark.peers


class Stage(NamedTuple):
    """Kafka is broker 0 and the controller of the mixed cluster, Ottla broker 1; one more Ottla is
    a cluster by itself."""

    zookeeper: str
    kafka_port: int
    ottla_port: int
    alone_port: int
    alone_zookeeper: str

    @property
    def mixed(self) -> str:
        return f"{HOST}:{self.kafka_port},{HOST}:{self.ottla_port}"


@pytest.fixture(scope="module")
def old_tools() -> Iterator[ToolSession]:
    need_jars("kafka-2.8.2")
    with ToolSession("kafka-2.8.2") as session:
        yield session


@pytest.fixture(scope="module")
def tools() -> Iterator[ToolSession]:
    need_jars("kafka-4.1")
    with ToolSession("kafka-4.1") as session:
        yield session


@pytest.fixture(scope="module")
def stage(
    apache_zookeeper: ApacheZooKeeper,
    old_tools: ToolSession,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("scram")
    first = free_ports(6)
    mixed = f"{apache_zookeeper.address}/scram-mixed"
    alone = f"{apache_zookeeper.address}/scram-alone"
    for zookeeper in (mixed, alone):
        with kazoo(apache_zookeeper.address) as store:
            store.create("/" + zookeeper.partition("/")[2])
    # The brokers' user, before there is a broker: by Kafka's tool for one, by ours for the other.
    user = ("--alter", "--entity-type", "users", "--entity-name", "broker", "--add-config")
    credential = "SCRAM-SHA-512=[iterations=8192,password=broker-secret]"
    ran = old_tools.run("kafka.admin.ConfigCommand", "--zookeeper", mixed, *user, credential)
    assert "Completed updating config for entity: user-principal 'broker'." in ran.stdout, ran
    assert cli_main.run(["configs", "--zookeeper", alone, *user, credential]) == 0
    kafka = SecuredKafka(mixed, overrides=scram_users.broker_settings(first, first + 1))
    kafka.internal_port = first
    with ExitStack() as running:
        running.enter_context(kafka)
        for zookeeper, ports in ((mixed, first + 2), (alone, first + 4)):
            settings = scram_users.broker_settings(ports, ports + 1) | {
                "connection.failed.authentication.delay.ms": "10"
            }
            brokers = OttlaBrokers(zookeeper, folder, [ports - first], settings)
            brokers._ports = {ports - first: ports}
            running.enter_context(brokers)
        yield Stage(mixed, first + 1, first + 3, first + 5, alone)


async def _ask(port: int, message: Message, version: int = 0, user: Any = ADMIN) -> Any:
    connection = await Connection.open(
        system_runtime().network, HOST, port, client_id="test", sasl=user
    )
    try:
        return await connection.send(message, version)
    finally:
        connection.close()


def _in_order(answer: Any) -> Any:
    """Kafka's results come in the order of hash maps."""
    answer.results.sort(key=lambda result: (result.user, result.error_code))
    return answer


async def test_the_same_answers(stage: Stage) -> None:
    differences = []
    for request in scram_users.requests():
        expected = _in_order(await _ask(stage.kafka_port, request))
        answer = _in_order(await _ask(stage.alone_port, request))
        if answer != expected:
            differences.append(f"{request}\n  Kafka {expected}\n  Ottla {answer}")
    assert differences == [], "\n".join(differences)


async def test_the_same_znodes(stage: Stage) -> None:
    request = scram_users.Request(
        upsertions=[
            scram_users.upsertion(name, number) for name in ("z", "z,y") for number in (1, 2)
        ]
    )
    for port in (stage.kafka_port, stage.alone_port):
        answer = await _ask(port, request)
        assert {result.error_code for result in answer.results} == {0}

    def stored(zookeeper: str) -> dict[str, Any]:
        with kazoo(zookeeper) as store:
            return {
                name: json.loads(store.get(f"/config/users/{name}")[0])
                for name in store.get_children("/config/users")
                if name.startswith("z")
            }

    expected = stored(stage.zookeeper)
    assert expected.keys() == {"z", "z%2Cy"}
    assert stored(stage.alone_zookeeper) == expected


async def _refusal(port: int, *tokens: bytes) -> tuple[Any, ...]:
    """What the last token is answered with."""
    connection = await Connection.open(system_runtime().network, HOST, port, client_id="test")
    try:
        await connection.send(m.SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
        nonce, answer = b"", None
        for token in tokens:
            sent = token.replace(b"NONCE", nonce)
            answer = await connection.send(m.SaslAuthenticateRequest(auth_bytes=sent), 2)
            nonce = answer.auth_bytes[2:].partition(b",")[0]
        assert answer is not None
        return (answer.error_code, answer.error_message, answer.auth_bytes)
    except ConnectionError:
        return ("closed",)
    finally:
        connection.close()


async def test_the_same_refusals(stage: Stage) -> None:
    known = scram_users.Request(upsertions=[scram_users.upsertion("a")])
    for port in (stage.kafka_port, stage.alone_port):
        assert (await _ask(port, known)).results[0].error_code == 0
    ways = [(first,) for first in scram_users.FIRST_TOKENS]
    ways += [(b"n,,n=a,r=c", final) for final in scram_users.FINAL_TOKENS]
    kafka, ottla = [
        await asyncio.gather(*(_refusal(port, *way) for way in ways))
        for port in (stage.kafka_port, stage.alone_port)
    ]
    assert {refusal[0] for refusal in kafka} == {ErrorCode.SASL_AUTHENTICATION_FAILED}
    assert dict(zip(ways, ottla, strict=True)) == dict(zip(ways, kafka, strict=True))
    # Kafka stumbles over a proof of another length and closes; here it is a wrong proof.
    short = (b"n,,n=a,r=c", b"c=biws,r=NONCE,p=AAAA")
    assert await _refusal(stage.kafka_port, *short) == ("closed",)
    assert await _refusal(stage.alone_port, *short) == kafka[-1]


async def _make_dora(stage: Stage) -> None:
    request = scram_users.Request(
        upsertions=[scram_users.with_password("dora", way, "p") for way in scram_users.MECHANISMS]
    )
    assert (await _ask(stage.kafka_port, request)).results[0].error_code == 0


async def test_a_user_of_one_broker_is_known_to_the_other(stage: Stage) -> None:
    """Made by the controller, Kafka; Ottla follows its note."""
    await _make_dora(stage)
    for port in (stage.kafka_port, stage.ottla_port):
        for mechanism in scram_users.MECHANISMS:
            await _until_let_in(port, ScramCredentials(mechanism, "dora", "p"))
    gone = scram_users.Request(deletions=[scram_users.deletion("dora", 1)])
    assert (await _ask(stage.kafka_port, gone)).results[0].error_code == 0
    for port in (stage.kafka_port, stage.ottla_port):
        with pytest.raises(ConnectionError, match="invalid credentials with SASL mechanism SCRAM"):
            for _ in range(100):
                user = ScramCredentials(scram_users.MECHANISMS[0], "dora", "p")
                await _ask(port, m.MetadataRequest(topics=[]), 9, user)
                await asyncio.sleep(0.1)


async def _until_let_in(port: int, user: ScramCredentials) -> None:
    for _ in range(100):
        try:
            await _ask(port, m.MetadataRequest(topics=[]), 9, user)
            return
        except ConnectionError:
            await asyncio.sleep(0.1)
    raise AssertionError(f"{user} is not let in")


def test_kafka_configs_of_4_1_says_what_ours_says(
    stage: Stage, tools: ToolSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = tmp_path / "admin.properties"
    plain.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f"sasl.jaas.config={acl_matrix.MODULE} required "
        f'username="admin" password="{ADMIN.password}";\n'
    )
    bootstrap = f"{HOST}:{stage.alone_port}"
    whom = ("--bootstrap-server", bootstrap, "--command-config", str(plain))
    added = "SCRAM-SHA-256=[iterations=8192,password=p],SCRAM-SHA-512=[password=q]"
    steps = [
        ("--alter", "--entity-type", "users", "--entity-name", "@", "--add-config", added),
        ("--describe", "--entity-type", "users", "--entity-name", "@"),
        ("--alter", "--user", "@", "--delete-config", "SCRAM-SHA-512"),
        ("--describe", "--user", "@"),
        ("--alter", "--user", "@", "--add-config", "SCRAM-SHA-256=[iterations=9,password=p]"),
        ("--alter", "--user-defaults", "--add-config", "SCRAM-SHA-256=[password=p]"),
        (
            "--alter",
            "--user",
            "@",
            "--add-config",
            "SCRAM-SHA-256=[password=p],request_percentage=1",
        ),
    ]
    for step in steps:
        said = []
        for name in ("by-java", "by-ottla"):
            words = [word.replace("@", name) for word in step]
            if name == "by-java":
                ran = tools.run(CONFIG_COMMAND_4_1, *whom, *words)
                code, out, err = ran.returncode, ran.stdout, ran.stderr
            else:
                code = cli_main.run(["configs", *whom, *words])
                out, err = capsys.readouterr()
            said.append((code, out.replace(name, "@"), err.strip().replace(name, "@")))
        assert said[0] == said[1], step


def test_clients_of_other_makers(stage: Stage, tools: ToolSession, tmp_path: Path) -> None:
    """Each writes a record with either mechanism; all of them are read by Java's."""
    asyncio.run(_prepare_clients(stage))
    for mechanism in scram_users.MECHANISMS:
        _by_librdkafka(stage.mixed, mechanism)
        _by_kafka_python(stage.mixed, mechanism)
        config = scram_users.client_file(tmp_path, mechanism, "dora", "p")
        ran = tools.run(
            "org.apache.kafka.tools.ProducerPerformance", "--topic", "t", "--num-records", "1",
            "--payload-monotonic", "--throughput", "-1", "--producer.config", str(config),
            "--producer-props", f"bootstrap.servers={stage.mixed}",
        )  # fmt: skip
        assert "1 records sent" in ran.stdout, ran
        for client in ("franz-go", "kafka-go"):
            assert _by_go(client, stage.mixed, mechanism, "p") == f"{client}-{mechanism}\n"
    ran = tools.run(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", stage.mixed,
        "--topic", "t", "--from-beginning", "--max-messages", "10", "--timeout-ms", "20000",
        "--consumer.config", str(config), "--group", "java",
    )  # fmt: skip
    in_go = [f"{name}-{way}" for name in ("franz-go", "kafka-go") for way in scram_users.MECHANISMS]
    assert sorted(ran.stdout.split()) == ["0", "0", *in_go, "kp", "kp", "rd", "rd"], ran


def test_go_clients_are_told_why_not(stage: Stage) -> None:
    for client in ("franz-go", "kafka-go"):
        said = _by_go(client, f"{HOST}:{stage.alone_port}", "SCRAM-SHA-256", "wrong")
        assert "Authentication failed during authentication due to invalid credentials" in said


def _by_go(client: str, bootstrap: str, mechanism: str, password: str) -> str:
    """What it prints: the value that it wrote and read, or why it could not."""
    need_suite("go-clients", "Go")
    program = peer_folder("go-clients") / "program"
    value = f"{client}-{mechanism}"
    ran = subprocess.run(
        [program, client, bootstrap, mechanism, "dora", password, "t", value],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return ran.stdout + ran.stderr


async def _prepare_clients(stage: Stage) -> None:
    """Brokers of both kinds lead partitions and need each other's fetches."""
    await _make_dora(stage)
    for port in (stage.kafka_port, stage.ottla_port):
        for mechanism in scram_users.MECHANISMS:
            await _until_let_in(port, ScramCredentials(mechanism, "dora", "p"))
    topic = m.CreateTopicsRequest.CreatableTopic(name="t", num_partitions=4, replication_factor=2)
    created = await _ask(
        stage.kafka_port, m.CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5
    )
    assert created.topics[0].error_code == 0, created
    request = m.CreateAclsRequest(
        creations=[
            m.CreateAclsRequest.AclCreation(
                resource_type=kind,
                resource_name="*",
                resource_pattern_type=3,
                principal="User:dora",
                host="*",
                operation=2,
                permission_type=3,
            )
            for kind in (2, 3)
        ]
    )
    answer = await _ask(stage.kafka_port, request, 2)
    assert [result.error_code for result in answer.results] == [0, 0]


def _by_librdkafka(bootstrap: str, mechanism: str) -> None:
    settings = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "dora",
        "sasl.password": "p",
    }
    producer = Producer(settings | {"acks": "all"})

    def acked() -> bool:
        errors = []
        producer.produce("t", b"rd", on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(20) == 0
        return errors == [None]

    eventually(acked, bool)
    group = {"group.id": f"rd-{mechanism}", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings | group)
    consumer.subscribe(["t"])
    message = consumer.poll(20)
    consumer.close()
    assert message is not None and message.error() is None, message and message.error()


def _by_kafka_python(bootstrap: str, mechanism: str) -> None:
    settings = {
        "bootstrap_servers": bootstrap.split(","),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "dora",
        "sasl_plain_password": "p",
    }
    producer = KafkaProducer(acks="all", **settings)
    producer.send("t", b"kp").get(timeout=20)
    producer.close()
    consumer = KafkaConsumer(
        "t", group_id=f"kp-{mechanism}", auto_offset_reset="earliest", **settings
    )
    found = consumer.poll(timeout_ms=20_000)
    consumer.close()
    assert found
