"""What makes a job another one, and what does not."""

from __future__ import annotations

import pytest

from ottla.pipelines.checkpoints.fingerprint import differences, fingerprint, normal
from ottla.pipelines.spec import StreamJob
from ottla.pipelines.spec_reader import parse_pipeline

TRANSFORM = (
    "transform: {name: t, from: a, to: b, schema: n int, sql: select n from a, dead_letter: bad}"
)


def told(job, head="", ids=None, stream="", environment=None):
    pipeline = parse_pipeline(f"{head}\njobs:\n  - {job}\n", environment=environment or {})
    (only,) = pipeline.jobs
    assert isinstance(only, StreamJob)
    return fingerprint(pipeline, only, stream or only.name, ids or {}, "salt")


ARCHIVE = "archive: {name: x, from: [a, b], path: /p}"


@pytest.mark.parametrize(
    ("job", "head"),
    [
        ("archive: {name: y, from: [b, a], path: /p}", ""),
        ("archive: {name: x, from: [a, b], path: /p, trigger: 5 s, restart: never}", ""),
        ("archive: {name: x, from: [a, b], path: /p, max_records_per_batch: 5}", ""),
        ("archive: {name: x, from: [a, b], path: /p, starting: latest, compact_files: 0}", ""),
        ("archive: {name: x, from: [a, b], path: /p, options: {MinPartitions: 5}}", ""),
        ("archive: {name: x, from: [a, b], path: /p, options: {kafka.fetch.max.bytes: 5}}", ""),
        (ARCHIVE, "kafka: {sasl.password: hunter2}\nbootstrap_servers: other:9092"),
    ],
)
def test_how_fast_and_by_whom_is_no_part_of_it(job, head):
    assert differences(told(ARCHIVE), told(job, head)) == []


@pytest.mark.parametrize(
    ("job", "changes"),
    [
        ("archive: {from: [a, c], path: /p}", ["from was 'a, b' and is 'a, c'"]),
        ("archive: {from: [a, b], path: /q}", ["path was '/p' and is '/q'"]),
        (
            "archive: {from: [a, b], path: /p, partition_by: hour, time_zone: Europe/Berlin}",
            ["partition_by is new: 'hour'", "time_zone is new: 'Europe/Berlin'"],
        ),
        (
            "archive: {from: [a, b], path: /p, format: kafka}",
            ["format of topics is new: 'kafka'"],
        ),
        (
            "archive: {from: [a, b], path: /p, options: {includeHeaders: false}}",
            ["options.includeheaders is new: 'false'"],
        ),
    ],
)
def test_source_sink_and_meaning_are(job, changes):
    assert differences(told(ARCHIVE), told(job)) == changes
    assert differences(told(ARCHIVE), told(ARCHIVE)) == []


def test_sql_matters_but_for_its_white_space():
    spaced = TRANSFORM.replace("select n from a", '"select  n\\n  from a"')
    assert differences(told(TRANSFORM), told(spaced)) == []
    assert normal("a  'b  c'\n\td") == "a 'b  c' d"
    other = TRANSFORM.replace("select n from a", "select n + 1 as n from a")
    assert differences(told(TRANSFORM), told(other)) == [
        "sql was 'select n from a' and is 'select n + 1 as n from a'"
    ]
    # Dead letters are what does not fit the schema, whatever the query does with the rest.
    second = "t-dead-letter"
    assert differences(told(TRANSFORM, stream=second), told(other, stream=second)) == []
    schema = TRANSFORM.replace("n int", "n long")
    assert differences(told(TRANSFORM, stream=second), told(schema, stream=second)) == [
        "schema was 'n int' and is 'n long'"
    ]
    without = TRANSFORM.replace(", dead_letter: bad", "")
    assert differences(told(TRANSFORM), told(without)) == []
    assert told(TRANSFORM)["kind"] != told(TRANSFORM, stream=second)["kind"]


def test_long_texts_are_shown_where_they_begin_to_differ():
    long = "select " + ", ".join(f"column_{n}" for n in range(50))
    ((change,),) = [
        differences({"sql": f"{long} from a where {long}"}, {"sql": f"{long} from b where {long}"})
    ]
    assert "from a where" in change and "from b where" in change and len(change) < 300


def test_a_cluster_is_known_by_its_id():
    here, there = {"localhost:9092": "one"}, {"localhost:9092": "two"}
    assert differences(told(ARCHIVE, ids=here), told(ARCHIVE, ids=there)) == [
        "cluster was 'one' and is 'two'"
    ]
    moved = told(ARCHIVE, "bootstrap_servers: new:1", ids={"new:1": "one"})
    assert differences(told(ARCHIVE, ids=here), moved) == []
    assert differences(told(ARCHIVE, ids=here), told(ARCHIVE)) == []


def test_secrets_are_told_apart_and_not_told(tmp_path):
    job = f"ingest: {{name: x, format: text, topic: a, path: 's3a://k:${{file:{tmp_path}/s}}@b/p'}}"
    (tmp_path / "s").write_text("hunter2\n")
    before = told(job)
    (tmp_path / "s").write_text("hunter3\n")
    after = told(job)
    assert "hunter" not in str(before) + str(after)
    ((change,),) = [differences(before, after)]
    assert change.startswith("path was 's3a://k:${file:") and "/s}@b/p (#" in change
    topic = "archive: {name: x, from: '${TOPIC}', path: /p}"
    assert differences(
        told(topic, environment={"TOPIC": "a"}), told(topic, environment={"TOPIC": "b"})
    ) == ["from was 'a' and is 'b'"]
