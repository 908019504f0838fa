"""The runner with queries that do as they are told: order, ends, failures, reports. No Spark."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ottla.pipelines import SpecError, parse_pipeline, run_pipeline, runner
from ottla.pipelines.checks.problems import Problem
from ottla.pipelines.context import BatchResult, Stream
from ottla.pipelines.runner import StopSignal
from ottla.pipelines.spec_keys import SpecErrors
from tests.support.interrupted import stuck_at

PIPELINE = """
name: p
trigger: {trigger}
restart: never
stop_timeout: 5 seconds
jobs:
  - audit: {{name: last}}
  - archive: {{name: third, from: b, path: x}}
  - transform: {{name: second, from: a, to: b, sql: s}}
  - ingest: {{name: first, format: rate, topic: a}}
  - restore: {{name: before, path: y, topic: z}}
"""


class Query:
    """Runs until it is stopped, or for so many looks at it."""

    def __init__(self, name, diary, looks=None, error=None):
        self.name, self.diary, self.looks, self.error = name, diary, looks, error
        self.lastProgress = {"runId": name, "batchId": 0, "numInputRows": 7}
        self.recentProgress = [self.lastProgress]
        self.status = {"isTriggerActive": False}
        self.stopped = False
        diary.append(f"start {name}")

    @property
    def isActive(self):
        if self.looks is not None:
            self.looks -= 1
            if self.looks == 0:
                self.diary.append(f"end {self.name}")
        return not self.stopped and (self.looks is None or self.looks > 0)

    def exception(self):
        return self.error

    def processAllAvailable(self):
        self.diary.append(f"drain {self.name}")

    def stop(self):
        self.stopped = True
        self.diary.append(f"stop {self.name}")


class Jobs:
    """Stands for the modules of the jobs."""

    def __init__(self):
        self.diary = []
        self.queries = {}
        self.broken = {}
        self.wrong = []
        self.wrong_plans = []

    def module(self, job):
        return SimpleNamespace(streams=self.streams, run=self.run)

    def streams(self, _context, job):
        if job.name in self.broken:
            raise self.broken[job.name]
        how = self.queries.get(job.name, {})

        class Writer:
            def __getattr__(writer, name):  # noqa: N805
                if name == "start":
                    return lambda: Query(job.name, self.diary, **how)
                return lambda *args, **values: writer

        return [Stream(job.name, SimpleNamespace(writeStream=Writer()), format="x")]

    def run(self, _context, job):
        self.diary.append(f"run {job.name}")
        if job.name in self.broken:
            raise self.broken[job.name]
        return BatchResult(3, ["done"], {"n": 1})


@pytest.fixture
def jobs(monkeypatch, tmp_path):
    fakes = Jobs()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runner, "_module", fakes.module)
    monkeypatch.setattr(runner.topics, "with_admin", lambda servers, kafka, work: None)
    monkeypatch.setattr(runner.before_spark, "find", lambda pipeline, choices: fakes.wrong)
    monkeypatch.setattr(runner.clusters, "ids", lambda pipeline: {})
    monkeypatch.setattr(runner.plans, "find", lambda context: fakes.wrong_plans)
    monkeypatch.setattr(runner, "POLL_S", 0.001)
    return fakes


def run(jobs, trigger="1 second", **options):
    pipeline = parse_pipeline(PIPELINE.format(trigger=trigger))
    return run_pipeline(pipeline, SimpleNamespace(), **options)


def test_what_is_there_now_goes_through_job_by_job(jobs):
    jobs.queries = {name: {"looks": 3} for name in ("first", "second", "third")}
    report = run(jobs, trigger="available_now")
    assert jobs.diary == [
        "run before",
        *("start first", "end first", "start second", "end second", "start third", "end third"),
        "run last",
    ]
    assert [(job.name, job.state, job.rows_in) for job in report.jobs] == [
        ("last", "finished", 3),
        ("third", "finished", 7),
        ("second", "finished", 7),
        ("first", "finished", 7),
        ("before", "finished", 3),
    ]
    assert report.is_sound and report.job("last").data == {"n": 1}


def test_a_stop_ends_those_who_feed_first_and_drains_the_others(jobs):
    signal = StopSignal()
    seen = []

    def watch(streams):
        seen.append([stream.state for stream in streams])
        signal.stop()

    report = run(jobs, signal=signal, watch=watch)
    assert jobs.diary == [
        "run before",
        *("start third", "start second", "start first"),
        *("stop first", "drain second", "stop second", "drain third", "stop third"),
        "run last",
    ]
    assert [job.state for job in report.jobs if job.kind != "audit"] == ["stopped"] * 3 + [
        "finished"
    ]
    assert seen[0] == ["running"] * 3 and seen[-1] == ["stopped"] * 3


def test_one_that_is_never_between_batches_leaves_time_for_those_it_feeds(jobs):
    text = PIPELINE.format(trigger="1 second").replace("5 seconds", "10 minutes")
    pipelined = runner.PipelineRun(parse_pipeline(text, "p"), None)
    pipelined.start()
    given = {}
    for stream in pipelined.streams:
        stream.drain = lambda end_s, _: None
        stream.stop = lambda end_s, _, name=stream.name: given.setdefault(name, end_s)
    pipelined.stop()
    assert given["first"] < given["second"] < given["third"]


class Busy:
    """A query without a break between its batches, each of which takes three looks."""

    def __init__(self):
        self.looks = 0
        self.stopped_after = None

    @property
    def status(self):
        self.looks += 1
        return {"isTriggerActive": True}

    @property
    def isActive(self):
        return self.stopped_after is None

    @property
    def lastProgress(self):
        return {"runId": "busy", "batchId": self.looks // 3, "numInputRows": 7}

    def stop(self):
        self.stopped_after = self.looks


def test_one_that_is_never_between_batches_ends_when_one_has_just_begun(jobs):
    text = PIPELINE.format(trigger="1 second").replace("5 seconds", "10 minutes")
    pipelined = runner.PipelineRun(parse_pipeline(text, "p"), None)
    pipelined.start()
    first = next(stream for stream in pipelined.streams if stream.name == "first")
    first._query = busy = Busy()
    pipelined.stop()
    assert busy.stopped_after == 3


def test_a_limit_ends_a_run(jobs):
    assert run(jobs, limit_s=0.01).is_sound
    assert "stop first" in jobs.diary


def test_one_failure_for_good_is_told_at_once_and_the_others_go_on(jobs):
    jobs.queries = {"second": {"looks": 2, "error": ValueError("no")}}
    signal, said, looks = StopSignal(), [], []

    def watch(streams):
        looks.append([stream.state for stream in streams])
        if len(looks) > 5:
            signal.stop()

    report = run(jobs, signal=signal, watch=watch, announce=said.append)
    assert said == ["second: failed for good; the other jobs go on: no"]
    assert looks[5] == ["running", "failed", "running"]
    assert [job.state for job in report.jobs] == [
        *("finished", "stopped", "failed", "stopped", "finished"),
    ]
    assert not report.is_sound and report.job("second").error == "no"
    assert "drain third" in jobs.diary and jobs.diary[-1] == "run last"


def test_what_is_there_now_goes_on_after_a_failure_to_its_end(jobs):
    jobs.queries = {name: {"looks": 3} for name in ("first", "second", "third")}
    jobs.queries["first"]["error"] = ValueError("no")
    report = run(jobs, trigger="available_now")
    assert [job.state for job in report.jobs] == [
        *("finished", "finished", "finished", "failed", "finished"),
    ]


def test_one_failure_for_good_ends_all_without_draining_where_that_is_wanted(jobs):
    jobs.queries = {"second": {"looks": 2, "error": ValueError("no")}}
    pipeline = parse_pipeline(PIPELINE.format(trigger="1 second") + "fail_fast: true\n")
    said = []
    report = run_pipeline(pipeline, SimpleNamespace(), announce=said.append)
    assert said == ["second: failed for good: no"]
    assert not report.is_sound
    assert report.job("second").error == "no"
    assert "drain third" not in jobs.diary and "stop third" in jobs.diary
    assert "run last" not in jobs.diary


def test_what_a_failed_restore_feeds_is_not_started(jobs):
    jobs.broken = {"before": SpecError("holds records")}
    text = PIPELINE.format(trigger="1 second").replace("topic: z", "topic: a")
    report = run_pipeline(parse_pipeline(text), SimpleNamespace(), limit_s=0)
    assert (report.job("before").state, report.job("before").error) == ("failed", "holds records")
    assert jobs.diary == ["run before", "start first", "stop first", "run last"]
    for name in ("second", "third"):
        assert (report.job(name).state, report.job(name).error) == (
            "failed",
            "was not started: before, which feeds it, has failed",
        )


def test_nothing_comes_after_a_failed_restore_where_that_is_wanted(jobs):
    jobs.broken = {"before": SpecError("holds records")}
    pipeline = parse_pipeline(PIPELINE.format(trigger="1 second") + "fail_fast: true\n")
    assert not run_pipeline(pipeline, SimpleNamespace()).is_sound
    assert jobs.diary == ["run before"]


def test_a_wrong_plan_is_one_line_before_anything_starts(jobs):
    jobs.broken = {"second": RuntimeError("[PARSE] near 'selct'\n== SQL ==")}
    with pytest.raises(SpecError, match=r"^pipeline: job second: \[PARSE\] near 'selct'$"):
        run(jobs)
    assert "start first" not in jobs.diary


@pytest.mark.parametrize("found", ["wrong", "wrong_plans"])
def test_what_is_wrong_is_told_line_by_line_before_a_topic_is_made(jobs, monkeypatch, found):
    setattr(jobs, found, [Problem("first", "no folder\nx"), Problem("", "no brokers")])
    monkeypatch.setattr(runner.topics, "with_admin", lambda *_: jobs.diary.append("topics"))
    with pytest.raises(SpecErrors) as raised:
        run(jobs)
    assert raised.value.lines == ("pipeline: job first: no folder x", "pipeline: no brokers")
    assert jobs.diary == []


def test_metrics_are_announced(jobs):
    said = []
    pipeline = parse_pipeline(PIPELINE.format(trigger="1 s") + "metrics_port: 0\n")
    run_pipeline(pipeline, SimpleNamespace(), limit_s=0, announce=said.append)
    assert len(said) == 1 and said[0].startswith("metrics: http://127.0.0.1:")


def test_a_signal_in_the_midst_of_another():
    signal = StopSignal()
    assert stuck_at(signal.stop) is None
    assert signal.wanted.is_set() and signal.hurry.is_set()
