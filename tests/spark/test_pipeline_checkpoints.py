"""Checkpoints that are another job's, that are older than what was written, and what becomes of
them: no offset is lost and none comes twice."""

from __future__ import annotations

import json
import shutil

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.pipelines import SpecError, parse_pipeline, run_pipeline
from ottla.pipelines.files import HadoopFiles, LocalFiles
from ottla.pipelines.jobs.archive import with_time_columns
from ottla.pipelines.runner import PipelineRun
from ottla.pipelines.spec_keys import SpecErrors
from tests.support.known_topics import await_known
from tests.support.spark.pipeline_helpers import read_topic

pytestmark = pytest.mark.spark


class Desk:
    """A folder with pipelines, and topics that get records."""

    def __init__(self, spark, servers, folder):
        self.spark, self.servers, self.folder = spark, servers, folder

    def produce(self, topic, count, partitions=2, **values):
        admin = AdminClient({"bootstrap.servers": self.servers})
        if topic not in admin.list_topics(timeout=30).topics:
            admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
            await_known(self.servers, topic, partitions)
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 5})
        for number in range(count):
            producer.produce(topic, b"v", partition=number % partitions, **values)
        assert producer.flush(60) == 0

    def run(self, *jobs, **choices):
        report = run_pipeline(self.pipeline(*jobs), self.spark, **choices)
        assert report.is_sound, report.lines()
        return report

    def pipeline(self, *jobs):
        head = f"bootstrap_servers: {self.servers}\ntrigger: available_now\njobs:\n"
        text = head + "".join(f"  - {job}\n" for job in jobs)
        return parse_pipeline(text, "p.yaml", self.folder)

    def refused(self, *jobs, **choices):
        with pytest.raises(SpecErrors) as raised:
            self.run(*jobs, **choices)
        return [line.replace(str(self.folder), "") for line in raised.value.lines]

    def offsets(self, path):
        """Every place of a record in an archive, as often as it is there."""
        rows = self.spark.read.parquet(str(self.folder / path))
        places = rows.select("partition", "offset").collect()
        return sorted((row["partition"], row["offset"]) for row in places)


@pytest.fixture
def desk(spark, ottla_processes, tmp_path):
    return Desk(spark, ottla_processes.bootstrap_servers, tmp_path)


