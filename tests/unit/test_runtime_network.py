"""Sockets of the real network."""

from __future__ import annotations

import asyncio
import socket

import pytest
import uvloop

from ottla.accepting import FEWEST_PER_TURN
from ottla.runtime import SystemNetwork

WAITING = FEWEST_PER_TURN + 50


class Accepted(asyncio.Protocol):
    def __init__(self, seen: list[int]) -> None:
        self._seen = seen

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._seen.append(1)


async def _turns_until_accepted() -> int:
    seen: list[int] = []
    server = await SystemNetwork().listen(lambda: Accepted(seen), "127.0.0.1", 0)
    waiting = []
    try:
        for _ in range(WAITING):
            peer = socket.socket()
            peer.setblocking(False)
            peer.connect_ex(("127.0.0.1", server.port))
            waiting.append(peer)
        turns = 0
        async with asyncio.timeout(60):
            while len(seen) < WAITING:
                await asyncio.sleep(0)
                turns += 1
        return turns
    finally:
        await server.close()
        for peer in waiting:
            peer.close()


@pytest.mark.parametrize("new_loop", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_many_are_accepted_in_one_turn_of_the_loop(new_loop) -> None:
    """Where each turn serves hundreds of others, one per turn would take seconds."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(_turns_until_accepted()) < WAITING // 8


def test_a_closed_listener_leaves_nothing_open() -> None:
    async def closed_port() -> int:
        server = await SystemNetwork().listen(lambda: Accepted([]), "127.0.0.1", 0)
        port = server.port
        await server.close()
        await asyncio.sleep(0)
        return port

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        port = runner.run(closed_port())
    with socket.socket() as peer:
        assert peer.connect_ex(("127.0.0.1", port)) != 0
