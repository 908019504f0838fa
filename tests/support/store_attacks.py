"""Rude requests for the store, byte for byte, and a real `ottla zookeeper` process to send them to.

The builders return whole frames, so that whoever attacks may also cut, repeat and mix them.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from ottla.metadata.store import OPEN_ACL, Acl, CreateMode
from ottla.zk import jute

ROOT = Path(__file__).resolve().parents[2]


# --- requests -----------------------------------------------------------------------------------


def connect_frame(
    timeout_ms: int = 10_000, session_id: int = 0, password: bytes = bytes(16), zxid: int = 0
) -> bytes:
    head = jute.CONNECT_REQUEST.pack(0, zxid, timeout_ms, session_id)
    return jute.frame(head + jute.write_buffer(password) + b"\0")


def request(xid: int, operation: int, body: bytes = b"") -> bytes:
    return jute.frame(jute.REQUEST_HEADER.pack(xid, operation) + body)


def create_body(
    path: str,
    data: bytes | None = b"",
    mode: int = CreateMode.PERSISTENT,
    acl: Sequence[Acl] = OPEN_ACL,
) -> bytes:
    acls = jute.write_acls(OPEN_ACL if acl == OPEN_ACL else tuple(acl))
    return jute.write_string(path) + jute.write_buffer(data) + acls + jute.INT.pack(mode)


def path_body(path: str, *, watch: bool = False) -> bytes:
    """Of exists, getData, getChildren."""
    return jute.write_string(path) + (b"\1" if watch else b"\0")


def multi_body(operations: Sequence[tuple[int, bytes]]) -> bytes:
    parts = [jute.MULTI_HEADER.pack(kind, False, -1) + body for kind, body in operations]
    return b"".join(parts) + jute.END_OF_MULTI


def multi_read_body(paths: Sequence[str], operation: int = jute.OP_GET_DATA) -> bytes:
    return multi_body([(operation, path_body(path)) for path in paths])


def set_watches_body(
    data: Sequence[str] = (), exist: Sequence[str] = (), child: Sequence[str] = (), zxid: int = 0
) -> bytes:
    lists = b"".join(jute.write_strings(list(paths)) for paths in (data, exist, child))
    return jute.LONG.pack(zxid) + lists


def auth_body(scheme: str, credential: bytes) -> bytes:
    return jute.INT.pack(0) + jute.write_string(scheme) + jute.write_buffer(credential)


def add_watch_body(path: str, *, recursive: bool) -> bytes:
    return jute.write_string(path) + jute.INT.pack(1 if recursive else 0)


# --- clients ------------------------------------------------------------------------------------


class RudeClient:
    """A blocking connection that sends what it is told and reads only when it is told to."""

    def __init__(self, port: int, source: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection(
            ("127.0.0.1", port), timeout=60, source_address=(source, 0)
        )
        self.session_id = 0
        self.password = bytes(16)
        self._xid = 0

    def __enter__(self) -> RudeClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def open_session(self, timeout_ms: int = 30_000) -> RudeClient:
        self.socket.sendall(connect_frame(timeout_ms))
        packet = self.packet()
        self.session_id = jute.CONNECT_RESPONSE.unpack_from(packet)[2]
        self.password = packet[20:36]
        return self

    def send(self, operation: int, body: bytes = b"") -> int:
        self._xid += 1
        self.socket.sendall(request(self._xid, operation, body))
        return self._xid

    def packet(self) -> bytes:
        length = struct.unpack(">i", self._exactly(4))[0]
        return self._exactly(length)

    def answer(self) -> tuple[int, int, bytes]:
        """xid, error, body of the next packet, which may be an event (xid -1)."""
        packet = self.packet()
        xid, _, error = jute.REPLY_HEADER.unpack_from(packet)
        return xid, error, packet[16:]

    def ask(self, operation: int, body: bytes = b"") -> tuple[int, bytes]:
        """Error and body of the answer; events before it are passed over."""
        asked = self.send(operation, body)
        while True:
            xid, error, answer = self.answer()
            if xid == asked:
                return error, answer

    def create_many(self, operations: Sequence[bytes], in_one: int = 500) -> None:
        """Bodies of creates, many in one multi."""
        for start in range(0, len(operations), in_one):
            part = operations[start : start + in_one]
            error, answer = self.ask(jute.OP_MULTI, multi_body([(jute.OP_CREATE, b) for b in part]))
            if error or answer[:4] != jute.INT.pack(jute.OP_CREATE):
                raise AssertionError(f"a create was refused: {error} {answer[:60]!r}")

    def is_closed(self, timeout_s: float = 20) -> bool:
        """Whether the store hangs up, whatever it says before."""
        self.socket.settimeout(timeout_s)
        try:
            while self.socket.recv(1 << 20):
                pass
        except TimeoutError:
            return False
        except ConnectionError:
            pass
        return True

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            piece = self.socket.recv(min(size - len(parts), 1 << 20))
            if not piece:
                raise ConnectionResetError("the store hung up")
            parts += piece
        return bytes(parts)


def word(port: int, name: bytes) -> str:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as asked:
        asked.sendall(name)
        return b"".join(iter(lambda: asked.recv(1 << 16), b"")).decode()


class GoodClient:
    """Asks for a node again and again in a thread of its own; knows how long it had to wait."""

    def __init__(self, port: int, source: str = "127.0.0.9") -> None:
        self._port = port
        self._source = source
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self.answers = 0
        self.longest_s = 0.0
        self.failure: BaseException | None = None

    def __enter__(self) -> GoodClient:
        self._client = RudeClient(self._port, self._source).open_session()
        self._client.ask(jute.OP_EXISTS, path_body("/"))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(60)
        self._client.close()

    def _ask(self) -> None:
        try:
            while not self._stopped.is_set():
                begun = time.monotonic()
                error, _ = self._client.ask(jute.OP_EXISTS, path_body("/"))
                self.longest_s = max(self.longest_s, time.monotonic() - begun)
                if error:
                    raise AssertionError(f"the good client was answered {error}")
                self.answers += 1
                self._stopped.wait(0.002)
        except BaseException as failure:  # told to the test that waits for this thread
            self.failure = failure


# --- the store ----------------------------------------------------------------------------------


class StoreProcess:
    """`ottla zookeeper` as a user starts it, on a port of its own choice."""

    def __init__(self, data: Path, *arguments: str) -> None:
        command = [sys.executable, "-m", "ottla", "zookeeper", "--port", "0", "--data", str(data)]
        path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        self.stderr = data.with_suffix(".stderr")
        with self.stderr.open("ab") as errors:
            self._process = subprocess.Popen(
                [*command, *arguments],
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "PYTHONPATH": path},
            )
        self.port = self._ready()
        self.rss_at_start = self.rss_bytes()

    def _ready(self, timeout_s: float = 60) -> int:
        out = self._process.stdout
        assert out is not None
        readable, _, _ = select.select([out], [], [], timeout_s)
        line = out.readline().decode() if readable else ""
        if not line.startswith("ready: zookeeper="):
            self.kill()
            raise AssertionError(f"the store did not start: {line!r} {self.said()}")
        return int(line.split()[1].rpartition(":")[2])

    def said(self) -> str:
        return self.stderr.read_text(errors="replace")

    def rss_bytes(self) -> int:
        return self._status("VmRSS")

    def peak_bytes(self) -> int:
        """The most memory that it ever had."""
        return self._status("VmHWM")

    def _status(self, name: str) -> int:
        text = Path(f"/proc/{self._process.pid}/status").read_text()
        line = next(line for line in text.splitlines() if line.startswith(f"{name}:"))
        return int(line.split()[1]) << 10

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """As the power goes."""
        self._process.kill()
        self._end()

    def stop(self) -> int:
        self._process.terminate()
        return self._end()

    def _end(self) -> int:
        code = self._process.wait(60)
        if self._process.stdout is not None:
            self._process.stdout.close()
        return code


@contextlib.contextmanager
def store_process(data: Path, *arguments: str) -> Iterator[StoreProcess]:
    store = StoreProcess(data, *arguments)
    try:
        yield store
    finally:
        if store.is_alive:
            store.kill()
