"""Writing with format("ottla") from Spark, on Ottla and on Apache Kafka 4.1; the official connector
reads what was written."""

from __future__ import annotations

import re
import shutil
import time

import pytest
from click.testing import CliRunner
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import functions

from ottla.cli.main import cli
from tests.support.spark.topics import WAIT_S, Topics

pytestmark = pytest.mark.spark

VALUES = [b"%05d" % number for number in range(2_000)]


@pytest.fixture(scope="module", params=["ottla_processes", "kraft"])
def topics(request):
    return Topics(request.getfixturevalue(request.param).bootstrap_servers)


@pytest.fixture(scope="module")
def source(topics):
    name = topics.create(2)
    topics.fill(name, VALUES)
    return name


def read(spark, kind, topics, name):
    frame = spark.read.format(kind).option("kafka.bootstrap.servers", topics.servers)
    options = {"includeHeaders": "true", "kafka.isolation.level": "read_committed"}
    return frame.options(subscribe=name, **options).load()


@pytest.mark.usefixtures("connector")
def test_the_official_connector_reads_a_batch_that_ours_wrote(spark, topics):
    name = topics.create(3)
    frame = spark.range(3_000).selectExpr(
        "IF(id % 7 = 0, NULL, CAST(id AS STRING)) AS key",
        "IF(id % 5 = 0, NULL, repeat('v', CAST(id % 90 AS INT))) AS value",
        "IF(id % 3 = 0, NULL, array(struct('h' AS key, CAST('x' AS BINARY) AS value))) AS headers",
    )
    writer = frame.write.format("ottla").mode("append")
    writer.option("kafka.bootstrap.servers", topics.servers).option("topic", name).save()
    # Hashed as bytes: the topic does not know what was text.
    columns = "xxhash64(CAST(key AS BINARY), CAST(value AS BINARY), headers)"
    total = f"sum(CAST({columns} AS DECIMAL(38)))"
    wanted = frame.selectExpr(total).first()
    found = read(spark, "kafka", topics, name).selectExpr(total).first()
    assert found[0] == wanted[0] is not None
    # A key is where Kafka's own partitioner puts it.
    same = name + "-again"
    topics.create(3, name=same)
    again = frame.write.format("kafka").option("kafka.bootstrap.servers", topics.servers)
    again.option("topic", same).save()
    places = [
        {
            (bytes(row["key"]), row["partition"])
            for row in read(spark, "kafka", topics, topic).where("key IS NOT NULL").collect()
        }
        for topic in (name, same)
    ]
    assert places[0] == places[1]


