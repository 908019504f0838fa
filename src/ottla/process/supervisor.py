"""`ottla up`: a store process and N broker processes on this machine, and their end.

The parent imports everything once and forks, so that children start warm and share those pages.
It never starts an event loop or a thread before the forks. Each child holds the read end of a
lifeline pipe: when the parent goes, however it goes, the children see end-of-file and stop. The
store sees in the same way when the parent and all brokers are gone, and goes last.
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
from typing import Any, TextIO

from ottla.errors import OttlaError
from ottla.process.claim import await_unlocked, check_port, lock_for_up
from ottla.process.data_folder import (
    config_path,
    pid_path,
    remove_pid,
    run_folder,
    store_folder,
    write_pid,
)
from ottla.process.stop_signals import stop_signals
from ottla.process.tuning import collect_rarely, raise_file_limit, schedule_as_told
from ottla.runtime import HeldLock, SystemDisk

HOST = "127.0.0.1"
READY_TIMEOUT_S = 60.0
# A broker with many logs has much to make durable; one that is killed meanwhile recovers them all.
STOP_TIMEOUT_S = 45.0
MAX_BROKERS = 32
STORE = "store"


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
        "log.dirs": str(options.data.absolute() / f"broker-{broker_id}"),
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
    given = dict(options.overrides)
    for key in ("log.dirs", "log.dir"):
        if key in given:
            folders = (part.strip() for part in given[key].split(","))
            given[key] = ",".join(str(Path(part).absolute()) for part in folders if part)
    return properties | given


@dataclass(slots=True)
class _Child:
    name: str
    pid: int
    pid_file: Path

    def forget_pid(self) -> None:
        """A pid file speaks of a process that lives; a broker that was started again by hand has
        its own there."""
        remove_pid(self.pid_file, self.pid)


class _Pipes:
    """One pipe on which children say that they are ready, one that says the parent lives, and one
    that says that somebody needs the store: the parent and all brokers hold its write end."""

    def __init__(self) -> None:
        self.ready_read, self.ready_write = os.pipe()
        self.lifeline_read, self.lifeline_write = os.pipe()
        self.store_users_read, self.store_users_write = os.pipe()

    def keep_child_ends(self, *, is_store: bool) -> None:
        os.close(self.ready_read)
        os.close(self.lifeline_write)
        os.close(self.store_users_write if is_store else self.store_users_read)

    def end_lifeline(self) -> None:
        if self.lifeline_write >= 0:
            os.close(self.lifeline_write)
            self.lifeline_write = -1


def run(options: UpOptions) -> int:
    """Runs until SIGINT, SIGTERM or SIGHUP; the exit code of `ottla up`."""
    raise_file_limit()
    lock = _claim(options)
    try:
        _prepare_folders(options)
        _say(f"data folder: {options.data.resolve()}", sys.stdout)
        if options.brokers == 1 and options.zookeeper is None:
            return _run_alone(options)
        return _run_children(options)
    finally:
        lock.release()


def _claim(options: UpOptions) -> HeldLock:
    """Lock, then ports: nothing that anybody may use is written before both are known to be
    free. A bad --set fails here too, in one line."""
    from ottla.config.broker import BrokerConfig

    disk, folders = SystemDisk(), [store_folder(options.data)]
    configs: list[BrokerConfig] = []
    for broker_id in range(options.brokers):
        config = BrokerConfig.from_properties(broker_properties(options, broker_id))
        configs.append(config)
        folders += config.log_dirs
    if "," in str(options.data.absolute()) and "log.dirs" not in options.overrides:
        raise OttlaError(
            f"{options.data.absolute()} has a comma, which separates folders in log.dirs: choose "
            "another folder with --data"
        )
    run_folder(options.data).mkdir(parents=True, exist_ok=True)
    lock = lock_for_up(disk, options.data, run_folder(options.data))
    try:
        await_unlocked(disk, folders)
        if options.zookeeper is None:
            check_port(HOST, options.zookeeper_port, "the store", "--zookeeper-port")
        for broker_id, config in enumerate(configs):
            for endpoint in config.listeners:
                check_port(endpoint.host, endpoint.port, f"broker-{broker_id}", "--port")
    except BaseException:
        lock.release()
        raise
    return lock


def _run_children(options: UpOptions) -> int:
    import ottla.process.node  # noqa: F401  (imported before the forks: children share it)

    # Some starters ignore it, and so would this process: children would be gone before they are
    # waited for.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    watched = {signal.SIGCHLD, *stop_signals()}
    signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    pipes = _Pipes()
    children: list[_Child] = []
    try:
        if options.zookeeper is None:
            children.append(_fork(STORE, options, pipes, partial(_store_main, options, pipes)))
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
        for child in children:
            child.forget_pid()


def _prepare_folders(options: UpOptions) -> None:
    from ottla.config.definitions import format_properties

    for name in ("config", "logs"):
        (options.data / name).mkdir(parents=True, exist_ok=True)
    for broker_id in range(options.brokers):
        properties = broker_properties(options, broker_id)
        config_path(options.data, broker_id).write_text(format_properties(properties))


def _fork(name: str, options: UpOptions, pipes: _Pipes, main: Callable[[], None]) -> _Child:
    pid = os.fork()
    if pid:
        child = _Child(name, pid, pid_path(options.data, name))
        write_pid(child.pid_file, pid)
        return child
    code = 1
    try:
        # Ctrl-C and the end of a terminal go to the whole group: only the parent acts on them.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        pipes.keep_child_ends(is_store=name == STORE)
        main()
        code = 0
    except OttlaError as error:
        _say(f"{name}: {error}")
    except OSError as error:
        _say(f"{name}: {error.strerror or error} {error.filename or ''}".rstrip())
    finally:
        os._exit(code)


def _store_main(options: UpOptions, pipes: _Pipes) -> None:
    from ottla.runtime import system_runtime
    from ottla.zk.server.server import ZooKeeperServer

    async def main() -> None:
        server = ZooKeeperServer(
            system_runtime(),
            store_folder(options.data),
            host=HOST,
            port=options.zookeeper_port,
            on_failure=partial(_end_at_once, None),
        )
        await server.start()
        os.write(pipes.ready_write, b"+")
        await _store_unneeded(pipes)
        await server.stop()

    _run_loop(STORE, options, main())


def _broker_main(options: UpOptions, broker_id: int, pipes: _Pipes) -> None:
    from ottla.config.broker import BrokerConfig
    from ottla.process.node import Node, serve_until
    from ottla.runtime import system_runtime

    config = BrokerConfig.from_file(config_path(options.data, broker_id))
    schedule_as_told(config)

    async def main() -> None:
        node = Node(config, system_runtime())
        parent_gone = _end_of(pipes.lifeline_read)
        starting = asyncio.ensure_future(node.start())
        await asyncio.wait((starting, parent_gone), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            # Nobody waits for it any more; the store, which it may be waiting for, goes too.
            starting.cancel()
            await asyncio.wait((starting,))
            return
        starting.result()
        os.write(pipes.ready_write, b"+")
        await serve_until(node, _asked_to_leave(parent_gone))

    _run_loop(f"broker-{broker_id}", options, main())


def _run_alone(options: UpOptions) -> int:
    """One broker needs no second process: store and broker share one event loop. The broker's
    session is one of this process, which ends with it: after `kill -9` nobody waits for it."""
    from ottla.config.broker import BrokerConfig
    from ottla.process.node import Node, serve_until
    from ottla.runtime import system_runtime
    from ottla.zk.embedded import EmbeddedStore
    from ottla.zk.server.server import ZooKeeperServer

    pid_file = pid_path(options.data, "broker-0")

    async def main() -> None:
        runtime = system_runtime()
        store = ZooKeeperServer(
            runtime,
            store_folder(options.data),
            host=HOST,
            port=options.zookeeper_port,
            on_failure=partial(_end_at_once, pid_file),
        )
        await store.start()
        config = BrokerConfig.from_file(config_path(options.data, 0))
        schedule_as_told(config)
        # A --set may name another store, or a chroot in this one.
        is_own = config.zookeeper_connect == options.zookeeper_connect
        node = Node(config, runtime, EmbeddedStore(store.engine) if is_own else None)
        stop = asyncio.Event()
        for stop_signal in stop_signals():
            asyncio.get_running_loop().add_signal_handler(stop_signal, stop.set)

        async def nobody_takes_over() -> bool:
            await stop.wait()
            _say("stopping")
            return False

        try:
            await node.start()
            _print_ready(options, [_Child("broker-0", os.getpid(), pid_file)])
            await serve_until(node, nobody_takes_over())
        finally:
            await store.stop()

    write_pid(pid_file, os.getpid())
    try:
        _run_loop("broker-0", options, main())
    finally:
        remove_pid(pid_file, os.getpid())
    return 0


def _run_loop(name: str, options: UpOptions, main: Coroutine[Any, Any, None]) -> None:
    import uvloop

    from ottla.process.logs import configure_logging

    collect_rarely()
    configure_logging(options.data / "logs", name)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)


async def _asked_to_leave(parent_gone: asyncio.Future[None]) -> bool:
    """True for a broker that leaves alone; with every broker going nobody could take over."""
    await asyncio.wait((_terminated(), parent_gone), return_when=asyncio.FIRST_COMPLETED)
    return not parent_gone.done()


def _end_at_once(pid_file: Path | None, failure: OttlaError) -> None:
    """A store that cannot write answers nobody any more, so an orderly stop would wait for ever.
    What it promised is on disk, and brokers recover as after a `kill -9`."""
    _say(f"{STORE}: {failure}")
    if pid_file is not None:
        remove_pid(pid_file, os.getpid())
    os._exit(1)


async def _store_unneeded(pipes: _Pipes) -> None:
    """The store outlives the brokers: they close their sessions in it when they stop. It goes when
    the parent says so, or when the parent and all brokers are gone; of a broker that stands still
    it does not take notice for ever."""
    nobody_left = _end_of(pipes.store_users_read)
    await asyncio.wait(
        (terminated := _terminated(), nobody_left, parent_gone := _end_of(pipes.lifeline_read)),
        return_when=asyncio.FIRST_COMPLETED,
    )
    if parent_gone.done():
        await asyncio.wait(
            (terminated, nobody_left), timeout=STOP_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED
        )


def _terminated() -> asyncio.Future[None]:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    loop.add_signal_handler(signal.SIGTERM, _resolve, future)
    return future


def _end_of(pipe: int) -> asyncio.Future[None]:
    """Done when nobody has the write end any more; nothing is ever written."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def at_end() -> None:
        loop.remove_reader(pipe)
        _resolve(future)

    loop.add_reader(pipe, at_end)
    return future


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


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
                child.forget_pid()
                _say(f"{child.name} did not start ({_ending(status)})")
                return False
    if missing > 0:
        _say(f"not ready after {READY_TIMEOUT_S:.0f} s; see the logs")
    return missing == 0


