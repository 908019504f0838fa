"""The account of memory: who is read, who waits, who has to go."""

from __future__ import annotations

import asyncio
import logging

import pytest

from ottla.broker.network.memory import (
    PATIENCE_S,
    SMALL_BYTES,
    USUAL_FRAME_BYTES,
    ConnectionMemory,
    accounts,
    limit_of,
)
from ottla.config.broker import BrokerConfig

MB = 1 << 20
LIMIT = 100 * MB


class Peer:
    """A connection that sends one frame after the other."""

    def __init__(self, memory: ConnectionMemory) -> None:
        self.memory = memory
        self.held_bytes = 0
        self.arrived = self.frame_bytes = 0
        self.unread_bytes = 0
        self.unread_s = 0.0
        self.slow = False
        self.reading = True
        self.gone = False

    @property
    def missing_bytes(self) -> int:
        return self.frame_bytes - self.arrived

    def seconds_unread(self) -> float:
        return self.unread_s

    def is_too_slow(self) -> bool:
        return self.slow and self.reading and self.missing_bytes > 0

    def pause_for_memory(self) -> None:
        assert self.reading
        self.reading = False

    def resume_for_memory(self) -> None:
        assert not self.reading
        self.reading = True

    def abort(self) -> None:
        self.gone = True

    def note(self) -> None:
        unfinished = self.arrived if self.missing_bytes else 0
        held = unfinished + self.unread_bytes
        self.memory.note(self, held, asyncio.get_running_loop())

    def sends(self, size: int, of: int) -> bool:
        """False where it is not read."""
        self.frame_bytes = of
        if self.reading:
            self.arrived = min(of, self.arrived + size)
            self.note()
            return True
        return False

    def is_answered(self) -> None:
        self.arrived = self.frame_bytes = 0
        self.note()

    def leaves_unread(self, size: int, seconds: float = 0.0) -> None:
        self.unread_bytes, self.unread_s = size, seconds
        self.note()
        self.memory.shed_unread(self)


@pytest.fixture
async def memory() -> ConnectionMemory:
    return ConnectionMemory(LIMIT)


