"""One streaming query while it runs: started, watched, started again after a failure, ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ottla.errors import OttlaError
from ottla.pipelines import dialects
from ottla.pipelines.files import for_spark
from ottla.pipelines.progress import StreamProgress
from ottla.pipelines.report import JobReport, reason_of
from ottla.pipelines.spec import AVAILABLE_NOW
from ottla.pipelines.spec_keys import Restart, parse_duration_s

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ottla.pipelines.context import Stream
    from ottla.pipelines.spec import Job
    from ottla.runtime import Clock

WAITING, RUNNING, PAUSED = "waiting", "running", "restarting"
FINISHED, STOPPED, FAILED = "finished", "stopped", "failed"
_POLL_S = 0.1
_FLAG_POLL_S = 0.05
# Shorter than any task of a batch takes.
_BATCH_END_POLL_S = 0.02
# Between two calls of what a job does now and then.
CHORE_PAUSE_S = 30.0


# A setting of the session by which a process of Spark Connect's learns that no batch may begin.
OPEN, CLOSED = "open", "closed"
_GATE = "ottla.pipeline.gate"


class BatchHeld(OttlaError):
    """A batch came when the query was already being stopped."""


def connect_gate(
    each_batch: Callable[[DataFrame, int], None], gate: str
) -> Callable[[DataFrame, int], None]:
    """As `StreamRun._gate`, for a process of Spark Connect's: asks the session."""

    def gated(batch: DataFrame, batch_id: int) -> None:
        if batch.sparkSession.conf.get(gate, OPEN) == CLOSED:
            raise BatchHeld(f"the query is being stopped: batch {batch_id} comes later")
        each_batch(batch, batch_id)

    return gated


class Flag:
    """An event that a signal's handler may set: that of `threading` takes a lock for it, which the
    interrupted thread may hold, in a `wait` or in the handler of an earlier signal."""

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout_s: float) -> bool:
        left_s = timeout_s
        while not self._is_set and left_s > 0:
            time.sleep(min(left_s, _FLAG_POLL_S))
            left_s -= _FLAG_POLL_S
        return self._is_set


