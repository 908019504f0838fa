"""restore, mirror, profile and audit: what comes out against what a client wrote."""

from __future__ import annotations

import json
import time
import uuid
from datetime import UTC, datetime

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from ottla.pipelines import Archive, Source, dialects, parse_pipeline, run_pipeline
from ottla.pipelines.jobs.archive import ArchiveWriter, with_time_columns
from ottla.pipelines.jobs.audit import incidents, parse_events
from ottla.pipelines.mirror_groups import OFFSET_HEADER
from ottla.pipelines.spec_keys import SpecErrors
from ottla.testing.cluster import Cluster
from tests.support.known_topics import await_known
from tests.support.spark.pipeline_helpers import DEADLINE_S, read_topic

pytestmark = pytest.mark.spark

# Yesterday: old enough to be told from now, young enough to be kept.
FIRST_MS = (int(time.time()) - 86_400) * 1000


def create(servers, name, partitions):
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)
    await_known(servers, name, partitions)
    return admin


def produce(servers, topic, numbers, partitions):
    """Keys, null values, headers, and timestamps that lie in the past."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
    for number in numbers:
        producer.produce(
            topic,
            None if number % 50 == 7 else b"value %d" % number,
            key=None if number % 10 == 3 else b"k%d" % (number % 20),
            partition=number % partitions,
            timestamp=FIRST_MS + number * 1000,
            headers=[("n", b"%d" % number)] if number % 4 == 0 else None,
        )
    assert producer.flush(60) == 0


def content(servers, topic):
    """By partition, in order: all but offsets and the mirror's mark."""
    found = {}
    for message in read_topic(servers, topic):
        headers = [h for h in message.headers() or [] if h[0] != OFFSET_HEADER]
        found.setdefault(message.partition(), []).append(
            (message.key(), message.value(), message.timestamp(), headers)
        )
    return found


def run(spark, text, folder):
    report = run_pipeline(parse_pipeline(text, "jobs.yaml", folder), spark)
    assert report.is_sound, report.lines()
    return report


@pytest.fixture(scope="module")
def written(ottla_processes):
    servers = ottla_processes.bootstrap_servers
    create(servers, "jobs.written", 3)
    produce(servers, "jobs.written", range(600), 3)
    return content(servers, "jobs.written")


def test_an_archive_is_restored_record_for_record(spark, ottla_processes, written, tmp_path):
    servers = ottla_processes.bootstrap_servers
    archive = f"""
        bootstrap_servers: {servers}
        trigger: available_now
        jobs:
          - archive: {{from: jobs.written, path: archive, max_records_per_batch: 250}}
    """
    run(spark, archive, tmp_path)
    moments = [datetime.fromtimestamp(FIRST_MS / 1000 + n, UTC) for n in range(600)]
    days = {f"date={moment:%Y-%m-%d}" for moment in moments}
    assert {path.name for path in (tmp_path / "archive").glob("date=*")} == days
    restore = f"""
        bootstrap_servers: {servers}
        jobs:
          - restore: {{path: archive, topic: {{name: jobs.restored, partitions: 3}}}}
    """
    report = run(spark, restore, tmp_path)
    assert report.job("restore-jobs.restored").rows_out == 600
    assert content(servers, "jobs.restored") == written

    with pytest.raises(SpecErrors, match="holds records; 'append: true' adds"):
        run_pipeline(parse_pipeline(restore, "jobs.yaml", tmp_path), spark)
    small = restore.replace("jobs.restored, partitions: 3", "jobs.small, partitions: 2")
    refused = run_pipeline(parse_pipeline(small, "jobs.yaml", tmp_path), spark)
    assert "has partition 2" in refused.job("restore-jobs.small").error


