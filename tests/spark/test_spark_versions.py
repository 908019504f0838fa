"""The data source on every Spark and Python that it is for, in sessions of both kinds: the same
small program on each."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ottla.spark.launch.pyspark_version import pyspark_version
from ottla.spark.launch.session import missing_reason
from tests.support.campaign import table, write_page
from tests.support.judges import need
from tests.support.spark import environments, smoke
from tests.support.spark.connect_server import ConnectServer
from tests.support.spark.topics import Topics

pytestmark = [
    pytest.mark.spark,
    pytest.mark.campaign,
    pytest.mark.usefixtures("campaign"),
    pytest.mark.timeout(7200),
]

SMOKE_TIMEOUT_S = 900
# Newest of each line that there was when this was run last, with the Pythons between them.
MATRIX = [
    ("4.0.5", "3.11"),
    ("4.1.4", "3.11"),
    ("4.2.1", "3.11"),
    ("4.2.0", "3.12"),
    ("4.2.0", "3.13"),
    ("4.3.0", "3.13"),
]
PYTHONS = ["3.12", "3.13"]
ONE, TWO = smoke.ROWS, 2 * smoke.ROWS


def run_smoke(
    python: Path, topics: Topics, folder: Path, remote: str | None, *, topic_count: int = 3
) -> dict:
    names = [topics.create(2) for _ in range(topic_count)]
    given = {"servers": topics.servers, "folder": str(folder), "remote": remote, "topics": names}
    ran = subprocess.run(
        [python, smoke.__file__, json.dumps(given)],
        env=environments.environment(),
        capture_output=True,
        text=True,
        timeout=SMOKE_TIMEOUT_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    return json.loads(ran.stdout.splitlines()[-1])


def judge(found: dict) -> None:
    """Every record once, in whichever way it went."""
    assert found["batch"] == [ONE, ONE, ONE // 2]
    assert found["stream"] == found["exactly_once"] == [TWO, TWO, ONE]
    has_limits = tuple(map(int, found["spark"].split(".")[:2])) >= (4, 2)
    if has_limits:
        assert found["limited"] >= 3 and found["third"] == [TWO, TWO, ONE]
        assert found["lag"] == 0
    else:
        assert f"maxOffsetsPerTrigger: Spark {found['spark']} does not let" in found["limited"]
        assert found["third"] == [0, 0, 0]


def test_a_session_of_spark_connect_reads_and_writes(ottla_processes, tmp_path):
    need(missing_reason())
    topics = Topics(ottla_processes.bootstrap_servers)
    found = run_smoke(Path(sys.executable), topics, tmp_path, "local[2]")
    assert found["session"] == "pyspark.sql.connect.session"
    judge(found)


def test_a_server_of_spark_connect_with_the_package(ottla_processes, tmp_path):
    need(missing_reason())
    topics = Topics(ottla_processes.bootstrap_servers)
    with ConnectServer(tmp_path, str(environments.ROOT / "src")) as server:
        judge(run_smoke(Path(sys.executable), topics, tmp_path, server.url))


def test_batches_on_a_server_of_spark_connect_without_the_package(ottla_processes, tmp_path):
    """Its Python finds a package `ottla` that only raises: what it runs was sent."""
    need(missing_reason())
    poison = tmp_path / "poison" / "ottla"
    poison.mkdir(parents=True)
    (poison / "__init__.py").write_text("raise RuntimeError('this package was not sent')\n")
    topics = Topics(ottla_processes.bootstrap_servers)
    with ConnectServer(tmp_path, str(poison.parent)) as server:
        found = run_smoke(Path(sys.executable), topics, tmp_path, server.url, topic_count=1)
    assert found["session"] == "pyspark.sql.connect.session"
    assert found["batch"] == [ONE, ONE, ONE // 2]


def test_every_spark(ottla_processes, tmp_path):
    need(missing_reason())
    topics = Topics(ottla_processes.bootstrap_servers)
    rows = []
    for spark, version in MATRIX:
        need(environments.missing_reason(version))
        python = environments.spark_environment(spark, version)
        for remote in (None, "local[2]"):
            begun = time.monotonic()
            found = run_smoke(python, topics, tmp_path / f"{spark}-{version}-{remote}", remote)
            assert found["spark"] == spark and found["python"].startswith(version)
            judge(found)
            kind = "classic" if remote is None else "Connect, server in the same process"
            limits = "refused" if isinstance(found["limited"], str) else found["limited"]
            seconds = f"{time.monotonic() - begun:.0f}"
            rows.append([spark, found["python"], kind, "all once", limits, seconds])
            print(*rows[-1], flush=True)
    write_page(
        "spark-versions",
        "The data source on other versions of Spark and Python",
        "A batch is written and read; a stream with a shuffle copies it exactly once, is started"
        " again with more records, and runs its last micro-batch again; a stream with"
        " `maxOffsetsPerTrigger` follows (`tests/spark/test_spark_versions.py`). Each row is a"
        " process of its own, in an environment with that PySpark and that Python.",
        {"locked": f"PySpark {pyspark_version()}", "brokers": "3 processes"},
        table(("Spark", "Python", "session", "records", "micro-batches with limit", "s"), rows),
    )


@pytest.mark.parametrize("version", PYTHONS)
def test_unit_tests_on_other_pythons(version):
    need(environments.missing_reason(version))
    python = environments.locked_environment(version)
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/unit"]
    ran = subprocess.run(
        command,
        cwd=environments.ROOT,
        env=environments.environment(),
        capture_output=True,
        text=True,
        timeout=SMOKE_TIMEOUT_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-4000:]
