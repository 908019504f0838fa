"""Runs a pipeline: topics made, jobs started in one Spark session, watched, ended, reported.

Jobs that are not streams run before the streams (restore) or after them (profile, audit).
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ottla.console.run_folder import HTTP_PATH
from ottla.errors import OttlaError
from ottla.pipelines import stop_order, topics
from ottla.pipelines.announcement import Announcer, announced
from ottla.pipelines.archive_past import ArchivePast, Held
from ottla.pipelines.checkpoints.judge import Choices
from ottla.pipelines.checkpoints.keeper import NO_CHOICES, Keeper
from ottla.pipelines.checks import before_spark, clusters, plans, problems
from ottla.pipelines.checks.problems import Problem
from ottla.pipelines.context import BatchResult, JobContext, Stream
from ottla.pipelines.dialects import hide_settings
from ottla.pipelines.metrics import JobMetrics, serve, url_host
from ottla.pipelines.report import JobReport, PipelineReport, reason_of
from ottla.pipelines.spec import AVAILABLE_NOW, Archive, Job, Pipeline, StreamJob
from ottla.pipelines.spec_keys import SpecError, TopicSpec
from ottla.pipelines.stream_run import FAILED, FINISHED, WAITING, Flag, StreamRun
from ottla.runtime import Clock, system_runtime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.client.admin.client import Admin

POLL_S = 0.5


class StopSignal:
    """`stop` asks for an end with what is under way finished, `hurry` for one at once."""

    def __init__(self) -> None:
        self.wanted = Flag()
        self.hurry = Flag()

    def stop(self) -> None:
        """The first call asks, the second hurries."""
        if self.wanted.is_set():
            self.hurry.set()
        self.wanted.set()


class PipelineRun:
    """One run, in the hands of the caller: `start`, `poll` while it says True, `stop`, `report`."""

    def __init__(
        self,
        pipeline: Pipeline,
        spark: SparkSession,
        *,
        clock: Clock | None = None,
        choices: Choices = NO_CHOICES,
        announce: Callable[[str], None] | None = None,
    ) -> None:
        self.pipeline = _validated(pipeline)
        self._clock = clock or system_runtime().clock
        self._choices = choices
        self._announce = announce or (lambda text: None)
        self._keeper: Keeper | None = None
        self._context = JobContext(spark, self.pipeline)
        self._began_s = self._now_s()
        self._feeders = stop_order.feeders(self.pipeline.jobs)
        # Of jobs that are not streams.
        self.batch_reports: list[JobReport] = []
        self.streams: list[StreamRun] = []
        self._told: set[str] = set()

    def start(self) -> None:
        """Raises OttlaError where a job's plan is wrong, a checkpoint is another's or topics cannot
        be made, in this order."""
        hide_settings(self._context.spark, self.pipeline.secrets)
        problems.raise_for(self.pipeline, plans.find(self._context))
        try:
            keeper = self._lock_checkpoints()
            self._prepare_topics()
            for job in self._jobs("before"):
                self._run_batch(job)
            if self._is_over_early:
                return
            self._take_checkpoints(keeper)
            for job in self._jobs("stream"):
                self.streams += self._stream_runs(job)
            self._bar_those_fed_by_failed()
            self._start_ready()
        except BaseException:
            self._unlock_checkpoints()
            raise

    def _lock_checkpoints(self) -> Keeper:
        """Nothing is changed yet."""
        ids = clusters.ids(self.pipeline)
        keeper = self._keeper = Keeper(self.pipeline, self._context.spark, ids, self._choices)
        try:
            keeper.lock()
            found = [Problem(job, words) for job, words in keeper.wrong()]
        except SpecError as error:
            found = [Problem("", str(error))]
        refused = {problem.job for problem in found}
        for job, past in self._archives(keeper):
            words = None if {"", job.name} & refused else past.wrong()
            if words is not None and job.name in self._choices.adopt and past.can_set_aside:
                words = past.lost(self._held(job))
            if words is not None:
                found.append(Problem(job.name, words))
        problems.raise_for(self.pipeline, found)
        return keeper

    def _held(self, job: Archive) -> Held:
        """What the topics of a job still have."""
        servers, kafka = self.pipeline.servers_of(job), self.pipeline.kafka_of(job)
        return topics.with_admin(servers, kafka, lambda admin: topics.bounds(admin, job.reads()))

    def _take_checkpoints(self, keeper: Keeper) -> None:
        pasts = list(self._archives(keeper))
        for line in keeper.take():
            self._say(line)
        for job, past in pasts:
            if job.name in self._choices.adopt:
                self._say(past.set_aside())

    def _archives(self, keeper: Keeper) -> Iterator[tuple[Archive, ArchivePast]]:
        for job in self.pipeline.jobs:
            if isinstance(job, Archive):
                yield job, ArchivePast(self._context.spark, job, keeper.source_of(job))

    def _say(self, line: str) -> None:
        if line:
            self._announce(self.pipeline.secrets.hide(line))

    def _unlock_checkpoints(self) -> None:
        if self._keeper is not None:
            self._keeper.release()

    def poll(self) -> bool:
        """True while there is something to wait for."""
        for run in self.streams:
            run.poll()
        self._start_ready()
        self._tell_failures()
        return not self._is_over_early and any(not run.is_over for run in self.streams)

    @property
    def _failed(self) -> list[StreamRun | JobReport]:
        jobs: list[StreamRun | JobReport] = [*self.streams, *self.batch_reports]
        return [job for job in jobs if job.state == FAILED]

    @property
    def _is_over_early(self) -> bool:
        """One job that has failed for good ends the others only where that is wanted."""
        return self.pipeline.fail_fast and bool(self._failed)

    def _tell_failures(self) -> None:
        for job in self._failed:
            if job.name in self._told:
                continue
            self._told.add(job.name)
            others = [run for run in self.streams if not run.is_over]
            end = "" if self._is_over_early or not others else "; the other jobs go on"
            self._say(f"{job.name}: failed for good{end}: {job.error}")

    def _bar_those_fed_by_failed(self) -> None:
        """What a restore was to bring is missing: what is made from it would be wrong."""
        failed = {report.name for report in self.batch_reports if report.state == FAILED}
        for run in self.streams:
            cause = stop_order.fed_by_any(run.job.name, failed, self._feeders)
            if cause is not None:
                run.bar(f"was not started: {cause}, which feeds it, has failed")

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
                if self._feeders[run.job.name] and not self._is_over_early:
                    run.drain(share_s, hurry)
            for run in runs:
                run.stop(share_s, hurry)
        self._unlock_checkpoints()

    def finish(self) -> PipelineReport:
        """Runs the jobs that come after the streams, and reports."""
        for job in self._jobs("after"):
            if not self._is_over_early:
                self._run_batch(job)
        return self.report()

    def report(self) -> PipelineReport:
        by_name = {report.name: report for report in self.batch_reports}
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
                hide=self.pipeline.secrets.hide,
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
            words = self.pipeline.secrets.hide(reason_of(error))
            self.batch_reports.append(
                JobReport(job.name, job.kind, FAILED, 0, seconds=seconds, error=words)
            )
            self._tell_failures()
            return
        self.batch_reports.append(
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
    reset: Iterable[str] = (),
    adopt: Iterable[str] = (),
) -> PipelineReport:
    """Runs until all jobs have ended (with `fail_fast`, until one has failed for good), `signal`
    asks for the end, or `limit_s` is over. Without a session one is started, and stopped at the
    end. `watch` sees the jobs twice a second, `announce` is told where metrics are served, what
    became of checkpoints and which job has failed. `reset` and `adopt` name jobs that begin anew,
    or go on with a checkpoint of a job that was another one.

    What is wrong is raised as SpecErrors before a topic is made, and, as far as that can be found
    without it, before Spark is started."""
    signal = signal or StopSignal()
    pipeline = _validated(pipeline)
    choices = Choices(frozenset(reset), frozenset(adopt))
    problems.raise_for(pipeline, before_spark.find(pipeline, choices))
    with ExitStack() as stack:
        session = stack.enter_context(_session(pipeline, spark))
        run = PipelineRun(pipeline, session, choices=choices, announce=announce)
        metrics = JobMetrics(run.pipeline.name)
        metrics.streams, metrics.reports = run.streams, run.batch_reports
        announcer = Announcer(run.pipeline, run.streams, run.batch_reports, session)
        stack.enter_context(announced(announcer))
        address = pipeline.metrics_address()
        if address is not None:
            port = stack.enter_context(serve(metrics, address, {HTTP_PATH: announcer}))
            if announce is not None:
                announce(f"metrics: http://{url_host(address.host)}:{port}/metrics")
        run.start()
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
