"""What users see of a pipeline: the live table, plots; and how failures are met."""

from __future__ import annotations

import io
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from rich.console import Console

from ottla.errors import OttlaError
from ottla.pipelines import plots
from ottla.pipelines.context import Stream
from ottla.pipelines.live import LiveView, line, table
from ottla.pipelines.progress import StreamProgress
from ottla.pipelines.spec import Archive
from ottla.pipelines.spec_keys import Restart, Source
from ottla.pipelines.stream_run import Flag, StreamRun, connect_gate


class FakeClock:
    ms = 0.0

    def monotonic_ms(self):
        return self.ms

    def now_ms(self):
        return int(self.ms)


def job_state(**values):
    progress = StreamProgress()
    progress.rows_in, progress.rows_out, progress.batches = 1234, 1230, 3
    progress.lag, progress.batch_s = 56, 0.5
    default = {"name": "a[b]", "state": "running", "rows_per_s": 78.0, "error": None, "restarts": 1}
    default |= values
    job = SimpleNamespace(name=default["name"])
    return SimpleNamespace(**({"job": job} | default), progress=progress)


def test_the_table_shows_every_figure():
    out = Console(file=io.StringIO(), width=120)
    out.print(table([job_state(), job_state(state="failed", error="why [not]")]))
    text = out.file.getvalue()
    for word in ("a[b]", "running", "1,234", "1,230", "78", "56", "0.50 s", "failed", "why [not]"):
        assert word in text


def test_without_a_terminal_there_are_lines_now_and_then():
    out, clock = Console(file=io.StringIO(), width=200), FakeClock()
    with LiveView(out, clock) as view:
        for clock.ms in (0, 5_000, 10_000):
            view.update([job_state()])
    assert out.file.getvalue().splitlines() == [line(job_state())] * 2
    assert line(job_state()) == (
        "a[b]: running, 1,234 rows in, 1,230 out, 78 rows/s, lag 56, batch 0.50 s"
    )


def test_axes_have_round_numbers():
    assert plots.round_ticks(0.0, 7880.0) == [0, 2000, 4000, 6000]
    assert plots.round_ticks(32.2, 130.0) == [40, 60, 80, 100, 120]
    assert plots.round_ticks(0.0, 1.0) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert plots.round_ticks(5.0, 5.0) == [5]


def test_plots_are_sound_and_need_nothing_else():
    drawn = plots.line_plot(
        "a & b", {"x<y": [(0, 0), (5, 2000)]}, unit="rows/s", marks=[plots.Mark(2, "kill -9")]
    )
    bars = plots.bar_plot("keys", [("a", 3.0), ("<b>", 0.0)])
    page = plots.page("t", [drawn, bars, plots.html_table(("n",), [[None], [1234]])])
    body = page.replace("<!doctype html>\n", "").replace('<meta charset="utf-8">', "")
    tree = ElementTree.fromstring(body)
    assert len(tree.findall(".//svg")) == 2
    assert [cell.text for cell in tree.findall(".//td")] == ["-", "1,234"]
    assert "kill -9" in page and "2k" in page
    ElementTree.fromstring(f"<x>{plots.line_plot('nothing', {})}{plots.bar_plot('no', [])}</x>")


def test_tables_of_text():
    assert plots.text_table(("key", "n"), [["a\x1b", 1000], ["bbb", 0.25]]) == [
        "key      n",
        "a?   1,000",
        "bbb   0.25",
    ]


class FakeQuery:
    """A streaming query that ends as it is told."""

    def __init__(self, error=None, rows=0, active=False):
        self.error, self.isActive, self.stopped = error, active, False
        self.lastProgress = {"runId": str(id(self)), "batchId": 0, "numInputRows": rows}
        self.recentProgress = [self.lastProgress]
        self.status = {"isTriggerActive": False}

    def exception(self):
        return self.error

    def stop(self):
        self.stopped, self.isActive = True, False

    def processAllAvailable(self):
        self.drained = True


def stream_run(queries, clock, attempts=2, after=None, trigger="1 second", session=None, **stream):
    """A run whose starts give these queries, one after the other."""
    waiting = list(queries)

    class Writer:
        def __getattr__(self, name):
            return lambda *args, **values: waiting.pop(0) if name == "start" else self

        def foreachBatch(self, function):
            waiting[0].each_batch = function
            return self

    frame = SimpleNamespace(writeStream=Writer(), sparkSession=session)
    run = StreamRun(
        Archive(name="j", from_=(Source("a", "a"),), path="p"),
        "j",
        lambda: Stream("j", frame, format="x", after=after, **stream),
        checkpoint="c",
        trigger=trigger,
        restart=Restart(attempts, 10.0),
        clock=clock,
    )
    run.start()
    return run


def test_a_failed_query_is_started_again_after_longer_and_longer_pauses():
    clock = FakeClock()
    run = stream_run([FakeQuery(ValueError(f"no {n}")) for n in range(3)], clock)
    run.poll()
    assert (run.state, run.error, run.restarts) == ("restarting", "no 0", 1)
    clock.ms = 9_000
    run.poll()
    assert run.state == "restarting"
    clock.ms = 10_000
    run.poll()
    assert (run.state, run.error, run.restarts) == ("restarting", "no 1", 2)
    clock.ms = 29_000
    run.poll()
    assert run.restarts == 2
    clock.ms = 30_000
    run.poll()
    assert (run.state, run.report().error, run.report().seconds) == ("failed", "no 2", 30.0)