def places(count, partitions=2):
    return sorted((n % partitions, n // partitions) for n in range(count))


def test_a_job_put_before_another_of_its_kind_does_not_get_its_checkpoint(desk):
    desk.produce("swap", 100)
    unnamed = "archive: {from: swap, path: a}", "archive: {from: swap, path: b}"
    desk.run(unnamed[0])
    desk.produce("swap", 100)
    with pytest.raises(SpecError, match="jobs 1 and 2 could be taken for each other"):
        desk.run(unnamed[1], unnamed[0])
    # Whoever only exchanges the two in the file is told what has changed.
    assert desk.refused(unnamed[1]) == [
        "p.yaml: job archive-swap: its checkpoint is that of another job: path was '/a' and is "
        "'/b'. --adopt archive-swap goes on from where the checkpoint is, as the job is now; "
        "--reset archive-swap begins anew, and what was written before stays"
    ]
    desk.run("archive: {name: second, from: swap, path: b}", unnamed[0])
    assert desk.offsets("a") == desk.offsets("b") == places(200)


def test_a_renamed_archive_goes_on_where_it_was(desk):
    desk.produce("renamed", 60)
    desk.run("archive: {name: old, from: renamed, path: a}")
    desk.produce("renamed", 60)
    renamed = "archive: {name: new, from: renamed, path: a}"
    (line,) = desk.refused(renamed)
    assert "reads and writes the same, old, which is not in the file any more" in line
    # To begin anew would double what is there.
    (line,) = desk.refused(renamed, reset=["new"])
    assert line == (
        "p.yaml: job new: /a holds rows of renamed from another checkpoint (2 files), and their "
        "offsets would come twice: name another 'path', or move those files away"
    )
    said = []
    desk.run(renamed, adopt=["new"], announce=said.append)
    assert said == ["new: goes on with the checkpoint of old"]
    assert desk.offsets("a") == places(120)


def test_an_older_checkpoint_is_refused_or_what_came_after_it_is_set_aside(desk):
    job = "archive: {name: a, from: older, path: a, max_records_per_batch: 100, partition_by: none}"
    desk.produce("older", 300)
    desk.run(job)
    shutil.copytree(desk.folder / "checkpoints", desk.folder / "backup")
    desk.produce("older", 200)
    desk.run(job)
    assert desk.offsets("a") == places(500)
    assert list((desk.folder / "a").glob("c-*")), "rows before and after the copy are in one file"

    shutil.rmtree(desk.folder / "checkpoints")
    shutil.copytree(desk.folder / "backup", desk.folder / "checkpoints")
    (line,) = desk.refused(job)
    assert line.startswith(
        "p.yaml: job a: its checkpoint ends with batch 2 and /a holds rows of batches up to 4: an "
        "older checkpoint was put back. Put the newer one back, or --adopt a moves the rows after "
    )
    assert desk.offsets("a") == places(500)
    said = []
    desk.produce("older", 20)
    desk.run(job, adopt=["a"], announce=said.append)
    assert desk.offsets("a") == places(520)
    aside = list((desk.folder / "a" / "_set_aside").glob("*.parquet.aside"))
    assert said == [
        f"a: {len(aside)} files with rows after its checkpoint were moved to "
        f"{desk.folder}/a/_set_aside"
    ]
    assert {path.name[0] for path in aside} == {"b", "c"}

    # What the topic has not any more stays where it is.
    shutil.rmtree(desk.folder / "checkpoints")
    shutil.copytree(desk.folder / "backup", desk.folder / "checkpoints")
    admin = AdminClient({"bootstrap.servers": desk.servers})
    for done in admin.delete_records([TopicPartition("older", 1, 160)]).values():
        done.result(30)
    assert desk.refused(job, adopt=["a"]) == [
        "p.yaml: job a: --adopt a would hide rows that only /a has: older-1 has not the 10 from "
        "offset 150 to 159 any more. Put the newer checkpoint back, or --reset a and name another "
        "'path'"
    ]
    assert desk.offsets("a") == places(520)


def test_a_changed_query_goes_on_when_it_is_adopted(desk):
    desk.produce("asked", 20)
    before = (
        "transform: {name: t, from: asked, to: answered, schema: text, "
        "sql: select 'x' value from asked}"
    )
    after = before.replace("'x'", "'y'")
    desk.run(before)
    desk.produce("asked", 10)
    (line,) = desk.refused(after)
    assert "sql was 'select 'x' value" in line.replace('"', "'")
    desk.run(after, adopt=["t"])
    values = [message.value() for message in read_topic(desk.servers, "answered")]
    assert (values.count(b"x"), values.count(b"y")) == (20, 10)


def test_a_second_run_is_refused_while_the_first_is_there(desk):
    desk.produce("twice", 10)
    job = "archive: {name: a, from: twice, path: a, trigger: 100 ms}"
    first = PipelineRun(desk.pipeline(job), desk.spark)
    first.start()
    try:
        (line,) = desk.refused(job)
        assert "job a: process" in line and "runs it already" in line
    finally:
        first.stop()
    desk.run(job.replace("100 ms", "available_now"))
    assert desk.offsets("a") == places(10)


def test_days_and_hours_are_those_of_the_stated_time_zone(spark):
    """Whatever the session's own is: 00:45 and 01:15 UTC around Berlin's leap in March, and both
    hours from 02:00 that it has in October."""
    moments = (1774745100000, 1774746900000, 1792889100000, 1792892700000)
    rows = spark.createDataFrame([(m,) for m in moments], "ms long")
    rows = rows.selectExpr("timestamp_millis(ms) as timestamp")
    wanted = {
        "UTC": ["03-29 00", "03-29 01", "10-25 00", "10-25 01"],
        "Europe/Berlin": ["03-29 01", "03-29 03", "10-25 02", "10-25 02"],
        "America/Los_Angeles": ["03-28 17", "03-28 18", "10-24 17", "10-24 18"],
        "Asia/Kolkata": ["03-29 06", "03-29 06", "10-25 06", "10-25 07"],
    }
    kept = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
        for zone, folders in wanted.items():
            found = with_time_columns(rows, "hour", zone).sort("timestamp").collect()
            assert [f"{row['date']} {row['hour']}" for row in found] == [
                f"2026-{folder}" for folder in folders
            ]
    finally:
        spark.conf.set("spark.sql.session.timeZone", kept)


@pytest.mark.parametrize("kind", ["local", "hadoop"])
def test_files_of_this_machine_and_of_hadoop_are_handled_alike(spark, tmp_path, kind):
    root = str(tmp_path)
    files = LocalFiles(tmp_path) if kind == "local" else HadoopFiles(spark, root)
    assert not files.exists(f"{root}/x/mark")
    for text in ("first", "second, longer"):
        files.write_text(f"{root}/x/mark", text)
        assert files.read_text(f"{root}/x/mark") == text
    files.write_text(f"{root}/x/_hidden/a", "a")
    assert [(f.name, f.size) for f in files.walk(files.root)] == [("mark", 14)]
    files.move(f"{root}/x", f"{root}/y/z")
    assert (files.folders(root), files.folders(f"{root}/y")) == (["y"], ["z"])
    assert files.folders(f"{root}/none") == [] and files.exists(f"{root}/y/z/_hidden/a")
    files.write_text(f"{root}/new", "new")
    files.remove(f"{root}/y")
    assert [f.name for f in files.walk(files.root)] == ["new"]


def test_secrets_are_not_in_plans_reports_or_marks(desk, capfd):
    desk.produce("hidden", 5)
    (desk.folder / "secret").write_text("hunter2-of-the-keystore\n")
    text = f"""
        bootstrap_servers: {desk.servers}
        trigger: available_now
        restart: never
        kafka: {{ssl.keystore.key: '${{file:secret}}'}}
        jobs:
          - archive: {{name: good, from: hidden, path: a}}
          - transform:
              name: bad
              from: hidden
              to: hidden.out
              schema: text
              sql: "select raise_error('got hunter2-of-the-keystore') value from hidden"
    """
    pipeline = parse_pipeline(text, "p.yaml", desk.folder)
    run = PipelineRun(pipeline, desk.spark)
    run.start()
    for stream in run.streams:
        stream._stream.frame.explain(True)
    while run.poll():
        pass
    for stream in run.streams:
        stream._query.explain(True)
    run.stop()
    report = run.finish()
    told = json.dumps(report.to_json()) + "\n".join(report.lines())
    assert "got ${file:secret}" in report.job("bad").error
    shown = capfd.readouterr()
    assert "ssl.keystore.key" in shown.out
    marks = "".join(file.read_text() for file in desk.folder.rglob("ottla-job.json"))
    assert "hidden" in marks
    plans = shown.out.replace("got hunter2-of-the-keystore", "")
    assert "hunter2" not in told + plans + marks
