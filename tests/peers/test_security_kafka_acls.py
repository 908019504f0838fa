"""Authorisation beside Apache Kafka 2.8.2, and Java's kafka-acls on Ottla."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ottla.cli import main as cli_main
from ottla.client.connection import Connection
from ottla.runtime import system_runtime
from ottla.security.sasl.plain import PlainCredentials
from ottla.testing.cluster import Cluster, free_ports
from ottla.testing.java import ApacheZooKeeper
from ottla.wire import messages as m
from tests.support.peers import acl_matrix
from tests.support.peers.java_tools import ToolSession, kazoo
from tests.support.peers.secured_kafka import Tool, secured_kafka

HOST = "127.0.0.1"
pytestmark = pytest.mark.peers


class Judged(NamedTuple):
    """A broker with the authoriser: its SASL listener and its store."""

    port: int
    zookeeper: str


@pytest.fixture(scope="module")
def kafka(apache_zookeeper: ApacheZooKeeper) -> Iterator[Judged]:
    """The SASL listener of Apache Kafka 2.8.2 with its authoriser."""
    zookeeper = f"{apache_zookeeper.address}/secured"
    with secured_kafka(zookeeper, acl_matrix.broker_settings) as broker:
        port = broker.internal_port + 1
        asyncio.run(_prepare(port))
        yield Judged(port, broker.zookeeper)


@pytest.fixture(scope="module")
def ottla() -> Iterator[Judged]:
    internal = free_ports(2)
    settings = acl_matrix.broker_settings(internal, internal + 1)
    with Cluster(brokers=1, overrides=settings) as cluster:
        asyncio.run(_prepare(internal + 1))
        yield Judged(internal + 1, cluster.zookeeper)


async def _connect(port: int, user: str) -> Connection:
    return await Connection.open(
        system_runtime().network,
        HOST,
        port,
        client_id="matrix",
        sasl=PlainCredentials(user, acl_matrix.password(user)),
    )


async def _prepare(port: int) -> None:
    """Topics, ACLs, and a group coordinator that is ready."""
    connection = await _connect(port, "admin")
    created = await connection.send(acl_matrix.new_topics(), 5)
    assert {topic.error_code for topic in created.topics} == {0}
    added = await connection.send(acl_matrix.creations(), 2)
    assert {result.error_code for result in added.results} == {0}
    await _await_coordinator(connection)
    connection.close()


async def _await_coordinator(connection: Connection) -> None:
    for _ in range(100):
        answer = await connection.send(m.FindCoordinatorRequest(key="g"), 2)
        if answer.error_code == 0:
            return
        await asyncio.sleep(0.1)
    raise AssertionError("no group coordinator")


async def _outcomes(port: int, user: str) -> list[tuple[str, Any]]:
    found = []
    connection = await _connect(port, user)
    for name, message, version in acl_matrix.calls(user):
        try:
            answer = await connection.send(message, version, timeout_ms=10_000)
        except ConnectionError:
            found.append((name, "closed"))
            connection = await _connect(port, user)
            continue
        found.append((name, acl_matrix.outcome(answer)))
    connection.close()
    return found


@pytest.mark.parametrize("user", acl_matrix.USERS)
def test_everyone_is_allowed_and_refused_the_same(user: str, kafka: Judged, ottla: Judged) -> None:
    expected = asyncio.run(_outcomes(kafka.port, user))
    found = asyncio.run(_outcomes(ottla.port, user))
    assert len(expected) > 30
    different = {
        f"{index} {name}": {"kafka": theirs, "ottla": ours}
        for index, ((name, theirs), (_, ours)) in enumerate(zip(expected, found, strict=True))
        if theirs != ours
    }
    assert different == {}


def _acl_znodes(zookeeper: str) -> dict[str, Any]:
    """Every ACL znode, and the first change notes; entries of one pattern are a set."""
    found: dict[str, Any] = {}
    with kazoo(zookeeper) as client:
        for parent in ("/kafka-acl", "/kafka-acl-extended/prefixed"):
            for kind in client.get_children(parent):
                found[f"{parent}/{kind}"] = client.get(f"{parent}/{kind}")[0]
                for name in client.get_children(f"{parent}/{kind}"):
                    data = client.get(f"{parent}/{kind}/{name}")[0]
                    found[f"{parent}/{kind}/{name}"] = sorted(_parts_of(data))
        for parent in ("/kafka-acl-changes", "/kafka-acl-extended-changes"):
            notes = (client.get(f"{parent}/{note}")[0] for note in client.get_children(parent))
            found[parent] = sorted(notes)
    return found


def _parts_of(data: bytes) -> list[bytes]:
    head, _, entries = data.partition(b"[")
    return [head, *entries.removesuffix(b"]}").replace(b"},{", b"}\n{").split(b"\n")]


def test_znodes_are_kafkas(kafka: Judged, ottla: Judged) -> None:
    expected = _acl_znodes(kafka.zookeeper)
    assert len(expected) > 15
    assert _acl_znodes(ottla.zookeeper) == expected


def _client_file(folder: Path, user: str, secret: str) -> Path:
    path = folder / f"{user}.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\n"
        "sasl.mechanism=PLAIN\n"
        f"sasl.jaas.config={acl_matrix.MODULE} required "
        f'username="{user}" password="{secret}";\n'
    )
    return path


@pytest.fixture
def acls(
    java_tool: Callable[[str, str], Tool], ottla: Judged, tmp_path: Path
) -> Callable[..., str]:
    """kafka-acls on Ottla as one of the users; its output, both streams."""
    run = java_tool("kafka-2.8.2", "kafka.admin.AclCommand")

    def acls(*arguments: str, user: str = "admin", secret: str | None = None) -> str:
        config = _client_file(tmp_path, user, secret or acl_matrix.password(user))
        bootstrap = ("--bootstrap-server", f"{HOST}:{ottla.port}")
        ran = run(*bootstrap, "--command-config", str(config), *arguments)
        return ran.stdout + ran.stderr

    return acls


def test_kafka_acls_adds_lists_and_removes(acls: Callable[..., str]) -> None:
    which = ("--allow-principal", "User:carol", "--operation", "Read", "--topic", "by-java")
    added = acls("--add", *which)
    assert "Adding ACLs for resource `ResourcePattern(resourceType=TOPIC, name=by-java" in added
    assert "(principal=User:carol, host=*, operation=READ, permissionType=ALLOW)" in added
    acls("--add", "--deny-principal", "User:carol", "--deny-host", "10.1.1.1", "--operation",
         "Write", "--topic", "by-j", "--resource-pattern-type", "prefixed")  # fmt: skip

    listed = acls("--list", "--topic", "by-java", "--resource-pattern-type", "match")
    assert "name=by-java, patternType=LITERAL" in listed
    assert "name=by-j, patternType=PREFIXED" in listed
    assert "(principal=User:carol, host=10.1.1.1, operation=WRITE, permissionType=DENY)" in listed

    acls("--remove", "--force", *which)
    left = acls("--list", "--topic", "by-java")
    assert "User:carol" not in left


def test_kafka_acls_is_told_why_it_may_not(acls: Callable[..., str]) -> None:
    assert "ClusterAuthorizationException" in acls("--list", user="carol")
    refused = acls("--list", secret="wrong")
    assert "SaslAuthenticationException: Authentication failed: Invalid username" in refused


# `@` stands for the tool that says it: each has resources of its own.
_ALLOW = "--allow-principal User:@-carol"
ACL_LINES = [
    f"--add {_ALLOW} --allow-principal User:dora --operation Read --operation Write --topic @-t",
    f"--add {_ALLOW} --allow-host 10.1.1.1 --deny-principal User:eve --group @-g --topic @-t",
    f"--add {_ALLOW} --operation describeconfigs --topic @- --resource-pattern-type prefixed",
    f"--add {_ALLOW} --producer --idempotent --topic @-p --transactional-id @-x",
    f"--add {_ALLOW} --consumer --topic @-c --group @-g",
    f"--add {_ALLOW} --producer --consumer --topic @-both --group @-both",
    f"--add {_ALLOW} --cluster --operation Alter",
    "--list --topic @-t",
    "--list --topic @-t --group @-g",
    "--list --topic @-t --resource-pattern-type match",
    "--list --topic @-t --resource-pattern-type any --topic @-c",
    "--list --topic @-t --principal User:dora --principal User:@-carol",
    "--list --topic @-none",
    "--remove --force --topic @-t --deny-principal User:eve",
    f"--remove --force {_ALLOW} --operation Read --topic @-t",
    "--remove --force --topic @-c --group @-g",
    f"--remove --force {_ALLOW} --producer --idempotent --topic @-p --transactional-id @-x",
    f"--remove --force {_ALLOW} --cluster --operation Alter",
    "--remove --force --topic @-t --resource-pattern-type any",
    # bad ones
    "--list --add",
    "",
    "--add --topic @-t",
    f"--add {_ALLOW} --topic @-t --resource-pattern-type match",
    f"--add {_ALLOW} --operation Fly --group @-g",
    f"--add {_ALLOW} --operation ClusterAction --delegation-token @-d",
    "--add --allow-principal carol --topic @-t",
    f"--add {_ALLOW}",
    f"--list {_ALLOW}",
    "--remove --force",
    f"--add {_ALLOW} --producer --operation Read --topic @-t",
    f"--add {_ALLOW} --producer",
    f"--add {_ALLOW} --idempotent --topic @-t",
    f"--add {_ALLOW} --consumer --topic @-t",
    f"--add {_ALLOW} --topic @-t --principal User:x",
]


class Said(NamedTuple):
    """An answer without the order in which Java's sets hand out entries."""

    has_failed: bool
    lines: list[str]
    error: str


