"""Records whose producer counted in something else than milliseconds."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from tests.support.spark.topics import WAIT_S, Topics

pytestmark = pytest.mark.spark

SECONDS = 1_763_312_400


def read(spark, kind, servers, name):
    frame = spark.read.format(kind).option("kafka.bootstrap.servers", servers)
    rows = frame.option("subscribe", name).load().selectExpr("year(timestamp) AS year").collect()
    return sorted(row["year"] for row in rows)


@pytest.mark.usefixtures("connector")
def test_what_both_sources_make_of_it(spark, ottla_processes):
    """Nanoseconds were some day of the year 174999."""
    servers = ottla_processes.bootstrap_servers
    name, nanoseconds = Topics(servers).create(), Topics(servers).create()
    producer = Producer({"bootstrap.servers": servers})
    for factor in (1, 10**3, 10**6):
        producer.produce(name, b"x", timestamp=SECONDS * factor)
    producer.produce(nanoseconds, b"x", timestamp=SECONDS * 10**9)
    assert producer.flush(WAIT_S) == 0
    refusals = {"kafka": "overflows when converting", "ottla": "is it in nanoseconds"}
    for kind, words in refusals.items():
        assert read(spark, kind, servers, name) == [1970, 2025, 57847]
        with pytest.raises((PySparkException, Py4JJavaError), match=words):
            read(spark, kind, servers, nanoseconds)
