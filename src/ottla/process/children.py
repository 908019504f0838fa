"""What runs inside the processes of `ottla up`: the store, a broker, or both in one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from ottla.process.data_folder import config_path, logs_folder, make_private, store_folder
from ottla.process.stop_signals import stop_signals
from ottla.process.store_identity import protect
from ottla.process.tuning import collect_rarely, schedule_as_told
from ottla.process.up_options import UpOptions

# A broker with many logs has much to make durable; one that is killed meanwhile recovers them all.
STOP_TIMEOUT_S = 45.0
STORE = "store"
CONSOLE = "console"


class Pipes:
    """One pipe on which children say that they are ready, one that says the parent lives, and one
    that says that somebody needs the store: the parent and all brokers hold its write end."""

    def __init__(self) -> None:
        self.ready_read, self.ready_write = os.pipe()
        self.lifeline_read, self.lifeline_write = os.pipe()
        self.store_users_read, self.store_users_write = os.pipe()
        os.set_blocking(self.ready_read, False)

    def keep_child_ends(self, *, is_store: bool) -> None:
        os.close(self.ready_read)
        os.close(self.lifeline_write)
        os.close(self.store_users_write if is_store else self.store_users_read)

    def end_lifeline(self) -> None:
        if self.lifeline_write >= 0:
            os.close(self.lifeline_write)
            self.lifeline_write = -1

    def say_ready(self, options: UpOptions) -> None:
        os.write(self.ready_write, b"+")
        if options.detach:
            from ottla.process.logs import leave_stderr

            leave_stderr()

    def count_ready(self) -> int:
        """How many became ready since it was asked last."""
        try:
            return len(os.read(self.ready_read, 4096))
        except BlockingIOError:
            return 0


def store_main(options: UpOptions, pipes: Pipes) -> None:
    from ottla.process.tuning import share_for_connections
    from ottla.runtime import system_runtime
    from ottla.zk.server.admission import MAX_CONNECTIONS
    from ottla.zk.server.server import ZooKeeperServer

    async def main() -> None:
        make_private(store_folder(options.data))
        server = ZooKeeperServer(
            system_runtime(),
            store_folder(options.data),
            host=options.host,
            port=options.zookeeper_port,
            max_connections=min(MAX_CONNECTIONS, share_for_connections() or MAX_CONNECTIONS),
            on_failure=end_at_once,
        )
        await server.start()
        await protect(options, server.engine)
        pipes.say_ready(options)
        await _store_unneeded(pipes)
        await server.stop()

    run_loop(STORE, options, main())


def broker_main(options: UpOptions, broker_id: int, pipes: Pipes) -> None:
    from ottla.config.broker import BrokerConfig
    from ottla.process.node import Node, serve_until
    from ottla.runtime import system_runtime

    config = BrokerConfig.from_file(config_path(options.data, broker_id))

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
        schedule_as_told(config)
        pipes.say_ready(options)
        await serve_until(node, _asked_to_leave(parent_gone))

    run_loop(f"broker-{broker_id}", options, main())


def console_main(options: UpOptions, pipes: Pipes) -> None:
    """A client like any other, in a process of its own: brokers import nothing of it."""
    from ottla.console.server import listen, serve
    from ottla.process.console_settings import console_settings
    from ottla.runtime import system_runtime

    settings = console_settings(options)

    async def main() -> None:
        stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for asked in (_terminated(), _end_of(pipes.lifeline_read)):
            asked.add_done_callback(lambda _: _resolve(stop))
        listener = listen(settings)
        await serve(settings, system_runtime(), listener, stop, lambda: pipes.say_ready(options))

    run_loop(CONSOLE, options, main())


async def serve_alone(
    options: UpOptions,
    ready: Callable[[], None],
    stopping: Callable[[], None],
    store_failed: Callable[[Exception], None],
) -> None:
    """One broker needs no second process: store and broker share one event loop. The broker's
    session is one of this process, which ends with it: after `kill -9` nobody waits for it."""
    from ottla.config.broker import BrokerConfig
    from ottla.process.node import Node, serve_until
    from ottla.runtime import system_runtime
    from ottla.zk.embedded import EmbeddedStore
    from ottla.zk.server.server import ZooKeeperServer

    runtime = system_runtime()
    config = BrokerConfig.from_file(config_path(options.data, 0))
    make_private(store_folder(options.data))
    store = ZooKeeperServer(
        runtime,
        store_folder(options.data),
        host=options.host,
        port=options.zookeeper_port,
        on_failure=store_failed,
    )
    await store.start()
    await protect(options, store.engine)
    # A --set may name another store, or a chroot in this one.
    is_own = config.zookeeper_connect == options.zookeeper_connect
    node = Node(config, runtime, EmbeddedStore(store.engine) if is_own else None)
    stop = asyncio.Event()
    for stop_signal in stop_signals():
        asyncio.get_running_loop().add_signal_handler(stop_signal, stop.set)

    async def nobody_takes_over() -> bool:
        await stop.wait()
        stopping()
        return False

    try:
        await node.start()
        schedule_as_told(config)
        ready()
        await serve_until(node, nobody_takes_over())
    finally:
        await store.stop()


def end_at_once(failure: Exception) -> NoReturn:
    """A store that cannot write answers nobody any more, so an orderly stop would wait forever.
    What it promised is on disk, and brokers recover as after a `kill -9`."""
    with contextlib.suppress(OSError):
        print(f"{STORE}: {failure}", file=sys.stderr, flush=True)
    os._exit(1)


def run_loop(name: str, options: UpOptions, main: Coroutine[Any, Any, None]) -> None:
    import uvloop

    from ottla.process.logs import configure_logging

    collect_rarely()
    configure_logging(logs_folder(options.data), name)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)


async def _asked_to_leave(parent_gone: asyncio.Future[None]) -> bool:
    """True for a broker that leaves alone; with every broker going nobody could take over."""
    await asyncio.wait((_terminated(), parent_gone), return_when=asyncio.FIRST_COMPLETED)
    return not parent_gone.done()


async def _store_unneeded(pipes: Pipes) -> None:
    """The store outlives the brokers: they close their sessions in it when they stop. It goes when
    the parent says so, or when the parent and all brokers are gone; of a broker that stands still
    it does not take notice forever."""
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
