"""Prometheus metrics of a pipeline's jobs, served while it runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from ottla.errors import OttlaError

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from prometheus_client import Metric

    from ottla.pipelines.stream_run import StreamRun

LOOPBACK = "127.0.0.1"
LOCAL_NAMES = ("localhost", LOOPBACK)
REQUEST_TIMEOUT_S = 10


class JobMetrics:
    """A collector for prometheus_client: reads the jobs when it is asked."""

    def __init__(self, pipeline: str) -> None:
        self._pipeline = pipeline
        self.streams: Sequence[StreamRun] = ()

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        labels = ("pipeline", "job")
        rows = CounterMetricFamily("ottla_pipeline_rows", "Rows read.", labels=labels)
        written = CounterMetricFamily("ottla_pipeline_rows_written", "Rows written.", labels=labels)
        batches = CounterMetricFamily("ottla_pipeline_batches", "Micro-batches.", labels=labels)
        restarts = CounterMetricFamily("ottla_pipeline_restarts", "Restarts.", labels=labels)
        speed = GaugeMetricFamily("ottla_pipeline_rows_per_second", "Of late.", labels=labels)
        lag = GaugeMetricFamily("ottla_pipeline_lag", "Records not read yet.", labels=labels)
        batch_s = GaugeMetricFamily(
            "ottla_pipeline_batch_seconds", "Time of the last micro-batch.", labels=labels
        )
        running = GaugeMetricFamily("ottla_pipeline_running", "1 while it runs.", labels=labels)
        for run in self.streams:
            job = (self._pipeline, run.name)
            rows.add_metric(job, run.progress.rows_in)
            written.add_metric(job, run.progress.rows_out)
            batches.add_metric(job, run.progress.batches)
            restarts.add_metric(job, run.restarts)
            speed.add_metric(job, run.rows_per_s)
            running.add_metric(job, float(run.state == "running"))
            if run.progress.lag is not None:
                lag.add_metric(job, run.progress.lag)
            if run.progress.batch_s is not None:
                batch_s.add_metric(job, run.progress.batch_s)
        yield from (rows, written, batches, restarts, speed, lag, batch_s, running)


@contextmanager
def serve(metrics: JobMetrics, port: int) -> Iterator[int]:
    """Serves `/metrics` on the loopback interface; gives the port."""
    from prometheus_client import CollectorRegistry, start_http_server

    registry = CollectorRegistry()
    registry.register(metrics)
    try:
        server, thread = start_http_server(port, LOOPBACK, registry)
    except OSError as error:
        raise OttlaError(f"metrics: port {port}: {error.strerror or error}") from None
    # Half a request must not keep a thread for ever.
    handler = cast("type", server.RequestHandlerClass)
    server.RequestHandlerClass = type("Handler", (handler,), {"timeout": REQUEST_TIMEOUT_S})
    server.set_app(_for_local_names(cast("WSGIApplication", server.get_app())))
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _for_local_names(app: WSGIApplication) -> WSGIApplication:
    """A page in a browser whose name was made to point here sends that name: it gets nothing."""

    def guarded(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        name, _, port = environ.get("HTTP_HOST", LOOPBACK).rpartition(":")
        host = (name if name and port.isdigit() else environ.get("HTTP_HOST", LOOPBACK)).lower()
        if host not in LOCAL_NAMES:
            start_response("403 Forbidden", [("Content-Type", "text/plain")])
            return [b"ask for localhost\n"]
        return app(environ, start_response)

    return guarded
