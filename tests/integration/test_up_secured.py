"""`ottla up` with an authoriser: the port of the store is no way round it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from ottla.testing.cluster import ProcessCluster

AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
SECRET = "not-for-others"
SETTINGS = {
    "authorizer.class.name": AUTHORIZER,
    "super.users": "User:ANONYMOUS",
    "plain.sasl.jaas.config": (
        f'org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="{SECRET}";'
    ),
}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ottla", *arguments], capture_output=True, text=True, timeout=60
    )


def attempts(client: KazooClient) -> list[Callable[[], Any]]:
    return [
        lambda: client.get("/config/users"),
        lambda: client.get_children("/config/brokers"),
        lambda: client.delete("/controller"),
        lambda: client.set("/brokers/topics/orders", b"{}"),
        lambda: client.create("/brokers/topics/planted", b"{}"),
        lambda: client.create("/admin/delete_topics/orders", b""),
        lambda: client.create("/kafka-acl/Topic/orders", b""),
        lambda: client.create("/anything", b""),
    ]


def connected(address: str) -> KazooClient:
    client = KazooClient(address)
    client.start()
    return client


def test_the_store_is_the_brokers_alone(tmp_path: Path) -> None:
    # What was open before is closed, too.
    with ProcessCluster(brokers=1, data=tmp_path) as cluster:
        cluster.create_topic("orders")
        client = connected(cluster.zookeeper)
        client.create("/brokers/topics/open/partitions", b"", makepath=True)
        client.stop()
    with ProcessCluster(brokers=2, data=tmp_path, overrides=SETTINGS) as cluster:
        digest = tmp_path / "config" / "store.digest"
        store = ("--zookeeper", cluster.zookeeper)
        client = connected(cluster.zookeeper)
        for attempt in attempts(client):
            with pytest.raises(NoAuthError):
                attempt()
        assert client.get("/brokers/topics/orders")[0], "what is no secret can be read"
        client.add_auth("digest", digest.read_text().strip())
        client.get("/config/users")
        client.stop()

        command = ("topics", *store, "--create", "--topic", "by-hand", "--partitions", "1")
        command += ("--replication-factor", "1")
        refused = run(*command)
        assert refused.returncode == 1 and "--zk-credentials names who you are" in (
            refused.stdout + refused.stderr
        )
        assert run(*command, "--zk-credentials", str(digest)).returncode == 0
        listed = run("zk", "ls", "/config/users", *store)
        assert listed.returncode == 1 and "no auth /config/users" in listed.stderr
        assert (
            run("zk", "ls", "/config/users", *store, "--zk-credentials", str(digest)).stdout == ""
        )
        closed = run("zk", "secure", *store, "--zk-credentials", str(digest))
        assert closed.stdout == "0 znodes were open to everybody and are not any more.\n"
        cluster.create_topic("after", partitions=2)

        # Secrets are in files for their owner alone, and nowhere else.
        for path in (tmp_path / "config").iterdir():
            assert path.stat().st_mode & 0o777 == 0o600, path
        assert (tmp_path / "store").stat().st_mode & 0o777 == 0o700
        password = digest.read_text().strip().partition(":")[2]
        for secret in (SECRET, password):
            assert secret not in _command_lines()
            for path in (tmp_path / "logs").iterdir():
                assert secret not in path.read_text(), path
        shown = run(
            "configs", "--bootstrap-server", cluster.bootstrap_servers, "--describe", "--all",
            "--entity-type", "brokers", "--entity-name", "0",
        )  # fmt: skip
        assert "plain.sasl.jaas.config" in shown.stdout and SECRET not in shown.stdout
    # A closed store stays closed, also without an authoriser.
    with ProcessCluster(brokers=1, data=tmp_path) as cluster:
        client = connected(cluster.zookeeper)
        with pytest.raises(NoAuthError):
            client.delete("/controller")
        client.stop()


def _command_lines() -> str:
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return "\n".join(lines)


def test_secrets_on_a_command_line_are_refused(tmp_path: Path) -> None:
    for key in ("plain.sasl.jaas.config", "listener.name.x.plain.sasl.jaas.config"):
        done = run("up", "--data", str(tmp_path / "data"), "--set", f"{key}={SECRET}")
        assert done.returncode != 0 and f"{key} is a secret" in done.stderr
        assert SECRET not in done.stderr + done.stdout
    assert not (tmp_path / "data").exists()
