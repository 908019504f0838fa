"""Pipeline files: what they say, and one line for what is wrong with them."""

from __future__ import annotations

import dataclasses

import pytest

from ottla.pipelines import SpecError, TopicSpec, load_pipeline, parse_pipeline
from ottla.pipelines.spec import JOB_KINDS, Archive, Ingest, Pipeline, Transform
from ottla.pipelines.spec_keys import Address, Restart, Source, parse_duration_s, view_name
from ottla.pipelines.spec_reader import job_from_values, override

EXAMPLE = """
name: clicks
checkpoints: ./checkpoints
jobs:
  - ingest: {format: json, path: ./in, topic: {name: clicks, partitions: 6, replication_factor: 3}}
  - transform:
      from: clicks
      schema: "user string, page string, at timestamp"
      sql: "select user, count(*) n from clicks group by user, window(at, '1 minute')"
      to: {name: counts, partitions: 3}
      dead_letter: clicks.bad
  - archive: {from: clicks, path: ./archive, partition_by: date}
"""


def test_the_example_of_the_documentation(tmp_path):
    file = tmp_path / "clicks.yaml"
    file.write_text(EXAMPLE)
    pipeline = load_pipeline(file)
    ingest, transform, archive = pipeline.jobs
    assert pipeline.checkpoints == str(tmp_path / "checkpoints")
    assert isinstance(ingest, Ingest)
    assert ingest.path == str(tmp_path / "in")
    assert ingest.topic == TopicSpec("clicks", 6, 3)
    assert isinstance(transform, Transform)
    assert transform.from_ == (Source("clicks", "clicks"),)
    assert transform.writes() == (TopicSpec("counts", 3), TopicSpec("clicks.bad"))
    assert isinstance(archive, Archive)
    assert [job.name for job in pipeline.jobs] == [
        "ingest-clicks",
        "transform-counts",
        "archive-clicks",
    ]


def job(text):
    return f"jobs:\n  - {text}"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "f.yaml: must hold names with values: name, checkpoints, jobs, …"),
        ("- a", "f.yaml: must hold names with values: name, checkpoints, jobs, …"),
        ("name: x", "f.yaml: 'jobs' must be a list of at least one job"),
        ("job: []", "f.yaml: 'jobs' must be a list of at least one job ('job' is unknown)"),
        ("jobs: [", "f.yaml, line 1: expected the node content, but found '<stream end>'"),
        ("a: 1\na: 2", "f.yaml, line 2: 'a' appears twice"),
        ("? [a]\n: 1", "f.yaml, line 1: a key is not text"),
        ("nam: x\njobs: [1]", "f.yaml: unknown key 'nam', did you mean 'name'?"),
        ("jobs: [1]", "f.yaml: job 1: must be one kind of job with its values, as 'ingest: {…}'"),
        (job("ingst: {}"), "f.yaml: job 1: unknown kind of job 'ingst', did you mean 'ingest'?"),
        (
            job("qqq: {}"),
            "f.yaml: job 1: unknown kind of job 'qqq'; there are ingest, transform, archive, "
            "restore, mirror, profile, audit",
        ),
        (job("ingest: 3"), "f.yaml: job 1 (ingest): must hold names with values"),
        (
            job("ingest: {format: json, pth: x, topic: a}"),
            "f.yaml: job 1 (ingest): unknown key 'pth', did you mean 'path'?",
        ),
        (
            job("ingest: {format: json, topic: a}"),
            "f.yaml: job 1 (ingest): format: json needs 'path'",
        ),
        (
            job("ingest: {format: rate, path: x, topic: a}"),
            "f.yaml: job 1 (ingest): 'path' goes with files, not with format: rate",
        ),
        (job("ingest: {format: rate}"), "f.yaml: job 1 (ingest): 'topic' is missing"),
        (
            job("ingest: {format: jsn, path: x, topic: a}"),
            "f.yaml: job 1 (ingest): format: 'jsn' is none of csv, json, parquet, text, rate, "
            "did you mean 'json'?",
        ),
        (
            job("ingest: {format: rate, rows_per_second: 0, topic: a}"),
            "f.yaml: job 1 (ingest): rows_per_second: 0 is less than 1",
        ),
        (
            job("ingest: {format: rate, rows_per_second: many, topic: a}"),
            "f.yaml: job 1 (ingest): rows_per_second: 'many' is not a whole number",
        ),
        (
            job("ingest: {format: rate, topic: {nam: a}}"),
            "f.yaml: job 1 (ingest): topic: unknown key 'nam', did you mean 'name'?",
        ),
        (
            job("ingest: {format: rate, topic: {name: a, partitions: 0}}"),
            "f.yaml: job 1 (ingest): topic.partitions: must be at least 1",
        ),
        (
            job("archive: {from: a, path: x, trigger: soon}"),
            "f.yaml: job 1 (archive): trigger: 'soon' is not available_now, or a duration such as "
            "'2 seconds'",
        ),
        (
            job("archive: {from: a, path: x, restart: {attempts: x}}"),
            "f.yaml: job 1 (archive): restart: attempts: 'x' is not a whole number",
        ),
        (
            job("archive: {from: a, path: x, kafka: {a: [1]}}"),
            "f.yaml: job 1 (archive): kafka.a: [1] is not text",
        ),
        (
            job("transform: {from: a, to: a, sql: x}"),
            "f.yaml: job 1 (transform): reads and writes the topic a",
        ),
        (
            job("transform: {from: a, to: b}"),
            "f.yaml: job 1 (transform): one of 'sql' and 'function' is needed",
        ),
        (
            job("transform: {from: a, to: b, sql: x, dead_letter: c}"),
            "f.yaml: job 1 (transform): 'dead_letter' needs columns in 'schema': every row fits "
            "bytes",
        ),
        (
            job("transform: {from: [a.b, a-b], to: b, sql: x}"),
            "f.yaml: job 1 (transform): from: two topics are called 'a_b' in SQL",
        ),
        (
            job("transform: {from: a, to: b, function: f}"),
            "f.yaml: job 1 (transform): function: 'f' is not module:function or file.py:function",
        ),
    ],
)
def test_one_line_names_the_file_the_job_and_the_key(text, complaint):
    with pytest.raises(SpecError) as caught:
        parse_pipeline(text, "f.yaml")
    assert str(caught.value) == complaint


