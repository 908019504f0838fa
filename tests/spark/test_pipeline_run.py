"""Pipelines on a real cluster: files in, topics between, Parquet out; every row once."""

from __future__ import annotations

import json
import threading

import pytest
from confluent_kafka.admin import AdminClient

from ottla.pipelines import parse_pipeline, run_pipeline
from ottla.pipelines.runner import PipelineRun, StopSignal
from ottla.pipelines.spec_keys import SpecErrors
from tests.support.spark.pipeline_helpers import DEADLINE_S, read_topic, wait_for

pytestmark = pytest.mark.spark

FORMAT = "ottla"


def clicks(first, last, bad_every=0):
    for number in range(first, last):
        if bad_every and number % bad_every == 0:
            yield f"not json {number}"
        else:
            at = f"2026-01-01T00:{number // 60 % 60:02d}:{number % 60:02d}Z"
            yield json.dumps({"user": f"u{number % 7}", "page": f"/p/{number}", "at": at})


@pytest.mark.parametrize("source", ["ottla", "kafka"])
def test_files_to_topic_to_topic_to_parquet_with_what_is_there(
    spark, ottla_processes, tmp_path, source, request
):
    if source == "kafka":
        request.getfixturevalue("connector")
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.txt").write_text("\n".join(clicks(0, 1000, bad_every=100)))
    pipeline = parse_pipeline(
        f"""
        name: shop
        bootstrap_servers: {ottla_processes.bootstrap_servers}
        format: {source}
        trigger: available_now
        jobs:
          - ingest: {{format: text, path: in, topic: {{name: {source}.clicks, partitions: 3}}}}
          - transform:
              from: {{clicks: {source}.clicks}}
              schema: user string not null, page string, at timestamp
              sql: select user, page from clicks where user <> 'u0'
              record_key: user
              to: {{name: {source}.pages, partitions: 2}}
              dead_letter: {source}.bad
          - archive: {{from: {source}.clicks, path: archive}}
        """,
        "shop.yaml",
        tmp_path,
    )
    report = run_pipeline(pipeline, spark)
    assert report.is_sound, report.lines()
    assert [job.state for job in report.jobs] == ["finished"] * 4
    assert report.job(f"ingest-{source}.clicks").rows_in == 1000
    assert report.job(f"archive-{source}.clicks").rows_in == 1000

    assert report.job(f"archive-{source}.clicks").rows_out == 1000
    rows = [json.loads(line) for line in clicks(0, 1000, bad_every=100) if line[0] == "{"]
    wanted = sorted((r["user"], r["page"]) for r in rows if r["user"] != "u0")
    pages = read_topic(ottla_processes.bootstrap_servers, f"{source}.pages")
    found = [(m.key().decode(), json.loads(m.value())) for m in pages]
    assert sorted((value["user"], value["page"]) for _, value in found) == wanted
    assert all(key == value["user"] for key, value in found)
    transformed = report.job(f"transform-{source}.pages")
    assert (transformed.rows_in, transformed.rows_out) == (1000, len(wanted))
    assert transformed.dead_letters == 10
    bad = read_topic(ottla_processes.bootstrap_servers, f"{source}.bad")
    assert sorted(m.value() for m in bad) == sorted(b"not json %d" % n for n in range(0, 1000, 100))
    told = dict(bad[0].headers())
    assert told["ottla.reason"] == b"does not fit the schema"
    assert told["ottla.topic"] == f"{source}.clicks".encode()

    stored = spark.read.parquet(str(tmp_path / "archive"))
    assert {row["v"] for row in stored.selectExpr("cast(value as string) v").collect()} == set(
        clicks(0, 1000, bad_every=100)
    )
    assert stored.count() == 1000
    assert stored.select("topic", "partition", "offset").distinct().count() == 1000
    assert "date" in stored.columns


