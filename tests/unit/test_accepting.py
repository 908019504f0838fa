"""New connections: how many in one turn, and what happens where there is no descriptor for one."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from typing import Any

import pytest
import uvloop

from ottla import accepting
from ottla.accepting import FEWEST_PER_TURN, MOST_PER_TURN, Acceptor, allowed_now


@pytest.mark.parametrize(
    ("since_last_s", "allowed"),
    [(0.0, FEWEST_PER_TURN), (0.008, 400), (3600.0, MOST_PER_TURN)],
)
def test_newcomers_have_as_long_as_the_others_had(since_last_s: float, allowed: int) -> None:
    assert allowed_now(since_last_s) == allowed


class FullListener(socket.socket):
    """Has no descriptor for the first who come."""

    def __init__(self) -> None:
        super().__init__()
        self.refusals = [OSError(errno.EMFILE, "Too many open files"), ConnectionAbortedError()]

    def accept(self) -> tuple[socket.socket, Any]:
        if self.refusals:
            raise self.refusals.pop(0)
        return super().accept()


class Greeter(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        sent = transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, 1)
        transport.write(b"no delay" if sent else b"delay")  # type: ignore[attr-defined]


def test_who_comes_without_a_descriptor_waits_for_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(accepting, "_RETRY_S", 0.01)

    async def greeting() -> bytes:
        loop = asyncio.get_running_loop()
        listener = FullListener()
        listener.bind(("127.0.0.1", 0))
        acceptor = Acceptor(loop, [listener], Greeter)
        try:
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            heard = await asyncio.wait_for(reader.readuntil(b"delay"), 60)
            writer.close()
            return heard
        finally:
            acceptor.close()
            acceptor.close()

    with (
        caplog.at_level(logging.ERROR),
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        assert runner.run(greeting()) == b"no delay"
    assert "no connection is accepted for 0.01 s: [Errno 24] Too many open files" in caplog.text


async def test_nobody_joins_who_came_just_before_the_end() -> None:
    made: list[Greeter] = []

    def make() -> Greeter:
        made.append(Greeter())
        return made[-1]

    loop = asyncio.get_running_loop()
    listener = socket.create_server(("127.0.0.1", 0))
    acceptor = Acceptor(loop, [listener], make)
    with socket.create_connection(listener.getsockname()) as peer:
        acceptor._accept(listener)
        acceptor.close()
        await asyncio.sleep(0.01)
        assert not made and not acceptor._joining
        peer.settimeout(10)
        assert peer.recv(1) == b""