def test_a_bad_topic_name_is_told_in_kafkas_words():
    with pytest.raises(SpecError, match=r"job 1 \(archive\): from: Topic name \"a/b\" is illegal"):
        parse_pipeline(job("archive: {from: a/b, path: x}"), "f.yaml")


def test_jobs_that_do_not_go_together():
    twice = "  - archive: {name: x, from: a, path: p}\n"
    with pytest.raises(SpecError, match="two jobs are called 'x'"):
        parse_pipeline("jobs:\n" + twice + twice.replace("path: p", "path: q"))
    with pytest.raises(SpecError, match="two archive jobs write the folder"):
        parse_pipeline("jobs:\n" + twice + twice.replace("name: x", "name: y"))
    first = "  - ingest: {format: rate, topic: {name: a, partitions: 1}}\n"
    with pytest.raises(SpecError, match="the topic a is declared in two ways"):
        parse_pipeline(
            "jobs:\n" + first + first.replace("{format", "{name: b, format").replace("s: 1", "s: 2")
        )
    again = parse_pipeline("jobs:\n" + first + "  - ingest: {name: b, format: rate, topic: a}\n")
    assert again.declared_topics() == {"a": TopicSpec("a", 1)}
    assert [job.name for job in again.jobs] == ["ingest-a", "b"]


@pytest.mark.parametrize(
    ("jobs", "complaint"),
    [
        (
            ["archive: {from: a, path: p}", "archive: {from: [a, b], path: q}"],
            "jobs 1 and 2 could be taken for each other, both would be called 'archive-a': give "
            "them a 'name' each, their checkpoints are found by it",
        ),
        (
            ["ingest: {format: rate, topic: a}", "archive: {name: ingest-a, from: a, path: q}"],
            "jobs 2 and 1 could be taken for each other",
        ),
        (
            [
                "transform: {name: x, from: a, to: b, sql: s, schema: n int, dead_letter: c}",
                "archive: {name: x-dead-letter, from: a, path: q}",
            ],
            "two jobs are called 'x-dead-letter': they would share a checkpoint",
        ),
        (["archive: {name: ../x, from: a, path: p}"], "'../x' cannot be a job's name"),
        (["archive: {name: _x, from: a, path: p}"], "'_x' cannot be a job's name"),
    ],
)
def test_names_under_which_checkpoints_would_be_taken_for_each_other(jobs, complaint):
    with pytest.raises(SpecError) as caught:
        parse_pipeline("jobs:\n" + "".join(f"  - {job}\n" for job in jobs), "f.yaml")
    assert str(caught.value).startswith(f"f.yaml: {complaint}")


