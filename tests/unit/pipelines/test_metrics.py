"""A pipeline's metrics: what they tell, and whom."""

from __future__ import annotations

import http.client
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.metrics import http as responder
from ottla.errors import OttlaError
from ottla.pipelines import metrics
from ottla.pipelines.progress import StreamProgress
from ottla.pipelines.report import JobReport
from ottla.pipelines.spec_keys import Address

HERE = Address("127.0.0.1", 0)


def asked(port: int, host: str | None) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.putrequest("GET", "/metrics", skip_host=True)
    if host is not None:
        connection.putheader("Host", host)
    connection.endheaders()
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, text


def stream(name: str, job: Any, **values: Any) -> Any:
    progress = StreamProgress()
    progress.rows_in, progress.rows_out, progress.batches, progress.left_out = 1234, 1230, 3, 4
    progress.lag, progress.batch_s = 56, 0.5
    told = {"state": "running", "rows_per_s": 78.0, "error": None, "restarts": 1} | values
    return SimpleNamespace(name=name, job=job, progress=progress, **told)


def test_every_figure_of_every_job() -> None:
    job = SimpleNamespace(name="j")
    collector = metrics.JobMetrics("p")
    collector.streams = [
        stream("j", job, state="restarting", error='no "disk"'),
        stream("j-dead-letter", job),
    ]
    collector.reports = [JobReport("r", "restore", "failed", 7, error="gone")]
    with metrics.serve(collector, HERE) as port:
        status, text = asked(port, "localhost")
    assert status == 200
    for name, value in (
        ("rows_total", 1234),
        ("rows_written_total", 1230),
        ("dead_letters_total", 1230),
        ("left_out_total", 4),
        ("batches_total", 3),
        ("restarts_total", 1),
        ("rows_per_second", 78),
        ("lag", 56),
        ("batch_seconds", 0.5),
        ("running", 0),
    ):
        assert f'ottla_pipeline_{name}{{job="j",pipeline="p"}} {float(value)}' in text
    assert 'dead_letters_total{job="j-dead-letter"' not in text
    for line in (
        'ottla_pipeline_state{job="j",pipeline="p",state="restarting"} 1.0',
        'ottla_pipeline_state{job="j",pipeline="p",state="running"} 0.0',
        'ottla_pipeline_state{job="r",pipeline="p",state="failed"} 1.0',
        'ottla_pipeline_last_error{error="no \\"disk\\"",job="j",pipeline="p"} 1.0',
        'ottla_pipeline_rows_total{job="r",pipeline="p"} 7.0',
    ):
        assert line in text


def test_only_by_names_that_are_its_own() -> None:
    """A page whose name was made to point here sends that name."""
    with metrics.serve(metrics.JobMetrics("p"), HERE._replace(hosts=("worker-1",))) as port:
        for host in ("localhost", f"LOCALHOST:{port}", f"127.0.0.1:{port}", f"worker-1:{port}"):
            assert asked(port, host)[0] == 200
        for host in ("rebound.example", f"rebound.example:{port}", "localhost.example"):
            assert asked(port, host) == (
                403,
                "by this name nobody asks here: use an address, or add the name to metrics.hosts\n",
            )
        assert asked(port, None)[0] == 400


def test_half_sent_requests_end_and_do_not_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responder, "_HEAD_TIMEOUT_S", 0.1)
    with metrics.serve(metrics.JobMetrics("p"), HERE) as port:
        rude = [socket.create_connection(("127.0.0.1", port), 30) for _ in range(20)]
        for peer in rude:
            peer.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        assert asked(port, "localhost")[0] == 200
        for peer in rude:
            try:
                assert peer.recv(1) == b""
            except ConnectionResetError:
                pass
            peer.close()


def test_a_port_that_cannot_be_had_is_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(OttlaError, match=f"^metrics: 127.0.0.1:{port}: .*[Aa]ddress already"),
            metrics.serve(metrics.JobMetrics("p"), Address("127.0.0.1", port)),
        ):
            pass
