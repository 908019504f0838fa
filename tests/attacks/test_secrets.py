"""What somebody without rights can learn, and whom a page of metrics answers."""

from __future__ import annotations

import base64
import hashlib
import http.client
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ottla.bench import attack_wire as wire
from ottla.bench.attack_sides import HOST, BrokerSide, StoreSide
from ottla.testing.cluster import free_ports
from ottla.zk import jute

RECURSIVE = 1


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreSide]:
    with StoreSide(tmp_path_factory.mktemp("secrets")) as store:
        yield store


def _create_for_one(path: str) -> bytes:
    """A node that only the user of `addauth digest u:p` may read."""
    digest = "u:" + base64.b64encode(hashlib.sha1(b"u:p").digest()).decode()
    acl = (
        jute.INT.pack(1)
        + jute.INT.pack(31)
        + jute.write_string("digest")
        + jute.write_string(digest)
    )
    return jute.write_string(path) + jute.write_buffer(b"") + acl + jute.INT.pack(0)


def test_recursive_watches_keep_to_acls(store: StoreSide) -> None:
    """CVE-2024-23944: names of nodes that a client may not read came to it as events."""
    with wire.StorePeer(store.port) as watcher, wire.StorePeer(store.port) as owner:
        error, _ = watcher.ask(jute.OP_ADD_WATCH, jute.write_string("/") + jute.INT.pack(RECURSIVE))
        assert error == 0
        assert owner.ask(jute.OP_CREATE, _create_for_one("/secret"))[0] == 0
        assert owner.ask(jute.OP_CREATE, wire.create_body("/open"))[0] == 0
        seen = b""
        while b"/open" not in seen:
            event = watcher.read()
            assert struct.unpack_from(">i", event)[0] == jute.XID_EVENT
            seen += event
    assert b"/secret" not in seen


@pytest.fixture(scope="module")
def metrics_port(store: StoreSide, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    port = free_ports(1)
    folder = tmp_path_factory.mktemp("metrics")
    with BrokerSide(folder, store, {"ottla.metrics.port": str(port)}):
        yield port


def _scrape(port: int, host: str) -> int:
    connection = http.client.HTTPConnection(HOST, port, timeout=20)
    try:
        connection.putrequest("GET", "/metrics", skip_host=True)
        connection.putheader("Host", host)
        connection.endheaders()
        return connection.getresponse().status
    finally:
        connection.close()


def test_metrics_answer_who_asked_for_them(metrics_port: int) -> None:
    """A page elsewhere whose name was pointed here (DNS rebinding) reads nothing."""
    assert _scrape(metrics_port, f"{HOST}:{metrics_port}") == 200
    assert _scrape(metrics_port, f"localhost:{metrics_port}") == 200
    assert _scrape(metrics_port, f"evil.example:{metrics_port}") in (400, 403, 421)


def test_half_sent_requests_block_no_scrape(metrics_port: int) -> None:
    with ExitStack() as stack:
        for _ in range(50):
            peer = stack.enter_context(socket.create_connection((HOST, metrics_port)))
            peer.sendall(b"GET /metrics HTTP/1.1\r\nHost: ")
        assert _scrape(metrics_port, f"{HOST}:{metrics_port}") == 200


def test_no_password_is_readable_by_others(tmp_path: Path, store: StoreSide) -> None:
    """Nor does one stand in the log."""
    from ottla.bench.attack_sides import STRANGERS_PASSWORD, SecuredSide

    with SecuredSide(tmp_path / "secured", store) as broker:
        with pytest.raises(ConnectionError), wire.logged_in(broker.clients_port, "x", "hunter2"):
            raise AssertionError("let in")
        log = broker.log.read_text()
    assert "hunter2" not in log
    assert STRANGERS_PASSWORD not in log
