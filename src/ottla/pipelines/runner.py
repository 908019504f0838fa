"""Runs a pipeline: topics made, jobs started in one Spark session, watched, ended, reported.

Jobs that are not streams run before the streams (restore) or after them (profile, audit).
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ottla.errors import OttlaError
from ottla.pipelines import stop_order, topics
from ottla.pipelines.checks import before_spark, clusters, plans, problems
from ottla.pipelines.checks.problems import Problem
from ottla.pipelines.context import BatchResult, JobContext, Stream
from ottla.pipelines.metrics import LOOPBACK, JobMetrics, serve
from ottla.pipelines.report import JobReport, PipelineReport, reason_of
from ottla.pipelines.spec import AVAILABLE_NOW, Job, Pipeline, StreamJob
from ottla.pipelines.spec_keys import TopicSpec
from ottla.pipelines.stream_run import FAILED, FINISHED, WAITING, StreamRun
from ottla.runtime import Clock, system_runtime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.client.admin.client import Admin

POLL_S = 0.5


class StopSignal:
    """`stop` asks for an end with what is under way finished, `hurry` for one at once."""

    def __init__(self) -> None:
        self.wanted = threading.Event()
        self.hurry = threading.Event()

    def stop(self) -> None:
        """The first call asks, the second hurries."""
        if self.wanted.is_set():
            self.hurry.set()
        self.wanted.set()


class PipelineRun:
    """One run, in the hands of the caller: `start`, `poll` while it says True, `stop`, `report`."""

    def __init__(
        self, pipeline: Pipeline, spark: SparkSession, *, clock: Clock | None = None
    ) -> None:
        self.pipeline = _validated(pipeline)
        self._clock = clock or system_runtime().clock
        self._context = JobContext(spark, self.pipeline)
        self._began_s = self._now_s()
        self._feeders = stop_order.feeders(self.pipeline.jobs)
        self._batch_reports: list[JobReport] = []
        self.streams: list[StreamRun] = []

    def start(self) -> None:
        """Raises OttlaError where a job's plan is wrong or topics cannot be made, in this order."""
        problems.raise_for(self.pipeline, plans.find(self._context))
        self._prepare_topics()
        for job in self._jobs("before"):
            self._run_batch(job)
        if self.has_failed:
            return
        for job in self._jobs("stream"):
            self.streams += self._stream_runs(job)
        self._start_ready()

    def poll(self) -> bool:
        """True while there is something to wait for."""
        for run in self.streams:
            run.poll()
        self._start_ready()
        return not self.has_failed and any(not run.is_over for run in self.streams)

    @property
    def has_failed(self) -> bool:
        """One job that has failed for good ends the pipeline."""
        return any(run.state == FAILED for run in self.streams) or any(
            report.state == FAILED for report in self._batch_reports
        )

    def stop(self, signal: StopSignal | None = None) -> None:
        """Ends the jobs that nobody feeds first; the others read what those have written."""
        hurry = (signal or StopSignal()).hurry
        deadline_s = self._now_s() + self.pipeline.stop_timeout
        levels = stop_order.levels(self.pipeline.jobs)
        for index, names in enumerate(levels):
            # A query that is busy without a break is never between two batches: it must not take
            # the time in which those that it feeds read what is left.
            now_s = self._now_s()
            share_s = now_s + max(deadline_s - now_s, 0) / (len(levels) - index)
            runs = [run for run in self.streams if run.job.name in names]
            for run in runs:
                if self._feeders[run.job.name] and not self.has_failed:
                    run.drain(share_s, hurry)
            for run in runs:
                run.stop(share_s, hurry)

    def finish(self) -> PipelineReport:
        """Runs the jobs that come after the streams, and reports."""
        for job in self._jobs("after"):
            if not self.has_failed:
                self._run_batch(job)
        return self.report()

    def report(self) -> PipelineReport:
        by_name = {report.name: report for report in self._batch_reports}
        ordered: list[JobReport] = []
        for job in self.pipeline.jobs:
            ordered += _with_dead_letters([r.report() for r in self.streams if r.job is job])
            ordered += [by_name[job.name]] if job.name in by_name else []
        return PipelineReport(self.pipeline.name, self._now_s() - self._began_s, tuple(ordered))

    # inside

    def _jobs(self, phase: str) -> list[Job]:
        return [job for job in self.pipeline.jobs if job.phase == phase]

    def _prepare_topics(self) -> None:
        """By cluster: makes what jobs write, asks for what they only read."""
        for cluster, use in clusters.uses(self.pipeline).items():
            specs = [spec for _, spec in use.written.values()]
            work = _prepare(specs, use.only_read(), cluster.servers)
            topics.with_admin(cluster.servers, dict(cluster.kafka), work)

    def _stream_runs(self, job: Job) -> Iterator[StreamRun]:
        """One for each query; the plan is made once here so that a wrong one is told at once."""
        if not isinstance(job, StreamJob):
            return
        build = _module(job).streams
        try:
            planned = build(self._context, job)
        except Exception as error:
            words = str(error) if isinstance(error, OttlaError) else reason_of(error)
            problems.raise_for(self.pipeline, [Problem(job.name, words)])
            raise
        for index, stream in enumerate(planned):
            yield StreamRun(
                job,
                stream.name,
                _builder(build, self._context, job, index),
                checkpoint=self._context.checkpoint(stream.name),
                trigger=job.trigger or self.pipeline.trigger,
                restart=job.restart or self.pipeline.restart,
                clock=self._clock,
            )

    def _start_ready(self) -> None:
        """A job that takes what is there now waits for those that are still writing it."""
        for run in self.streams:
            if run.state != WAITING:
                continue
            fed_by = [r for r in self.streams if r.job.name in self._feeders[run.job.name]]
            if run.trigger != AVAILABLE_NOW or all(
                r.is_over or r.trigger != AVAILABLE_NOW for r in fed_by
            ):
                run.start()

    def _run_batch(self, job: Job) -> None:
        began_s = self._now_s()
        try:
            result: BatchResult = _module(job).run(self._context, job)
        except Exception as error:
            seconds = self._now_s() - began_s
            self._batch_reports.append(
                JobReport(job.name, job.kind, FAILED, 0, seconds=seconds, error=reason_of(error))
            )
            return
        self._batch_reports.append(
            JobReport(
                job.name,
                job.kind,
                FINISHED,
                result.rows_in,
                result.rows_out,
                seconds=round(self._now_s() - began_s, 3),
                notes=tuple(result.lines),
                data=result.data,
            )
        )

    def _now_s(self) -> float:
        return self._clock.monotonic_ms() / 1000