def _print_ready(options: UpOptions, children: list[_Child]) -> None:
    for child in children:
        _say(f"{child.name}: pid {child.pid}", sys.stdout)
    if options.metrics_port is not None:
        for broker_id in range(options.brokers):
            _say(f"metrics: http://{HOST}:{options.metrics_port + broker_id}/metrics", sys.stdout)
    _say(
        f"ready: bootstrap.servers={options.bootstrap_servers} "
        f"zookeeper={options.zookeeper_connect}",
        sys.stdout,
    )


def _say(text: str, stream: TextIO | None = None) -> None:
    """A terminal that is gone must not keep a cluster from its orderly stop."""
    with contextlib.suppress(OSError):
        print(text, file=stream or sys.stderr, flush=True)


def _watch(children: list[_Child], watched: set[signal.Signals]) -> int:
    """Reports children that end; returns when asked to stop or when the cluster cannot go on."""
    while True:
        if signal.sigwait(watched) != signal.SIGCHLD:
            _say("stopping")
            return 0
        for child in list(children):
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if not pid:
                continue
            children.remove(child)
            child.forget_pid()
            _say(f"{child.name} (pid {pid}) ended: {_ending(status)}")
            if child.name == STORE or not children:
                return 1
            if [c.name for c in children] == [STORE]:
                _say("no broker is left; the store goes on for `ottla broker`")


def _ending(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _reap(children: list[_Child]) -> None:
    """Brokers first (the lifeline told them), then the store, then whoever did not listen."""
    brokers = [child for child in children if child.name != STORE]
    _await_end(brokers)
    store = [child for child in children if child.name == STORE]
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
