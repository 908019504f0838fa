"""`ottla up`: a store process and N broker processes on this machine, and their end.

The parent imports everything once and forks, so that children start warm and share those pages.
It never starts an event loop or a thread before the forks. Each child holds the read end of a
lifeline pipe: when the parent goes, however it goes, the children see end-of-file and stop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ottla.errors import OttlaError
from ottla.process.tuning import collect_rarely, raise_file_limit, schedule_as_told

HOST = "127.0.0.1"
READY_TIMEOUT_S = 60.0
# A broker with many logs has much to make durable; one that is killed meanwhile recovers them all.
STOP_TIMEOUT_S = 45.0
MAX_BROKERS = 32


@dataclass(frozen=True, slots=True)
class UpOptions:
    """What `ottla up` was asked for (DESIGN section 12 has the defaults)."""

    brokers: int = 1
    port: int = 9092
    zookeeper_port: int = 2181
    zookeeper: str | None = None  # an existing ensemble; then no store is started
    data: Path = Path("ottla-data")
    overrides: Mapping[str, str] = field(default_factory=dict)
    metrics_port: int | None = None  # of the first broker; None: no metrics

    @property
    def zookeeper_connect(self) -> str:
        return self.zookeeper or f"{HOST}:{self.zookeeper_port}"

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{HOST}:{self.port + i}" for i in range(self.brokers))


def broker_properties(options: UpOptions, broker_id: int) -> dict[str, str]:
    """The server.properties of one broker of `ottla up`."""
    address = f"PLAINTEXT://{HOST}:{options.port + broker_id}"
    replication = str(min(3, options.brokers))
    properties = {
        "broker.id": str(broker_id),
        "listeners": address,
        "advertised.listeners": address,
        "log.dirs": str(options.data / f"broker-{broker_id}"),
        "zookeeper.connect": options.zookeeper_connect,
        "zookeeper.session.timeout.ms": "6000",
        "offsets.topic.replication.factor": replication,
        "transaction.state.log.replication.factor": replication,
        "transaction.state.log.min.isr": str(min(2, options.brokers)),
        "group.initial.rebalance.delay.ms": "0",
        "ottla.lifecycle.topic.enable": "true",
    }
    if options.metrics_port is not None:
        properties["ottla.metrics.port"] = str(options.metrics_port + broker_id)
    return properties | dict(options.overrides)


def config_path(data: Path, broker_id: int) -> Path:
    return data / "config" / f"broker-{broker_id}.properties"


def pid_path(data: Path, name: str) -> Path:
    return data / "run" / f"{name}.pid"


@dataclass(slots=True)
class _Child:
    name: str
    pid: int


class _Pipes:
    """One pipe on which children say that they are ready, one that says the parent lives."""

    def __init__(self) -> None:
        self.ready_read, self.ready_write = os.pipe()
        self.lifeline_read, self.lifeline_write = os.pipe()

    def keep_child_ends(self) -> None:
        os.close(self.ready_read)
        os.close(self.lifeline_write)

    def end_lifeline(self) -> None:
        if self.lifeline_write >= 0:
            os.close(self.lifeline_write)
            self.lifeline_write = -1


def run(options: UpOptions) -> int:
    """Runs until SIGINT or SIGTERM; the exit code of `ottla up`."""
    _prepare_folders(options)
    raise_file_limit()
    print(f"data folder: {options.data.resolve()}", flush=True)
    if options.brokers == 1 and options.zookeeper is None:
        return _run_alone(options)
    import ottla.process.node  # noqa: F401  (imported before the forks: children share it)

    watched = {signal.SIGCHLD, signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    pipes = _Pipes()
    children: list[_Child] = []
    try:
        if options.zookeeper is None:
            children.append(_fork("store", options, pipes, partial(_store_main, options, pipes)))
        for broker_id in range(options.brokers):
            children.append(
                _fork(
                    f"broker-{broker_id}",
                    options,
                    pipes,
                    partial(_broker_main, options, broker_id, pipes),
                )
            )
        if not _await_ready(pipes, children):
            return 1
        _print_ready(options, children)
        return _watch(children, watched)
    finally:
        pipes.end_lifeline()
        _reap(children)
        for child_name in ["store", *(f"broker-{i}" for i in range(options.brokers))]:
            pid_path(options.data, child_name).unlink(missing_ok=True)


def _prepare_folders(options: UpOptions) -> None:
    from ottla.config.broker import BrokerConfig
    from ottla.config.definitions import format_properties

    for name in ("config", "run", "logs"):
        (options.data / name).mkdir(parents=True, exist_ok=True)
    for broker_id in range(options.brokers):
        properties = broker_properties(options, broker_id)
        BrokerConfig.from_properties(properties)  # a bad --set fails here, in one line
        config_path(options.data, broker_id).write_text(format_properties(properties))


def _fork(name: str, options: UpOptions, pipes: _Pipes, main: Callable[[], None]) -> _Child:
    pid = os.fork()
    if pid:
        pid_path(options.data, name).write_text(f"{pid}\n")
        return _Child(name, pid)
    code = 1
    try:
        # Ctrl-C goes to the whole foreground group: only the parent acts on it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        pipes.keep_child_ends()
        main()
        code = 0
    except OttlaError as error:
        print(f"{name}: {error}", file=sys.stderr, flush=True)
    except OSError as error:
        print(f"{name}: {error.strerror or error} {error.filename or ''}".rstrip(), file=sys.stderr)
    finally:
        sys.stderr.flush()
        os._exit(code)


def _store_main(options: UpOptions, pipes: _Pipes) -> None:
    from ottla.runtime import system_runtime
    from ottla.zk.server.server import ZooKeeperServer

    async def main() -> None:
        server = ZooKeeperServer(
            system_runtime(), options.data / "store", host=HOST, port=options.zookeeper_port
        )
        await server.start()
        os.write(pipes.ready_write, b"+")
        # The store outlives the brokers: they close their sessions in it when they stop.
        await _stop_requested(pipes, ignore_lifeline_for_s=STOP_TIMEOUT_S)
        await server.stop()

    _run_loop("store", options, main())


def _broker_main(options: UpOptions, broker_id: int, pipes: _Pipes) -> None:
    from ottla.config.broker import BrokerConfig
    from ottla.process.node import Node, serve_until
    from ottla.runtime import system_runtime

    config = BrokerConfig.from_file(config_path(options.data, broker_id))
    schedule_as_told(config)

    async def main() -> None:
        node = Node(config, system_runtime())
        await node.start()
        os.write(pipes.ready_write, b"+")
        await serve_until(node, _asked_to_leave(pipes))

    _run_loop(f"broker-{broker_id}", options, main())


def _run_alone(options: UpOptions) -> int:
    """One broker needs no second process: store and broker share one event loop. The broker's
    session is one of this process, which ends with it: after `kill -9` nobody waits for it."""
    from ottla.config.broker import BrokerConfig
    from ottla.process.node import Node, serve_until
    from ottla.runtime import system_runtime
    from ottla.zk.embedded import EmbeddedStore
    from ottla.zk.server.server import ZooKeeperServer

    async def main() -> None:
        runtime = system_runtime()
        store = ZooKeeperServer(
            runtime, options.data / "store", host=HOST, port=options.zookeeper_port
        )
        await store.start()
        config = BrokerConfig.from_file(config_path(options.data, 0))
        schedule_as_told(config)
        # A --set may name another store, or a chroot in this one.
        is_own = config.zookeeper_connect == options.zookeeper_connect
        node = Node(config, runtime, EmbeddedStore(store.engine) if is_own else None)
        stop = asyncio.Event()
        for stop_signal in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(stop_signal, stop.set)

        async def nobody_takes_over() -> bool:
            await stop.wait()
            print("stopping", file=sys.stderr, flush=True)
            return False

        try:
            await node.start()
            _print_ready(options, [_Child("broker-0", os.getpid())])
            await serve_until(node, nobody_takes_over())
        finally:
            await store.stop()

    pid_path(options.data, "broker-0").write_text(f"{os.getpid()}\n")
    try:
        _run_loop("broker-0", options, main())
    finally:
        pid_path(options.data, "broker-0").unlink(missing_ok=True)
    return 0


def _run_loop(name: str, options: UpOptions, main: Coroutine[Any, Any, None]) -> None:
    import uvloop

    from ottla.process.logs import configure_logging

    collect_rarely()
    configure_logging(options.data / "logs", name)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)


async def _asked_to_leave(pipes: _Pipes) -> bool:
    """True for a broker that leaves alone; with every broker going nobody could take over."""
    whole_cluster_stops = await _stop_requested(pipes)
    return not whole_cluster_stops


async def _stop_requested(pipes: _Pipes, ignore_lifeline_for_s: float = 0.0) -> bool:
    """Waits for SIGTERM (false) or the parent's end (true)."""
    loop = asyncio.get_running_loop()
    lifeline_cut: asyncio.Future[bool] = loop.create_future()

    def resolve(value: bool) -> None:
        if not lifeline_cut.done():
            lifeline_cut.set_result(value)

    def on_lifeline() -> None:
        loop.remove_reader(pipes.lifeline_read)
        loop.call_later(ignore_lifeline_for_s, resolve, True)

    loop.add_signal_handler(signal.SIGTERM, resolve, False)
    loop.add_reader(pipes.lifeline_read, on_lifeline)
    return await lifeline_cut


