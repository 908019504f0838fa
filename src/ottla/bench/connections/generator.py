"""`ottla-load` (native/load, Rust): many connections, one Produce under way on each.

A client in Python would be the slowest part of such a measurement. The generator also has a server
that does nothing but answer, so that a bench can show what the generator itself could do.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import ottla
from ottla.errors import OttlaError

NAME = "ottla-load"
# Where `make setup` leaves it in a checkout.
BUILT = Path(ottla.__file__).parents[2] / "native/load/target/release" / NAME
# Connections that are begun at a time: a few less than the accept queue of Apache Kafka holds
# (socket.listen.backlog.size), for a connection that finds it full tries again after a second.
CONNECTING = 32
CONNECT_S = 90.0
# Until a run that hangs is given up, beside the times it was given.
PATIENCE_S = 60.0
HOST = "127.0.0.1"


class GeneratorFailed(OttlaError):
    """It is not there, or said why it cannot do what it was asked to."""


class Load(NamedTuple):
    """What one run sends."""

    connections: int
    seconds: float
    warm_up_s: float = 1.0
    version: int = 7
    records: int = 10
    record_bytes: int = 100
    acks: int = 1
    connecting: int = CONNECTING


class Found(NamedTuple):
    """What a run found; times in milliseconds if their name does not say otherwise."""

    requests: int
    requests_per_s: float
    p50_ms: float
    p99_ms: float
    longest_ms: float
    first_answer_p99_ms: float
    # None where not all of them were connected.
    connected_all_s: float | None
    least_answers: int
    most_answers: int
    never_answered: int
    # Answers with an error code, answers to another request, connections that were refused or
    # ended by the broker.
    failures: int
    # Processor time of each request: the generator's, the brokers', the kernel's part in that.
    own_us: float
    broker_us: float
    broker_kernel_us: float


def generator() -> Path:
    """The program; raises GeneratorFailed where it was not built."""
    if BUILT.is_file():
        return BUILT
    on_path = shutil.which(NAME)
    if on_path is None:
        raise GeneratorFailed(
            f"{NAME}, the load generator, is not built: `make setup` does it (needs cargo)"
        )
    return Path(on_path)


def command(
    program: Path, leaders: Mapping[str, Sequence[int]], topic: str, load: Load
) -> list[str]:
    """`leaders`: the partitions that each broker leads, by the broker's address."""
    words = [str(program), "run", "--topic", topic]
    for address, partitions in leaders.items():
        words += ["--to", f"{address}/{','.join(map(str, partitions))}"]
    for name, value in {
        "connections": load.connections,
        "version": load.version,
        "records": load.records,
        "bytes": load.record_bytes,
        "acks": load.acks,
        "connecting": load.connecting,
        "connect-seconds": CONNECT_S,
        "warm-up": load.warm_up_s,
        "seconds": load.seconds,
    }.items():
        words += [f"--{name}", str(value)]
    return words


def run(
    leaders: Mapping[str, Sequence[int]], topic: str, load: Load, pids: Sequence[int] = ()
) -> Found:
    """One run; the processor time is that of the processes `pids`."""
    words = command(generator(), leaders, topic, load)
    if pids:
        words += ["--watch", ",".join(map(str, pids))]
    timeout_s = CONNECT_S + load.warm_up_s + load.seconds + PATIENCE_S
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        raise GeneratorFailed(f"{NAME} was not done after {timeout_s:.0f} s") from None
    if done.returncode != 0:
        raise GeneratorFailed(done.stderr.strip().split("\n")[0] or f"{NAME} failed")
    return found(json.loads(done.stdout))


def found(report: Mapping[str, Any]) -> Found:
    requests = report["requests"]
    watched = report["watched"]
    kernel_s = sum(one["system_s"] for one in watched)
    all_s = kernel_s + sum(one["user_s"] for one in watched)
    answers = report["answers_per_connection"]
    return Found(
        requests=requests,
        requests_per_s=report["requests_per_s"],
        p50_ms=report["latency_ms"]["p50"],
        p99_ms=report["latency_ms"]["p99"],
        longest_ms=report["longest_wait_ms"],
        first_answer_p99_ms=report["first_answer_ms"]["p99"],
        connected_all_s=report["connected_all_s"],
        least_answers=answers["min"],
        most_answers=answers["max"],
        never_answered=report["never_answered"],
        failures=sum(report["errors"].values())
        + sum(report[name] for name in ("wrong_answers", "refused", "closed")),
        own_us=report["own_cpu_us_per_request"],
        broker_us=1e6 * all_s / max(1, requests),
        broker_kernel_us=1e6 * kernel_s / max(1, requests),
    )


class NullServer:
    """Says to every Produce that all went well; nothing is stored."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [str(generator()), "serve"], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.address = f"{HOST}:{self._process.stdout.readline().removeprefix('port ').strip()}"
        return self

    @property
    def pid(self) -> int:
        return self._process.pid

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
