"""Where jobs come from: options of the connector's users, a Spark of before 4.2, spark-submit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.errors import StreamingQueryException

from ottla.spark import write_package
from ottla.spark.launch.java import java_home
from ottla.spark.unused_options import CLIENT_SETTINGS
from tests.support.spark.topics import Topics

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

VALUES = [b"%03d" % number for number in range(300)]
OLDER = "ottla-older"
SUBMIT_TIMEOUT_S = 600


@pytest.fixture(scope="module")
def topics(ottla_processes):
    return Topics(ottla_processes.bootstrap_servers)


@pytest.fixture(scope="module")
def source(topics):
    name = topics.create(2)
    topics.fill(name, VALUES)
    return name


def copy(spark, topics, source, target, checkpoint, kind="ottla", **options):
    """One run of a query, until it has written what was there."""
    frame = spark.readStream.format(kind).option("kafka.bootstrap.servers", topics.servers)
    frame = frame.options(subscribe=source, startingOffsets="earliest", **options).load()
    writer = frame.select("key", "value").writeStream.format(kind)
    writer = writer.option("kafka.bootstrap.servers", topics.servers)
    query = writer.options(topic=target, checkpointLocation=str(checkpoint)).start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()


@pytest.mark.usefixtures("connector")
def test_the_names_of_kafka_s_clients_are_those_of_the_connector_s(spark):
    clients = spark._jvm.org.apache.kafka.clients
    names = {
        *clients.consumer.ConsumerConfig.configNames(),
        *clients.producer.ProducerConfig.configNames(),
    }
    assert {name for name in names if not name.startswith("internal.")} == CLIENT_SETTINGS


@pytest.mark.usefixtures("connector")
@pytest.mark.parametrize(
    "name",
    ["auto.offset.reset", "key.deserializer", "enable.auto.commit", "interceptor.classes"],
)
def test_the_connector_refuses_the_same_settings(spark, topics, source, name):
    for kind in ("kafka", "ottla"):
        reader = spark.read.format(kind).option("kafka.bootstrap.servers", topics.servers)
        with pytest.raises(Exception, match=name):
            reader.options(**{"subscribe": source, f"kafka.{name}": "x"}).load().count()


def older_source():
    """The data source as Spark 4.0 has it; Spark 4.2 still knows such readers and writers. A class
    inside a function goes to the workers by value: they cannot import this module."""
    from pyspark.sql.datasource import DataSourceStreamReader

    from ottla.spark.data_source import OttlaSource

    class OlderReader(DataSourceStreamReader):
        def __init__(self, options):
            from ottla.spark.source.older_readers import OlderStreamReader

            self.real = OlderStreamReader(options)

        def initialOffset(self):
            return self.real.initialOffset()

        def latestOffset(self):
            return self.real.latestOffset()

        def partitions(self, start, end):
            return self.real.partitions(start, end)

        def read(self, partition):
            return self.real.read(partition)

        def stop(self):
            self.real.stop()

    class OlderSource(OttlaSource):
        @classmethod
        def name(cls):
            return "ottla-older"

        def streamReader(self, schema):
            from ottla.spark.options import parse_source_options

            return OlderReader(parse_source_options(self.options, streaming=True))

        def streamWriter(self, schema, overwrite):
            from ottla.spark.sink.row_writer import RowWriter
            from ottla.spark.sink.writers import stream_writer

            return RowWriter(stream_writer(self.options, schema), schema)

    return OlderSource


def test_a_spark_that_does_not_say_where_it_is(spark, topics, tmp_path):
    """Every record once over a restart; a topic that is made again is seen then, too."""
    spark.dataSource.register(older_source())
    source, target = topics.create(2), topics.create(2)
    topics.fill(source, VALUES[:200])
    copy(spark, topics, source, target, tmp_path / "c", OLDER)
    assert topics.values(subscribe=target) == VALUES[:200]
    topics.fill(source, VALUES[200:])
    copy(spark, topics, source, target, tmp_path / "c", OLDER)
    assert topics.values(subscribe=target) == VALUES
    topics.delete(source)
    topics.create(2, name=source)
    topics.fill(source, VALUES)
    with pytest.raises(StreamingQueryException, match="was deleted and made again"):
        copy(spark, topics, source, target, tmp_path / "c", OLDER)
    copy(spark, topics, source, target, tmp_path / "c", OLDER, onTopicRecreated="restart")
    assert topics.values(subscribe=target) == sorted(VALUES * 2)


JOB = """
import sys
from pyspark.sql import SparkSession
from ottla.spark import register

spark = SparkSession.builder.getOrCreate()
register(spark, send=False)
servers, source, target, checkpoint = sys.argv[1:]
connect = {"kafka.bootstrap.servers": servers}
rows = spark.readStream.format("ottla").options(**connect, subscribe=source)
rows = rows.options(startingOffsets="earliest", maxOffsetsPerTrigger="100")
rows = rows.options(**{"kafka.group.id": "mine", "kafka.fetch.min.byte": "1"}).load()
query = rows.select("key", "value").writeStream.format("ottla").options(**connect, topic=target)
query = query.option("kafka.linger.mss", "1")
query = query.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
query.awaitTermination()
assert len(query.recentProgress) >= 3
print(spark.read.format("ottla").options(**connect, subscribe=target).load().count(), "written")
"""


def test_spark_submit_with_the_package_as_a_file(topics, source, tmp_path):
    """The Python of the workers finds a package `ottla` that only raises: what they run must have
    been sent to them. On the driver's console options that change nothing are named, once."""
    poison = tmp_path / "poison" / "ottla"
    poison.mkdir(parents=True)
    (poison / "__init__.py").write_text("raise RuntimeError('this package was not sent')\n")
    target, job = topics.create(1), tmp_path / "job.py"
    job.write_text(JOB)
    package = write_package(tmp_path / "ottla.zip")
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    command = [submit, "--master", "local[2]", "--py-files", package, job]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    ran = subprocess.run(
        [*map(str, command), topics.servers, source, target, str(tmp_path / "c")],
        env={
            **kept,
            "PYTHONPATH": str(poison.parent),
            "PYSPARK_PYTHON": sys.executable,
            "JAVA_HOME": str(java_home()),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SUBMIT_TIMEOUT_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert f"{len(VALUES)} written" in ran.stdout
    start, unknown = "options of format ottla: ", "unknown to Kafka's clients: "
    told = [line.partition(start)[2] for line in ran.stderr.splitlines() if start in line]
    assert sorted(told) == [
        f"{unknown}kafka.linger.mss (did you mean kafka.linger.ms?)",
        "without effect here: kafka.group.id; "
        f"{unknown}kafka.fetch.min.byte (did you mean kafka.fetch.min.bytes?)",
    ], "once for each query, not for each micro-batch"
    assert topics.values(subscribe=target) == VALUES