def _await_ready(pipes: _Pipes, children: list[_Child]) -> bool:
    """True when every child wrote its byte; false as soon as one ended instead."""
    missing = len(children)
    waited_s = 0.0
    while missing > 0 and waited_s < READY_TIMEOUT_S:
        readable, _, _ = select.select([pipes.ready_read], [], [], 0.1)
        if readable:
            missing -= len(os.read(pipes.ready_read, missing))
            continue
        waited_s += 0.1
        for child in children:
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if pid:
                children.remove(child)
                print(f"{child.name} did not start ({_ending(status)})", file=sys.stderr)
                return False
    if missing > 0:
        print(f"not ready after {READY_TIMEOUT_S:.0f} s; see the logs", file=sys.stderr)
    return missing == 0


def _print_ready(options: UpOptions, children: list[_Child]) -> None:
    for child in children:
        print(f"{child.name}: pid {child.pid}")
    if options.metrics_port is not None:
        for broker_id in range(options.brokers):
            print(f"metrics: http://{HOST}:{options.metrics_port + broker_id}/metrics")
    print(
        f"ready: bootstrap.servers={options.bootstrap_servers} "
        f"zookeeper={options.zookeeper_connect}",
        flush=True,
    )


def _watch(children: list[_Child], watched: set[signal.Signals]) -> int:
    """Reports children that end; returns when asked to stop or when the cluster cannot go on."""
    while True:
        if signal.sigwait(watched) != signal.SIGCHLD:
            print("stopping", file=sys.stderr, flush=True)
            return 0
        for child in list(children):
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if not pid:
                continue
            children.remove(child)
            print(f"{child.name} (pid {pid}) ended: {_ending(status)}", file=sys.stderr, flush=True)
            if child.name == "store" or not children:
                return 1
            if [c.name for c in children] == ["store"]:
                print("no broker is left; the store goes on for `ottla broker`", file=sys.stderr)


def _ending(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _reap(children: list[_Child]) -> None:
    """Brokers first (the lifeline told them), then the store, then whoever did not listen."""
    brokers = [child for child in children if child.name != "store"]
    _await_end(brokers)
    store = [child for child in children if child.name == "store"]
    for child in store:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGTERM)
    _await_end(store)


def _await_end(children: list[_Child]) -> None:
    import time  # the supervisor has no event loop; this is the one place that polls

    deadline = time.monotonic() + STOP_TIMEOUT_S
    waiting = list(children)
    while waiting and time.monotonic() < deadline:
        waiting = [child for child in waiting if os.waitpid(child.pid, os.WNOHANG)[0] == 0]
        if waiting:
            time.sleep(0.02)
    for child in waiting:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)
