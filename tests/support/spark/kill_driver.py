"""The Spark driver that the tests kill: topic -> shuffle -> topic -> Parquet, until SIGTERM.

Run as `python kill_driver.py SETTINGS.json`. At SIGTERM it reads what is there to the end
(`Trigger.AvailableNow`) and leaves with 0. A query that fails is started again, as under any
supervisor; the test's own kills are what makes them fail.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ottla.pipelines import Archive, Pipeline, Source, run_pipeline
from ottla.pipelines.runner import PipelineRun
from ottla.pipelines.spec_keys import Restart
from ottla.spark.launch.session import session, stop_session

MAX_RESTARTS = 50
POLL_S = 0.2
DRAIN_TIMEOUT_S = 400
SLOW_ROWS = 25


@dataclass(frozen=True)
class Settings:
    servers: str
    source: str
    target: str
    folder: str
    cores: int = 2
    guarantee: str = "exactly_once"
    records_per_batch: int = 1500
    # How long the stream takes over each row; it has no shuffle then.
    row_ms: float = 0.0
    transaction_timeout_ms: int = 300_000

    @property
    def archive(self) -> Path:
        return Path(self.folder) / "archive"

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))


class Copy:
    """The query with the shuffle; started again where it has failed."""

    def __init__(self, spark: Any, settings: Settings) -> None:
        self._spark = spark
        self._settings = settings
        self._restarts = 0
        self._query: Any = self._start(trigger={"processingTime": "100 milliseconds"})

    def poll(self) -> None:
        """A start may fail as a query may: it asks a Python worker for the source's columns."""
        if self._query is None or not self._query.isActive:
            if self._query is not None:
                self._after_failure(self._query.exception())
                self._query = None
            try:
                self._query = self._start(trigger={"processingTime": "100 milliseconds"})
            except Exception as error:
                self._after_failure(error)

    def drain(self) -> None:
        if self._query is not None:
            self._query.stop()
        while True:
            try:
                self._query = self._start(trigger={"availableNow": True})
                if not self._query.awaitTermination(DRAIN_TIMEOUT_S):
                    raise SystemExit("the copy does not come to its end")
                return
            except Exception as error:
                self._after_failure(error)

    def _after_failure(self, error: object) -> None:
        self._restarts += 1
        say(f"copy failed: {error}")
        if self._restarts > MAX_RESTARTS:
            raise SystemExit("the copy fails again and again")

    def _start(self, trigger: dict[str, Any]) -> Any:
        settings = self._settings
        connection = {"kafka.bootstrap.servers": settings.servers}
        frame = self._spark.readStream.format("ottla").options(
            **connection,
            subscribe=settings.source,
            startingOffsets="earliest",
            maxOffsetsPerTrigger=str(settings.records_per_batch),
        )
        rows = frame.load().selectExpr("key", "value")
        if settings.row_ms:
            # A long task that runs again needs the order of its rows: no shuffle.
            shuffled = rows.mapInArrow(slowly(settings.row_ms), "key BINARY, value BINARY")
        else:
            # No number of partitions: adaptive execution would be free to choose it.
            shuffled = rows.repartition("key")
        sink = shuffled.writeStream.format("ottla").options(
            **connection,
            topic=settings.target,
            deliveryGuarantee=settings.guarantee,
            **{"kafka.transaction.timeout.ms": str(settings.transaction_timeout_ms)},
            checkpointLocation=f"{settings.folder}/checkpoint-copy",
        )
        return sink.trigger(**trigger).start()


def slowly(row_ms: float) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """A function that takes its time over each row and hands rows on a few at a time."""

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        import time

        for batch in batches:
            for first in range(0, batch.num_rows, SLOW_ROWS):
                some = batch.slice(first, SLOW_ROWS)
                time.sleep(some.num_rows * row_ms / 1000)
                yield some

    return work


def archive_pipeline(settings: Settings, trigger: str) -> Pipeline:
    job = Archive(
        name="archive",
        from_=(Source("copied", settings.target),),
        path=str(settings.archive),
        max_records_per_batch=settings.records_per_batch,
        # Small files are joined often, so that kills meet that too.
        compact_files=5,
    )
    return Pipeline(
        jobs=(job,),
        bootstrap_servers=settings.servers,
        checkpoints=f"{settings.folder}/checkpoint-archive",
        trigger=trigger,
        restart=Restart(attempts=MAX_RESTARTS, pause_s=0.2),
    )


def say(words: str) -> None:
    print(f"driver: {words}", file=sys.stderr, flush=True)


def main() -> None:
    settings = Settings(**json.loads(Path(sys.argv[1]).read_text()))
    wanted = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: wanted.set())
    spark = session(
        "kills",
        # A task may fail three times before its query does.
        master=f"local[{settings.cores},4]",
        conf={
            "spark.sql.shuffle.partitions": "4",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "WARN",
            # Spark gathers rows before it hands them to a worker.
            **({"spark.sql.execution.arrow.maxRecordsPerBatch": "25"} if settings.row_ms else {}),
        },
    )
    copy = Copy(spark, settings)
    archive = PipelineRun(archive_pipeline(settings, "100 milliseconds"), spark)
    archive.start()
    say("streams are running")
    while not wanted.wait(POLL_S):
        copy.poll()
        if not archive.poll():
            raise SystemExit("\n".join(archive.report().lines()))
    archive.stop()
    copy.drain()
    report = run_pipeline(archive_pipeline(settings, "available_now"), spark)
    say("\n".join(report.lines()))
    stop_session(spark)
    if not report.is_sound:
        raise SystemExit("the archive could not be finished")


if __name__ == "__main__":
    main()
