"""`ottla pipeline`: files and jobs on the command line, without Spark."""

from __future__ import annotations

import json

import pytest

from ottla.cli import pipeline as command
from ottla.cli.main import run
from ottla.pipelines.report import JobReport, PipelineReport
from ottla.pipelines.spec import Archive, Ingest, Restore, Transform
from ottla.pipelines.spec_keys import Address, Source, TopicSpec

FILE = """
name: p
bootstrap_servers: from.file:1
jobs:
  - ingest: {format: rate, topic: a}
  - archive: {from: a, path: x}
"""


@pytest.fixture
def executed(monkeypatch):
    """What would have been run, and a report in its place."""
    calls = []

    def execute(pipeline, limit_s, choices):
        calls.append((pipeline, limit_s, choices))
        state = "failed" if pipeline.name == "bad" else "finished"
        return PipelineReport(pipeline.name, 1.0, (JobReport("j", "archive", state, 5),))

    monkeypatch.setattr(command, "_execute", execute)
    monkeypatch.delenv("OTTLA_BOOTSTRAP_SERVER", raising=False)
    return calls


def test_a_file_is_run_with_what_the_command_line_says(tmp_path, executed, capsys):
    file = tmp_path / "p.yaml"
    file.write_text(FILE)
    options = ["--master", "spark://h:7077", "--trigger", "available_now", "--for", "2 minutes"]
    options += ["--checkpoints", str(tmp_path / "c"), "--metrics", "9400", "--format", "kafka"]
    assert run(["pipeline", "run", str(file), *options, "--output", "json"]) == 0
    ((pipeline, limit_s, _),) = executed
    assert limit_s == 120
    assert (pipeline.master, pipeline.trigger, pipeline.format) == (
        "spark://h:7077",
        "available_now",
        "kafka",
    )
    assert pipeline.checkpoints == str(tmp_path / "c")
    assert pipeline.metrics_address() == Address("127.0.0.1", 9400) and not pipeline.fail_fast
    assert pipeline.bootstrap_servers == "from.file:1"
    assert json.loads(capsys.readouterr().out)["jobs"][0]["rows_in"] == 5


def test_what_becomes_of_checkpoints_and_failures_is_said_on_the_command_line(tmp_path, executed):
    file = tmp_path / "p.yaml"
    file.write_text(FILE + "metrics_port: 1\n")
    options = ["--reset", "a", "--reset", "b", "--adopt", "c", "--fail-fast"]
    assert run(["pipeline", "run", str(file), *options, "--metrics", "0.0.0.0:9401"]) == 0
    ((pipeline, _, choices),) = executed
    assert choices == ({"a", "b"}, {"c"})
    assert pipeline.fail_fast
    assert pipeline.metrics_address() == Address("0.0.0.0", 9401)


def test_secrets_on_the_command_line_come_from_files(tmp_path, executed):
    (tmp_path / "password").write_text("hunter2\n")
    setting = f"sasl.password=${{file:{tmp_path}/password}}"
    assert run(["pipeline", "archive", "--from", "a", "--path", "x", "--kafka", setting]) == 0
    ((pipeline, *_),) = executed
    assert pipeline.jobs[0].kafka == {"sasl.password": "hunter2"}
    assert pipeline.secrets.hide("got hunter2") == f"got ${{file:{tmp_path}/password}}"


def test_brokers_come_from_the_option_the_file_or_the_environment(tmp_path, executed, monkeypatch):
    file = tmp_path / "p.yaml"
    file.write_text(FILE)
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", "from.environment:1")
    run(["pipeline", "run", str(file), "--bootstrap-server", "from.option:1"])
    run(["pipeline", "run", str(file)])
    file.write_text(FILE.replace("bootstrap_servers: from.file:1\n", ""))
    run(["pipeline", "run", str(file)])
    assert [pipeline.bootstrap_servers for pipeline, *_ in executed] == [
        "from.option:1",
        "from.file:1",
        "from.environment:1",
    ]


def test_a_failed_job_is_exit_code_1(tmp_path, executed, capsys):
    file = tmp_path / "p.yaml"
    file.write_text(FILE.replace("name: p", "name: bad"))
    assert run(["pipeline", "run", str(file)]) == 1
    assert "j  failed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "job"),
    [
        (
            [
                "ingest",
                "--format",
                "rate",
                "--topic",
                "{name: a, partitions: 3}",
                "--rows-per-second",
                "7",
                "--options",
                "rampUpTime=1",
                "--select",
                "value",
            ],
            Ingest(
                format="rate",
                topic=TopicSpec("a", 3),
                rows_per_second=7,
                options={"rampUpTime": "1"},
                select=("value",),
            ),
        ),
        (
            ["archive", "--from", "a", "--from", "b.c", "--path", "s3a://x/y"],
            Archive(from_=(Source("a", "a"), Source("b_c", "b.c")), path="s3a://x/y"),
        ),
        (
            [
                "transform",
                "--from",
                "a",
                "--to",
                "b",
                "--sql",
                "select 1",
                "--watermark",
                "at=1 minute",
            ],
            Transform(
                from_=(Source("a", "a"),),
                to=TopicSpec("b"),
                sql="select 1",
                watermark={"at": "1 minute"},
            ),
        ),
        (
            ["restore", "--path", "hdfs://x", "--topic", "a", "--append", "true"],
            Restore(path="hdfs://x", topic=TopicSpec("a"), append=True),
        ),
    ],
)
def test_a_job_is_the_same_on_the_command_line_as_in_a_file(arguments, job, executed):
    assert run(["pipeline", *arguments]) == 0
    ((pipeline, _, _),) = executed
    (made,) = pipeline.jobs
    assert made.name.startswith(job.kind)
    assert made == type(job)(**{**vars(job), "name": made.name})


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["run", "no/such.yaml"], "Error: no/such.yaml: No such file or directory\n"),
        (["archive", "--from", "a"], "Missing option '--path'.\n"),
        (
            ["ingest", "--format", "jsn", "--topic", "a"],
            "Error: ingest: format: 'jsn' is none of csv, json, parquet, text, rate, did you mean "
            "'json'?\n",
        ),
        (
            ["ingest", "--format", "rate", "--topic", "a", "--rows-per-second", "many"],
            "Error: ingest: rows_per_second: 'many' is not a whole number\n",
        ),
        (
            ["archive", "--from", "a", "--path", "x", "--for", "a while"],
            "Error: --for: 'a while' is not a duration such as '500 ms', '10 seconds' or "
            "'2 minutes'\n",
        ),
        (
            ["archive", "--from", "a", "--path", "x", "--kafka", "novalue"],
            "Invalid value: 'novalue' is not key=value\n",
        ),
    ],
)
def test_a_slip_is_one_line(arguments, complaint, executed, capsys):
    assert run(["pipeline", *arguments]) == 1
    assert capsys.readouterr().err == complaint
    assert executed == []


def test_check_says_what_is_wrong_with_a_file(tmp_path, capsys):
    file = tmp_path / "p.yaml"
    file.write_text(FILE.replace("archive", "archiv"))
    assert run(["pipeline", "check", str(file)]) == 1
    assert capsys.readouterr().err == (
        f"Error: {file}: job 2: unknown kind of job 'archiv', did you mean 'archive'?\n"
    )
