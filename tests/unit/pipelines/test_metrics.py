"""A pipeline's metrics on the loopback interface."""

from __future__ import annotations

import http.client
import socket

import pytest

from ottla.pipelines import metrics


def asked(port: int, host: str | None) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.putrequest("GET", "/metrics", skip_host=True)
    if host is not None:
        connection.putheader("Host", host)
    connection.endheaders()
    status = connection.getresponse().status
    connection.close()
    return status


def test_only_by_local_names() -> None:
    """A page whose name was made to point here sends that name."""
    with metrics.serve(metrics.JobMetrics("p"), 0) as port:
        for host in (None, "localhost", f"LOCALHOST:{port}", "127.0.0.1", f"127.0.0.1:{port}"):
            assert asked(port, host) == 200
        for host in ("rebound.example", f"rebound.example:{port}", "localhost.example", ""):
            assert asked(port, host) == 403


def test_half_sent_requests_end_and_do_not_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "REQUEST_TIMEOUT_S", 0.1)
    with metrics.serve(metrics.JobMetrics("p"), 0) as port:
        rude = [socket.create_connection(("127.0.0.1", port), 30) for _ in range(20)]
        for peer in rude:
            peer.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        assert asked(port, "localhost") == 200
        for peer in rude:
            assert peer.recv(1) == b""
            peer.close()
