"""Produce requests of many connections that are appended together."""

from __future__ import annotations

import asyncio

import pytest

from ottla.broker.network import intake, shared_appends
from ottla.broker.network.answers import MAX_PARKED
from ottla.broker.network.server import BrokerServer
from ottla.broker.replication.append import Appends
from ottla.broker.replication.partition import Partition
from ottla.storage.segment.batch_scan import LogDamaged
from tests.support.broker.network_peers import Peer, framed, ids, leader, server
from tests.support.broker.produce_requests import produce_frame
from tests.support.broker.replica_cluster import Broker, brokers, client_batch, until

__all__ = ["brokers", "leader", "server"]


def request(number: int, **changes: object) -> bytes:
    return framed(produce_frame(client_batch(), correlation_id=number, **changes))  # type: ignore[arg-type]


@pytest.fixture
async def crowd(server: BrokerServer) -> list[Peer]:
    """So many that what they send next is appended together."""
    peers = [Peer(server) for _ in range(intake.CROWD)]
    for peer in peers:
        peer.read(request(0))
        assert ids(peer.transport.written) == [0], "nobody knew of the others"
    await asyncio.sleep(0)
    assert server.turn.is_crowded
    return peers


async def test_each_gets_its_own_answer_when_all_were_read(
    leader: Broker, crowd: list[Peer]
) -> None:
    before = leader.log.end_offset
    for number, peer in enumerate(crowd):
        peer.read(request(100 + number, version=3 + number % 9))
        assert ids(peer.transport.written) == [0]
        assert peer.connection.busy
    await asyncio.sleep(0)
    assert [ids(peer.transport.written)[1:] for peer in crowd] == [
        [100 + number] for number in range(len(crowd))
    ]
    assert not any(peer.connection.busy for peer in crowd)
    assert leader.log.end_offset == before + len(crowd)
    assert leader.manager.appends.direct_requests == leader.log.end_offset


async def test_one_that_needs_its_handler_leaves_the_others_alone(
    leader: Broker, crowd: list[Peer]
) -> None:
    before = leader.log.end_offset
    bad_crc = bytearray(request(5))
    bad_crc[-10] ^= 1
    odd = [
        request(5, topic="elsewhere"),
        request(5, index=7),
        bytes(bad_crc),
        framed(produce_frame(bytes(client_batch()) * 2, correlation_id=5)),
    ]
    for peer, data in zip(crowd, odd, strict=False):
        peer.read(data)
    for peer in crowd[len(odd) :]:
        peer.read(request(5))
    await until(lambda: all(ids(peer.transport.written) == [0, 5] for peer in crowd), 30)
    assert leader.log.end_offset == before + len(crowd) - len(odd)


async def test_what_else_a_peer_has_sent_comes_after_it(leader: Broker, crowd: list[Peer]) -> None:
    first = crowd[0]
    for number in range(1, 4):
        first.read(request(number))
    assert ids(first.transport.written) == [0]
    for peer in crowd[1:]:
        peer.read(request(9, acks=0))
    await until(lambda: ids(first.transport.written) == [0, 1, 2, 3], 30)
    assert all(ids(peer.transport.written) == [0] for peer in crowd[1:]), "nothing to be said"
    assert leader.log.end_offset == 2 * len(crowd) + 2


async def test_a_peer_that_goes_meanwhile_is_not_answered(
    leader: Broker, crowd: list[Peer]
) -> None:
    for peer in crowd:
        peer.read(request(1))
    crowd[0].connection.connection_lost(None)
    crowd[1].connection.close()
    await asyncio.sleep(0)
    assert [ids(peer.transport.written) for peer in crowd[:3]] == [[0], [0], [0, 1]]
    assert leader.log.end_offset == 2 * len(crowd), "what was read is appended"


