"""examples/declarative under Spark's own `spark-pipelines`: topics in, a table and a topic out."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.spark.launch.java import java_home
from ottla.spark.launch.session import missing_reason
from ottla.testing.cluster import Cluster
from tests.support.judges import need
from tests.support.spark.pipeline_helpers import read_topic

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

EXAMPLE = Path(__file__).parents[2] / "examples" / "declarative"


def test_the_declarative_example(tmp_path):
    need(missing_reason())
    with Cluster(brokers=1) as cluster:
        run_and_judge(cluster.bootstrap_servers, tmp_path)


def run_and_judge(servers, tmp_path):
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.create_topics(
        [NewTopic("clicks", 3, 1), NewTopic("orders", 2, 1)]
    ).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": servers})
    for number in range(500):
        producer.produce("clicks", json.dumps({"user": f"u{number}", "paid": number % 3}))
    assert producer.flush(60) == 0

    project = tmp_path / "project"
    shutil.copytree(EXAMPLE, project)
    spec = project / "spark-pipeline.yml"
    storage = tmp_path / "storage"
    storage.mkdir()
    spec.write_text(
        spec.read_text()
        .replace("127.0.0.1:9092", servers)
        .replace("storage: storage", f"storage: file://{storage}")
    )
    run = run_spark_pipelines("run", "--spec", str(spec), cwd=project)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
    found = sorted(json.loads(m.value())["user"] for m in read_topic(servers, "orders"))
    assert found == sorted(f"u{number}" for number in range(500) if number % 3)
    tables = list((project / "spark-warehouse" / "clicks").rglob("*.parquet"))
    assert tables, "the table is there"


def run_spark_pipelines(*arguments, cwd):
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "JAVA_HOME": str(java_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        # Spark Connect then takes any free port, not always the same one.
        "SPARK_TESTING": "1",
    }
    return subprocess.run(
        [
            str(home / "bin" / "spark-pipelines"),
            *("--remote", "local[2]", "--conf", "spark.ui.enabled=false"),
            *arguments,
        ],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
