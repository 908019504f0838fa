"""How many questions a micro-batch asks of the brokers, by what a broker has counted."""

from __future__ import annotations

import re
import socket
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ottla.testing.cluster import ProcessCluster

FEW, MANY = 3, 15
PER_BATCH = 10
SLOW_MS = 1_000


@pytest.fixture(scope="module")
def counting() -> Iterator[tuple[ProcessCluster, int]]:
    """A broker of its own: nobody else asks it anything."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    overrides = {"ottla.metrics.port": str(port)}
    with ProcessCluster(brokers=1, overrides=overrides) as cluster:
        yield cluster, port


def _asked(port: int) -> Counter[str]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found: Counter[str] = Counter()
    pattern = r'^kafka_network_requestmetrics_requests_total\{[^}]*request="(\w+)"[^}]*\} (\S+)'
    for name, count in re.findall(pattern, text, re.MULTILINE):
        found[name] += int(float(count))
    return found


def _run(spark: SparkSession, servers: str, topic: str, checkpoint: Path) -> tuple[int, int]:
    """Reads the topic in small micro-batches; how many there were, and how many were slow: topics
    that were looked at two seconds ago are looked at twice."""
    source = spark.readStream.format("ottla").option("kafka.bootstrap.servers", servers)
    source = source.option("subscribe", topic).option("startingOffsets", "earliest")
    rows = source.option("maxOffsetsPerTrigger", PER_BATCH).load()
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    progress = [one for one in query.recentProgress if one["numInputRows"]]
    return len(progress), sum(one["batchDuration"] > SLOW_MS for one in progress)


def test_a_micro_batch_asks_for_ends_and_ids_once(
    spark: SparkSession, counting: tuple[ProcessCluster, int], tmp_path: Path
) -> None:
    cluster, port = counting
    asked = {}
    for batches in (FEW, FEW, MANY):  # the first also starts workers, which ask who is there
        topic = f"small-{len(list(tmp_path.iterdir()))}"
        cluster.create_topic(topic, partitions=2)
        frame = spark.range(batches * PER_BATCH).selectExpr(
            "cast(id AS string) value", "cast(id % 2 AS int) partition"
        )
        write = frame.write.format("ottla").mode("append").option("topic", topic)
        write.option("kafka.bootstrap.servers", cluster.bootstrap_servers).save()
        before = _asked(port)
        done, slow = _run(spark, cluster.bootstrap_servers, topic, tmp_path / topic)
        assert done == batches
        asked[batches] = _asked(port) - before
    more = asked[MANY] - asked[FEW]
    batches = MANY - FEW
    assert batches <= more["ListOffsets"] <= batches + 2
    assert more["Metadata"] <= batches + slow + 2, "the ids"
    assert more["ApiVersions"] == 0, "connections stay open"
    assert more["FetchConsumer"] <= 4 * batches
