"""format("ottla") beside format("kafka") in one Spark session, on Ottla and on Apache Kafka 4.1.

Both sources must bring the same rows: every column of every row goes into the hash.
"""

from __future__ import annotations

import json

import pyspark
import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from pyspark.sql.functions import udf

from ottla.spark.launch.session import ARROW_BATCH_BYTES, ARROW_OPTIONS
from tests.support.spark.topics import WAIT_S, Topics

pytestmark = pytest.mark.spark

PARTITIONS = 3
RECORDS = 5_000
COLUMNS = "key, value, topic, partition, offset, timestamp, timestampType, headers"
FORMATS = ("kafka", "ottla")


@pytest.fixture(scope="module", params=["ottla_processes", "kraft"])
def topics(request):
    return Topics(request.getfixturevalue(request.param).bootstrap_servers)


@pytest.fixture(scope="module")
def ottla_topics(ottla_processes):
    return Topics(ottla_processes.bootstrap_servers)


def produce_mixed(topics, name, codec, first=0):
    producer = Producer({"bootstrap.servers": topics.servers, "compression.type": codec})
    for number in range(first, first + RECORDS):
        producer.produce(
            name,
            value=None if number % 11 == 0 else b"v" * (number % 300),
            key=None if number % 5 == 0 else b"k%d" % number,
            timestamp=1_600_000_000_000 + number,
            headers=[("n", b"%d" % number), ("none", None), ("n", b"")] if number % 3 else None,
        )
        if number % 500 == 0:
            producer.poll(0)
    assert producer.flush(WAIT_S) == 0


def produce_transactions(topics, name):
    producer = Producer({"bootstrap.servers": topics.servers, "transactional.id": name})
    producer.init_transactions(WAIT_S)
    for number in range(4):
        producer.begin_transaction()
        for part in range(100):
            producer.produce(name, b"txn %d %d" % (number, part), b"%d" % part)
        producer.flush(WAIT_S)
        if number % 2:
            producer.abort_transaction(WAIT_S)
        else:
            producer.commit_transaction(WAIT_S)


@pytest.fixture(scope="module")
def mixed(topics):
    """Two topics with everything that a record can be; one keeps the broker's time."""
    names = [
        topics.create(PARTITIONS),
        topics.create(PARTITIONS, message_timestamp_type="LogAppendTime"),
    ]
    for name, codec in zip(names, ("lz4", "none"), strict=True):
        produce_mixed(topics, name, codec)
        produce_transactions(topics, name)
        produce_mixed(topics, name, "zstd", first=RECORDS)
    return names


def reader(spark, kind, servers, **options):
    frame = spark.read.format(kind).option("kafka.bootstrap.servers", servers)
    return frame.options(**{"includeHeaders": "true", **options}).load()


def digest(frame):
    """How many rows, and a sum over the hashes of whole rows."""
    row = frame.selectExpr(
        "count(*) AS rows", f"sum(CAST(xxhash64({COLUMNS}) AS DECIMAL(38))) AS hash"
    ).first()
    return row["rows"], row["hash"]


@pytest.mark.usefixtures("connector")
def test_the_columns_have_the_same_types(spark, topics, mixed):
    for headers in ("true", "false"):
        kafka, ottla = (
            reader(spark, kind, topics.servers, subscribe=mixed[0], includeHeaders=headers)
            for kind in FORMATS
        )
        assert kafka.schema == ottla.schema


@pytest.mark.usefixtures("connector")
@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({}, 2 * (2 * RECORDS + 400)),
        (
            {"kafka.isolation.level": "read_committed", "minPartitions": "5"},
            2 * (2 * RECORDS + 200),
        ),
    ],
    ids=["all", "committed"],
)
def test_both_sources_bring_the_same_rows(spark, topics, mixed, options, rows):
    kafka, ottla = (
        digest(reader(spark, kind, topics.servers, subscribe=",".join(mixed), **options))
        for kind in FORMATS
    )
    assert kafka == ottla
    assert ottla[0] == rows


@pytest.mark.usefixtures("connector")
def test_both_sources_read_a_range_by_offsets_and_by_time(spark, topics, mixed):
    name = mixed[0]
    bounds = {
        "assign": json.dumps({name: [0, 2]}),
        "startingOffsets": json.dumps({name: {"0": 17, "2": -2}}),
        "endingOffsets": json.dumps({name: {"0": 23, "2": -1}}),
    }
    by_time = {"startingTimestamp": "1600000001234", "endingTimestamp": "1600000004321"}
    for options in (bounds, {"subscribe": name, **by_time}):
        kafka, ottla = (digest(reader(spark, kind, topics.servers, **options)) for kind in FORMATS)
        assert kafka == ottla
        assert ottla[0] > 6