def test_a_batch_that_runs_again_is_archived_once(spark, tmp_path):
    """As after a kill between the last file and Spark's commit, and in the midst of compaction."""
    job = Archive(name="a", from_=(Source("t", "t"),), path=str(tmp_path / "a"), compact_files=4)
    checkpoint = tmp_path / "c"
    (checkpoint / "commits").mkdir(parents=True)
    (checkpoint / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))

    def write(writer, rows, number):
        writer.write(with_time_columns(rows, "date", "UTC"), number)
        (checkpoint / "commits" / str(number)).write_text("v1\n{}")

    def batch(number):
        rows = spark.range(number * 10, number * 10 + 10, numPartitions=number % 2 + 1)
        place = (
            "'t' as topic",
            "0 as partition",
            "id as offset",
            "cast(string(id) as binary) as value",
        )
        return rows.selectExpr(*place, f"timestamp_millis({FIRST_MS}) as timestamp")

    def offsets():
        stored = spark.read.parquet(job.path)
        return sorted(row["offset"] for row in stored.select("offset").collect())

    writer = ArchiveWriter(job, str(checkpoint))
    write(writer, batch(0), 0)
    write(writer, batch(1).coalesce(1), 1)
    writer = ArchiveWriter(job, str(checkpoint))
    write(writer, batch(1).repartition(3), 1)
    assert offsets() == list(range(20))
    kept = {file: file.read_bytes() for file in (tmp_path / "a").rglob("b-*.parquet")}
    for number in range(2, 6):
        write(writer, batch(number), number)
    (joined,) = (tmp_path / "a").rglob("c-*.parquet")
    assert offsets() == list(range(60))
    for file, content_before in kept.items():
        file.write_bytes(content_before)  # the compaction was cut short
    assert joined.exists() and offsets() != list(range(60))
    writer = ArchiveWriter(job, str(checkpoint))
    write(writer, batch(5), 5)
    assert offsets() == list(range(60))
    writer.finish(spark)
    assert offsets() == list(range(60))


def test_a_batch_that_is_written_again_counts_once(spark, ottla_processes):
    servers = ottla_processes.bootstrap_servers
    create(servers, "jobs.once", 2)
    frame = spark.range(100).selectExpr("cast(id as string) as value")
    for version in (0, 0, 1):
        frame.write.format("ottla").options(
            **{"kafka.bootstrap.servers": servers},
            topic="jobs.once",
            txnAppId="a",
            txnVersion=version,
        ).mode("append").save()
    values = [int(message.value()) for message in read_topic(servers, "jobs.once")]
    assert sorted(values) == sorted([*range(100), *range(100)])


def test_how_many_tasks_spark_makes_can_be_found_out(spark):
    assert dialects.tasks_of_a_range(spark) == spark.sparkContext.defaultParallelism


def test_a_mirror_carries_records_and_positions(spark, ottla_processes, tmp_path):
    here = ottla_processes.bootstrap_servers
    admin = create(here, "jobs.mirrored", 2)
    produce(here, "jobs.mirrored", range(300), 2)
    commit(here, "readers", {0: 100, 1: 150})
    with Cluster(brokers=1) as other:
        there = other.bootstrap_servers
        text = f"""
            bootstrap_servers: {here}
            trigger: available_now
            jobs:
              - mirror:
                  from: jobs.mirrored
                  to_bootstrap_servers: {there}
                  prefix: copy.
                  groups: readers
                  max_records_per_batch: 120
        """
        report = run(spark, text, tmp_path)
        assert report.jobs[0].rows_in == 300
        assert report.jobs[0].notes == ("positions of 1 groups carried over",)
        assert content(there, "copy.jobs.mirrored") == content(here, "jobs.mirrored")
        marks = [
            (m.partition(), int(dict(m.headers())[OFFSET_HEADER]))
            for m in read_topic(there, "copy.jobs.mirrored")
        ]
        assert marks == [(p, offset) for p in range(2) for offset in range(150)]
        assert left_to_read(there, "readers", "copy.jobs.mirrored") == {0: 50}

        grown = admin.create_partitions([NewPartitions("jobs.mirrored", 3)])
        grown["jobs.mirrored"].result(30)
        wait_for_partitions(here, "jobs.mirrored", 3)
        produce(here, "jobs.mirrored", range(300, 450), 3)
        commit(here, "readers", {0: 160})
        assert run(spark, text, tmp_path).jobs[0].rows_out == 150
        assert content(there, "copy.jobs.mirrored") == content(here, "jobs.mirrored")
        assert left_to_read(there, "readers", "copy.jobs.mirrored") == {0: 40, 1: 50}


def commit(servers, group, offsets):
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    places = [TopicPartition("jobs.mirrored", p, offset) for p, offset in offsets.items()]
    for place in consumer.commit(offsets=places, asynchronous=False):
        assert place.error is None
    consumer.close()


