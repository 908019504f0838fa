"""`ottla pipeline run --master spark://…` on a standalone cluster: one master, two workers.

The executors find a package `ottla` that only raises: what they run must have been sent to them.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

from ottla.spark.launch.java import java_home
from ottla.spark.launch.session import missing_reason
from ottla.testing.cluster import Cluster, free_ports
from tests.support.judges import need
from tests.support.spark.pipeline_helpers import read_topic

# Five JVMs start here: on a busy machine that takes minutes. Every wait ends early when a process
# has, so that nothing but slowness takes the time.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]
DEADLINE_S = 500

HOST = "127.0.0.1"
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"


@contextmanager
def server(log, *arguments):
    """One process of Spark; ended at the end."""
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(java_home()),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_DAEMON_MEMORY": "256m",
    }
    command = [str(home / "bin" / "spark-class"), *arguments]
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=out)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until(condition, processes, words):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert all(process.poll() is None for process in processes), words()
        assert time.monotonic() < deadline, words()
        time.sleep(0.2)


def start_spark(stack, tmp_path):
    port = free_ports(1)
    log = tmp_path / "master.log"
    address = ("--host", HOST, "--port", str(port), "--webui-port", "0")
    servers = [stack.enter_context(server(log, MASTER, *address))]
    wait_until(lambda: "I have been elected leader" in log.read_text(), servers, log.read_text)
    url = f"spark://{HOST}:{port}"
    for number in range(2):
        size = ("--cores", "1", "--memory", "700m", "--work-dir", str(tmp_path / f"work-{number}"))
        out = tmp_path / f"worker-{number}.log"
        servers.append(stack.enter_context(server(out, WORKER, *address[:2], *size, url)))
    wait_until(lambda: log.read_text().count("Registering worker") == 2, servers, log.read_text)
    return url


def rows_of(page, job):
    found = re.search(rf'ottla_pipeline_rows_total{{job="{job}",[^}}]*}} ([0-9.e+]+)', page)
    return float(found[1]) if found else 0.0


def test_a_pipeline_on_a_standalone_cluster_ends_at_ctrl_c(tmp_path):
    need(missing_reason())
    poison = tmp_path / "poison" / "ottla"
    poison.mkdir(parents=True)
    (poison / "__init__.py").write_text("raise RuntimeError('this package was not sent')\n")
    file = tmp_path / "numbers.yaml"
    file.write_text(
        f"""
        name: numbers
        stop_timeout: {DEADLINE_S} seconds
        spark:
          spark.executorEnv.PYTHONPATH: {poison.parent}
          spark.executor.memory: 512m
          spark.executor.extraJavaOptions: '{os.environ.get("SPARK_DAEMON_JAVA_OPTS", "")}'
          spark.sql.shuffle.partitions: 2
        jobs:
          - ingest:
              format: rate
              rows_per_second: 50
              select: [cast(value as string) as value]
              topic: {{name: numbers, partitions: 2}}
          - archive: {{from: numbers, path: archive}}
        """
    )
    with ExitStack() as stack:
        url = start_spark(stack, tmp_path)
        servers = stack.enter_context(Cluster(brokers=1)).bootstrap_servers
        report = run_until_interrupted(file, url, servers, tmp_path)
        assert [job["state"] for job in report["jobs"]] == ["stopped", "stopped"]
        values = sorted(int(m.value()) for m in read_topic(servers, "numbers"))
        ingested, archived_rows = report["jobs"]
        # A task of the batch that the stop cut off may have come to its end.
        count = ingested["rows_in"]
        assert values[:count] == list(range(count)) and count >= 100
        assert len(set(values)) == len(values) == ingested["rows_out"]
        assert archived_rows["rows_in"] == archived_rows["rows_out"] == len(values)
        for number in range(2):
            assert list((tmp_path / f"work-{number}").glob("app-*/*/stderr")), "both worked"
    assert archived(tmp_path / "archive") == values


def run_until_interrupted(file, url, servers, tmp_path):
    errors = tmp_path / "ottla.err"
    command = [sys.executable, "-m", "ottla", "pipeline", "run", str(file), "--master", url]
    command += ["--bootstrap-server", servers, "--metrics", "0", "--output", "json"]
    environment = {**os.environ, "SPARK_LOCAL_IP": HOST}
    with errors.open("w") as err, (tmp_path / "ottla.out").open("w+") as out:
        process = subprocess.Popen(command, stdout=out, stderr=err, env=environment, cwd=tmp_path)
        try:
            wait_until(lambda: "/metrics" in errors.read_text(), [process], errors.read_text)
            page = re.search(r"http://\S+/metrics", errors.read_text())[0]

            def archived_enough():
                with urllib.request.urlopen(page, timeout=10) as answer:
                    return rows_of(answer.read().decode(), "archive-numbers") >= 100

            wait_until(archived_enough, [process], errors.read_text)
            process.send_signal(signal.SIGINT)
            assert process.wait(DEADLINE_S) == 0, errors.read_text()
        finally:
            process.kill()
            process.wait()
        out.seek(0)
        text = out.read()
    assert "Traceback" not in errors.read_text()
    return json.loads(text)


def archived(folder):
    """The values in the Parquet files, read without Spark."""
    import pyarrow.parquet

    values = []
    for file in folder.rglob("*.parquet"):
        values += pyarrow.parquet.read_table(file, columns=["value"]).column("value").to_pylist()
    return sorted(map(int, values))
