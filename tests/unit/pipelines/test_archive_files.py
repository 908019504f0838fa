"""The parts of pipelines that need no Spark: progress, reports, order of stops, archive files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.pipelines import archive_files, parse_pipeline
from ottla.pipelines.files import FileEntry
from ottla.pipelines.mirror_groups import chosen, starting_offsets
from ottla.pipelines.progress import LEFT_OUT, ROWS_OUT, StreamProgress, lag_of
from ottla.pipelines.report import JobReport, PipelineReport, reason_of
from ottla.pipelines.stop_order import feeders, levels
from ottla.spark.errors import OptionError
from ottla.spark.launch.packaging import write_package
from ottla.spark.options import parse_sink_options
from ottla.types import TopicPartition
from ottla.wire import messages as m

QUERY = "0f0e0d0c-1111-2222-3333-444455556666"
OTHER = "0f0e0d0c-9999-2222-3333-444455556666"


def progress(batch, rows, run="r", sources=()):
    return {
        "runId": run,
        "batchId": batch,
        "numInputRows": rows,
        "durationMs": {"triggerExecution": 250},
        "sources": list(sources),
    }


def test_progress_counts_every_batch_once():
    told = StreamProgress()
    told.absorb(progress(0, 10), 1.0)
    told.absorb(progress(0, 10), 1.5)
    told.absorb(progress(1, 0), 2.0)
    told.absorb(progress(1, 30), 3.0)
    assert (told.rows_in, told.batches, told.batch_s) == (40, 2, 0.25)
    assert told.rows_per_s(3.0) == 20.0
    assert told.rows_per_s(30.0) == 0.0
    assert told.has_gap(progress(3, 1))
    assert not told.has_gap(progress(2, 1))
    told.absorb(progress(1, 5, run="after a restart"), 4.0)
    assert told.rows_in == 45


def test_rows_in_are_told_by_each_source_on_spark_connect():
    told = StreamProgress()
    sources = [{"numInputRows": 3}, {"numInputRows": 4}]
    told.absorb(progress(0, None, sources=sources), 1.0)
    assert told.rows_in == 7


def test_rows_out_are_told_by_the_sink_or_observed():
    told = StreamProgress()
    told.absorb(progress(0, 10) | {"sink": {"numOutputRows": 7}}, 1.0)
    by_function = {"sink": {"numOutputRows": -1}, "observedMetrics": {ROWS_OUT: {"n": 4}}}
    told.absorb(progress(1, 5) | by_function, 2.0)
    bad = {
        f"{LEFT_OUT}_0": {"n": 2},
        f"{LEFT_OUT}_1": {"n": 1},
        "other": {"m": 9},
        f"{LEFT_OUT}_2": {},
    }
    told.absorb(progress(2, 5) | {"observedMetrics": bad}, 3.0)
    assert (told.rows_in, told.rows_out, told.left_out, told.last_batch) == (20, 11, 3, 2)
    # A window that is over, told by a batch without input; then nothing, again and again.
    told.absorb(progress(3, 0) | {"sink": {"numOutputRows": 1}}, 4.0)
    for _ in range(2):
        told.absorb(progress(4, 0) | {"sink": {"numOutputRows": 0}}, 5.0)
    assert (told.rows_in, told.rows_out, told.batches, told.last_batch) == (20, 12, 4, 3)


def test_lag_is_what_the_source_holds_beyond_the_batch():
    source = {"latestOffset": '{"t":{"0":10,"1":7}}', "endOffset": {"t": {"0": 4}}}
    assert lag_of(progress(0, 1, sources=[source])) == 13
    ours = {
        "latestOffset": {"t": {"id": "x", "partitions": {"0": 5}}},
        "endOffset": {"t": {"id": "x", "partitions": {"0": 3}}},
    }
    assert lag_of(progress(0, 1, sources=[ours])) == 2
    assert lag_of(progress(0, 1, sources=[source, {"latestOffset": None}])) == 13
    assert lag_of(progress(0, 1, sources=[{"latestOffset": "1", "endOffset": "1"}])) is None
    assert lag_of({}) is None


def test_a_failure_in_one_line():
    spark = "[STREAM_FAILED] Query failed\nTraceback:\n  File x\nottla.spark.OptionError: no such\n"
    assert reason_of(spark + "\tat org.apache.spark.Thing") == "no such"
    lost = "Traceback:\nottla.spark.errors.DataLoss: offset 60 has aged out\n\tat org.apache.X"
    assert reason_of("[PYTHON_EXCEPTION] thrown: " + lost) == "offset 60 has aged out"
    assert reason_of("[A] first\nsecond\njava.lang.OutOfMemoryError: x") == "[A] first"
    called = (
        "An error occurred while calling o284.start.\n: java.net.URISyntaxException: no: file://."
    )
    assert reason_of(called) == "java.net.URISyntaxException: no: file://."
    assert reason_of(ValueError()) == "ValueError"


def test_a_report_for_people_and_programs():
    report = PipelineReport(
        "p",
        1.5,
        (
            JobReport("a", "transform", "stopped", 1200, 1190, 10, 3, 1, 2.0),
            JobReport("bb", "archive", "failed", 0, error="why", notes=("n",)),
        ),
    )
    assert not report.is_sound
    assert report.lines() == [
        "a   stopped          1,200 rows in         1,190 out  10 dead letters       3 batches  "
        "1 restarts  2.0 s",
        "bb  failed               0 rows in  0.0 s",
        "  n",
        "  why",
    ]
    assert report.to_json()["jobs"][1]["error"] == "why"


def test_jobs_that_feed_others_stop_first():
    pipeline = parse_pipeline(
        """
        jobs:
          - archive: {name: c, from: [b, other], path: x}
          - transform: {name: b, from: a, to: b, sql: s}
          - ingest: {name: a, format: rate, topic: a}
        """
    )
    assert feeders(pipeline.jobs) == {"a": set(), "b": {"a"}, "c": {"b"}}
    assert levels(pipeline.jobs) == [["a"], ["b"], ["c"]]


def test_jobs_in_a_circle_stop_together():
    pipeline = parse_pipeline(
        """
        jobs:
          - transform: {name: x, from: a, to: b, sql: s}
          - transform: {name: y, from: b, to: a, sql: s}
        """
    )
    assert levels(pipeline.jobs) == [["x", "y"]]


def batch(number, part=0, size=10, folder="/a/date=1", query=QUERY):
    return FileEntry(f"{folder}/{archive_files.batch_file(query, number, part)}", size)


def joined(first, last, size=10, folder="/a/date=1"):
    return FileEntry(f"{folder}/c-{QUERY}-{first:09d}-{last:09d}-00000.parquet", size)


def test_files_of_a_batch_are_found_again():
    files = [batch(1), batch(1, 1), batch(2), batch(1, query=OTHER), FileEntry("/a/x.parquet", 1)]
    assert archive_files.of_batch(files, QUERY, 1) == [files[0].path, files[1].path]


def test_small_files_of_finished_batches_are_joined():
    files = [batch(n) for n in range(5)] + [batch(0, folder="/a/date=2"), batch(1, query=OTHER)]
    (plan,) = archive_files.plan_compactions(files, QUERY, 4, 3, 100)
    assert [file.first for file in plan.files] == [0, 1, 2, 3]
    assert plan.target == joined(0, 3).path
    assert archive_files.plan_compactions(files, QUERY, 2, 3, 100) == []


def test_a_large_file_parts_the_runs():
    files = [batch(0), batch(1), batch(2, size=500), batch(2, 1), batch(3), batch(4), joined(5, 9)]
    plans = archive_files.plan_compactions(files, QUERY, 10, 2, 100)
    assert [plan.target for plan in plans] == [joined(0, 1).path, joined(3, 9).path]


def test_what_a_compaction_cut_short_left_is_recognised():
    done = [joined(0, 3), batch(4), batch(2, folder="/a/date=2")]
    assert archive_files.leftovers(done) == []
    cut = [*done, batch(0), batch(3, 1)]
    assert archive_files.leftovers(cut) == [batch(0).path, batch(3, 1).path]
    assert archive_files.leftovers([joined(0, 3), joined(0, 9)]) == [joined(0, 3).path]


def test_positions_are_looked_for_from_the_least_that_is_known():
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    here = {"g": {first: 50, second: 60}, "h": {first: 70}}
    there = {"g": {TopicPartition("m.t", 0): 8, TopicPartition("m.t", 1): 9}, "h": {}}
    assert starting_offsets(here, there, "m.") == {"m.t": {"0": -2, "1": 9}}


def test_groups_are_chosen_by_pattern_without_those_of_sinks():
    assert chosen(["a", "ab", "b", "ottla-sink-1"], ["a*"]) == ["a", "ab"]
    assert chosen(["a", "ottla-sink-1"], ["*"]) == ["a"]


def test_a_batch_write_with_a_name_counts_once():
    connect = {"kafka.bootstrap.servers": "h:1", "topic": "t"}
    named = {**connect, "txnAppId": "q", "txnVersion": "7"}
    options = parse_sink_options(named, streaming=False)
    assert (options.exactly_once, options.txn_app_id, options.txn_version) == (True, "q", 7)
    assert not parse_sink_options(connect, streaming=False).exactly_once
    with pytest.raises(OptionError, match="go together"):
        parse_sink_options({**connect, "txnAppId": "q"}, streaming=False)
    with pytest.raises(OptionError, match="has its own id"):
        parse_sink_options(named, streaming=True)


def test_the_package_works_out_of_one_file(tmp_path):
    package = write_package(tmp_path / "ottla.zip")
    wheels = Path(pytest.__file__).parents[1]
    # Without the site module the checkout is not on the path.
    code = (
        f"import sys; sys.path[:0] = [{str(package)!r}, {str(wheels)!r}]\n"
        "import ottla.client.admin.client, ottla.wire.messages as m\n"
        "print(m.__file__, m.MetadataRequest(topics=None).encode(9))"
    )
    run = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    place, encoded = run.stdout.strip().split(" ", 1)
    assert place == f"{package}/ottla/wire/messages.py"
    assert encoded == str(m.MetadataRequest(topics=None).encode(9))
    assert write_package(tmp_path / "again.zip").read_bytes() == package.read_bytes()


def test_a_pipeline_file_is_read_without_spark():
    code = (
        "import sys; import ottla.pipelines as p; p.parse_pipeline('jobs: [archive: {from: a, "
        "path: b}]'); import ottla.cli.pipeline; "
        "print([m for m in ('pyspark', 'pyarrow', 'pandas', 'numpy') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


@pytest.mark.parametrize(
    ("committed", "planned", "found"),
    [
        (5, 5, []),
        (4, 5, []),  # batch 5 was cut off and runs again
        (4, 4, ["b5"]),
        (2, 2, ["b3", "b4", "b5"]),
        (2, 3, ["b4", "b5"]),
        (
            1,
            2,
            ["c0-2", "b3", "b4", "b5"],
        ),  # batch 2 runs again, and its rows were joined with others
        (1, 1, ["c0-2", "b3", "b4", "b5"]),
        (-1, -1, ["c0-2", "b3", "b4", "b5"]),
    ],
)
def test_files_after_a_checkpoint(committed, planned, found):
    names = {
        "c0-2": archive_files.joined_file(QUERY, 0, 2),
        **{f"b{n}": archive_files.batch_file(QUERY, n, 0) for n in (3, 4, 5)},
        "other": archive_files.batch_file(OTHER, 9, 0),
        "stray": "part-0.parquet",
    }
    entries = [FileEntry(f"/a/{name}", 1) for name in names.values()]
    later = archive_files.later(entries, QUERY, committed, planned)
    assert [file.entry.name for file in later] == [names[name] for name in found]
