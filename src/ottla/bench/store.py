"""`ottla bench store`: our server beside Apache ZooKeeper, and our client beside kazoo.

Both servers run on this machine in the same run, fsync on, and are asked by the same kazoo
client, in turns; the best round of each counts, because the machine is shared and noise only
ever slows. Without kazoo or the jars of Apache ZooKeeper the peer's column stays empty.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from ottla.bench.table import Row, chosen_names, exit_code, print_rows
from ottla.errors import OttlaError
from ottla.runtime import system_runtime
from ottla.testing.java import ApacheZooKeeper, missing_reason
from ottla.zk.client.store import ZooKeeperClient

ROUNDS = 7
SINGLE_CREATES = 400
PIPELINED_CREATES = 4000
MULTIS = 200
MULTI_SIZE = 100
GETS = 8000
WATCHING_CLIENTS = 10
WATCHES_EACH = 1000
CLIENT_GETS = 20_000
NODE_DATA = bytes(100)
GOAL_SERVER = 0.9
GOAL_CLIENT = 3.0
TIMEOUT_S = 120.0


class Measured(NamedTuple):
    per_second: float
    cpu_us: float  # per operation, of the side that is measured


class Target(NamedTuple):
    address: str
    pid: int


# Makes everything ready and returns the work to be timed, which returns how much it did.
Prepare = Callable[[Any, Target, str, contextlib.ExitStack], Callable[[], int]]


def main(output: str = "text", only: Sequence[str] = ()) -> int:
    """Prints the table; 1 where a goal was missed."""
    wanted = chosen(only)
    try:
        import kazoo.client  # noqa: F401 - only to see whether it is there
    except ImportError:
        raise OttlaError("`ottla bench store` needs kazoo: install the dev dependencies") from None
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(_our_server())
        peer = None
        reason = missing_reason("zookeeper-3.8")
        if reason is None:
            apache = stack.enter_context(ApacheZooKeeper(tick_ms=2000))
            peer = Target(apache.address, apache.pid)
        else:
            print(f"without Apache ZooKeeper: {reason}", file=sys.stderr)
        rows = _server_rows(ours, peer, wanted)
        if CLIENT_ROW in wanted:
            rows += _client_rows(peer or ours, peer is not None)
    print_rows(rows, output, "The metadata store")
    return exit_code(rows)


def chosen(only: Sequence[str]) -> set[str]:
    """Names of rows; raises OttlaError for an unknown one."""
    return chosen_names(only, (*SERVER_ROWS, CLIENT_ROW))


def _server_rows(ours: Target, peer: Target | None, wanted: set[str]) -> list[Row]:
    rows: list[Row] = []
    for title, work in (row for key, row in SERVER_ROWS.items() if key in wanted):
        measured: dict[Target, list[Measured]] = {}
        for number in range(ROUNDS):
            for target in (ours, peer):
                if target is not None:
                    measured.setdefault(target, []).append(_measure(work, target, f"/r{number}"))
        mine = _best(measured[ours])
        other = _best(measured[peer]) if peer is not None else None
        rows += _rows_of(title, mine, other)
    return rows


def _rows_of(title: str, mine: Measured, other: Measured | None) -> list[Row]:
    rate = Row(
        title,
        mine.per_second,
        other.per_second if other else None,
        "/s",
        f"≥ {GOAL_SERVER}×",
        mine.per_second >= GOAL_SERVER * other.per_second if other else None,
        higher_is_better=True,
    )
    cpu = Row("  server CPU each", mine.cpu_us, other.cpu_us if other else None, "µs")
    return [rate, cpu]


def _best(rounds: list[Measured]) -> Measured:
    return Measured(
        max(round_.per_second for round_ in rounds), min(round_.cpu_us for round_ in rounds)
    )


def _measure(prepare: Prepare, target: Target, root: str) -> Measured:
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(_kazoo(target))
        base = f"{root}-{prepare.__name__}"
        client.create(base, NODE_DATA)
        work = prepare(client, target, base, stack)
        cpu_before, started = _cpu_s(target.pid), time.perf_counter()
        count = work()
        elapsed, cpu = time.perf_counter() - started, _cpu_s(target.pid) - cpu_before
    return Measured(count / elapsed, cpu / count * 1e6)


def _single_creates(
    client: Any, _target: Target, base: str, _stack: contextlib.ExitStack
) -> Callable[[], int]:
    def work() -> int:
        for number in range(SINGLE_CREATES):
            client.create(f"{base}/{number}", NODE_DATA)
        return SINGLE_CREATES

    return work


def _pipelined_creates(
    client: Any, _target: Target, base: str, _stack: contextlib.ExitStack
) -> Callable[[], int]:
    def work() -> int:
        create = client.create_async
        _await_all([create(f"{base}/{i}", NODE_DATA) for i in range(PIPELINED_CREATES)])
        return PIPELINED_CREATES

    return work


def _multi_creates(
    client: Any, _target: Target, base: str, _stack: contextlib.ExitStack
) -> Callable[[], int]:
    def work() -> int:
        pending = []
        for batch in range(MULTIS):
            transaction = client.transaction()
            for number in range(MULTI_SIZE):
                transaction.create(f"{base}/{batch}-{number}", NODE_DATA)
            pending.append(transaction.commit_async())
        _await_all(pending)
        return MULTIS * MULTI_SIZE

    return work


def _gets(
    client: Any, _target: Target, base: str, _stack: contextlib.ExitStack
) -> Callable[[], int]:
    def work() -> int:
        _await_all([client.get_async(base) for _ in range(GETS)])
        return GETS

    return work


def _watch_fan_out(
    client: Any, target: Target, base: str, stack: contextlib.ExitStack
) -> Callable[[], int]:
    """Every client watches every node; multis change them all. Counted: events received."""
    stack.enter_context(_clients_on_one_core())
    heard = _Countdown(WATCHING_CLIENTS * WATCHES_EACH)
    paths = [f"{base}/{number}" for number in range(WATCHES_EACH)]
    _await_all([client.create_async(path, b"") for path in paths])
    for _ in range(WATCHING_CLIENTS):
        watcher = stack.enter_context(_kazoo(target))
        _await_all([watcher.get_async(path, watch=heard) for path in paths])

    def work() -> int:
        for start in range(0, WATCHES_EACH, MULTI_SIZE):
            transaction = client.transaction()
            for path in paths[start : start + MULTI_SIZE]:
                transaction.set_data(path, NODE_DATA)
            transaction.commit_async()
        if not heard.done.wait(TIMEOUT_S):
            raise OttlaError(f"{heard.left} watch events did not come")
        return WATCHING_CLIENTS * WATCHES_EACH

    return work


@contextlib.contextmanager
def _clients_on_one_core() -> Iterator[None]:
    """Holds the threads of this process, kazoo's among them, on one core.

    Eleven kazoo clients are more than thirty threads. Spread over two cores they hand the
    interpreter to each other all the time: the same events then take one to four times as long,
    by chance, whoever sent them, and the row says nothing about the servers.
    """
    allowed = os.sched_getaffinity(0)
    _set_affinity({min(allowed)})
    try:
        yield
    finally:
        _set_affinity(allowed)


def _set_affinity(cores: set[int]) -> None:
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(ProcessLookupError):  # a thread that ended in the meantime
            os.sched_setaffinity(int(thread.name), cores)


class _Countdown:
    """Counts watch events of several client threads."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.done = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, _: object) -> None:
        with self._lock:
            self.left -= 1
            if self.left == 0:
                self.done.set()


