"""Records whose producer counted in something else than milliseconds."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException

from tests.support.spark.topics import WAIT_S, Topics

pytestmark = pytest.mark.spark

SECONDS = 1_763_312_400


def read(spark, kind, servers, name):
    frame = spark.read.format(kind).option("kafka.bootstrap.servers", servers)
    return frame.option("subscribe", name).load().selectExpr("year(timestamp) AS year").collect()


@pytest.mark.usefixtures("connector")
@pytest.mark.parametrize(
    ("timestamp", "year"),
    [(SECONDS, 1970), (SECONDS * 1000, 2025), (SECONDS * 10**6, 57846), (SECONDS * 10**9, None)],
)
def test_what_both_sources_make_of_it(spark, ottla_processes, timestamp, year):
    """Nanoseconds were some day of the year 174999."""
    servers = ottla_processes.bootstrap_servers
    name = Topics(servers).create()
    producer = Producer({"bootstrap.servers": servers})
    producer.produce(name, b"x", timestamp=timestamp)
    assert producer.flush(WAIT_S) == 0
    for kind, words in (("kafka", "overflow"), ("ottla", "is it in nanoseconds")):
        if year is not None:
            assert [row["year"] for row in read(spark, kind, servers, name)] == [year]
            continue
        with pytest.raises(PySparkException, match=words):
            read(spark, kind, servers, name)
