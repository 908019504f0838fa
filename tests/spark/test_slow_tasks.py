"""Rows that are worked on for longer than any request may take: nothing is lost, nothing fails."""

from __future__ import annotations

import hashlib
import time

import pytest

from tests.support.spark.topics import Topics

pytestmark = pytest.mark.spark

# More than the buffers between the JVM and its Python workers take, so that a task has to wait.
COUNT, SIZE = 80, 400_000
# No answer may take this long, and each pause is longer.
SHORT = {"kafka.request.timeout.ms": "2000"}
PAUSE_S = 3


def slow(batches):
    """Rests with the first two batches."""
    for number, batch in enumerate(batches):
        time.sleep(PAUSE_S if number < 2 else 0)
        yield batch


@pytest.fixture(scope="module")
def topics(ottla_processes):
    return Topics(ottla_processes.bootstrap_servers)


def test_a_slow_job_reads_and_writes_everything(spark, topics):
    source, target = topics.create(), topics.create()
    values = [b"%d" % number * (SIZE // len(b"%d" % number)) for number in range(COUNT)]
    topics.fill(source, values, partition=0)
    options = {"kafka.bootstrap.servers": topics.servers, **SHORT}
    small = {"kafka.max.partition.fetch.bytes": "1000000"}
    read = spark.read.format("ottla").options(**options, **small, subscribe=source).load()
    rows = read.select("value").mapInArrow(slow, "value binary")
    writer = rows.write.format("ottla").mode("append").options(**options, topic=target)
    writer.option("deliveryGuarantee", "at_least_once").save()
    found = spark.read.format("ottla").options(**options, subscribe=target).load()
    digests = [
        row.digest for row in found.orderBy("offset").selectExpr("md5(value) digest").collect()
    ]
    assert digests == [hashlib.md5(value).hexdigest() for value in values]
