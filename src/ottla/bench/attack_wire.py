"""Plain sockets for attackers and the good client beside them: frames out, frames counted in."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterable, Iterator
from typing import Any, Self

from ottla.wire import framing
from ottla.wire import messages as m
from ottla.wire.codec import Message
from ottla.zk import jute

HOST = "127.0.0.1"
WAIT_S = 60.0
_LENGTH = struct.Struct(">i")
_CHUNK_BYTES = 1 << 18
SESSION_TIMEOUT_MS = 30_000


def request(message: Message, version: int, client_id: str | None = "attacker") -> bytes:
    """A whole frame; the correlation id is 7, since nobody compares it."""
    return b"".join(
        bytes(chunk) for chunk in framing.encode_request(message, version, 7, client_id)
    )


def raw_request(api_key: int, version: int, body: bytes, *, flexible: bool) -> bytes:
    """A frame around a body that no encoder of ours would write."""
    head = struct.pack(">hhih", api_key, version, 7, -1) + (b"\x00" if flexible else b"")
    return _LENGTH.pack(len(head) + len(body)) + head + body


class Peer:
    """One connection. What it reads it forgets, unless it is asked for."""

    def __init__(self, port: int, wait_s: float = WAIT_S, receive_bytes: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(wait_s)
        self.socket.connect((HOST, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes | memoryview) -> None:
        """A server that hangs up has refused; that is no failure of the attacker's."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(data)

    def read(self) -> bytes:
        """One answer without its length; b"" where the server has hung up."""
        head = self._take(_LENGTH.size)
        return self._take(_LENGTH.unpack(head)[0]) if head else b""

    def count(self, answers: int) -> int:
        """The bytes of so many answers, or of those that came before the server hung up."""
        total = 0
        for _ in range(answers):
            head = self._take(_LENGTH.size)
            if not head:
                break
            size = left = _LENGTH.unpack(head)[0]
            while left:
                taken = self._receive(min(left, _CHUNK_BYTES))
                if not taken:
                    return total
                left -= len(taken)
            total += size + _LENGTH.size
        return total

    def until_closed(self) -> int:
        """The bytes that came until the server hung up."""
        total = 0
        while taken := self._receive(_CHUNK_BYTES):
            total += len(taken)
        return total

    def _take(self, size: int) -> bytes:
        parts = []
        while size:
            part = self._receive(min(size, _CHUNK_BYTES))
            if not part:
                return b""
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _receive(self, size: int) -> bytes:
        try:
            return self.socket.recv(size)
        except (ConnectionResetError, BrokenPipeError):
            return b""


def ask(port: int, message: Any, version: int, wait_s: float = WAIT_S) -> Any:
    """One request and its answer, decoded."""
    with Peer(port, wait_s) as peer:
        return ask_on(peer, message, version)


def ask_on(peer: Peer, message: Any, version: int) -> Any:
    peer.send(request(message, version))
    answer = peer.read()
    if not answer:
        raise ConnectionError(f"no answer to {type(message).__name__}")
    _, offset = framing.decode_response_header(answer, message.API_KEY, version)
    return m.response_class(message.API_KEY).decode(answer, version, offset)[0]


@contextlib.contextmanager
def logged_in(port: int, user: str, password: str) -> Iterator[Peer]:
    """A connection that has passed SASL PLAIN."""
    with Peer(port) as peer:
        ask_on(peer, m.SaslHandshakeRequest(mechanism="PLAIN"), 1)
        token = f"\0{user}\0{password}".encode()
        answer = ask_on(peer, m.SaslAuthenticateRequest(auth_bytes=token), 1)
        if answer.error_code:
            raise ConnectionError(f"not let in: {answer.error_message}")
        yield peer


# the store


class StorePeer(Peer):
    """A connection to the store, with a session."""

    def __init__(self, port: int, wait_s: float = WAIT_S) -> None:
        super().__init__(port, wait_s)
        hello = (
            jute.CONNECT_REQUEST.pack(0, 0, SESSION_TIMEOUT_MS, 0) + jute.INT.pack(16) + bytes(16)
        )
        self.send(jute.frame(hello + b"\x00"))
        if not self.read():
            raise ConnectionError("the store hung up")

    def ask(self, operation: int, body: bytes, xid: int = 1) -> tuple[int, bytes]:
        """Error code and body of the answer; watch events before it are passed over."""
        self.send(store_request(operation, body, xid))
        while True:
            answer = self.read()
            if not answer:
                raise ConnectionError("the store hung up")
            answered, _, error = jute.REPLY_HEADER.unpack_from(answer)
            if answered != jute.XID_EVENT:
                return error, answer[jute.REPLY_HEADER.size :]


def store_request(operation: int, body: bytes, xid: int = 1) -> bytes:
    return jute.frame(jute.REQUEST_HEADER.pack(xid, operation) + body)


def create_body(path: str, data: bytes = b"", flags: int = 0) -> bytes:
    acl = (
        jute.INT.pack(1)
        + jute.INT.pack(31)
        + jute.write_string("world")
        + jute.write_string("anyone")
    )
    return jute.write_string(path) + jute.write_buffer(data) + acl + jute.INT.pack(flags)


def multi_read_body(paths: Iterable[str]) -> bytes:
    head = jute.MULTI_HEADER.pack(jute.OP_GET_DATA, False, -1)
    reads = b"".join(head + jute.write_string(path) + b"\x00" for path in paths)
    return reads + jute.END_OF_MULTI
