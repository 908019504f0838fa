"""Topics read and written over TLS with `kafka.ssl.*`, by our data source and by Spark's connector;
the brokers want certificates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ottla.pipelines.spec_keys import TopicSpec
from ottla.pipelines.topics import make_topic, with_admin
from ottla.testing.cluster import ProcessCluster

pytestmark = pytest.mark.spark


class Secured:
    def __init__(self, cluster: ProcessCluster) -> None:
        assert cluster.certificates is not None
        self.servers = cluster.bootstrap_servers
        self.certificates = cluster.certificates
        # PEM text: no file has to be on the machines that run tasks.
        key, _, chain = (
            self.certificates.issue("spark").pem.read_text().partition("-----BEGIN CERT")
        )
        self.properties = {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": self.certificates.ca_pem.read_text(),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": key,
            "ssl.keystore.certificate.chain": "-----BEGIN CERT" + chain,
        }

    @property
    def options(self) -> dict[str, str]:
        given = self.properties | {"bootstrap.servers": self.servers}
        return {f"kafka.{name}": value for name, value in given.items()}

    def make_topic(self, name: str) -> None:
        spec = TopicSpec(name, 2, 1, ())
        with_admin(self.servers, self.properties, lambda admin: make_topic(admin, spec))


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    settings = {"ssl.client.auth": "required"}
    with ProcessCluster(brokers=1, tls=True, overrides=settings) as cluster:
        yield Secured(cluster)


@pytest.mark.usefixtures("connector")
def test_both_sources_read_what_was_written_over_tls(
    spark: SparkSession, secured: Secured, tmp_path: Path
) -> None:
    secured.make_topic("plain")
    secured.make_topic("copy")
    numbers = spark.range(1000).selectExpr("cast(id as string) value")
    write = numbers.write.format("ottla").options(**secured.options, topic="plain")
    write.mode("append").save()
    stream = spark.readStream.format("ottla").options(**secured.options, subscribe="plain")
    begun = stream.option("startingOffsets", "earliest").load().selectExpr("value").writeStream
    query = begun.format("ottla").options(**secured.options, topic="copy")
    query = query.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    query.start().awaitTermination(120)
    for kind in ("ottla", "kafka"):
        read = spark.read.format(kind).options(**secured.options, subscribe="copy").load()
        found = {int(bytes(row.value)) for row in read.select("value").collect()}
        assert found == set(range(1000)), kind


def test_who_trusts_nobody_is_told_so(spark: SparkSession, secured: Secured) -> None:
    options = {
        "kafka.bootstrap.servers": secured.servers,
        "kafka.security.protocol": "SSL",
    }
    with pytest.raises(PySparkException, match=r"the certificate of .* is refused"):
        spark.read.format("ottla").options(**options, subscribe="plain").load().count()
