"""The good client beside an attack, a process of its own: how long does it wait?

`python -m ottla.bench.attack_witness broker|store PORT`. It asks every ten milliseconds, from the
line `begin` on its stdin to the line `end`, and then prints what it saw as a line of JSON. A client
that waits does not ask: what others would have waited who came meanwhile is counted in.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections.abc import Callable
from typing import NamedTuple, Self

from ottla.bench import attack_wire as wire
from ottla.testing.running import Running
from ottla.wire import messages as m
from ottla.wire.records import Record, build_batch
from ottla.zk import jute

TOPIC = "witness"
NODE = "/witness"
EVERY_S = 0.01
# Fewer say nothing of the slowest in a hundred.
MIN_TURNS = 50
_WAIT_S = 120.0


class Seen(NamedTuple):
    """What the good client saw: its waits in milliseconds, sorted, and requests that failed."""

    waits_ms: list[float]
    failures: int

    def quantile(self, part: float) -> float:
        if not self.waits_ms:
            return 0.0
        return self.waits_ms[min(len(self.waits_ms) - 1, int(part * len(self.waits_ms)))]


class Witness(Running):
    """The process and its three commands."""

    def __init__(self, kind: str, port: int) -> None:
        self._command = [sys.executable, "-m", __name__, kind, str(port)]
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._line()
        return self

    def begin(self) -> None:
        """Returns when it has been served once."""
        self._tell("begin")
        self._line()

    def end(self) -> Seen:
        self._tell("end")
        return Seen(*json.loads(self._line()))

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def _tell(self, word: str) -> None:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()

    def _line(self) -> str:
        assert self._process is not None and self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ConnectionError("the good client has ended: was it ever served?")
        return line


def with_those_between(wait_s: float, every_s: float = EVERY_S) -> list[float]:
    """A wait, and those of clients that would have come while it lasted."""
    waits = [wait_s]
    while (wait_s := wait_s - every_s) > 0:
        waits.append(wait_s)
    return waits


def broker_request() -> bytes:
    """ApiVersions and a small Produce, of which both are answered."""
    batch = build_batch([Record(offset=0, timestamp=0, key=None, value=b"witness", headers=())])
    partition = m.ProduceRequest.PartitionProduceData(index=0, records=memoryview(batch))
    topic = m.ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[partition])
    produce = m.ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[topic])
    return wire.request(m.ApiVersionsRequest(), 0) + wire.request(produce, 3)


def _broker_turn(port: int) -> Callable[[], None]:
    asked = broker_request()
    peer = wire.Peer(port, _WAIT_S)

    def turn() -> None:
        peer.send(asked)
        if not (peer.read() and peer.read()):
            raise ConnectionError

    return turn


def _store_turn(port: int) -> Callable[[], None]:
    peer = wire.StorePeer(port, _WAIT_S)
    body = jute.write_string(NODE) + b"\x00"

    def turn() -> None:
        error, _ = peer.ask(jute.OP_GET_DATA, body)
        if error:
            raise ConnectionError

    return turn


def main(kind: str, port: int) -> None:
    connect = {"broker": _broker_turn, "store": _store_turn}[kind]
    turn = connect(port)
    _say("ready")
    for line in sys.stdin:
        if line.strip() == "begin":
            turn = _witness(turn, lambda: connect(port))


def _witness(
    turn: Callable[[], None], again: Callable[[], Callable[[], None]]
) -> Callable[[], None]:
    waits: list[float] = []
    failures = 0
    turn()
    _say("begun")
    turns = 0
    while not _is_told(EVERY_S) or turns < MIN_TURNS:
        turns += 1
        began = time.perf_counter()
        try:
            turn()
        except OSError:
            failures += 1
            try:
                turn = again()
            except OSError:
                continue
        waits += with_those_between(time.perf_counter() - began)
    sys.stdin.readline()
    _say(json.dumps([sorted(round(1000 * wait, 2) for wait in waits), failures]))
    return turn


def _is_told(wait_s: float) -> bool:
    """A line has come, or comes within the time."""
    began = time.perf_counter()
    if not select.select([sys.stdin], [], [], wait_s)[0]:
        return False
    time.sleep(max(0.0, wait_s - (time.perf_counter() - began)))
    return True


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
