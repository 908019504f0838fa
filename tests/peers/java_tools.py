"""What several judges share: waiting, kazoo's view, and what Java's load generator sends."""

import random
import string
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from kazoo.client import KazooClient

Answer = TypeVar("Answer")
EVENTUALLY_S = 20.0


def eventually(ask: Callable[[], Answer], good: Callable[[Answer], bool]) -> Answer:
    """Asks until the answer is good; the last answer is in the failure."""
    deadline = time.monotonic() + EVENTUALLY_S
    while True:
        answer = ask()
        if good(answer):
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"still not so after {EVENTUALLY_S:.0f} s: {answer!r}")
        time.sleep(0.1)


@contextmanager
def kazoo(address: str) -> Iterator[KazooClient]:
    client = KazooClient(hosts=address, timeout=10)
    client.start(timeout=15)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def payloads(count: int, size: int) -> list[bytes]:
    """Distinct lines of printable characters, the same in every run."""
    source = random.Random(2_8_2)
    letters = string.ascii_uppercase
    return ["".join(source.choices(letters, k=size)).encode() for _ in range(count)]


def sent_by_producer_performance(lines: list[bytes], records: int) -> Iterator[bytes]:
    """The values that ProducerPerformance 2.8 draws from a payload file.

    It picks `new java.util.Random(0).nextInt(lines)` per record. With a power of two that is one
    step of Java's generator, so the test knows every value without asking the cluster.
    """
    bound = len(lines)
    if bound & (bound - 1):
        raise ValueError("the number of lines must be a power of two")
    state = 0x5DEECE66D
    for _ in range(records):
        state = (state * 0x5DEECE66D + 0xB) & ((1 << 48) - 1)
        yield lines[(bound * (state >> 17)) >> 31]