def test_progress_sets_the_count_of_failures_back():
    clock = FakeClock()
    queries = [FakeQuery(ValueError("x"), rows=5) for _ in range(4)]
    run = stream_run([*queries, FakeQuery(rows=1)], clock, attempts=1)
    for _ in range(5):
        run.poll()
        clock.ms += 10_000
    assert (run.state, run.restarts, run.progress.rows_in) == ("finished", 4, 21)
    assert run.report().error is None


def test_a_stop_waits_for_the_batch_and_then_does_what_comes_after():
    query = FakeQuery(active=True)
    run = stream_run([query], FakeClock(), after=lambda: "joined")
    run.drain(60.0, Flag())
    run.stop(60.0, Flag())
    assert query.drained and query.stopped
    assert (run.state, run.report().notes) == ("stopped", ("joined",))


def test_no_batch_begins_while_a_query_is_being_stopped():
    """A batch that a stop cut off would leave some of its files."""
    written = []
    query = FakeQuery(active=True)
    run = stream_run([query], FakeClock(), each_batch=lambda _, batch: written.append(batch))
    query.each_batch(None, 0)

    def trigger_active(_):
        with pytest.raises(OttlaError, match="batch 1 comes later"):
            query.each_batch(None, 1)
        query.isActive, query.error = False, RuntimeError("held")
        return True

    query.status = type("Status", (), {"__getitem__": lambda *_: trigger_active(_)})()
    run.stop(60.0, Flag())
    assert (written, run.state, run.report().error) == ([0], "stopped", None)


class Noted:
    """What tasks have noted, before and after."""

    def __init__(self, last, before, after):
        self.last, self.before, self.after = last, before, after

    def end(self, query_id):
        self.ended = query_id

    def left_behind(self, checkpoint):
        return self.last, self.before

    def beyond(self, query_id, batch):
        if isinstance(self.after, Exception):
            raise self.after
        return self.after.get(batch, 0)


@pytest.mark.parametrize(
    ("noted", "told", "rows_out"),
    [
        (Noted(-1, 0, {}), 10, 10),
        (Noted(-1, 0, {0: 4}), 10, 14),  # tasks of the batch after the last one told
        (Noted(3, 4, {}), 10, 6),  # an earlier run wrote some of what is told now
        (Noted(3, 4, {3: 7}), None, 3),  # cut off again, with more of it written
        (Noted(3, 4, {3: 4}), None, 0),
        (Noted(3, 4, OttlaError("gone")), None, 0),
        (Noted(-1, 0, OttlaError("gone")), 10, 10),
    ],
)
def test_rows_out_are_those_in_the_topic(noted, told, rows_out):
    query = FakeQuery(active=True)
    query.id = "q"
    if told is not None:
        batch = noted.last + 1
        query.lastProgress |= {"batchId": batch, "sink": {"numOutputRows": told}}
        query.recentProgress = [query.lastProgress]
    run = stream_run([query], FakeClock(), noted=noted)
    run.stop(60.0, Flag())
    assert run.report().rows_out == rows_out
    assert bool(run.report().notes) == isinstance(noted.after, OttlaError)


@pytest.mark.parametrize("is_active", [True, False])
def test_tasks_of_a_query_that_was_stopped_are_ended(is_active):
    noted = Noted(-1, 0, {})
    query = FakeQuery(active=is_active)
    query.id = "q"
    run = stream_run([query], FakeClock(), noted=noted)
    run.stop(60.0, Flag())
    assert run.state == ("stopped" if is_active else "finished")
    assert getattr(noted, "ended", None) == ("q" if is_active else None)


def test_what_fails_afterwards_is_told():
    def after():
        raise OSError("disk full")

    run = stream_run([FakeQuery()], FakeClock(), after=after)
    run.poll()
    assert (run.state, run.report().error) == ("failed", "disk full")


def test_a_plan_that_cannot_be_started_counts_as_a_failure():
    run = stream_run([], FakeClock(), attempts=0)
    assert (run.state, run.report().error) == ("failed", "pop from empty list")


@pytest.mark.parametrize(("keeps_rows", "rows_out"), [(True, 7), (False, None)])
def test_rows_out_on_spark_connect_are_known_where_every_row_is_kept(keeps_rows, rows_out):
    kept = {}

    class Session:
        conf = SimpleNamespace(set=kept.__setitem__)

    Session.__module__ = "pyspark.sql.connect.session"
    query = FakeQuery(active=True, rows=7)
    run = stream_run(
        [query],
        FakeClock(),
        each_batch=lambda *_: None,
        keeps_rows=keeps_rows,
        session=Session(),
    )
    assert kept == {"ottla.pipeline.gate.j": "open"}
    run.stop(60.0, Flag())
    assert kept == {"ottla.pipeline.gate.j": "closed"}
    assert (run.report().rows_in, run.report().rows_out) == (7, rows_out)


def test_a_process_of_spark_connect_learns_that_no_batch_may_begin():
    kept, written = {"gate": "open"}, []
    gated = connect_gate(lambda _, batch: written.append(batch), "gate")
    batch = SimpleNamespace(sparkSession=SimpleNamespace(conf=SimpleNamespace(get=kept.get)))
    gated(batch, 0)
    kept["gate"] = "closed"
    with pytest.raises(OttlaError, match="batch 1 comes later"):
        gated(batch, 1)
    assert written == [0]