def test_jobs_without_checkpoints_may_be_alike():
    two = parse_pipeline("jobs:\n" + "  - profile: {from: a}\n" * 2)
    assert [job.name for job in two.jobs] == ["profile-a", "profile-a-2"]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9400", Address("127.0.0.1", 9400)),
        ("0.0.0.0:0", Address("0.0.0.0", 0)),
        ('"[::1]:9400"', Address("::1", 9400)),
        ("{listen: 9400, hosts: [worker-1]}", Address("127.0.0.1", 9400, ("worker-1",))),
    ],
)
def test_addresses_of_metrics(text, address):
    pipeline = parse_pipeline(f"metrics: {text}\n" + job("archive: {from: a, path: x}"))
    assert pipeline.metrics_address() == address


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("here", "metrics: 'here' is not a port, HOST:PORT, or {listen, hosts}"),
        ("'a:70000'", "metrics: 'a:70000' is not a port"),
        ("{listn: 1}", "unknown key 'metrics.listn', did you mean 'metrics.listen'?"),
        ("1\nmetrics_port: 1", "'metrics' and 'metrics_port' say the same: one of the two"),
    ],
)
def test_what_is_no_address(text, complaint):
    with pytest.raises(SpecError) as caught:
        parse_pipeline(f"metrics: {text}\n" + job("archive: {from: a, path: x}"), "f.yaml")
    assert str(caught.value).startswith(f"f.yaml: {complaint}")


def test_a_time_zone_that_nobody_knows():
    with pytest.raises(SpecError) as caught:
        parse_pipeline(job("archive: {from: a, path: x, time_zone: Europe/Berlim}"), "f.yaml")
    assert str(caught.value) == (
        "f.yaml: job 1 (archive): time_zone: 'Europe/Berlim' is not a time zone such as UTC or "
        "Europe/Berlin, did you mean 'Europe/Berlin'?"
    )


def test_values_become_what_jobs_need(tmp_path):
    made = job_from_values(
        "transform",
        {
            "from": {"v": "a.b"},
            "to": {"name": "c", "configs": {"retention.ms": 5, "x": True}},
            "function": "steps.py:clean",
            "schema": {"user": "string", "at": "timestamp"},
            "watermark": {"at": "1 minute"},
            "restart": {"attempts": 0},
            "trigger": "500 ms",
        },
        "here",
        tmp_path,
    )
    assert isinstance(made, Transform)
    assert made.from_ == (Source("v", "a.b"),)
    assert made.to.configs == (("retention.ms", "5"), ("x", "true"))
    assert made.function == f"{tmp_path}/steps.py:clean"
    assert made.schema == "`user` string, `at` timestamp"
    assert made.restart == Restart(0, 5.0)
    assert job_from_values(
        "archive", {"from": "a", "path": "s3a://b/c", "restart": "never"}, "", tmp_path
    ) == Archive(from_=(Source("a", "a"),), path="s3a://b/c", restart=Restart(0))


def test_paths_that_are_not_named_are_relative_to_the_file_too(tmp_path):
    pipeline = parse_pipeline(job("archive: {from: a, path: x}"), "f.yaml", tmp_path)
    assert pipeline.checkpoints == str(tmp_path / "checkpoints")
    assert override(pipeline, {"trigger": "1 s"}, "here").checkpoints == pipeline.checkpoints


def test_values_of_the_command_line_win():
    pipeline = Pipeline(name="x", trigger="1 second")
    assert override(pipeline, {"trigger": None}, "here") == pipeline
    assert override(pipeline, {"trigger": "available_now"}, "here").trigger == "available_now"
    with pytest.raises(SpecError, match="here: format: 'kafk' is none of ottla, kafka, did you"):
        override(pipeline, {"format": "kafk"}, "here")


def test_every_key_of_every_job_has_words():
    for kind, job_class in JOB_KINDS.items():
        assert job_class.kind == kind and job_class.__doc__
        for field in dataclasses.fields(job_class):
            assert field.metadata["help"].endswith("."), (kind, field.name)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500 ms", 0.5), ("1 second", 1), ("10 seconds", 10), ("2min", 120), ("1.5 h", 5400)],
)
def test_durations(text, seconds):
    assert parse_duration_s(text) == seconds


def test_names_of_views():
    assert view_name("page-views.v1") == "page_views_v1"
    assert view_name("1st") == "_1st"


def test_files_that_are_no_text(tmp_path):
    file = tmp_path / "x.yaml"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(SpecError, match="is not UTF-8 text"):
        load_pipeline(file)
    file.write_bytes(b" " * 1_000_001)
    with pytest.raises(SpecError, match="over 1000000 bytes"):
        load_pipeline(file)
    file.write_text("[" * 50_000)
    with pytest.raises(SpecError):
        load_pipeline(file)