class StreamRun:
    """`build` makes the query's plan anew, for every start."""

    def __init__(
        self,
        job: Job,
        name: str,
        build: Callable[[], Stream],
        *,
        checkpoint: str,
        trigger: str,
        restart: Restart,
        clock: Clock,
        hide: Callable[[str], str] = str,
    ) -> None:
        """`hide` takes secrets out of what is told."""
        self.job = job
        self._hide = hide
        self._gate_name = f"{_GATE}.{name}"
        self.name = name
        self.state = WAITING
        self.progress = StreamProgress()
        self.restarts = 0
        self.error: str | None = None
        self.trigger = trigger
        self._build = build
        self._checkpoint = checkpoint
        self._restart = restart
        self._clock = clock
        self._query: Any = None
        self._stream: Stream | None = None
        self._notes: list[str] = []
        self._began_s = self._ended_s = self._now_s()
        self._resume_at_s = 0.0
        self._next_chore_s = self._began_s + CHORE_PAUSE_S
        self._tries = 0
        # The last batch that earlier runs have finished, what they wrote of the next one, and what
        # this one wrote of a batch that it did not finish.
        self._last_before = -1
        self._left_behind = self._unfinished = 0
        # From here on no batch begins in `each_batch`; whether one has tried to.
        self._closing = self._held = False

    @property
    def is_over(self) -> bool:
        return self.state in (FINISHED, STOPPED, FAILED)

    @property
    def rows_per_s(self) -> float:
        return 0.0 if self.is_over else self.progress.rows_per_s(self._now_s())

    def bar(self, words: str) -> None:
        """It never starts."""
        self.state, self.error = FAILED, words
        self._began_s = self._ended_s = self._now_s()

    def start(self) -> None:
        """A failure while starting counts as one while running."""
        if self.state == WAITING:
            self._began_s = self._now_s()
        try:
            self._stream = self._build()
            if self.state == WAITING and self._stream.noted is not None:
                noted = self._stream.noted
                self._last_before, self._left_behind = noted.left_behind(self._checkpoint)
                self._unfinished = self._left_behind
            self._query = self._launch(self._stream)
        except Exception as error:
            self._fail(error)
            return
        self.state = RUNNING

    def _launch(self, stream: Stream) -> Any:
        writer = stream.frame.writeStream.queryName(self.name).outputMode(stream.mode)
        writer = writer.option("checkpointLocation", for_spark(self._checkpoint))
        if self.trigger == AVAILABLE_NOW:
            writer = writer.trigger(availableNow=True)
        else:
            milliseconds = int(parse_duration_s(self.trigger) * 1000)
            writer = writer.trigger(processingTime=f"{milliseconds} milliseconds")
        if stream.each_batch is not None:
            spark = stream.frame.sparkSession
            gated = self._gate(stream.each_batch)
            if dialects.is_connect(spark):
                # Spark runs it in another process, where this object is not.
                gated = connect_gate(stream.each_batch, self._gate_name)
                spark.conf.set(self._gate_name, OPEN)
            return writer.foreachBatch(gated).start()
        return writer.format(stream.format).options(**stream.options).start()

    def _gate(
        self, each_batch: Callable[[DataFrame, int], None]
    ) -> Callable[[DataFrame, int], None]:
        """A batch that begins while the query is being stopped must not be written in part."""

        def gated(batch: DataFrame, batch_id: int) -> None:
            if self._closing:
                self._held = True
                raise BatchHeld(f"{self.name} is being stopped: batch {batch_id} comes later")
            each_batch(batch, batch_id)

        return gated

    def _close_gate(self) -> None:
        self._closing = True
        stream = self._stream
        if stream is None or stream.each_batch is None or self.state != RUNNING:
            return
        if dialects.is_connect(stream.frame.sparkSession):
            stream.frame.sparkSession.conf.set(self._gate_name, CLOSED)

    def poll(self) -> None:
        """Looks how the query is; starts it again where its pause is over."""
        if self.state == PAUSED and self._now_s() >= self._resume_at_s:
            self.start()
        if self.state == RUNNING and self._goes_on():
            self._do_chore()

    def _goes_on(self) -> bool:
        """Whether the query runs; how it ended is noted."""
        before = self.progress.batches
        # Asked before the progress is read: what a finished query reported is then all there.
        is_active = self._query.isActive
        self._read_progress()
        if self.progress.batches > before:
            self._tries = 0
        if is_active:
            return True
        error = self._query.exception()
        if self._held or (self._closing and BatchHeld.__name__ in str(error)):
            self._end(STOPPED)
        elif error is not None:
            self._fail(error)
        else:
            self._end(FINISHED)
        return False

    def _do_chore(self) -> None:
        chore = self._stream.now_and_then if self._stream is not None else None
        if chore is None or self._now_s() < self._next_chore_s:
            return
        try:
            chore()
        except Exception as error:
            self._query.stop()
            self._fail(error)
        self._next_chore_s = self._now_s() + CHORE_PAUSE_S

    def _read_progress(self) -> None:
        last = self._query.lastProgress
        if last is None:
            return
        now_s = self._now_s()
        reports = self._query.recentProgress if self.progress.has_gap(last) else [last]
        for report in reports:
            self.progress.absorb(report, now_s)

    def _fail(self, error: BaseException) -> None:
        self.error = self._hide(reason_of(error))
        if self._tries >= self._restart.attempts:
            self._end(FAILED)
            return
        self._tries += 1
        self.restarts += 1
        self._resume_at_s = self._now_s() + self._restart.pause_s * self._tries
        self.state = PAUSED

    def drain(self, deadline_s: float, hurry: Flag) -> None:
        """Waits until the query has read all that its sources hold, or the time is over."""
        if self.state != RUNNING:
            return
        # Spark's call takes no time-out; it returns when the query is stopped.
        thread = threading.Thread(target=self._process_all, name=f"drain-{self.name}", daemon=True)
        thread.start()
        while thread.is_alive() and self._now_s() < deadline_s and not hurry.is_set():
            thread.join(_POLL_S)

    def _process_all(self) -> None:
        try:
            self._query.processAllAvailable()
        except Exception as error:
            self.error = self.error or self._hide(reason_of(error))

    def stop(self, deadline_s: float, hurry: Flag) -> None:
        """Ends the query between two batches where it comes to that in time, or when one has
        only just begun: what its tasks have written by then is there before the rest."""
        self._close_gate()
        if self.state == RUNNING:
            self._read_progress()
            before = self.progress.batches
            while (
                self._query.isActive
                and self.progress.batches == before
                and self._query.status["isTriggerActive"]
                and self._now_s() < deadline_s
                and not hurry.wait(_BATCH_END_POLL_S)
            ):
                self._read_progress()
            self._goes_on()
        if self.state == RUNNING:
            self._query.stop()
            self._read_progress()
            self._end(STOPPED)
        elif not self.is_over:
            self._end(FAILED if self.error else STOPPED)

    def _end(self, state: str) -> None:
        self.state = state
        self._ended_s = self._now_s()
        self._count_unfinished()
        if state != FAILED:
            self.error = None
        after = self._stream.after if self._stream is not None else None
        if after is None or state == FAILED:
            return
        try:
            note = after()
        except Exception as error:
            self.state, self.error = FAILED, self._hide(reason_of(error))
            return
        if note:
            self._notes.append(note)

    def _count_unfinished(self) -> None:
        noted = self._stream.noted if self._stream is not None else None
        if noted is None or self._query is None:
            return
        last = max(self.progress.last_batch, self._last_before)
        if last > self._last_before:
            self._unfinished = 0
        query_id = str(self._query.id)
        try:
            # A batch may have been under way.
            if self.state != FINISHED:
                noted.end(query_id)
            self._unfinished = noted.beyond(query_id, last)
        except OttlaError as error:
            self._notes.append(f"rows out are those of whole batches: {error}")

    def report(self) -> JobReport:
        return JobReport(
            self.name,
            self.job.kind,
            self.state,
            self.progress.rows_in,
            self._rows_out(),
            batches=self.progress.batches,
            restarts=self.restarts,
            seconds=round((self._ended_s if self.is_over else self._now_s()) - self._began_s, 3),
            error=self.error,
            notes=(*self._notes, *self._left_out()),
        )

    def _rows_out(self) -> int | None:
        """None where Spark does not say: Connect loses what a function of batches observes."""
        stream = self._stream
        by_function = stream is not None and stream.each_batch is not None
        if stream is not None and by_function and dialects.is_connect(stream.frame.sparkSession):
            return self.progress.rows_in if stream.keeps_rows else None
        return self.progress.rows_out + self._unfinished - self._left_behind

    def _left_out(self) -> Iterator[str]:
        if self.progress.left_out:
            yield f"{self.progress.left_out:,} records did not fit the schema and were left out"

    def _now_s(self) -> float:
        return self._clock.monotonic_ms() / 1000