def copy(spark, topics, source, target, checkpoint, shuffle=(3, "key"), **options):
    """One run of a copying query with a shuffle in its plan."""
    frame = spark.readStream.format("ottla").option("kafka.bootstrap.servers", topics.servers)
    query = (
        frame.options(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="1000")
        .load()
        .selectExpr("key", "value")
        .repartition(*shuffle)
        .writeStream.format("ottla")
        .option("kafka.bootstrap.servers", topics.servers)
        .options(topic=target, checkpointLocation=str(checkpoint), **options)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(3 * WAIT_S)
    return query


def forget_last_commit(checkpoint):
    """As if the driver had died after its tasks and before it noted the end of the micro-batch."""
    commits = checkpoint / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    for path in (commits / str(last), commits / f".{last}.crc"):
        path.unlink(missing_ok=True)
    return last


@pytest.mark.usefixtures("connector")
def test_a_micro_batch_that_is_run_again_is_written_once(spark, topics, source, tmp_path):
    target = topics.create(2)
    copy(spark, topics, source, target, tmp_path)
    last = forget_last_commit(tmp_path)
    assert last > 0
    copy(spark, topics, source, target, tmp_path)
    assert (tmp_path / "commits" / str(last)).exists(), "the micro-batch did run again"
    for kind in ("kafka", "ottla"):
        found = read(spark, kind, topics, target).select("value").collect()
        assert sorted(bytes(row["value"]) for row in found) == VALUES


def committed(topics, name, count):
    """Keys and values of so many records; markers take a moment after the end of a query."""
    deadline = time.monotonic() + WAIT_S
    while True:
        found = topics.read(subscribe=name, **{"kafka.isolation.level": "read_committed"})
        if found.num_rows >= count or time.monotonic() > deadline:
            return sorted(zip(found["key"].to_pylist(), found["value"].to_pylist(), strict=True))


def committed_values(topics, name, count):
    return sorted(value for _, value in committed(topics, name, count))


def test_an_older_checkpoint_that_was_put_back_is_refused(spark, ottla_processes, tmp_path):
    """Its rows were taken for done: 100 of 500 were missing, and the query succeeded."""
    topics = Topics(ottla_processes.bootstrap_servers)
    source, target = topics.create(2), topics.create(2)
    checkpoint, older, newer = (tmp_path / name for name in ("now", "older", "newer"))
    topics.fill(source, VALUES[:200])
    copy(spark, topics, source, target, checkpoint)
    shutil.copytree(checkpoint, older)
    for first in (200, 300):
        topics.fill(source, VALUES[first : first + 100])
        copy(spark, topics, source, target, checkpoint)
    checkpoint.rename(newer)
    shutil.copytree(older, checkpoint)
    topics.fill(source, VALUES[400:500])
    words = "micro-batch 1 is older than micro-batch 2, which was written before"
    with pytest.raises(StreamingQueryException, match=words) as refused:
        copy(spark, topics, source, target, checkpoint)
    # The way out without doubles: what the sink knows is what the checkpoint knows.
    shutil.rmtree(checkpoint)
    newer.rename(checkpoint)
    copy(spark, topics, source, target, checkpoint)
    assert committed_values(topics, target, 500) == VALUES[:500]
    # The way out with doubles: the command of the message.
    shutil.rmtree(checkpoint)
    shutil.copytree(older, checkpoint)
    command = re.search(r"ottla groups [^\n]*", str(refused.value))[0].split()
    assert CliRunner().invoke(cli, command[1:]).exit_code == 0
    copy(spark, topics, source, target, checkpoint)
    assert committed_values(topics, target, 800) == sorted([*VALUES[:500], *VALUES[200:500]])


@pytest.fixture
def one_shuffle_partition(spark):
    """State is kept for each of them, and these tests have a handful of rows."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", before)


def counts(spark, topics, source, target, checkpoint, mode, each_batch=None):
    """One run of a query that counts, in one of Spark's output modes."""
    frame = spark.readStream.format("ottla").option("kafka.bootstrap.servers", topics.servers)
    writer = (
        frame.options(subscribe=source, startingOffsets="earliest")
        .load()
        .groupBy(functions.expr("CAST(substr(CAST(value AS STRING), 5) AS STRING)").alias("key"))
        .count()
        .selectExpr("key", "CAST(count AS STRING) AS value")
        .writeStream.outputMode(mode)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
    )
    if each_batch is not None:
        writer = writer.foreachBatch(each_batch)
    else:
        writer = writer.format("ottla").option("kafka.bootstrap.servers", topics.servers)
        writer = writer.option("topic", target)
    query = writer.start()
    assert query.awaitTermination(3 * WAIT_S)


@pytest.mark.usefixtures("one_shuffle_partition")
def test_the_complete_mode_writes_the_whole_result_each_time(spark, ottla_processes, tmp_path):
    """As the official connector does: a topic only grows."""
    topics = Topics(ottla_processes.bootstrap_servers)
    source, target = topics.create(1), topics.create(1)
    topics.fill(source, VALUES[:20])
    counts(spark, topics, source, target, tmp_path, "complete")
    topics.fill(source, VALUES[20:21])
    counts(spark, topics, source, target, tmp_path, "complete")
    first = [(b"%d" % digit, b"2") for digit in range(10)]
    second = [(b"0", b"3"), *first[1:]]
    assert committed(topics, target, 20) == sorted([*first, *second])


@pytest.mark.usefixtures("one_shuffle_partition")
def test_the_update_mode_goes_through_foreach_batch(spark, ottla_processes, tmp_path):
    """Spark takes no updates into a sink written in Python, and says so itself. What its guide
    shows for such sinks is exactly once with txnAppId, an older checkpoint included."""
    topics = Topics(ottla_processes.bootstrap_servers)
    source, target = topics.create(1), topics.create(1)
    topics.fill(source, VALUES[:20])
    with pytest.raises(Exception, match="ottla does not support Update mode"):
        counts(spark, topics, source, target, tmp_path / "direct", "update")

    def upsert(batch, batch_id):
        query = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        writer = batch.write.format("ottla").mode("append")
        writer = writer.option("kafka.bootstrap.servers", topics.servers).option("topic", target)
        writer.option("txnAppId", query).option("txnVersion", str(batch_id)).save()

    checkpoint, older = tmp_path / "now", tmp_path / "older"
    counts(spark, topics, source, target, checkpoint, "update", upsert)
    shutil.copytree(checkpoint, older)
    for value in (20, 21):
        topics.fill(source, VALUES[value : value + 1])
        counts(spark, topics, source, target, checkpoint, "update", upsert)
    forget_last_commit(checkpoint)
    counts(spark, topics, source, target, checkpoint, "update", upsert)
    first = [(b"%d" % digit, b"2") for digit in range(10)]
    assert committed(topics, target, 12) == sorted([*first, (b"0", b"3"), (b"1", b"3")])
    shutil.rmtree(checkpoint)
    older.rename(checkpoint)
    with pytest.raises(StreamingQueryException, match="batch 1 is older than micro-batch 2"):
        counts(spark, topics, source, target, checkpoint, "update", upsert)
    assert len(committed(topics, target, 12)) == 12


def test_at_least_once_may_write_twice(spark, topics, source, tmp_path):
    target = topics.create(2)
    options = {"deliveryGuarantee": "at_least_once"}
    copy(spark, topics, source, target, tmp_path, **options)
    forget_last_commit(tmp_path)
    copy(spark, topics, source, target, tmp_path, **options)
    found = [bytes(row["value"]) for row in read(spark, "ottla", topics, target).collect()]
    assert set(found) == set(VALUES)
    assert len(found) > len(VALUES)


@pytest.fixture
def adaptive(spark):
    """Settings of adaptive execution, for one test."""
    settings = ("streaming.stateless.enabled", "coalescePartitions.enabled")
    names = [f"spark.sql.adaptive.{name}" for name in settings]
    before = [spark.conf.get(name) for name in names]

    def choose(in_streams, coalesce):
        for name, value in zip(names, (in_streams, coalesce), strict=True):
            spark.conf.set(name, str(value).lower())

    yield choose
    for name, value in zip(names, before, strict=True):
        spark.conf.set(name, value)


@pytest.mark.parametrize("in_streams", [False, True])
def test_tasks_that_are_cut_in_another_way_are_refused(
    spark, ottla_processes, tmp_path, adaptive, in_streams
):
    """With adaptive execution in streams, as Spark 4.1 has it by default and `session()` has not,
    the rows of a micro-batch that runs again may be in other tasks than before."""
    topics = Topics(ottla_processes.bootstrap_servers)
    source, target = topics.create(2), topics.create(2)
    topics.fill(source, VALUES[:100])
    adaptive(in_streams, coalesce=True)
    copy(spark, topics, source, target, tmp_path, shuffle=("value",))
    forget_last_commit(tmp_path)
    adaptive(in_streams, coalesce=False)
    if in_streams:
        with pytest.raises(StreamingQueryException, match="had 100 when it was written"):
            copy(spark, topics, source, target, tmp_path, shuffle=("value",))
        return
    copy(spark, topics, source, target, tmp_path, shuffle=("value",))
    found = [bytes(row["value"]) for row in read(spark, "ottla", topics, target).collect()]
    assert sorted(found) == VALUES[:100]


def test_rows_that_are_cut_short_are_not_taken_for_all(spark, ottla_processes, tmp_path):
    """What a task reads fails after some rows: Spark closes the sink's input, which looks like its
    end. The next attempt has more rows, and writes them all."""
    topics, broken = Topics(ottla_processes.bootstrap_servers), tmp_path / "broken"
    name, marker = topics.create(1), str(broken)
    broken.touch()

    def pass_on(batches):
        import os

        for number, batch in enumerate(batches):
            # By then rows are on their way to the sink: they are more than the buffers take.
            if number == 3 and os.path.exists(marker):
                raise RuntimeError("what is read fails")
            yield batch

    rows = spark.range(0, 100, 1, 1).selectExpr("repeat(CAST(id AS STRING), 100000) AS value")
    writer = rows.mapInArrow(pass_on, "value STRING").write.format("ottla").mode("append")
    once = {"deliveryGuarantee": "exactly_once", "txnAppId": name, "txnVersion": "1"}
    writer = writer.options(**{"kafka.bootstrap.servers": topics.servers, "topic": name}, **once)
    conf, before = "spark.sql.execution.arrow.maxRecordsPerBatch", "10000"
    spark.conf.set(conf, "10")
    try:
        with pytest.raises(Exception, match="what is read fails"):
            writer.save()
        broken.unlink()
        writer.save()
    finally:
        spark.conf.set(conf, before)
    found = spark.read.format("ottla").options(subscribe=name)
    found = found.options(**{"kafka.bootstrap.servers": topics.servers}).load()
    assert found.selectExpr("count(*)", "count(DISTINCT value)").first()[:] == (100, 100)


@pytest.mark.parametrize(
    ("column", "options", "words"),
    [
        ("id AS value", {"topic": "x"}, "column value has type bigint"),
        ("'x' AS key", {"topic": "x"}, "column value is missing"),
        ("'x' AS value", {}, "neither the option topic nor a column topic"),
        ("'x' AS value", {"topic": "x", "topicPartitions": "none"}, "must be a whole number"),
        ("'x' AS value", {"topic": "x", "kafka.acks": "5"}, "kafka.acks must be one of"),
    ],
)
def test_what_is_wrong_is_said_by_the_sink(spark, ottla_processes, column, options, words):
    frame = spark.range(1).selectExpr(column)
    writer = frame.write.format("ottla").mode("append").options(**options)
    with pytest.raises(PySparkException, match=words):
        writer.option("kafka.bootstrap.servers", ottla_processes.bootstrap_servers).save()


def test_a_topic_cannot_be_overwritten(spark, ottla_processes):
    writer = spark.range(1).selectExpr("'x' AS value").write.format("ottla").mode("overwrite")
    servers = ottla_processes.bootstrap_servers
    with pytest.raises(PySparkException, match="cannot be overwritten"):
        writer.option("kafka.bootstrap.servers", servers).option("topic", "x").save()
