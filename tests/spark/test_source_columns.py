"""Columns, JSON values and pushed filters of format("ottla"), on Ottla and on Apache Kafka."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from pyspark.sql.functions import col, from_json

from ottla.wire import columnar
from tests.support.spark.topics import WAIT_S, Topics, read_ranges

pytestmark = pytest.mark.spark

PARTITIONS = 3
RECORDS = 300
FIELDS = "user STRING, n INT, at TIMESTAMP, tags ARRAY<STRING>, _corrupt_record STRING"
START_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def topics(ottla_processes):
    return Topics(ottla_processes.bootstrap_servers)


def value_of(number):
    if number % 50 == 0:
        return None
    if number % 25 == 0:
        return b'{"user":"broken'
    if number % 20 == 0:
        return json.dumps({"user": number, "n": str(number)}).encode()
    at = f"2024-01-02T03:04:{number % 60:02}Z"
    return json.dumps({"user": f"u{number}", "n": number, "at": at, "tags": ["a"]}).encode()


@pytest.fixture(scope="module")
def clicks(topics):
    """Timestamps go up with the offsets of each partition, but for one record of each."""
    name = topics.create(PARTITIONS)
    # Without idempotence a batch that is sent again comes after its successors.
    settings = {"batch.size": 2_000, "enable.idempotence": True}
    producer = Producer({"bootstrap.servers": topics.servers, **settings})
    for number in range(RECORDS):
        late = 30_000 if number // PARTITIONS == 20 else 0
        producer.produce(
            name,
            value_of(number),
            b"k%d" % number,
            partition=number % PARTITIONS,
            timestamp=START_MS + 1_000 * number + late,
        )
    assert producer.flush(WAIT_S) == 0
    return name


def reader(spark, topics, name, **options):
    given = {"kafka.bootstrap.servers": topics.servers, "subscribe": name, **options}
    return spark.read.format("ottla").options(**given)


def rows_of(frame):
    return sorted(map(repr, frame.collect()))


def test_only_the_columns_that_are_listed(spark, topics, clicks):
    whole = reader(spark, topics, clicks, includeHeaders="true").load()
    some = reader(spark, topics, clicks, columns="offset,headers,key").load()
    assert some.columns == ["offset", "headers", "key"]
    assert rows_of(some) == rows_of(whole.select("offset", "headers", "key"))


def test_json_values_are_those_of_from_json(spark, topics, clicks):
    """With a schema as an option and as Spark's own; in a batch and in a stream."""
    binary = reader(spark, topics, clicks).load()
    parsed = from_json(col("value").cast("string"), FIELDS, {"timeZone": "UTC"})
    expected = rows_of(binary.select(parsed.alias("value"), "partition", "offset"))
    asked = {"valueFormat": "json", "columns": "value,partition,offset"}
    by_option = reader(spark, topics, clicks, **asked, schema=FIELDS).load()
    assert by_option.schema["value"].dataType.fieldNames()[0] == "user"
    assert rows_of(by_option) == expected
    whole = f"value STRUCT<{FIELDS}>, partition INT, offset BIGINT"
    assert (
        rows_of(reader(spark, topics, clicks, valueFormat="json").schema(whole).load()) == expected
    )
    stream = (
        spark.readStream.format("ottla")
        .options(**{"kafka.bootstrap.servers": topics.servers, "subscribe": clicks})
        .options(**asked, schema=by_option.schema["value"].dataType.json())
        .option("startingOffsets", "earliest")
        .load()
    )
    query = (
        stream.writeStream.format("memory").queryName("clicks").trigger(availableNow=True).start()
    )
    assert query.awaitTermination(WAIT_S)
    assert rows_of(spark.table("clicks")) == expected