def _client_rows(target: Target, is_apache: bool) -> list[Row]:
    with _kazoo(target) as client:
        client.create("/client", NODE_DATA)
        rounds = [
            (_kazoo_gets(client), uvloop.run(_our_client_gets(target.address)))
            for _ in range(ROUNDS)
        ]
    kazoo = _best([theirs for theirs, _ in rounds])
    ours = _best([own for _, own in rounds])
    where = "Apache ZooKeeper" if is_apache else "our server"
    return [
        Row(
            f"gets by our client (peer: kazoo) on {where}",
            ours.per_second,
            kazoo.per_second,
            "/s",
            f"≥ {GOAL_CLIENT:.0f}×",
            ours.per_second >= GOAL_CLIENT * kazoo.per_second,
            higher_is_better=True,
        ),
        Row("  client CPU each", ours.cpu_us, kazoo.cpu_us, "µs"),
    ]


def _kazoo_gets(client: Any) -> Measured:
    started, cpu = time.perf_counter(), time.process_time()
    _await_all([client.get_async("/client") for _ in range(GETS)])
    elapsed, cpu = time.perf_counter() - started, time.process_time() - cpu
    return Measured(GETS / elapsed, cpu / GETS * 1e6)


async def _our_client_gets(address: str) -> Measured:
    client = await ZooKeeperClient.connect(system_runtime(), address)
    started, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(client.get("/client") for _ in range(CLIENT_GETS)))
    elapsed, cpu = time.perf_counter() - started, time.process_time() - cpu
    await client.close()
    return Measured(CLIENT_GETS / elapsed, cpu / CLIENT_GETS * 1e6)


def _await_all(pending: list[Any]) -> None:
    for result in pending:
        result.get(timeout=TIMEOUT_S)


@contextlib.contextmanager
def _kazoo(target: Target) -> Iterator[Any]:
    from kazoo.client import KazooClient

    client = KazooClient(hosts=target.address, timeout=30.0)
    client.start(timeout=TIMEOUT_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()


@contextlib.contextmanager
def _our_server() -> Iterator[Target]:
    with tempfile.TemporaryDirectory(prefix="ottla-bench-store-") as folder:
        command = [sys.executable, "-m", "ottla", "zookeeper", "--port", "0", "--data", folder]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            if process.stdout is None:
                raise OttlaError("the server has no output")
            ready = process.stdout.readline()
            if not ready.startswith("ready: zookeeper="):
                raise OttlaError("our server did not start")
            yield Target(ready.removeprefix("ready: zookeeper=").split()[0], process.pid)
        finally:
            process.terminate()
            process.communicate()


def _cpu_s(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


SERVER_ROWS: dict[str, tuple[str, Prepare]] = {
    "creates": ("creates, one by one", _single_creates),
    "pipelined": ("creates, pipelined", _pipelined_creates),
    "multis": (f"creates in multis of {MULTI_SIZE}", _multi_creates),
    "gets": ("gets, pipelined", _gets),
    "watches": (
        f"watch events, fan-out of {WATCHING_CLIENTS * WATCHES_EACH:,}",
        _watch_fan_out,
    ),
}
CLIENT_ROW = "client"
