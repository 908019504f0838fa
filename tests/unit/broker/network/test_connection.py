"""Requests that are served where they were read: whatever a read brings, in one memory for all."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from ottla.broker.network import intake
from ottla.broker.network.connection import ClientConnection
from ottla.broker.network.memory import SMALL_BYTES, ConnectionMemory
from ottla.broker.network.server import UNFINISHED_FRAME_S, BrokerServer
from ottla.wire import framing
from ottla.wire import messages as m
from tests.support.broker.network_peers import Peer, framed, ids, leader, server
from tests.support.broker.produce_requests import produce_frame
from tests.support.broker.replica_cluster import Broker, brokers, client_batch, until

__all__ = ["brokers", "leader", "server"]


def stream() -> tuple[bytes, list[int], list[bytes]]:
    """Requests of all kinds, the ids that are answered, and the values that the log then has."""
    values = [bytes([65 + n]) * (100 + n) for n in range(12)]

    def batch(n: int) -> memoryview:
        return client_batch(1, value=values[n])

    versions = m.ApiVersionsRequest(client_software_name="t", client_software_version="1")
    frames = [framed(produce_frame(batch(n), correlation_id=n)) for n in range(3)]
    frames.append(b"".join(framing.encode_request(versions, 3, 3, "client")))
    frames += [framed(produce_frame(batch(n), correlation_id=n + 1)) for n in range(3, 5)]
    frames.append(framed(produce_frame(batch(5), correlation_id=6, topic="elsewhere")))
    frames.append(framed(produce_frame(batch(6), correlation_id=7, acks=0)))
    frames.append(framed(produce_frame(bytes(batch(7)) + bytes(batch(8)), correlation_id=8)))
    frames.append(framed(produce_frame(batch(9), correlation_id=9, version=8)))
    frames += [framed(produce_frame(batch(n), correlation_id=n)) for n in range(10, 12)]
    refused = 5, 7, 8  # no such topic; more than one batch
    kept = [value for n, value in enumerate(values) if n not in refused]
    return b"".join(frames), [n for n in range(12) if n != 7], kept


@pytest.mark.parametrize("is_crowded", [True, False])
@pytest.mark.parametrize("has_turns", [True, False])
@pytest.mark.parametrize("size", [1, 3, 61, 190, 450, 100_000])
async def test_a_stream_in_pieces(
    leader: Broker,
    server: BrokerServer,
    monkeypatch: pytest.MonkeyPatch,
    size: int,
    *,
    has_turns: bool,
    is_crowded: bool,
) -> None:
    if is_crowded:
        monkeypatch.setattr(intake, "CROWD", 0)
        server.turn.is_crowded = True
    data, answered, values = stream()
    peer = Peer(server)
    for start in range(0, len(data), size):
        peer.read(data[start : start + size])
        if has_turns:
            await asyncio.sleep(0)
    await until(lambda: ids(peer.transport.written) == answered, 60)
    log = leader.log
    assert log.end_offset == len(values)
    stored = bytes(log.read(0, 1 << 20, log.end_offset, min_one_batch=True))
    places = [stored.find(value) for value in values]
    assert -1 not in places and places == sorted(places)


async def test_each_is_served_once_in_a_round_of_the_loop(
    leader: Broker, server: BrokerServer
) -> None:
    """libuv reads again where more than a thousand have sent, before anything else has a turn."""
    hasty, other = Peer(server), Peer(server)
    requests = [framed(produce_frame(client_batch(), correlation_id=n)) for n in range(3)]
    for request in requests:
        hasty.read(request)
    assert ids(hasty.transport.written) == [0]
    other.read(requests[0])
    assert ids(other.transport.written) == [0], "its first"
    await asyncio.sleep(0)
    assert ids(hasty.transport.written) == [0, 1, 2]
    other.read(requests[1])
    assert ids(other.transport.written) == [0, 1], "a new round"


async def test_answers_to_what_came_together_leave_together(
    leader: Broker, server: BrokerServer
) -> None:
    peer = Peer(server)
    peer.read(b"".join(framed(produce_frame(client_batch(), correlation_id=n)) for n in range(100)))
    assert ids(peer.transport.written) == list(range(100))
    assert leader.log.end_offset == 100
    assert peer.transport.writes == 1


async def test_a_frame_that_is_too_large_ends_the_connection(
    leader: Broker, server: BrokerServer
) -> None:
    frame = framed(produce_frame(client_batch()))
    server.max_request_bytes = len(frame)
    peer = Peer(server)
    peer.read(frame + framed(produce_frame(client_batch(1, value=bytes(200)))) + frame)
    assert peer.transport.closed
    assert ids(peer.transport.written) == [7]
    assert leader.log.end_offset == 1


async def test_a_peer_that_takes_no_answers_is_not_served(
    leader: Broker, server: BrokerServer
) -> None:
    peer = Peer(server)
    peer.transport.is_slow = True
    other = framed(produce_frame(client_batch(), topic="elsewhere"))
    mine = framed(produce_frame(client_batch(1, value=bytes(60_000))))
    peer.read(framed(produce_frame(client_batch())) + other)
    peer.read(mine)
    assert leader.log.end_offset == 1
    for _ in range(5):
        peer.read(mine)
    assert not peer.transport.reading
    peer.transport.is_slow = False
    cast("ClientConnection", peer.transport.protocol).resume_writing()
    await until(lambda: leader.log.end_offset == 7, 60)
    assert peer.transport.reading


class SteppingClock:
    """Every look at it takes a while, as requests do."""

    def __init__(self, step_ms: float) -> None:
        self.now, self.step_ms = 0.0, step_ms

    def monotonic_ms(self) -> float:
        self.now += self.step_ms
        return self.now


def versions_frame(number: int) -> bytes:
    request = m.ApiVersionsRequest(client_software_name="t", client_software_version="1")
    return b"".join(framing.encode_request(request, 3, number, "client"))


@pytest.mark.parametrize("lane", ["general", "direct"])
async def test_connections_take_turns_by_time(
    leader: Broker, server: BrokerServer, lane: str
) -> None:
    """A thousand requests of one connection; the others have theirs in between."""
    server.now_ms = SteppingClock(2.0).monotonic_ms
    rude, good = Peer(server), Peer(server)
    if lane == "general":
        frames = [versions_frame(number) for number in range(1000)]
    else:
        frames = [
            framed(produce_frame(client_batch(), correlation_id=number)) for number in range(1000)
        ]
    rude.read(b"".join(frames))
    after_first_turn = len(ids(rude.transport.written))
    assert 0 < after_first_turn < 300
    good.read(versions_frame(7))
    assert ids(good.transport.written) == [7]
    assert len(ids(rude.transport.written)) == after_first_turn
    turns = 0
    async with asyncio.timeout(60):
        while len(ids(rude.transport.written)) < 1000:
            await asyncio.sleep(0)
            turns += 1
    assert turns >= 4
    assert ids(rude.transport.written) == list(range(1000))
    assert rude.transport.reading


async def test_reads_that_fill_the_buffer_end_with_the_turn(
    leader: Broker, server: BrokerServer
) -> None:
    """libuv reads up to 32 times in a row from a peer that is fast enough."""
    server.now_ms = SteppingClock(2.0).monotonic_ms
    peer = Peer(server)
    frame = framed(produce_frame(client_batch(1, value=bytes(4_000_000))))
    size = len(server.read_buffer)
    reads = 0
    while peer.transport.reading:
        peer.read(frame[reads * size : (reads + 1) * size])
        reads += 1
        assert reads < 10
    # The turn is everyone's: who comes after it in the same round reads once.
    other = Peer(server)
    other.read(frame[:size])
    assert not other.transport.reading
    await asyncio.sleep(0)
    assert peer.transport.reading and other.transport.reading
    for start in range(reads * size, len(frame), size):
        peer.read(frame[start : start + size])
    await until(lambda: ids(peer.transport.written) == [7], 60)


async def test_unfinished_frames_wait_where_memory_is_full(
    leader: Broker, server: BrokerServer
) -> None:
    server.memory = ConnectionMemory(4_000_000)
    frame = framed(produce_frame(client_batch(1, value=bytes(900_000))))
    peers = [Peer(server) for _ in range(10)]
    sent = dict.fromkeys(peers, 0)

    def send_once() -> None:
        for peer, start in sent.items():
            if peer.transport.reading and start < len(frame):
                size = len(peer.connection.get_buffer(-1))
                peer.read(frame[start : start + size])
                sent[peer] = min(start + size, len(frame))

    most = 0
    async with asyncio.timeout(60):
        while not all(ids(peer.transport.written) == [7] for peer in peers):
            send_once()
            most = max(most, server.memory.used)
            await asyncio.sleep(0)
    assert 2_000_000 < most < 4_000_000 + len(peers) * SMALL_BYTES + len(frame)
    assert server.memory.used == 0
    assert leader.log.end_offset == 10


async def test_a_half_sent_frame_that_stalls_is_swept_out(
    leader: Broker, server: BrokerServer, caplog: pytest.LogCaptureFixture
) -> None:
    stalled, idle = Peer(server), Peer(server)
    stalled.read(b"\x00\x00\x10\x00half")
    stalled.connection.last_active -= UNFINISHED_FRAME_S + 1
    idle.connection.last_active -= UNFINISHED_FRAME_S + 1
    server._sweep()
    assert stalled.transport.closed and not idle.transport.closed
    assert "closed 1 connections on listener PLAINTEXT: half of a request" in caplog.text