def test_two_sources_share_their_dead_letters(spark, ottla_processes, tmp_path):
    """Each record that does not fit comes once, with the topic that it came from."""
    for name, lines in {
        "left": ['{"n": 1}', '{"n": 2}', "bad left", '{"n": "x"}'],
        "right": ['{"n": 2}', "bad right", '{"n": 3}', '{"m": 1}'],
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text("\n".join(lines))
    text = f"""
        bootstrap_servers: {ottla_processes.bootstrap_servers}
        format: {FORMAT}
        trigger: available_now
        jobs:
          - ingest: {{format: text, path: left, topic: {{name: two.left, partitions: 2}}}}
          - ingest: {{format: text, path: right, topic: {{name: two.right, partitions: 1}}}}
          - transform:
              name: joined
              from: {{a: two.left, b: two.right}}
              schema: n int not null
              sql: select a.n, 'both' as side from a join b on a.n = b.n
              to: two.both
              dead_letter: two.bad
          - transform:
              name: lenient
              from: {{a: two.left, b: two.right}}
              schema: n int not null
              sql: select n from a union all select n from b
              to: two.all
        """
    pipeline = parse_pipeline(text, "two.yaml", tmp_path)
    report = run_pipeline(pipeline, spark)
    assert report.is_sound, report.lines()
    bad = read_topic(ottla_processes.bootstrap_servers, "two.bad")
    told = [(dict(m.headers())["ottla.topic"], m.value()) for m in bad]
    assert sorted(told) == [
        (b"two.left", b"bad left"),
        (b"two.left", b'{"n": "x"}'),
        (b"two.right", b"bad right"),
        (b"two.right", b'{"m": 1}'),
    ]
    joined = report.job("joined")
    assert (joined.rows_in, joined.rows_out, joined.dead_letters) == (8, 1, 4)
    assert report.job("joined-dead-letter").rows_out == 4
    (both,) = read_topic(ottla_processes.bootstrap_servers, "two.both")
    assert json.loads(both.value()) == {"n": 2, "side": "both"}
    lenient = report.job("lenient")
    assert (lenient.rows_in, lenient.rows_out, lenient.dead_letters) == (8, 4, None)
    assert lenient.notes == ("4 records did not fit the schema and were left out",)


def test_wrong_sql_and_schemas_are_lines_and_no_topic_is_made(spark, ottla_processes, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "steps.py").write_text("def none(frame):\n    return 5\n")
    text = f"""
        bootstrap_servers: {ottla_processes.bootstrap_servers}
        format: {FORMAT}
        jobs:
          - ingest: {{format: json, path: in, schema: n itn, topic: wrong.a}}
          - ingest: {{format: rate, select: [valeu], topic: wrong.b}}
          - transform: {{from: wrong.a, schema: n int, sql: "select m from wrong_a", to: wrong.c}}
          - transform: {{from: wrong.a, sql: "selct 1", to: wrong.d}}
          - transform: {{from: wrong.a, function: "steps.py:none", to: wrong.e}}
          - transform: {{from: wrong.a, schema: n int, watermark: {{at: 1 minute}},
                        sql: "select n from wrong_a", to: wrong.f}}
        """
    pipeline = parse_pipeline(text, "wrong.yaml", tmp_path)
    with pytest.raises(SpecErrors) as raised:
        run_pipeline(pipeline, spark)
    lines = [line.replace(f"{tmp_path}/", "") for line in raised.value.lines]
    assert [line.split(": ", 2)[:2] for line in lines] == [
        ["wrong.yaml", f"job {job}"]
        for job in (
            *("ingest-wrong.a", "ingest-wrong.b", "transform-wrong.c"),
            *("transform-wrong.d", "transform-wrong.e", "transform-wrong.f"),
        )
    ]
    assert all(len(line) < 500 for line in lines)
    for line, words in zip(
        lines,
        (
            "schema: 'n itn' is not a list of columns",
            "`valeu` cannot be resolved",
            "`m` cannot be resolved",
            "Syntax error at or near 'selct'",
            "steps.py:none returned no DataFrame",
            "watermark: there is no column 'at'",
        ),
        strict=True,
    ):
        assert words in line
    names = AdminClient({"bootstrap.servers": ottla_processes.bootstrap_servers}).list_topics()
    assert not [name for name in names.topics if name.startswith("wrong.")]


def test_a_second_run_reads_only_what_is_new(spark, ottla_processes, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    text = f"""
        bootstrap_servers: {ottla_processes.bootstrap_servers}
        format: {FORMAT}
        trigger: available_now
        jobs:
          - ingest: {{format: text, path: in, topic: {{name: again.lines, partitions: 2}}}}
          - archive: {{from: again.lines, path: archive, partition_by: none}}
        """
    for number in range(4):
        (folder / f"{number}.txt").write_text("\n".join(clicks(number * 10, number * 10 + 10)))
        report = run_pipeline(parse_pipeline(text, folder=tmp_path), spark)
        assert report.is_sound, report.lines()
        assert report.job("archive-again.lines").rows_in == 10
    stored = spark.read.parquet(str(tmp_path / "archive"))
    assert sorted(r["v"] for r in stored.selectExpr("cast(value as string) v").collect()) == sorted(
        clicks(0, 40)
    )
    names = sorted(path.name[0] for path in (tmp_path / "archive").glob("*.parquet"))
    assert "c" in names, "small files of finished batches are joined"
    assert not (tmp_path / "archive" / "_staging").exists()


def test_a_stream_is_drained_when_it_is_asked_to_stop(spark, ottla_processes, tmp_path):
    pipeline = parse_pipeline(
        f"""
        bootstrap_servers: {ottla_processes.bootstrap_servers}
        format: {FORMAT}
        trigger: 200 ms
        jobs:
          - ingest:
              format: rate
              rows_per_second: 200
              select: ["value as number", "concat('u', value % 5) as user", "timestamp as at"]
              topic: {{name: drain.numbers, partitions: 2}}
          - transform:
              from: {{numbers: drain.numbers}}
              schema: {{number: long, user: string, at: timestamp}}
              sql: select user, count(*) as n from numbers group by user
              record_key: user
              to: drain.counts
          - archive: {{from: drain.numbers, path: archive}}
        """,
        "drain.yaml",
        tmp_path,
    )
    run = PipelineRun(pipeline, spark)
    run.start()
    wait_for(run, lambda: all(stream.progress.rows_in > 300 for stream in run.streams))
    assert any(stream.rows_per_s > 0 for stream in run.streams)
    run.stop()
    report = run.finish()
    assert {job.state for job in report.jobs} == {"stopped"}, report.lines()

    written = read_topic(ottla_processes.bootstrap_servers, "drain.numbers")
    numbers = sorted(json.loads(m.value())["number"] for m in written)
    ingested = report.job("ingest-drain.numbers").rows_in
    # A task of the batch that the stop cut off may have come to its end.
    assert numbers[:ingested] == list(range(ingested)) and len(set(numbers)) == len(numbers)
    assert report.job("ingest-drain.numbers").rows_out == len(numbers)
    stored = spark.read.parquet(str(tmp_path / "archive"))
    assert stored.count() == len(numbers) == report.job("archive-drain.numbers").rows_out
    last = {}
    counts = read_topic(ottla_processes.bootstrap_servers, "drain.counts")
    assert report.job("transform-drain.counts").rows_out == len(counts)
    for message in counts:
        value = json.loads(message.value())
        last[value["user"]] = max(last.get(value["user"], 0), value["n"])
    assert sum(last.values()) == len(numbers)


def test_a_job_that_fails_for_good_is_one_line_and_the_others_go_on(
    spark, ottla_processes, tmp_path
):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.json").write_text('{"user": "u1"}\n{"user": \n')
    pipeline = parse_pipeline(
        f"""
        bootstrap_servers: {ottla_processes.bootstrap_servers}
        format: {FORMAT}
        restart: {{attempts: 1, pause: 10 ms}}
        jobs:
          - ingest: {{format: json, path: in, schema: user string, topic: fails.users}}
          - ingest: {{format: rate, topic: fails.numbers}}
          - archive: {{from: [fails.users, fails.numbers], path: archive}}
        """,
        "fails.yaml",
        tmp_path,
    )
    signal, said = StopSignal(), []

    archived_when_told = []

    def watch(streams):
        archived = next(s for s in streams if s.job.kind == "archive").progress.rows_in
        if said and not archived_when_told:
            archived_when_told.append(archived)
        if said and archived > archived_when_told[0] + 50:
            signal.stop()

    report = run_pipeline(
        pipeline, spark, signal=signal, watch=watch, announce=said.append, limit_s=DEADLINE_S
    )
    assert signal.wanted.is_set() and not report.is_sound
    failed = report.job("ingest-fails.users")
    assert (failed.state, failed.restarts) == ("failed", 1)
    (line,) = said
    assert line.startswith("ingest-fails.users: failed for good; the other jobs go on: ")
    assert "a.json" in failed.error
    assert "\n" not in failed.error
    assert report.job("archive-fails.users").state == "stopped"


def test_a_signal_ends_a_run_from_another_thread(spark, ottla_processes, tmp_path):
    servers = ottla_processes.bootstrap_servers
    pipeline = parse_pipeline(
        f"""
        bootstrap_servers: {servers}
        format: {FORMAT}
        jobs:
          - ingest: {{format: rate, topic: {{name: signal.numbers, partitions: 1}}}}
          - transform:
              from: {{numbers: signal.numbers}}
              schema: value long, timestamp timestamp
              watermark: {{timestamp: 1 second}}
              sql: select window.start as at, count(*) as n from numbers
                   group by window(timestamp, '1 second')
              to: signal.counts
        """,
        "signal.yaml",
        tmp_path,
    )
    signal = StopSignal()
    seen = []

    def watch(streams):
        seen.append([stream.progress.rows_in for stream in streams])
        if seen[-1][-1] > 300:
            signal.stop()

    late = threading.Timer(DEADLINE_S, signal.stop)
    late.start()
    report = run_pipeline(pipeline, spark, signal=signal, watch=watch)
    late.cancel()
    assert report.is_sound, report.lines()
    assert seen[-1][-1] > 300
    windows = [json.loads(m.value()) for m in read_topic(servers, "signal.counts")]
    assert windows and all(set(window) == {"at", "n"} for window in windows)
    starts = [window["at"] for window in windows]
    assert len(starts) == len(set(starts)), "a window is told once, when it is over"
