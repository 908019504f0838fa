"""Values from the environment and from files: filled in, told by key where missing, not shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ottla.pipelines import SpecError, parse_pipeline
from ottla.pipelines.checks import problems
from ottla.pipelines.checks.problems import Problem

HEAD = "kafka:\n  sasl.jaas.config: 'x password=\"${PASSWORD}\";'\n"
JOB = "jobs:\n  - archive: {from: a, path: x}\n"
ENVIRONMENT = {"PASSWORD": "hunter2", "N": "6", "YES": "true", "TOPIC": "a/b", "EMPTY": ""}


def parse(text, folder=None):
    return parse_pipeline(text, "f.yaml", folder, ENVIRONMENT)


def test_variables_and_files_are_filled_in(tmp_path):
    (tmp_path / "key.pem").write_text("BEGIN\nsecret\nEND\n")
    pipeline = parse(
        HEAD
        + "  ssl.keystore.key: ${file:key.pem}\n"
        + "jobs:\n"
        + "  - ingest: {format: rate, rows_per_second: '${N}',\n"
        + "             topic: {name: a, partitions: '${N}'}}\n"
        + "  - restore: {path: '${PASSWORD}/x', topic: b, append: '${YES}'}\n",
        tmp_path,
    )
    ingest, restore = pipeline.jobs
    assert pipeline.kafka == {
        "sasl.jaas.config": 'x password="hunter2";',
        "ssl.keystore.key": "BEGIN\nsecret\nEND",
    }
    assert (ingest.rows_per_second, ingest.topic.partitions) == (6, 6)
    assert (restore.append, restore.path) == (True, str(tmp_path / "hunter2/x"))
    assert pipeline.secrets.settings == ("sasl.jaas.config", "ssl.keystore.key")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("get_json_object(value, '$.user')", "get_json_object(value, '$.user')"),
        ("a$", "a$"),
        ("$$", "$$"),
        ("$${HOME}", "${HOME}"),
        ("regexp_replace(v, '^$${x}$', '$1')", "regexp_replace(v, '^${x}$', '$1')"),
        ("$${${N}}", "${6}"),
    ],
)
def test_a_dollar_is_a_dollar(written, meant):
    text = f'jobs:\n  - ingest: {{format: rate, topic: a, record_key: "{written}"}}\n'
    assert parse(text).jobs[0].record_key == meant


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "kafka: {a: '${GONE}'}\n" + JOB,
            "f.yaml: kafka.a: the environment has no variable GONE",
        ),
        (
            "jobs:\n  - archive: {from: ['a', '${GONE}'], path: x}\n",
            "f.yaml: job 1 (archive): from[2]: the environment has no variable GONE",
        ),
        (
            "jobs:\n  - ingest: {format: rate, topic: {name: a, configs: {x: '${file:gone}'}}}\n",
            "f.yaml: job 1 (ingest): topic.configs.x: gone cannot be read: No such file or direc",
        ),
        (
            "kafka: {a: '${file:/}'}\n" + JOB,
            "f.yaml: kafka.a: / cannot be read: Is a directory",
        ),
        (
            "kafka: {a: '${A B}'}\n" + JOB,
            "f.yaml: kafka.a: ${A B} is neither a variable's name nor file:/path; '$${' stands "
            "for '${'",
        ),
        ("kafka: {a: '${A'}\n" + JOB, "f.yaml: kafka.a: '${' is never closed; '$${' stands for it"),
        (
            "jobs:\n  - ingest: {format: rate, topic: a, rows_per_second: '${PASSWORD}'}\n",
            "f.yaml: job 1 (ingest): rows_per_second: '${PASSWORD}' is not a whole number",
        ),
        (
            "jobs:\n  - archive: {from: {x: ['${PASSWORD}']}, path: x}\n",
            "f.yaml: job 1 (archive): from.x: ['${PASSWORD}'] is not text",
        ),
        (
            "jobs:\n  - archive: {from: '${TOPIC}', path: x}\n",
            'f.yaml: job 1 (archive): from: Topic name "${TOPIC}" is illegal',
        ),
        (
            "jobs:\n  - archive: {from: a, path: '${EMPTY}'}\n",
            "f.yaml: job 1 (archive): path: '${EMPTY}' is not text",
        ),
    ],
)
def test_one_line_names_the_key_and_not_the_value(text, complaint):
    with pytest.raises(SpecError) as caught:
        parse(text)
    assert str(caught.value).startswith(complaint)
    assert "hunter2" not in str(caught.value) and "\n" not in str(caught.value)


def test_what_comes_from_outside_is_never_read_as_part_of_the_file():
    pipeline = parse_pipeline(
        "name: '${NAME}'\n" + JOB, environment={"NAME": "x\njobs: []\n${PASSWORD}"}
    )
    assert pipeline.name == "x\njobs: []\n${PASSWORD}" and len(pipeline.jobs) == 1


def test_secrets_are_hidden_in_what_is_told():
    pipeline = parse(HEAD + JOB)
    told = problems.lines(pipeline, [Problem("archive-a", "no login with hunter2")])
    assert told == ["f.yaml: job archive-a: no login with ${PASSWORD}"]
    assert "hunter2" not in repr(pipeline) and "archive-a" in repr(pipeline)


def test_the_example_of_the_documentation(tmp_path):
    page = Path(__file__).parents[3] / "docs" / "pipelines.md"
    (text,) = re.findall(r"```yaml\n(kafka:.*?)```", page.read_text(), re.DOTALL)
    (tmp_path / "secret").write_text("hunter2\n")
    environment = {"KAFKA_USER": "ann", "ARCHIVE": "/data/a"}
    pipeline = parse_pipeline(text, "f.yaml", tmp_path, environment)
    assert pipeline.kafka["sasl.jaas.config"].endswith('username="ann" password="hunter2";')
    assert pipeline.jobs[0].path == "/data/a"


def test_files_that_hold_no_secret(tmp_path):
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    (tmp_path / "huge").write_bytes(b"x" * 1_000_001)
    for name, words in (("bytes", "does not hold UTF-8 text"), ("huge", "holds over 1000000")):
        with pytest.raises(SpecError, match=f"f.yaml: kafka.a: .*{name} {words}"):
            parse(f"kafka: {{a: '${{file:{name}}}'}}\n" + JOB, tmp_path)