def run_pipeline(
    pipeline: Pipeline,
    spark: SparkSession | None = None,
    *,
    signal: StopSignal | None = None,
    watch: Callable[[Sequence[StreamRun]], None] | None = None,
    announce: Callable[[str], None] | None = None,
    limit_s: float | None = None,
) -> PipelineReport:
    """Runs until all jobs have ended, one has failed for good, `signal` asks for the end, or
    `limit_s` is over. Without a session one is started, and stopped at the end. `watch` sees the
    jobs twice a second, `announce` is told where metrics are served.

    What is wrong is raised as SpecErrors before a topic is made, and, as far as that can be found
    without it, before Spark is started."""
    signal = signal or StopSignal()
    pipeline = _validated(pipeline)
    problems.raise_for(pipeline, before_spark.find(pipeline))
    with ExitStack() as stack:
        session = stack.enter_context(_session(pipeline, spark))
        run = PipelineRun(pipeline, session)
        metrics = JobMetrics(run.pipeline.name)
        if pipeline.metrics_port is not None:
            port = stack.enter_context(serve(metrics, pipeline.metrics_port))
            if announce is not None:
                announce(f"metrics: http://{LOOPBACK}:{port}/metrics")
        run.start()
        metrics.streams = run.streams
        try:
            _wait(run, signal, watch, limit_s)
        finally:
            run.stop(signal)
        if watch is not None:
            watch(run.streams)
        return run.finish()


def _validated(pipeline: Pipeline) -> Pipeline:
    """One that was made in Python may say anything."""
    pipeline = pipeline.named()
    pipeline.check()
    for job in pipeline.jobs:
        job.check()
    return pipeline


def _wait(
    run: PipelineRun,
    signal: StopSignal,
    watch: Callable[[Sequence[StreamRun]], None] | None,
    limit_s: float | None,
) -> None:
    clock = system_runtime().clock
    end_ms = None if limit_s is None else clock.monotonic_ms() + limit_s * 1000
    while run.poll():
        if watch is not None:
            watch(run.streams)
        if signal.wanted.wait(POLL_S):
            return
        if end_ms is not None and clock.monotonic_ms() >= end_ms:
            return


@contextmanager
def _session(pipeline: Pipeline, spark: SparkSession | None) -> Iterator[SparkSession]:
    if spark is not None:
        yield spark
        return
    from ottla.pipelines.sessions import pipeline_session

    with pipeline_session(pipeline) as started:
        yield started


def _module(job: Job) -> Any:
    return importlib.import_module(f"ottla.pipelines.jobs.{job.kind}")


def _with_dead_letters(reports: list[JobReport]) -> list[JobReport]:
    """The queries of one job: the first has the second's rows as its dead letters."""
    if len(reports) < 2:
        return reports
    first, second = reports
    return [replace(first, dead_letters=second.rows_out), second]


def _builder(
    build: Callable[[JobContext, Job], list[Stream]], context: JobContext, job: Job, index: int
) -> Callable[[], Stream]:
    return lambda: build(context, job)[index]


def _prepare(
    specs: Sequence[TopicSpec], read: Iterable[str], servers: str
) -> Callable[[Admin], Awaitable[None]]:
    async def work(admin: Admin) -> None:
        await topics.ensure_topics(admin, specs)
        await topics.require_topics(admin, sorted(read), servers)

    return work
