"""Spark's own Kafka connector reads what a client wrote: every record, every byte."""

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import functions

from ottla.testing.spark import read_topic, spark_tally
from ottla.testing.tally import tally
from tests.support.known_topics import await_known

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("connector")]

TOPIC = "events"
PARTITIONS = 4
RECORDS = 200_000


def value_of(number):
    return (b"record %09d " % number).ljust(100, b".")


@pytest.fixture(scope="module")
def written(ottla_processes):
    """Fills the topic with lz4 batches; returns the tally and the records per partition."""
    servers = ottla_processes.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(30)
    await_known(servers, TOPIC, PARTITIONS)
    counts = dict.fromkeys(range(PARTITIONS), 0)
    failures = []

    def delivered(error, message):
        if error is not None:
            failures.append(error)
        else:
            counts[message.partition()] += 1

    producer = Producer(
        {
            "bootstrap.servers": servers,
            "acks": "all",
            "compression.type": "lz4",
            "linger.ms": 20,
            "queue.buffering.max.messages": RECORDS,
        }
    )
    for number in range(RECORDS):
        producer.produce(TOPIC, value_of(number), key=b"%d" % number, on_delivery=delivered)
        if number % 1_000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0
    assert failures == []
    return tally(map(value_of, range(RECORDS))), counts


def test_batch_read_has_the_same_count_and_checksum(spark, ottla_processes, written):
    expected, _ = written
    frame = read_topic(spark, ottla_processes.bootstrap_servers, TOPIC)
    assert spark_tally(frame) == expected


def test_every_partition_is_whole_and_without_gaps(spark, ottla_processes, written):
    _, counts = written
    frame = read_topic(spark, ottla_processes.bootstrap_servers, TOPIC)
    rows = frame.groupBy("partition").agg(
        functions.count("*").alias("n"),
        functions.min("offset").alias("first"),
        functions.max("offset").alias("last"),
        functions.count_distinct("offset").alias("places"),
        functions.count_distinct("key").alias("keys"),
    )
    assert {row["partition"]: row.asDict() for row in rows.collect()} == {
        partition: {
            "partition": partition,
            "n": count,
            "first": 0,
            "last": count - 1,
            "places": count,
            "keys": count,
        }
        for partition, count in counts.items()
    }


def test_a_range_of_offsets_is_read_exactly(spark, ottla_processes, written):
    _, counts = written
    frame = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", ottla_processes.bootstrap_servers)
        .option("assign", f'{{"{TOPIC}":[1]}}')
        .option("startingOffsets", f'{{"{TOPIC}":{{"1":1000}}}}')
        .option("endingOffsets", f'{{"{TOPIC}":{{"1":1250}}}}')
        .load()
    )
    assert counts[1] > 1250
    assert [row["offset"] for row in frame.select("offset").sort("offset").collect()] == list(
        range(1000, 1250)
    )
