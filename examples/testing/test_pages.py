"""The job on a real cluster: records in by a client, records out by Spark."""

import json

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pages import start, visits


def test_what_is_not_a_view_is_left_out(ottla_spark):
    rows = [(b'{"user":"u1","page":"/a"}',), (b"garbage",)]
    frame = ottla_spark.createDataFrame(rows, "value binary")
    assert [row["key"] for row in visits(frame).collect()] == ["/a"]


def test_views_reach_the_topic_pages_once(ottla_cluster, ottla_spark, tmp_path):
    brokers = ottla_cluster.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": brokers})
    for created in admin.create_topics([NewTopic("views", 3, 3), NewTopic("pages", 2, 3)]).values():
        created.result(30)
    producer = Producer({"bootstrap.servers": brokers})

    for first in (0, 100):  # the second run goes on where the first one ended
        for number in range(first, first + 100):
            producer.produce("views", json.dumps({"user": "u", "page": f"/p/{number}"}))
        producer.flush()
        start(ottla_spark, brokers, str(tmp_path)).awaitTermination()

    pages = (
        ottla_spark.read.format("ottla")
        .option("kafka.bootstrap.servers", brokers)
        .option("subscribe", "pages")
        .load()
    )
    keys = sorted(row["k"] for row in pages.selectExpr("cast(key as string) k").collect())
    assert keys == sorted(f"/p/{number}" for number in range(200))