def test_malformed_values(spark, topics, clicks):
    asked = {"valueFormat": "json", "schema": "user STRING, n INT"}
    dropped = reader(spark, topics, clicks, **asked, mode="DROPMALFORMED", columns="value").load()
    malformed = [
        n for n in range(RECORDS) if n % 50 and (n % 25 == 0 or (n % 20 == 0 and value_of(n)))
    ]
    assert dropped.count() == RECORDS - len(malformed)
    assert dropped.where("value IS NULL").count() == RECORDS // 50
    strict = reader(spark, topics, clicks, **asked, mode="FAILFAST", columns="value").load()
    words = f"the value at offset \\d+ of {clicks}-\\d does not fit the schema"
    with pytest.raises(PySparkException, match=words):
        strict.collect()


def test_what_cannot_be(spark, topics, clicks):
    for options, words in (
        ({"columns": "offsets"}, "did you mean offset"),
        ({"valueFormat": "json", "schema": "a INT NOT NULL"}, "a is NOT NULL"),
        ({"valueFormat": "json", "schema": "a BINARY"}, "a is binary"),
    ):
        with pytest.raises(PySparkException, match=words):
            reader(spark, topics, clicks, **options).load().collect()
    with pytest.raises(PySparkException, match="filterPushdown"):
        reader(spark, topics, clicks, pushFilters="true").load().collect()


@pytest.fixture
def pushing(spark):
    switch = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(switch, "true")
    yield
    spark.conf.unset(switch)


@pytest.mark.usefixtures("pushing")
@pytest.mark.parametrize(
    ("condition", "tasks"),
    [
        ("partition = 1", 1),
        ("partition IN (0, 2) AND offset >= 10 AND offset < 12", 2),
        ("topic = 'another'", 1),
        ("partition <> 1 AND timestamp >= timestamp'2023-11-14 22:14:20Z'", 2),
        ("timestamp < timestamp'2023-11-14 22:14:00Z'", 3),
    ],
)
def test_pushed_filters_leave_the_same_rows(spark, topics, clicks, condition, tasks):
    expected = rows_of(reader(spark, topics, clicks).load().where(condition))
    pushed = reader(spark, topics, clicks, pushFilters="true").load().where(condition)
    assert rows_of(pushed) == expected
    assert pushed.rdd.getNumPartitions() == tasks


@pytest.mark.usefixtures("pushing")
def test_spark_has_one_plan_for_each_load(spark, topics, clicks):
    """What docs/spark.md warns of. When this fails Spark is mended and the warning can go."""
    frame = reader(spark, topics, clicks, columns="partition", pushFilters="true").load()
    assert frame.where("partition = 1").count() == RECORDS // PARTITIONS
    assert frame.where("partition IN (0, 2)").count() == 2 * RECORDS // PARTITIONS
    assert frame.count() == 2 * RECORDS // PARTITIONS


def test_pushed_filters_fetch_less(topics, clicks, monkeypatch):
    from pyspark.sql import datasource as d

    from ottla.spark.source.filters import sort_out
    from ottla.spark.source.planner import Planner

    fetched = []
    scan = columnar.scan
    monkeypatch.setattr(
        columnar, "scan", lambda data, *a, **k: fetched.append(len(data)) or scan(data, *a, **k)
    )
    options = topics.source(subscribe=clicks, **{"kafka.max.partition.fetch.bytes": "3000"})

    def read(*filters):
        fetched.clear()
        client = topics.client()
        pruning, _ = sort_out(filters)
        table = read_ranges(client, Planner(client, options).batch(pruning), options)
        client.close()
        return table, sum(fetched)

    whole, all_bytes = read()
    assert whole.num_rows == RECORDS
    one, some_bytes = read(d.EqualTo(("partition",), 1))
    assert (one.num_rows, set(one["partition"].to_pylist())) == (RECORDS // PARTITIONS, {1})
    assert some_bytes < all_bytes / 2
    last, some_bytes = read(d.GreaterThanOrEqual(("offset",), 90))
    assert last["offset"].to_pylist() == [*range(90, 100)] * PARTITIONS
    assert some_bytes < all_bytes / 2
    since = datetime.fromtimestamp((START_MS + 250_000) / 1000, UTC)
    young, some_bytes = read(d.GreaterThan(("timestamp",), since))
    assert sum(stamp > since for stamp in young["timestamp"].to_pylist()) == 49
    assert young.num_rows < 60
    assert some_bytes < all_bytes / 2
