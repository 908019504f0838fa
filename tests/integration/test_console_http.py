"""The console's HTTP, by a client that is no browser and means no good."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from ottla.testing.cluster import Cluster, free_ports
from ottla.testing.console import running_console


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return str(self.json()["error"]["code"])


class Client:
    def __init__(self, address: str) -> None:
        self.netloc = urlsplit(address).netloc
        self.cookie: str | None = None
        self.token: str | None = None

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        connection = http.client.HTTPConnection(self.netloc, timeout=30)
        sent = dict(headers or {})
        if self.cookie is not None:
            sent["Cookie"] = self.cookie
        connection.request(method, path, body, sent)
        answer = connection.getresponse()
        lines = {name.lower(): value for name, value in answer.getheaders()}
        found = Answer(answer.status, lines, answer.read())
        connection.close()
        return found

    def meet(self) -> dict[str, Any]:
        answer = self.ask("GET", "/api/v1/session")
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        session: dict[str, Any] = answer.json()
        self.token = session["token"]
        return session


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Cluster(brokers=1) as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture(scope="module")
def address(bootstrap: str) -> Iterator[str]:
    with running_console(bootstrap) as address:
        yield address


def test_a_cookie_that_scripts_and_other_sites_do_not_get(address: str) -> None:
    answer = Client(address).ask("GET", "/api/v1/session")
    flags = {part.strip().lower() for part in answer.headers["set-cookie"].split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/"} <= flags
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["/", "/topics/x", "/api/v1/cluster", "/static/app.js", "/api/x"])
def test_every_answer_says_what_may_run(address: str, path: str) -> None:
    answer = Client(address).ask("GET", path)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"


def test_nothing_without_a_session(address: str) -> None:
    answer = Client(address).ask("GET", "/api/v1/cluster")
    assert (answer.status, answer.code) == (401, "NO_SESSION")


def test_a_write_needs_the_token(address: str) -> None:
    client = Client(address)
    client.meet()
    for token in ("", "wrong", "ü"):
        answer = client.ask("DELETE", "/api/v1/session", headers={"X-Ottla-Token": token})
        assert (answer.status, answer.code) == (403, "WRONG_TOKEN")
    answer = client.ask("DELETE", "/api/v1/session", headers={"X-Ottla-Token": client.token or ""})
    assert answer.status == 200
    assert client.ask("GET", "/api/v1/cluster").code == "NO_SESSION"


def test_a_write_of_another_site(address: str) -> None:
    client = Client(address)
    client.meet()
    headers = {"X-Ottla-Token": client.token or "", "Origin": "http://evil.example"}
    assert client.ask("DELETE", "/api/v1/session", headers=headers).code == "WRONG_ORIGIN"
    assert client.ask("GET", "/", headers={"Host": "evil.example"}).code == "WRONG_HOST"


def test_a_body_is_bounded(address: str) -> None:
    client = Client(address)
    client.meet()
    body = b'{"username": "' + b"x" * 2_000_000 + b'"}'
    answer = client.ask("POST", "/api/v1/session", body, {"X-Ottla-Token": client.token or ""})
    assert (answer.status, answer.code) == (413, "BODY_TOO_LARGE")


@pytest.mark.parametrize(
    "path",
    [
        "/static/../settings.py",
        "/static/%2e%2e/settings.py",
        "/static/..%2f..%2fcli/main.py",
        "/static//etc/passwd",
        "/static/%2fetc%2fpasswd",
    ],
)
def test_only_the_consoles_own_files(address: str, path: str) -> None:
    answer = Client(address).ask("GET", path)
    assert b"root:" not in answer.body and b"import" not in answer.body
    assert answer.status == 404 or b"<!doctype html>" in answer.body


def test_addresses_that_there_are_not(address: str) -> None:
    client = Client(address)
    client.meet()
    for path in ("/api/v1/nothing", "/api/v1/live/nothing", "/api/"):
        answer = client.ask("GET", path)
        assert (answer.status, answer.code) == (404, "NOT_FOUND")


def test_the_document_names_what_there_is(address: str) -> None:
    document = Client(address).ask("GET", "/api/v1/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    assert "/api/v1/cluster" in document["paths"]


def test_the_cluster_is_shown(address: str, bootstrap: str) -> None:
    client = Client(address)
    assert client.meet()["bootstrap"] == bootstrap
    assert [b["id"] for b in client.ask("GET", "/api/v1/cluster").json()["brokers"]] == [0]


def test_a_cluster_that_is_not_there_is_said_in_words() -> None:
    with running_console(f"127.0.0.1:{free_ports(1)}") as address:
        client = Client(address)
        client.meet()
        answer = client.ask("GET", "/api/v1/cluster")
    assert answer.status in (503, 504, 502)
    assert "Traceback" not in answer.json()["error"]["message"]


def ottla(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ottla", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        run = ottla("console", "--port", str(port), "--bootstrap-server", "localhost:1")
    assert run.returncode == 1
    assert run.stderr == f"Error: 127.0.0.1:{port} is in use: choose another --port\n"


def test_a_console_that_dies_takes_nobody_along(tmp_path: Path) -> None:
    first = free_ports(3)
    command = [sys.executable, "-m", "ottla", "up", "--data", str(tmp_path / "data")]
    command += ["--port", str(first), "--zookeeper-port", str(first + 1)]
    command += ["--console", str(first + 2)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stderr is not None
    pids: dict[str, int] = {}
    try:
        for line in process.stdout:
            name, _, rest = line.partition(": pid ")
            if rest:
                pids[name] = int(rest)
            if line.startswith("ready:"):
                break
        client = Client(f"http://127.0.0.1:{first + 2}")
        client.meet()
        assert client.ask("GET", "/api/v1/cluster").status == 200
        loaded = Path(f"/proc/{pids['broker-0']}/maps").read_text()
        assert "msgspec" not in loaded, "a broker has loaded what only the console needs"
        assert "msgspec" in Path(f"/proc/{pids['console']}/maps").read_text()
        os.kill(pids["console"], signal.SIGKILL)
        assert process.stderr.readline().startswith("console (pid ")
        answer = ottla("cluster", "--bootstrap-server", f"127.0.0.1:{first}")
        assert answer.returncode == 0, answer.stderr
    finally:
        process.terminate()
        process.wait(timeout=60)
        process.stdout.close()
        process.stderr.close()