def fill(memory: ConnectionMemory, frame: int = 50 * MB) -> list[Peer]:
    """Connections that send large frames until they are not read any more."""
    peers = [Peer(memory) for _ in range(20)]
    for _ in range(12 * 16):
        for peer in peers:
            peer.sends(MB // 16, frame)
    return peers


def total(memory: ConnectionMemory, peers: list[Peer]) -> int:
    held = sum(peer.held_bytes for peer in peers if not peer.gone)
    assert memory.used == held
    return held


async def test_large_frames_stop_before_the_account_is_full(memory: ConnectionMemory) -> None:
    peers = fill(memory)
    # 240 MB were sent. One is read on in any case.
    assert total(memory, peers) <= LIMIT * 3 // 4 + 12 * MB
    assert sum(peer.reading for peer in peers) == 1
    usual = Peer(memory)
    assert usual.sends(MB, MB + 100) and usual.reading
    small = Peer(memory)
    assert small.sends(100, 200) and small.reading


async def test_small_requests_get_through_a_full_account(memory: ConnectionMemory) -> None:
    fill(memory)
    for _ in range(30):
        Peer(memory).sends(MB, USUAL_FRAME_BYTES)
    assert memory.used >= LIMIT
    late = Peer(memory)
    assert late.sends(SMALL_BYTES, 2 * SMALL_BYTES) and late.reading
    assert late.sends(1, 2 * SMALL_BYTES)
    assert not late.reading, "now it holds more than a small one"


async def test_whoever_waits_is_read_again_when_there_is_room(memory: ConnectionMemory) -> None:
    peers = fill(memory, frame=20 * MB)
    left = list(peers)
    for _ in range(1000):
        for peer in tuple(left):
            if peer.sends(MB, 20 * MB) and not peer.missing_bytes:
                peer.is_answered()
                left.remove(peer)
    assert not left and memory.used == 0
    assert all(peer.reading and not peer.gone for peer in peers)


async def test_they_never_all_wait_for_each_other(memory: ConnectionMemory) -> None:
    """Every one lacks a little, and nothing else would ever give memory back."""
    peers = [Peer(memory) for _ in range(150)]
    done: list[Peer] = []
    for _ in range(100):
        for peer in peers:
            if peer not in done and peer.sends(MB // 8, MB) and not peer.missing_bytes:
                peer.is_answered()
                done.append(peer)
    assert len(done) == len(peers)


async def test_one_that_goes_makes_room(memory: ConnectionMemory) -> None:
    peers = fill(memory)
    exempt = next(peer for peer in peers if peer.reading)
    memory.forget(exempt)
    peers.remove(exempt)
    assert any(peer.reading for peer in peers)
    for peer in peers:
        memory.forget(peer)
    assert memory.used == 0


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.network.memory._WATCH_S", 0.0)


async def test_frames_that_stall_cost_their_connections(
    memory: ConnectionMemory, ticks: None, caplog: pytest.LogCaptureFixture
) -> None:
    peers = fill(memory)
    stalled = [peer for peer in peers if peer.reading]
    for peer in peers:
        peer.slow = True
    good = Peer(memory)
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            await asyncio.sleep(0)
            if sum(peer.gone for peer in peers) > 5:
                break
    assert all(peer.gone for peer in stalled)
    assert good.sends(MB, MB + 1) and good.reading
    assert "their requests came in too slowly" in caplog.text


async def test_answers_that_nobody_takes_have_a_bound(memory: ConnectionMemory) -> None:
    good = Peer(memory)
    good.leaves_unread(200_000, seconds=1)
    peers = []
    for number in range(100):
        peer = Peer(memory)
        peers.append(peer)
        peer.leaves_unread(5 * MB, seconds=number / 100)
        assert memory.used <= LIMIT + 5 * MB
    assert total(memory, [*peers, good]) <= LIMIT
    assert not good.gone and not peers[-1].gone


async def test_unread_answers_make_way_for_large_frames(
    memory: ConnectionMemory, ticks: None
) -> None:
    peers = [Peer(memory) for _ in range(15)]
    for peer in peers:
        peer.leaves_unread(5 * MB, seconds=PATIENCE_S + 1)
    consumer = Peer(memory)
    consumer.leaves_unread(200_000, seconds=600)
    one, other = Peer(memory), Peer(memory)
    for _ in range(10):
        one.sends(MB, 40 * MB)
        other.sends(MB, 40 * MB)
    for _ in range(100):
        await asyncio.sleep(0)
        if any(peer.gone for peer in peers):
            break
    assert any(peer.gone for peer in peers) and not consumer.gone
    assert memory.used < LIMIT * 3 // 4


def _config(**given: str) -> BrokerConfig:
    names = {name.replace("_", "."): value for name, value in given.items()}
    return BrokerConfig.from_properties({"zookeeper.connect": "h:1", "broker.id": "1"} | names)


def test_the_limit_is_finite_unless_told_otherwise() -> None:
    assert limit_of(_config()) == 256 * MB
    assert limit_of(_config(queued_max_request_bytes="-1")) is None
    # Kafka would start on this file, so Ottla does.
    assert limit_of(_config(socket_request_max_bytes=str(300 * MB))) == 300 * MB


def test_brokers_among_themselves_have_an_account_of_their_own() -> None:
    one = accounts(_config(listeners="PLAINTEXT://h:1"))
    assert list(one) == ["PLAINTEXT"]
    names = "PLAINTEXT:PLAINTEXT,A:PLAINTEXT,B:PLAINTEXT,C:PLAINTEXT"
    given = {"listener.security.protocol.map": names, "listeners": "A://h:1,B://h:2,C://h:3"}
    several = accounts(_config(**given, inter_broker_listener_name="C"))
    assert several["A"] is several["B"] is not several["C"]
    assert several["C"].limit == 256 * MB


async def test_without_a_limit_nobody_waits() -> None:
    memory = ConnectionMemory(None)
    assert all(peer.reading for peer in fill(memory))