def run_to_the_end(spark, topics, name, checkpoint, kind="ottla", **options):
    """Reads what is available into a list of values and returns it with the progress."""
    found = []
    frame = spark.readStream.format(kind).option("kafka.bootstrap.servers", topics.servers)
    given = {"subscribe": name, "startingOffsets": "earliest", **options}
    query = (
        frame.options(**given)
        .load()
        .writeStream.foreachBatch(
            lambda batch, _: found.extend(row["value"] for row in batch.select("value").collect())
        )
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(2 * WAIT_S)
    return [bytes(value) for value in found], query.recentProgress


@pytest.mark.usefixtures("connector")
def test_a_topic_made_again_is_skipped_by_the_official_connector_and_noticed_by_ours(
    spark, ottla_topics, tmp_path
):
    name = ottla_topics.create()
    old, new = ([b"%s %d" % (word, n) for n in range(10)] for word in (b"old", b"new"))
    ottla_topics.fill(name, old, partition=0)
    for kind in FORMATS:
        values, _ = run_to_the_end(spark, ottla_topics, name, tmp_path / kind, kind)
        assert values == old
    ottla_topics.delete(name)
    ottla_topics.create(name=name)
    ottla_topics.fill(name, [*new, b"eleventh"], partition=0)
    values, _ = run_to_the_end(spark, ottla_topics, name, tmp_path / "kafka", "kafka")
    assert values == [b"eleventh"], "ten records were never read, and nobody was told"
    with pytest.raises(PySparkException, match="was deleted and made again"):
        run_to_the_end(spark, ottla_topics, name, tmp_path / "ottla")
    values, _ = run_to_the_end(
        spark, ottla_topics, name, tmp_path / "ottla", onTopicRecreated="restart"
    )
    assert values == [*new, b"eleventh"]


def test_available_now_with_a_limit_and_a_report_of_the_lag(spark, topics, tmp_path):
    name = topics.create(PARTITIONS)
    values = [b"%04d" % number for number in range(1_000)]
    topics.fill(name, values)
    found, progress = run_to_the_end(
        spark, topics, name, tmp_path / "limited", maxOffsetsPerTrigger="400"
    )
    assert sorted(found) == values
    batches = [entry for entry in progress if entry["numInputRows"]]
    assert len(batches) == 3
    from ottla.spark.progress import lag

    assert [lag(entry) for entry in batches] == [
        1_000 - sum(b["numInputRows"] for b in batches[: index + 1])
        for index in range(len(batches))
    ]


@pytest.mark.usefixtures("connector")
def test_a_stream_sees_partitions_that_come_later(spark, topics, tmp_path):
    """Growth under a running stream, read by both sources at once."""
    name = topics.create(1)
    topics.fill(name, [b"before"], partition=0)
    queries = {}
    for kind in FORMATS:
        frame = spark.readStream.format(kind).option("kafka.bootstrap.servers", topics.servers)
        queries[kind] = (
            frame.options(
                **{
                    "subscribe": name,
                    "startingOffsets": "earliest",
                    "kafka.metadata.max.age.ms": "500",
                }
            )
            .load()
            .selectExpr("CAST(value AS STRING) AS value", "partition")
            .writeStream.format("memory")
            .queryName(f"seen_{kind}")
            .start()
        )
    topics.grow(name, 3)
    topics.fill(name, [b"after"], partition=2)
    wanted = {("before", 0), ("after", 2)}
    try:
        for kind, query in queries.items():
            for _ in range(2 * WAIT_S):
                assert query.exception() is None
                seen = {(r["value"], r["partition"]) for r in spark.table(f"seen_{kind}").collect()}
                if seen == wanted:
                    break
                query.awaitTermination(1)
            assert seen == wanted, kind
    finally:
        for query in queries.values():
            query.stop()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscribe": "nowhere"}, "topic nowhere does not exist"),
        ({"subscribe": "x", "startingOffsets": "oldest"}, "neither a known word nor a JSON"),
        ({"topic": "x"}, "unknown option topic of format ottla"),
    ],
)
def test_what_is_wrong_is_said(spark, ottla_topics, options, words):
    with pytest.raises(PySparkException, match=words):
        reader(spark, "ottla", ottla_topics.servers, **options).count()


def test_workers_import_the_installed_pyspark_and_not_an_archive(spark):
    @udf
    def pyspark_of_the_worker() -> str:
        import pyspark

        return pyspark.__file__

    (found,) = spark.range(1).select(pyspark_of_the_worker()).first()
    assert found == pyspark.__file__


def test_arrow_does_not_check_each_field_that_is_read(spark):
    name, _, value = ARROW_OPTIONS.removeprefix("-D").partition("=")
    assert spark.sparkContext._jvm.System.getProperty(name) == value


def test_large_rows_come_to_a_worker_a_few_megabytes_at_a_time(spark):
    row_bytes = 40_000

    def sizes(batches):
        import pyarrow as pa

        for batch in batches:
            yield pa.RecordBatch.from_pydict({"bytes": [batch.nbytes]})

    # One task with 12 MB: less than Spark's own limit.
    rows = spark.range(0, 300, 1, 1).selectExpr(f"repeat('x', {row_bytes}) AS value")
    found = [row[0] for row in rows.mapInArrow(sizes, "bytes BIGINT").collect()]
    assert sum(found) >= 300 * row_bytes
    assert max(found) < ARROW_BATCH_BYTES + 2 * row_bytes
