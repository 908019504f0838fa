"""Consumers as plain sockets: they fetch a partition from its beginning and look at nothing else.

`python -m ottla.bench.reads.scan` takes its orders as JSON on standard input and answers with one
line of JSON. It has a process of its own so that its CPU can be told from that of the brokers.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

from ottla.bench.processes import cpu_by_process, cpu_since
from ottla.errors import ErrorCode, OttlaError
from ottla.wire import messages as m
from ottla.wire.framing import decode_response_header, encode_request
from ottla.wire.records import iter_batches, read_header

# The newest without topic ids, for every side.
FETCH_VERSION = 12
_FETCH_KEY = 1
_LENGTH_BYTES = 4
_READ_BYTES = 1 << 20
_PATIENCE_S = 60.0


class ScanFailed(OttlaError):
    """A broker did not give what was asked for."""


@dataclass(frozen=True)
class Orders:
    host: str
    port: int
    topic: str
    consumers: int
    fetch_bytes: int
    # How many times each consumer reads everything; 0: one reads it once, and that is all.
    passes: int
    # The processes of the cluster, whose CPU is counted.
    pids: tuple[int, ...]


class Scanned(NamedTuple):
    megabytes_per_s: float
    # What the cluster took for a megabyte, in microseconds.
    cpu_us: float
    # What this process took of a core.
    own_share: float
    megabytes: float


def fetch_frame(topic: str, offset: int, fetch_bytes: int) -> bytes:
    request = m.FetchRequest
    message = request(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=fetch_bytes,
        topics=[
            request.FetchTopic(
                topic=topic,
                partitions=[
                    request.FetchPartition(
                        partition=0, fetch_offset=offset, partition_max_bytes=fetch_bytes
                    )
                ],
            )
        ],
    )
    return b"".join(encode_request(message, FETCH_VERSION, 1, "reader"))


def next_offset(answer: memoryview) -> int | None:
    """Behind the last whole batch; None where there is none. Without the length in front."""
    _, position = decode_response_header(answer, _FETCH_KEY, FETCH_VERSION)
    response, _ = m.FetchResponse.decode(answer, FETCH_VERSION, position)
    partition = response.responses[0].partitions[0]
    if partition.error_code != ErrorCode.NONE:
        raise ScanFailed(f"Fetch failed with {ErrorCode(partition.error_code).name}")
    last = None
    for _, batch in iter_batches(partition.records or memoryview(b"")):
        last = read_header(batch).next_offset
    return last


class Reader:
    """One connection, one request under way."""

    def __init__(self, orders: Orders) -> None:
        self.sock = socket.create_connection((orders.host, orders.port), _PATIENCE_S)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setblocking(False)
        self.place = 0
        # Of the answer under way.
        self.missing = 0

    def ask(self, frame: bytes) -> None:
        self.missing = 0
        self.sock.send(frame)


def learn(orders: Orders) -> list[bytes]:
    """The requests of a whole pass, made by reading it once."""
    frames: list[bytes] = []
    offset: int | None = 0
    with socket.create_connection((orders.host, orders.port), _PATIENCE_S) as sock:
        file = sock.makefile("rb")
        while offset is not None:
            frames.append(fetch_frame(orders.topic, offset, orders.fetch_bytes))
            sock.sendall(frames[-1])
            size = int.from_bytes(file.read(_LENGTH_BYTES), "big")
            offset = next_offset(memoryview(file.read(size)))
    frames.pop()
    if not frames:
        raise ScanFailed(f"{orders.topic} has no records")
    return frames


def run(orders: Orders) -> Scanned:
    began = time.perf_counter()
    frames = learn(orders)
    if not orders.passes:
        megabytes = len(frames) * orders.fetch_bytes / 1e6
        return Scanned(megabytes / (time.perf_counter() - began), 0.0, 0.0, megabytes)
    total_frames = len(frames) * orders.passes
    epoll = select.epoll()
    readers = {}
    for _ in range(orders.consumers):
        reader = Reader(orders)
        readers[reader.sock.fileno()] = reader
        epoll.register(reader.sock.fileno(), select.EPOLLIN)
    buffer = bytearray(_READ_BYTES)
    view = memoryview(buffer)
    before, own_before = cpu_by_process(orders.pids), time.process_time()
    began = time.perf_counter()
    for reader in readers.values():
        reader.ask(frames[0])
    received, busy = 0, len(readers)
    while busy:
        events = epoll.poll(_PATIENCE_S)
        if not events:
            raise ScanFailed("a fetch was not answered")
        for fd, _ in events:
            reader = readers[fd]
            size = reader.sock.recv_into(view)
            if not size:
                raise ScanFailed("the broker closed a connection")
            received += size
            if not reader.missing:
                # The length comes with the first bytes, in practice.
                reader.missing = _LENGTH_BYTES + int.from_bytes(buffer[:_LENGTH_BYTES], "big")
            reader.missing -= size
            if not reader.missing:
                reader.place += 1
                if reader.place < total_frames:
                    reader.ask(frames[reader.place % len(frames)])
                else:
                    busy -= 1
    taken = time.perf_counter() - began
    cpu_s = cpu_since(before, cpu_by_process(orders.pids))
    own_s = time.process_time() - own_before
    for reader in readers.values():
        reader.sock.close()
    epoll.close()
    megabytes = received / 1e6
    return Scanned(megabytes / taken, 1e6 * cpu_s / megabytes, own_s / taken, megabytes)


def parse(given: dict[str, Any]) -> Orders:
    return Orders(**{**given, "pids": tuple(given["pids"])})


def main() -> None:
    try:
        result = run(parse(json.loads(sys.stdin.readline())))
    except (ScanFailed, OSError) as error:
        sys.exit(f"the scan failed: {error}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
