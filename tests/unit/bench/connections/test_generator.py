"""The compiled generator's counting, held by servers that do not do what they should."""

from __future__ import annotations

import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ottla.bench.connections.generator import (
    HOST,
    Found,
    GeneratorFailed,
    Load,
    NullServer,
    command,
    generator,
    run,
)
from ottla.testing.cluster import ProcessCluster
from ottla.wire import messages as m
from tests.support.load_generator import need_generator

TOPIC = "load"
Answer = Callable[[int, int, bytes], bytes | None]


@pytest.fixture(autouse=True)
def there() -> None:
    need_generator()


def good_answer(correlation: int, partition: int = 0, code: int = 0, version: int = 7) -> bytes:
    """Made by Ottla's own codec, which real clients judge elsewhere."""
    response = m.ProduceResponse
    places = [response.PartitionProduceResponse(index=partition)]
    places[0].error_code = code
    topics = [response.TopicProduceResponse(name=TOPIC, partition_responses=places)]
    body = bytes(response(responses=topics).encode(version))
    return framed(struct.pack(">i", correlation) + (b"\0" if version >= 9 else b"") + body)


def framed(answer: bytes) -> bytes:
    return struct.pack(">i", len(answer)) + answer


class Rude:
    """A server in Python: `answer(connection, nth request, frame)` says what each gets."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._listener = socket.create_server((HOST, 0))
        self._sockets: list[socket.socket] = []
        self.requests: list[bytes] = []
        self.address = f"{HOST}:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        for number in range(100):
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(peer)
            threading.Thread(target=self._serve, args=(number, peer), daemon=True).start()

    def _serve(self, number: int, peer: socket.socket) -> None:
        try:
            with peer, peer.makefile("rb") as stream:
                nth = 0
                while length := stream.read(4):
                    frame = stream.read(struct.unpack(">i", length)[0])
                    self.requests.append(frame)
                    answer = self._answer(number, nth, frame)
                    if answer == b"":
                        return
                    if answer is not None:
                        peer.sendall(answer)
                    nth += 1
        except OSError:
            return  # The generator has left.

    def close(self) -> None:
        self._listener.close()
        for peer in self._sockets:
            peer.close()


@contextmanager
def rude(answer: Answer) -> Iterator[Rude]:
    server = Rude(answer)
    try:
        yield server
    finally:
        server.close()


def correlation_of(frame: bytes) -> int:
    return int(struct.unpack_from(">i", frame, 4)[0])


def ask(server: Rude, connections: int = 4) -> Found:
    load = Load(connections, seconds=0.15, warm_up_s=0.1)
    return run({server.address: [0]}, TOPIC, load)


def test_one_connection_that_is_never_answered() -> None:
    def answer(connection: int, _: int, frame: bytes) -> bytes | None:
        return None if connection == 2 else good_answer(correlation_of(frame))

    with rude(answer) as server:
        found = ask(server)
    assert (found.never_answered, found.failures) == (1, 0)
    assert found.least_answers == 0 < found.most_answers
    # The request that still waits counts for the longest wait, though no answer told its time.
    assert found.longest_ms >= 250


WRONG: dict[str, Callable[[int], bytes]] = {
    "another correlation id": lambda number: good_answer(number + 1),
    "another partition": lambda number: good_answer(number, partition=1),
    "an answer cut short": lambda number: framed(good_answer(number)[4:-2]),
    "an answer too long": lambda number: framed(good_answer(number)[4:] + b"\0"),
    "a second answer behind it": lambda number: good_answer(number) * 2,
    "a length that is negative": lambda _: b"\xff\xff\xff\xff",
    "a length of 2 GB": lambda _: b"\x7f\xff\xff\xff" + bytes(100),
    "another protocol": lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n",
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_a_wrong_answer_ends_its_connection_and_is_counted(wrong: Callable[[int], bytes]) -> None:
    def answer(connection: int, nth: int, frame: bytes) -> bytes | None:
        number = correlation_of(frame)
        return wrong(number) if (connection, nth) == (1, 3) else good_answer(number)

    with rude(answer) as server:
        found = ask(server)
    # Its first three were good, and the others never noticed.
    assert (found.failures, found.never_answered) == (1, 0)
    assert found.least_answers <= 3 < found.most_answers


def test_answers_with_an_error_are_no_requests_served() -> None:
    def answer(connection: int, _: int, frame: bytes) -> bytes | None:
        return good_answer(correlation_of(frame), code=6 if connection == 0 else 0)

    with rude(answer) as server:
        found = ask(server, connections=2)
    assert found.failures > 1 and found.least_answers == 0 and found.requests > 0
    assert found.never_answered == 0


def test_connections_that_end() -> None:
    def answer(connection: int, nth: int, frame: bytes) -> bytes | None:
        return b"" if connection < 3 and nth == 1 else good_answer(correlation_of(frame))

    with rude(answer) as server:
        assert ask(server).failures == 3


def test_an_answer_byte_by_byte_is_one_answer() -> None:
    pieces = threading.Event()

    def answer(connection: int, nth: int, frame: bytes) -> bytes | None:
        whole = good_answer(correlation_of(frame))
        if connection or nth:
            return whole
        peer = server._sockets[0]
        for place in range(len(whole)):
            peer.sendall(whole[place : place + 1])
        pieces.set()
        return None

    with rude(answer) as server:
        found = ask(server, connections=2)
    assert pieces.is_set() and found.failures == found.never_answered == 0


def test_nobody_listens() -> None:
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
    # At once, and not after the time of the measurement.
    found = run({f"{HOST}:{port}": [0]}, TOPIC, Load(5, seconds=600))
    assert (found.failures, found.never_answered, found.requests) == (5, 5, 0)
    assert found.connected_all_s is None


@pytest.mark.parametrize("version", [3, 7, 8, 9])
def test_requests_are_what_the_codec_reads(version: int) -> None:
    def answer(_: int, __: int, frame: bytes) -> bytes | None:
        return good_answer(correlation_of(frame), partition=5, version=version)

    with rude(answer) as server:
        load = Load(1, 0.1, warm_up_s=0, version=version, records=3, record_bytes=1_000, acks=-1)
        found = run({server.address: [5]}, TOPIC, load)
    assert found.requests > 0 and found.failures == 0
    frame = server.requests[0]
    assert struct.unpack_from(">hh", frame) == (0, version)
    start = 10 + struct.unpack_from(">h", frame, 8)[0] + (version >= 9)
    request, end = m.ProduceRequest.decode(frame, version, start)
    assert end == len(frame)
    assert (request.acks, request.topic_data[0].name) == (-1, TOPIC)
    assert request.topic_data[0].partition_data[0].index == 5


def test_two_brokers_share_the_connections_and_a_ceiling_can_be_shown() -> None:
    with NullServer() as one, NullServer() as other:
        leaders = {one.address: [0, 1], other.address: [2]}
        found = run(leaders, TOPIC, Load(6, 0.3, warm_up_s=0.1), [one.pid, other.pid])
    assert found.failures == found.never_answered == 0
    assert found.requests_per_s > 0 < found.least_answers
    assert found.own_us > 0 and 0 <= found.broker_kernel_us <= found.broker_us


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"acks": 0}, "--acks 0: 1 or -1, for answers are counted"),
        ({"version": 13}, "--version 13: 3 to 9 are there"),
        ({"connections": 0}, "--connections 0: has to be between 1 and 1000000"),
        ({"connections": 900_000}, "900000 connections need more open files than the limit"),
        ({"records": 100_000, "record_bytes": 100_000}, "at most 100 MB in a request"),
        ({"seconds": -1.0}, "--seconds -1.0: has to be between 0 and 86400"),
    ],
)
def test_what_it_refuses_in_one_line(change: dict[str, Any], said: str) -> None:
    load = Load(1, 0.1)._replace(**change)
    with pytest.raises(GeneratorFailed) as failure:
        run({"127.0.0.1:1": [0]}, TOPIC, load)
    assert said in str(failure.value)
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run"], "--to HOST:PORT/PARTITIONS says where to connect"),
        (["run", "--to", "127.0.0.1:1"], "has to be HOST:PORT/PARTITIONS"),
        (["run", "--to", "127.0.0.1:1/7-0"], "not a range"),
        (["run", "--to", "127.0.0.1:1/x"], "not a number"),
        (["run", "--loud", "1"], "--loud is not an option of run"),
        (["run", "--records"], "--records needs a value"),
        (["walk"], "walk is not a command"),
        ([], "run or serve is missing"),
    ],
)
def test_a_command_line_that_is_wrong(words: list[str], said: str) -> None:
    done = subprocess.run([generator(), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and said in done.stderr.splitlines()[0]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ProcessCluster]:
    need_generator()
    with ProcessCluster(brokers=1) as cluster:
        cluster.create_topic(TOPIC, partitions=4)
        yield cluster


@pytest.mark.parametrize("version", [3, 7, 9])
def test_a_broker_answers_everybody(cluster: ProcessCluster, version: int) -> None:
    leaders = {cluster.bootstrap_servers: range(4)}
    load = Load(20, 0.3, warm_up_s=0.1, version=version)
    found = run(leaders, TOPIC, load, [cluster.pid(0)])
    assert (found.failures, found.never_answered) == (0, 0)
    assert found.least_answers > 0 and found.connected_all_s is not None
    assert found.broker_us > 0


def test_partitions_that_are_not_there_are_errors(cluster: ProcessCluster) -> None:
    found = run({cluster.bootstrap_servers: [9]}, TOPIC, Load(2, 0.2, warm_up_s=0))
    assert found.requests == 0 and found.failures > 0 and found.never_answered == 0


def test_a_command_names_every_broker() -> None:
    words = command(generator(), {"a:1": [0, 2], "b:2": [1]}, TOPIC, Load(7, 1.0))
    assert [words[at + 1] for at, word in enumerate(words) if word == "--to"] == [
        "a:1/0,2",
        "b:2/1",
    ]
