"""Prometheus metrics of a pipeline's jobs, served while it runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.metrics.http import MetricsServer
from ottla.errors import OttlaError
from ottla.runtime import system_runtime

if TYPE_CHECKING:
    from prometheus_client import Metric

    from ottla.pipelines.report import JobReport
    from ottla.pipelines.spec_keys import Address
    from ottla.pipelines.stream_run import StreamRun

STATES = ("waiting", "running", "restarting", "finished", "stopped", "failed")


class _Family(NamedTuple):
    name: str
    words: str
    is_counter: bool = False


_FAMILIES = (
    _Family("rows", "Rows read.", is_counter=True),
    _Family("rows_written", "Rows written.", is_counter=True),
    _Family("dead_letters", "Records that went to the dead letters.", is_counter=True),
    _Family("left_out", "Records that fitted no schema and went nowhere.", is_counter=True),
    _Family("batches", "Micro-batches.", is_counter=True),
    _Family("restarts", "Restarts.", is_counter=True),
    _Family("rows_per_second", "Of late."),
    _Family("lag", "Records not read yet."),
    _Family("batch_seconds", "Time of the last micro-batch."),
    _Family("running", "1 while it runs."),
)


class JobMetrics:
    """A collector for prometheus_client: reads the jobs when it is asked."""

    def __init__(self, pipeline: str) -> None:
        self._pipeline = pipeline
        self.streams: Sequence[StreamRun] = ()
        # Of jobs that are not streams and have ended.
        self.reports: Sequence[JobReport] = ()

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        labels = ("pipeline", "job")
        streams, reports = tuple(self.streams), tuple(self.reports)
        told = {run.name: _figures(run, streams) for run in streams}
        told |= {report.name: {"rows": float(report.rows_in)} for report in reports}
        for family in _FAMILIES:
            kind = CounterMetricFamily if family.is_counter else GaugeMetricFamily
            metric = kind(f"ottla_pipeline_{family.name}", family.words, labels=labels)
            for name, figures in told.items():
                if family.name in figures:
                    metric.add_metric((self._pipeline, name), figures[family.name])
            yield metric
        state = GaugeMetricFamily(
            "ottla_pipeline_state", "1 for the state that it is in.", labels=(*labels, "state")
        )
        error = GaugeMetricFamily(
            "ottla_pipeline_last_error", "1, with the last failure.", labels=(*labels, "error")
        )
        jobs: list[StreamRun | JobReport] = [*streams, *reports]
        for job in jobs:
            for one in STATES:
                state.add_metric((self._pipeline, job.name, one), float(job.state == one))
            if job.error:
                error.add_metric((self._pipeline, job.name, job.error), 1.0)
        yield from (state, error)


def _figures(run: StreamRun, streams: Sequence[StreamRun]) -> dict[str, float]:
    progress = run.progress
    figures = {
        "rows": float(progress.rows_in),
        "rows_written": float(progress.rows_out),
        "left_out": float(progress.left_out),
        "batches": float(progress.batches),
        "restarts": float(run.restarts),
        "rows_per_second": run.rows_per_s,
        "running": float(run.state == "running"),
    }
    if progress.lag is not None:
        figures["lag"] = float(progress.lag)
    if progress.batch_s is not None:
        figures["batch_seconds"] = progress.batch_s
    second = [other for other in streams if other.job is run.job and other is not run]
    if second and run.name == run.job.name:
        figures["dead_letters"] = float(sum(other.progress.rows_out for other in second))
    return figures


def url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


@contextmanager
def serve(
    metrics: JobMetrics,
    address: Address,
    documents: Mapping[str, Callable[[], bytes]] | None = None,
) -> Iterator[int]:
    """Serves `/metrics` from a thread of its own, as a broker does, with JSON documents beside it;
    gives the port."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    registry.register(metrics)

    def render() -> Generator[None, None, bytes]:
        yield
        return generate_latest(registry)

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="ottla-metrics", daemon=True)
    thread.start()
    server = MetricsServer(
        render, (address.host, *address.hosts), setting="metrics.hosts", documents=documents
    )
    start = server.start(system_runtime().network, address.host, address.port)
    try:
        asyncio.run_coroutine_threadsafe(start, loop).result()
        yield server.port
    except OSError as error:
        where = f"{address.host}:{address.port}"
        raise OttlaError(f"metrics: {where}: {error.strerror or error}") from None
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
