"""A cluster that asks who is there: an administrator, and a user with few rights."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from ottla.testing.cluster import ProcessCluster

ADMIN, ALICE = "admin", "alice"
_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def password(user: str) -> str:
    return f"{user}-secret"


def client_properties(user: str) -> str:
    return (
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={_MODULE} required username="{user}" password="{password(user)}";\n'
    )


@contextlib.contextmanager
def cluster_with_users(folder: Path) -> Iterator[tuple[ProcessCluster, Path]]:
    """The cluster, and the file for --command-config of its administrator."""
    users = " ".join(f'user_{user}="{password(user)}"' for user in (ADMIN, ALICE))
    own = f'username="{ADMIN}" password="{password(ADMIN)}"'
    settings = {
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "plain.sasl.jaas.config": f"{_MODULE} required {own} {users};",
        "scram-sha-256.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": f"User:{ADMIN}",
        "connection.failed.authentication.delay.ms": "20",
    }
    with ProcessCluster(brokers=1, data=folder / "data", overrides=settings) as cluster:
        file = folder / "admin.properties"
        file.write_text(client_properties(ADMIN))
        yield cluster, file


def ottla(*words: str) -> str:
    """What the command prints; raises for one that fails."""
    command = [sys.executable, "-m", "ottla", *words]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr or run.stdout
    return run.stdout
