"""Files and addresses, within bounds."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from ottla.security.sasl.oauth.documents import MAX_BYTES, read_document


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/gone":
            self.send_error(404)
            return
        if self.path == "/elsewhere":
            self.send_response(302)
            self.send_header("Location", "file:///etc/passwd")
            self.end_headers()
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"x" * (MAX_BYTES + 1) if self.path == "/huge" else b"here")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body + self.headers["X-Who"].encode())

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


async def test_what_is_there(address: str, tmp_path: Path) -> None:
    assert await read_document(f"{address}/keys") == b"here"
    assert await read_document(f"{address}/", b"ask ", {"X-Who": "me"}) == b"ask me"
    file = tmp_path / "a token"
    file.write_text("t")
    assert await read_document(f"file://{tmp_path!s}/a%20token") == b"t"


@pytest.mark.parametrize("path", ["/gone", "/huge", "/elsewhere"])
async def test_what_is_not(address: str, path: str) -> None:
    with pytest.raises(OSError):
        await read_document(address + path)


@pytest.mark.parametrize(
    "url", ["", "keys.json", "ftp://localhost/keys", "file:///no/such", "http://127.0.0.1:1/"]
)
async def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(OSError):
        await read_document(url)


async def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_bytes(b"x" * (MAX_BYTES + 1))
    with pytest.raises(OSError, match="more than"):
        await read_document(file.as_uri())
