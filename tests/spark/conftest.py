"""One Spark session and one cluster of three processes for all Spark tests.

`OTTLA_JUDGED=kafka-2.8.2 pytest tests/spark` runs the same tests on Apache Kafka, and so does
`kafka-4.1`.
"""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from ottla.testing.java import KraftKafka
from ottla.testing.java import missing_reason as missing_peer
from ottla.testing.spark import missing_reason, spark_session, stop_session
from tests.support.judges import need
from tests.support.spark.judged import JUDGED, AnyCluster, judged_cluster


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """`format("ottla")` needs no jars; whoever uses `format("kafka")` asks for `connector` too."""
    need(missing_reason(connector=False))
    session = spark_session("ottla-tests")
    yield session
    stop_session(session)


@pytest.fixture(scope="session")
def connector() -> None:
    need(missing_reason())


@pytest.fixture(scope="session")
def ottla_processes() -> Iterator[AnyCluster]:
    with judged_cluster(brokers=3, processes=True) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kraft() -> Iterator[KraftKafka]:
    """Apache Kafka 4.1, the other cluster that the data source is judged on."""
    if JUDGED == "kafka-4.1":
        pytest.skip("all tests run on Apache Kafka 4.1")
    need(missing_peer("kafka-4.1"))
    with KraftKafka() as kafka:
        yield kafka
