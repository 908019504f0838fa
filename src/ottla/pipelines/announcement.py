"""A running pipeline says that it is there: what it is and how it goes, for the console.

One file in a folder of the user's, written anew every second and gone with the run. The same
document is served beside the metrics. `docs/adr/0043-pipelines-in-the-console.md`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.console.run_folder import MAX_BYTES, VERSION, announcements
from ottla.runtime import system_runtime

if TYPE_CHECKING:
    from ottla.pipelines.report import JobReport
    from ottla.pipelines.spec import Job, Pipeline
    from ottla.pipelines.stream_run import StreamRun

logger = logging.getLogger(__name__)

EVERY_S = 1.0
_MAX_ERROR_CHARS = 1_000


def document(
    pipeline: Pipeline,
    streams: Sequence[StreamRun],
    reports: Sequence[JobReport] = (),
    *,
    started_ms: int,
    now_ms: int,
    spark_ui: str | None = None,
) -> dict[str, Any]:
    """Names of topics and folders, and figures: nothing of settings, which may hold secrets."""
    by_name = {report.name: report for report in reports}
    jobs = [_job(job, streams, by_name.get(job.name)) for job in pipeline.jobs]
    return {
        "version": VERSION,
        "pid": os.getpid(),
        "name": pipeline.name,
        "bootstrap_servers": pipeline.bootstrap_servers or "",
        "started_ms": started_ms,
        "updated_ms": now_ms,
        "spark_ui": spark_ui,
        "jobs": jobs,
    }


def _job(job: Job, streams: Sequence[StreamRun], report: JobReport | None) -> dict[str, Any]:
    own = [run for run in streams if run.job is job]
    dead_letter = getattr(job, "dead_letter", None)
    writes = [topic.name for topic in job.writes()]
    path = getattr(job, "path", None)
    told: dict[str, Any] = {
        "name": job.name,
        "kind": job.kind,
        "reads": list(job.reads()),
        "writes": [name for name in writes if dead_letter is None or name != dead_letter.name],
        "dead_letter": None if dead_letter is None else dead_letter.name,
        # The last name is enough to know it by.
        "outside": None if path is None else Path(str(path)).name,
        "state": "waiting",
    }
    if own:
        first, rest = own[0], own[1:]
        progress = first.progress
        told |= {
            "state": _worst([run.state for run in own]),
            "rows_in": progress.rows_in,
            "rows_out": progress.rows_out,
            "rows_per_s": round(first.rows_per_s, 3),
            "lag": progress.lag,
            "batch_s": progress.batch_s,
            "batches": progress.batches,
            "restarts": sum(run.restarts for run in own),
            "dead_letters": sum(run.progress.rows_out for run in rest) if rest else None,
            "error": next((run.error[:_MAX_ERROR_CHARS] for run in own if run.error), None),
        }
    elif report is not None:
        error = None if report.error is None else report.error[:_MAX_ERROR_CHARS]
        told |= {
            "state": report.state,
            "rows_in": report.rows_in,
            "rows_out": report.rows_out,
            "error": error,
        }
    return told


_ORDER = ("failed", "restarting", "waiting", "running", "stopped", "finished")


def _worst(states: Sequence[str]) -> str:
    """Of the queries of one job."""
    return min(states, key=lambda state: _ORDER.index(state) if state in _ORDER else len(_ORDER))


def spark_ui(spark: Any) -> str | None:
    """None where it is turned off, or Spark runs elsewhere (Spark Connect)."""
    try:
        url = spark.sparkContext.uiWebUrl
    except Exception:  # Spark Connect has no context, and says so in several ways
        return None
    return url if isinstance(url, str) else None


class Announcer:
    """What a run says of itself, whenever it is asked. `streams` and `reports` are the run's own
    lists, which grow."""

    def __init__(
        self,
        pipeline: Pipeline,
        streams: Sequence[StreamRun],
        reports: Sequence[JobReport],
        spark: Any,
    ) -> None:
        self._pipeline = pipeline
        self._streams = streams
        self._reports = reports
        self._clock = system_runtime().clock
        self._started_ms = self._clock.now_ms()
        self._spark_ui = spark_ui(spark)

    def __call__(self) -> bytes:
        told = document(
            self._pipeline,
            tuple(self._streams),
            tuple(self._reports),
            started_ms=self._started_ms,
            now_ms=self._clock.now_ms(),
            spark_ui=self._spark_ui,
        )
        return json.dumps(told).encode()


@contextlib.contextmanager
def announced(
    announcer: Announcer, environ: Mapping[str, str] = os.environ, every_s: float = EVERY_S
) -> Iterator[Path | None]:
    """Keeps the file up to date until the end; a folder that cannot be had is no reason to stop."""
    folder = announcements(environ)
    if folder is None:
        yield None
        return
    path = folder / f"{os.getpid()}.json"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(path, announcer())
    except OSError as error:
        logger.info("not announced: %s", error)
        yield None
        return
    over = threading.Event()
    thread = threading.Thread(
        target=_keep, args=(path, announcer, over, every_s), name="ottla-announce", daemon=True
    )
    thread.start()
    try:
        yield path
    finally:
        over.set()
        thread.join()
        path.unlink(missing_ok=True)


def _keep(path: Path, announcer: Announcer, over: threading.Event, every_s: float) -> None:
    while not over.wait(every_s):
        try:
            _write(path, announcer())
        except OSError as error:
            logger.info("not announced: %s", error)
            return


def _write(path: Path, text: bytes) -> None:
    """In one step: nobody reads half of it."""
    if len(text) > MAX_BYTES:
        return
    half = path.with_suffix(".part")
    with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(text)
    half.replace(path)
