"""Idle, half-sent, unread and hasty connections by the thousand, and a good client beside them."""

from __future__ import annotations

import resource
import socket
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.wire import framing
from ottla.wire import messages as m
from tests.support.integration.crowds import WAIT_S, Broker, GoodClient, broker_process, crowd

MB = 1 << 20
REQUEST_BYTES, MEMORY_BYTES = 20 * MB, 32 * MB
LOG_BYTES = 16 * MB
needs_proc = pytest.mark.skipif(
    sys.platform != "linux", reason="/proc says how much memory a process has"
)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with broker_process(
        socket_request_max_bytes=str(REQUEST_BYTES), queued_max_request_bytes=str(MEMORY_BYTES)
    ) as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        made = admin.create_topics([NewTopic("good", 1, 1), NewTopic("large", 1, 1)])
        for future in made.values():
            future.result(WAIT_S)
        yield broker


@pytest.fixture(scope="module")
def large(broker: Broker) -> str:
    """A topic with more than one answer should hold in memory."""
    producer = Producer({"bootstrap.servers": broker.address, "compression.type": "none"})
    for _ in range(LOG_BYTES // 500_000):
        producer.produce("large", b"x" * 500_000)
    assert producer.flush(WAIT_S) == 0
    return "large"


def _stand(broker: Broker, *, idle: int, half_sent: int, attempts: int) -> None:
    # A broker that may have few descriptors refuses what is above its share.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    idle = min(idle, hard // 8) if hard != resource.RLIM_INFINITY else idle
    with (
        GoodClient(broker.address, "good") as good,
        crowd(broker, idle=idle, half_sent=half_sent, attempts=attempts) as rude,
    ):
        rude.is_here()
        before = good.served()
        rude.has_tried()
        # They may have tried faster than the good client asks.
        patience = time.monotonic() + WAIT_S
        while good.served() == before and time.monotonic() < patience:
            time.sleep(0.01)
        during = good.served() - before
        with GoodClient(broker.address, "good") as newcomer:
            assert newcomer.served() >= 1, "who comes now is served as well"
    assert during > 0
    # p99 of an idle machine is a row of the bench; here nobody may starve.
    assert max(good.waits_s) < WAIT_S / 4


def test_a_good_client_among_idle_and_hasty_ones(broker: Broker) -> None:
    _stand(broker, idle=2000, half_sent=200, attempts=3000)


@pytest.mark.campaign
@pytest.mark.usefixtures("campaign")
def test_a_good_client_among_even_more_of_them(broker: Broker) -> None:
    _stand(broker, idle=5000, half_sent=500, attempts=10_000)


def _most_resident(broker: Broker, seconds: float) -> int:
    """The largest of some looks, while peers do what they do."""
    most, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        most = max(most, broker.resident_bytes())
        time.sleep(0.02)
    return most


@needs_proc
def test_answers_that_nobody_reads_take_no_memory(broker: Broker, large: str) -> None:
    part = m.FetchRequest.FetchPartition(partition=0, partition_max_bytes=LOG_BYTES)
    topic = m.FetchRequest.FetchTopic(topic=large, partitions=[part])
    request = m.FetchRequest(max_bytes=LOG_BYTES, min_bytes=1, topics=[topic])
    asked = b"".join(framing.encode_request(request, 11, 1, "rude"))
    with ExitStack() as stack, GoodClient(broker.address, "good") as good:
        before = broker.resident_bytes()
        peers = []
        for _ in range(60):
            peer = stack.enter_context(socket.socket())
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            peer.connect(broker.host_and_port)
            peer.sendall(asked)
            assert peer.recv(1), "its answer has begun"
            peers.append(peer)
        # 60 x 15 MB were asked for.
        assert _most_resident(broker, 0.5) - before < 64 * MB
        served = good.served()
        # One of them reads after all, and gets the whole answer.
        peers[-1].settimeout(WAIT_S)
        peers[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MB)
        with peers[-1].makefile("rb") as rest:
            size = int.from_bytes(b"\x00" + rest.read(3), "big")
            assert len(rest.read(size)) == size > LOG_BYTES * 3 // 4
    assert good.served() >= served > 0


@needs_proc
def test_half_of_large_requests_takes_a_bounded_share(broker: Broker) -> None:
    sent = memoryview(struct.pack(">i", REQUEST_BYTES) + b"x" * (8 * MB))
    with ExitStack() as stack, GoodClient(broker.address, "good") as good:
        before = broker.resident_bytes()
        peers = []
        for _ in range(40):
            peer = stack.enter_context(socket.create_connection(broker.host_and_port, WAIT_S))
            peer.setblocking(False)
            peers.append(peer)
        left = dict.fromkeys(peers, sent)
        most, end = 0, time.monotonic() + 2.0
        while time.monotonic() < end:
            for peer, rest in left.items():
                try:
                    left[peer] = rest[peer.send(rest) :] if rest else rest
                except BlockingIOError:
                    pass
                except OSError:
                    left[peer] = sent[:0]  # it was closed: too slow while others waited
            most = max(most, broker.resident_bytes())
        # 320 MB were offered. The account, one large frame above it, and what Python makes of it.
        assert most - before < MEMORY_BYTES + REQUEST_BYTES + 32 * MB
        served = good.served()
        producer = Producer({"bootstrap.servers": broker.address})
        producer.produce("good", b"x" * 900_000)
        assert producer.flush(WAIT_S) == 0, "an ordinary large request gets through"
    assert good.served() >= served > 0
