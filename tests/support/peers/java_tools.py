"""What several judges share: waiting, kazoo's view, and what Java's load generator sends."""

import base64
import random
import string
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self, TypeVar

from kazoo.client import KazooClient

from ottla.testing.java import TOOL_FLAGS, java_command, missing_reason
from tests.support.judges import need

Answer = TypeVar("Answer")
Tool = Callable[..., subprocess.CompletedProcess[str]]
EVENTUALLY_S = 60.0
RUN_TOOLS = Path(__file__).parents[2] / "peers" / "cli_java" / "RunTools.java"


def need_jars(*names: str) -> None:
    """Skips with the reason; in CI, where the peers must be there, fails with it."""
    need(missing_reason(*names))


class Printed(NamedTuple):
    """What a command line tool left behind."""

    returncode: int
    stdout: str
    stderr: str


class ToolSession:
    """One JVM that runs command line tools one after the other: its start costs most of a run."""

    def __init__(self, jars: str, *jvm_options: str) -> None:
        self._jars = jars
        self._jvm_options = jvm_options

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            java_command(self._jars, str(RUN_TOOLS), (*TOOL_FLAGS, *self._jvm_options)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=30)

    def run(self, main_class: str, *arguments: str) -> Printed:
        words = [main_class, *arguments]
        line = " ".join(base64.b64encode(word.encode()).decode() for word in words)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        code, out, err, _ = self._process.stdout.readline().split(" ")
        return Printed(int(code), base64.b64decode(out).decode(), base64.b64decode(err).decode())


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
