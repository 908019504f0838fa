"""Records whose producer counted in something else than milliseconds."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from tests.support.spark.judged import JUDGED
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
    # Brokers from Kafka 4.0 on refuse what is more than an hour ahead, unless told (KIP-1030).
    config = {"message_timestamp_after_max_ms": str(2**63 - 1)} if JUDGED == "kafka-4.1" else {}
    name, nanoseconds = Topics(servers).create(**config), Topics(servers).create(**config)
    producer = Producer({"bootstrap.servers": servers})
    refused = []
    told = {"on_delivery": lambda error, _: refused.append(error) if error else None}
    for factor in (1, 10**3, 10**6):
        producer.produce(name, b"x", timestamp=SECONDS * factor, **told)
    producer.produce(nanoseconds, b"x", timestamp=SECONDS * 10**9, **told)
    assert producer.flush(WAIT_S) == 0 and refused == []
    refusals = {"kafka": "overflows when converting", "ottla": "is it in nanoseconds"}
    for kind, words in refusals.items():
        assert read(spark, kind, servers, name) == [1970, 2025, 57847]
        with pytest.raises((PySparkException, Py4JJavaError), match=words):
            read(spark, kind, servers, nanoseconds)