def _said(code: int, out: str, err: str, name: str) -> Said:
    # The cluster has one set of entries, with those of the other tool among them.
    others = "by-java" if name == "by-ottla" else "by-ottla"
    lines = [line for line in out.splitlines() if others not in line]
    failures = [line for line in lines if line.startswith("Error while executing ACL command: ")]
    if code and failures:
        return Said(True, [], failures[0].replace(name, "@"))
    kept = sorted(line.strip() for line in lines if line.strip())
    error = (err.splitlines() or [""])[0].strip() if code else ""
    return Said(code != 0, [line.replace(name, "@") for line in kept], error.replace(name, "@"))


def _ask_ours(place: list[str], line: str, name: str = "by-ottla") -> Said:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli_main.run(["acls", *place, *line.replace("@", name).split()])
    assert err.getvalue().count("\n") == (code != 0)
    return _said(code, out.getvalue(), err.getvalue(), name)


def _place(judged: Judged, folder: Path) -> list[str]:
    config = str(_client_file(folder, "admin", acl_matrix.password("admin")))
    return ["--bootstrap-server", f"{HOST}:{judged.port}", "--command-config", config]


def test_ottla_acls_prints_the_lines_of_kafka_acls(
    kafka: Judged, ottla: Judged, tmp_path: Path
) -> None:
    """The same command lines with both tools on Apache Kafka, then with ours on Ottla."""
    different = {}
    with ToolSession("kafka-2.8.2") as java:
        for line in ACL_LINES:
            arguments = [*_place(kafka, tmp_path), *line.replace("@", "by-java").split()]
            theirs = _said(*java.run("kafka.admin.AclCommand", *arguments), name="by-java")
            answers = {
                "kafka-acls": theirs,
                "ottla acls": _ask_ours(_place(kafka, tmp_path), line),
                "ottla acls on Ottla": _ask_ours(_place(ottla, tmp_path), line),
            }
            if len(set(map(repr, answers.values()))) > 1:
                different[line] = answers
    assert different == {}