def left_to_read(servers, group, topic):
    """How many records a group would still get, by partition."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    positions = consumer.committed([TopicPartition(topic, p) for p in range(2)], timeout=30)
    consumer.close()
    begin = {place.partition: place.offset for place in positions}
    left = {}
    for message in read_topic(servers, topic):
        if message.partition() in begin and message.offset() >= begin[message.partition()]:
            left[message.partition()] = left.get(message.partition(), 0) + 1
    return left


def wait_for_partitions(servers, topic, count):
    admin = AdminClient({"bootstrap.servers": servers})
    deadline = time.monotonic() + DEADLINE_S
    while len(admin.list_topics(topic, timeout=30).topics[topic].partitions) < count:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_profile_tells_skew_sizes_nulls_and_rates(spark, ottla_processes, written, tmp_path):
    text = f"""
        bootstrap_servers: {ottla_processes.bootstrap_servers}
        jobs:
          - profile: {{from: jobs.written, json: p.json, html: p.html, top_keys: 3}}
    """
    report = run(spark, text, tmp_path).jobs[0]
    found = json.loads((tmp_path / "p.json").read_text())["jobs.written"]
    assert report.rows_in == found["records"] == sum(map(len, written.values())) == 600
    assert found["skew"] == 1.0
    sizes = [len(k or b"") + len(v or b"") for rows in written.values() for k, v, _, _ in rows]
    assert found["bytes"] == sum(sizes)
    for partition in found["partitions"]:
        rows = written[partition["partition"]]
        assert partition["records"] == len(rows) == 200
        assert partition["null_keys"] == pytest.approx(sum(k is None for k, *_ in rows) / 200)
        assert partition["null_values"] == pytest.approx(sum(r[1] is None for r in rows) / 200)
        assert partition["gaps"] == 0
        assert partition["value_max"] == len(b"value 599")
        assert partition["per_s"] == pytest.approx(200 / 597, rel=0.01)
    assert [key["records"] for key in found["top_keys"]] == [30, 30, 30]
    assert sum(rate for _, rate in found["rate"]) * 599 / 60 == pytest.approx(600, rel=0.01)
    page = (tmp_path / "p.html").read_text()
    assert page.count("<svg") == 3 and "http" not in page
    assert any("600 records" in line for line in report.notes)


def test_an_audit_tells_what_happened_to_topics(spark, tmp_path):
    with Cluster(brokers=1, overrides={"ottla.lifecycle.topic.enable": "true"}) as cluster:
        servers = cluster.bootstrap_servers
        admin = create(servers, "watched", 2)
        admin.create_partitions([NewPartitions("watched", 4)])["watched"].result(30)
        wait_for_partitions(servers, "watched", 4)
        admin.delete_topics(["watched"])["watched"].result(30)
        deadline = time.monotonic() + DEADLINE_S
        text = f"""
            bootstrap_servers: {servers}
            jobs:
              - audit: {{only: watched, json: audit.json}}
        """
        found = []
        while [item["what"] for item in found] != ["created", "expanded", "deleted"] or any(
            item["duration_ms"] is None for item in found
        ):
            # Events come to the topic a little later than they happen.
            assert time.monotonic() < deadline, found
            time.sleep(0.5)
            report = run(spark, text, tmp_path)
            found = json.loads((tmp_path / "audit.json").read_text())
        assert [item["partitions"] for item in found] == [2, 2, 4]
        assert all(0 <= item["duration_ms"] < 60_000 for item in found)
        assert {item["topic"] for item in found} == {"watched"}
        assert "created" in report.jobs[0].notes[1]


def test_failovers_and_expansions_are_told_apart(spark):
    def event(offset, ts_ms, epoch, name, partition=None, before=None, after=None):
        values = {"ts_ms": ts_ms, "controller_epoch": epoch, "event": name, "kind": "event"}
        if partition is not None:
            values |= {"kind": "partition", "topic": "t", "topic_id": "i", "partition": partition}
            values |= {"from": before, "to": after}
        return offset, json.dumps(values).encode()

    online, offline = "OnlinePartition", "OfflinePartition"
    none, new = "NonExistentPartition", "NewPartition"
    rows = [
        event(0, 1000, 1, "BrokerChange"),
        event(1, 1010, 1, "BrokerChange", 0, online, offline),
        event(2, 1040, 1, "BrokerChange", 0, offline, online),
        (3, b"no event"),
        # The controller itself was lost: the next one finds the partition without leader.
        event(4, 5000, 2, "Failover"),
        event(5, 5030, 2, "Failover", 0, offline, online),
        event(6, 5035, 2, "Failover", 1, offline, online),
        *(event(7 + p, 7000 + p, 2, "PartitionModifications", p, none, new) for p in (2, 3)),
        *(event(9 + p, 7018 + p, 2, "PartitionModifications", p, new, online) for p in (2, 3)),
        event(20, 9000, 2, "PartitionModifications", 4, none, new),
    ]
    frame = spark.createDataFrame(rows, "offset long, value binary")
    told = [row.asDict() for row in incidents(parse_events(frame)).collect()]
    assert [(r["what"], r["began_ms"], r["duration_ms"], r["partitions"]) for r in told] == [
        ("failover", 1010, 30, 1),
        ("failover", 5000, 35, 2),
        ("expanded", 7002, 19, 2),
        ("expanded", 9000, None, 1),
    ]