async def test_what_waits_is_bounded(
    leader: Broker, crowd: list[Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_appends, "MOST_WAITING_BYTES", 3 * len(request(1)) - 12)
    for peer in crowd[:3]:
        peer.read(request(1))
    assert [ids(peer.transport.written) for peer in crowd[:3]] == [[0, 1]] * 3


async def test_large_requests_are_served_where_they_were_read(
    leader: Broker, crowd: list[Peer]
) -> None:
    large = client_batch(1, value=b"v" * shared_appends.MOST_REQUEST_BYTES)
    crowd[0].read(framed(produce_frame(large, correlation_id=1)))
    assert ids(crowd[0].transport.written) == [0, 1]


async def test_few_are_served_at_once_again(crowd: list[Peer], server: BrokerServer) -> None:
    crowd[0].read(request(1))
    await asyncio.sleep(0)
    assert not server.turn.is_crowded
    crowd[0].read(request(2))
    assert ids(crowd[0].transport.written) == [0, 1, 2]


async def test_reading_goes_on_behind_it(crowd: list[Peer]) -> None:
    """The beginning of a large request has come behind it, so much that reading was paused."""
    large = framed(produce_frame(client_batch(1, value=b"v" * 900_000), correlation_id=2))
    peer, at = crowd[0], 0
    peer.read(request(1))
    while peer.transport.reading:
        size = len(peer.connection.get_buffer(-1))
        peer.read(large[at : at + size])
        at += size
    assert at < len(large)
    await asyncio.sleep(0)
    assert ids(peer.transport.written) == [0, 1]
    assert peer.transport.reading


async def test_one_partition_that_fails_leaves_the_others_alone(
    leader: Broker, crowd: list[Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All are answered by their handlers, which know what to say."""

    def damaged(*_: object) -> list[int]:
        raise LogDamaged(0, "no batch")

    def broken(*_: object) -> None:
        raise RuntimeError("never seen")

    before = leader.log.end_offset
    monkeypatch.setattr(Partition, "append_plain", damaged)
    for peer in crowd:
        peer.read(request(1))
    await until(lambda: all(ids(peer.transport.written) == [0, 1] for peer in crowd), 30)
    assert leader.log.end_offset == before
    assert not any(peer.connection.busy for peer in crowd)
    monkeypatch.undo()
    for peer in crowd:
        peer.read(request(2))
    monkeypatch.setattr(Appends, "append_plain", broken)
    await asyncio.sleep(0)
    monkeypatch.undo()
    await until(lambda: all(ids(peer.transport.written) == [0, 1, 2] for peer in crowd), 30)
    assert leader.log.end_offset == before + len(crowd), "each once"


@pytest.fixture
def slow_follower(leader: Broker) -> Broker:
    """In sync, and behind."""
    leader.know([0, 1])
    leader.order(0, 2, replicas=[0, 1])
    return leader


async def test_no_more_wait_for_followers_than_may(
    crowd: list[Peer], slow_follower: Broker, server: BrokerServer
) -> None:
    for number in range(1, MAX_PARKED + 20):
        for peer in crowd:
            peer.read(request(number, acks=-1, timeout_ms=60_000))
        await asyncio.sleep(0)
        assert server.turn.is_crowded
    for peer in crowd:
        assert len(peer.connection._answers.parked) == MAX_PARKED
        # Several in one read take another way.
        peer.read(request(900, acks=-1) + request(901, acks=-1))
        assert not peer.transport.closed


async def test_answers_wait_in_the_order_of_their_offsets(
    crowd: list[Peer], slow_follower: Broker
) -> None:
    """One that came behind the first one of a round is appended behind the whole round."""
    end = slow_follower.log.end_offset
    for peer in crowd:
        peer.read(request(1, acks=-1, timeout_ms=60_000))
    crowd[0].read(request(2, acks=-1, timeout_ms=60_000))
    await asyncio.sleep(0)
    assert slow_follower.log.end_offset == end + len(crowd) + 1
    now_ms = slow_follower.clock.monotonic_ms()
    slow_follower.partition.follower_fetched(1, end + len(crowd), 0, now_ms)
    await until(lambda: all(ids(peer.transport.written) == [0, 1] for peer in crowd), 30)


async def test_where_each_batch_may_start_a_segment_few_are_looked_at_again(
    leader: Broker, crowd: list[Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first record of the segment has no time: the wall clock is asked for each batch."""
    looked_at: list[int] = []

    def none_is_plain(_: Partition, batches: list[memoryview], acks: int) -> list[int]:
        looked_at.append(len(batches))
        return []

    monkeypatch.setattr(Partition, "append_plain", none_is_plain)
    before = leader.log.end_offset
    for peer in crowd:
        peer.read(request(1))
    await asyncio.sleep(0)
    assert leader.log.end_offset == before + len(crowd)
    assert sum(looked_at) <= 4 * len(crowd)
