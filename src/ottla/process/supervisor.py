"""`ottla up`: a store process and N broker processes on this machine, and their end.

The parent imports everything once and forks, so that children start warm and share those pages.
It never starts an event loop or a thread before the forks. Each child holds the read end of a
lifeline pipe: when the parent goes, however it goes, the children see end-of-file and stop. The
store sees in the same way when the parent and all brokers are gone, and goes last.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import shlex
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TextIO

from ottla.errors import OttlaError
from ottla.process import children as inside
from ottla.process import store_identity, titles
from ottla.process.children import CONSOLE, STOP_TIMEOUT_S, STORE, Pipes
from ottla.process.claim import claim
from ottla.process.console_settings import console_address
from ottla.process.data_folder import (
    config_path,
    digest_path,
    logs_folder,
    pid_path,
    remove_pid,
    state_path,
    write_pid,
    write_private,
)
from ottla.process.detached import Background, detach
from ottla.process.restarts import Restarts
from ottla.process.running import describe_processes
from ottla.process.stop_signals import stop_signals
from ottla.process.tuning import raise_file_limit
from ottla.process.up_options import UpOptions, broker_properties, join_address
from ottla.runtime import replace_file

logger = logging.getLogger(__name__)

READY_TIMEOUT_S = 60.0
_READY_LOOK_S = 0.1


def run(options: UpOptions) -> int:
    """Runs until SIGINT, SIGTERM or SIGHUP; the exit code of `ottla up`."""
    raise_file_limit()
    # The command line may hold more than `ps` should show to others.
    titles.set_title("up", options.data)
    options = replace(options, is_store_closed=digest_path(options.data).exists())
    background: Background | None = None
    if options.detach:
        side = detach()
        if isinstance(side, int):
            return side
        background = side
    lock = claim(options)
    try:
        if background is not None:
            background.print_to(logs_folder(options.data) / "up.log")
        prepare_folders(options)
        say(f"data folder: {options.data.resolve()}", sys.stdout)
        # Who is to be started again needs somebody else who does it.
        has_children = options.restart or options.console_port is not None
        if options.brokers == 1 and options.zookeeper is None and not has_children:
            return _run_alone(options, background)
        return _Processes(options, background).run()
    finally:
        state_path(options.data).unlink(missing_ok=True)
        lock.release()
        if background is not None:
            background.tell_failed()


def prepare_folders(options: UpOptions) -> None:
    from ottla.config.definitions import format_properties

    state = state_path(options.data)
    for folder in (config_path(options.data, 0).parent, logs_folder(options.data), state.parent):
        folder.mkdir(parents=True, exist_ok=True)
    for broker_id in range(options.brokers):
        properties = broker_properties(options, broker_id)
        write_private(config_path(options.data, broker_id), format_properties(properties))
    store_identity.prepare(options)
    replace_file(state, describe_processes(options).encode(), 0o644)


def _run_alone(options: UpOptions, background: Background | None) -> int:
    pid_file = pid_path(options.data, "broker-0")

    def ready() -> None:
        _print_ready(options, {"broker-0": os.getpid()})
        if background is not None:
            from ottla.process.logs import leave_stderr

            background.tell_ready()
            leave_stderr()

    def store_failed(failure: Exception) -> None:
        remove_pid(pid_file, os.getpid())
        state_path(options.data).unlink(missing_ok=True)
        inside.end_at_once(failure)

    write_pid(pid_file, os.getpid())
    try:
        inside.run_loop(
            "broker-0",
            options,
            inside.serve_alone(options, ready, lambda: say("stopping"), store_failed),
        )
    finally:
        remove_pid(pid_file, os.getpid())
    return 0


@dataclass(slots=True)
class _Child:
    name: str
    pid: int
    pid_file: Path
    started_s: float

    def forget_pid(self) -> None:
        """A pid file speaks of a process that lives; a broker that was started again by hand has
        its own there."""
        remove_pid(self.pid_file, self.pid)


class _Processes:
    """The children of one `ottla up`, from the first fork to the last wait."""

    def __init__(self, options: UpOptions, background: Background | None) -> None:
        self._options = options
        self._background = background
        self._pipes = Pipes()
        self._children: list[_Child] = []
        self._restarts = Restarts()
        self._stop_signals = stop_signals()
        self._mains: dict[str, Callable[[], None]] = {}
        if options.zookeeper is None:
            self._mains[STORE] = partial(inside.store_main, options, self._pipes)
        for broker_id in range(options.brokers):
            main = partial(inside.broker_main, options, broker_id, self._pipes)
            self._mains[f"broker-{broker_id}"] = main
        if options.console_port is not None:
            self._mains[CONSOLE] = partial(inside.console_main, options, self._pipes)

    def run(self) -> int:
        import ottla.process.node  # noqa: F401  (imported before the forks: children share it)

        # Some starters ignore it, and so would this process: children would be gone before they
        # are waited for.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # The alarm says that somebody is to be started again.
        watched = {signal.SIGCHLD, signal.SIGALRM, *self._stop_signals}
        signal.pthread_sigmask(signal.SIG_BLOCK, watched)
        try:
            for name in self._mains:
                self._fork(name)
            code = self._await_ready()
            if code is not None:
                return code
            _print_ready(self._options, {child.name: child.pid for child in self._children})
            if self._background is not None:
                self._background.tell_ready()
            return self._watch(watched)
        finally:
            self._pipes.end_lifeline()
            self._reap()
            for child in self._children:
                child.forget_pid()

    def _fork(self, name: str) -> _Child:
        pid = os.fork()
        if not pid:
            self._be(name)
        child = _Child(name, pid, pid_path(self._options.data, name), time.monotonic())
        self._children.append(child)
        write_pid(child.pid_file, pid)
        return child

    def _be(self, name: str) -> None:
        """The life of a child. Does not return."""
        code = 1
        try:
            # Ctrl-C and the end of a terminal go to the whole group: only the parent acts on them.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_SETMASK, set())
            self._pipes.keep_child_ends(is_store=name == STORE)
            if self._background is not None:
                self._background.forget_terminal()
            titles.set_title(name, self._options.data)
            self._mains[name]()
            code = 0
        except OttlaError as error:
            say(f"{name}: {error}")
        except OSError as error:
            say(f"{name}: {error.strerror or error} {error.filename or ''}".rstrip())
        except Exception:
            logger.exception("%s ends by a mistake of its own", name)
        finally:
            os._exit(code)

    def _await_ready(self) -> int | None:
        """None when every child is ready; an exit code as soon as one ended instead."""
        missing = len(self._children)
        deadline_s = time.monotonic() + READY_TIMEOUT_S
        while missing > 0:
            select.select([self._pipes.ready_read], [], [], _READY_LOOK_S)
            missing -= self._pipes.count_ready()
            if signal.sigpending() & self._stop_signals:
                say("stopping")
                return 0
            for child, status in self._collect():
                say(f"{child.name} did not start ({_ending(status)})")
                return 1
            if time.monotonic() > deadline_s:
                folder = logs_folder(self._options.data)
                say(f"not ready after {READY_TIMEOUT_S:.0f} s; {folder} has the logs")
                return 1
        return None

    def _watch(self, watched: set[signal.Signals]) -> int:
        """Reports children that end, and starts them again where asked; returns when asked to stop
        or when the cluster cannot go on."""
        while True:
            heard = signal.sigwait(watched)
            if heard in self._stop_signals:
                say("stopping")
                return 0
            for child, status in self._collect():
                if not self._goes_on_without(child, status):
                    return 1
            self._start_due()
            if self._background is not None:
                self._background.keep_small()

    def _collect(self) -> list[tuple[_Child, int]]:
        """The children that ended since."""
        ended = []
        for child in tuple(self._children):
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if pid:
                self._children.remove(child)
                child.forget_pid()
                ended.append((child, status))
        return ended

    def _goes_on_without(self, child: _Child, status: int) -> bool:
        told = f"{child.name} (pid {child.pid}) ended: {_ending(status)}"
        # One that ended well was asked to.
        if self._options.restart and os.waitstatus_to_exitcode(status) != 0:
            pause_s = self._restarts.plan(
                child.name, started_s=child.started_s, now_s=time.monotonic()
            )
            say(f"{told}; it is started again in {pause_s:.0f} s")
            return True
        say(told)
        if child.name == STORE:
            return False
        is_next = self._restarts.next_s() is not None
        left = {c.name for c in self._children}
        if child.name != CONSOLE and STORE in left <= {STORE, CONSOLE} and not is_next:
            say("no broker is left; the store goes on for `ottla broker`")
        return bool(self._children) or is_next

    def _start_due(self) -> None:
        for name in self._restarts.take_due(time.monotonic()):
            self._pipes.count_ready()  # nobody waits for these: the pipe must not fill up
            say(f"{name}: pid {self._fork(name).pid}, started again")
        next_s = self._restarts.next_s()
        if next_s is not None:
            # Zero would be no alarm at all.
            signal.setitimer(signal.ITIMER_REAL, max(0.01, next_s - time.monotonic()))

    def _reap(self) -> None:
        """Brokers first (the lifeline told them), then the store, then whoever did not listen."""
        _await_end([child for child in self._children if child.name != STORE])
        store = [child for child in self._children if child.name == STORE]
        for child in store:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGTERM)
        _await_end(store)


def _print_ready(options: UpOptions, pids: dict[str, int]) -> None:
    for name, pid in pids.items():
        say(f"{name}: pid {pid}", sys.stdout)
    if options.metrics_port is not None:
        for broker_id in range(options.brokers):
            address = join_address(options.advertised_host, options.metrics_port + broker_id)
            say(f"metrics: http://{address}/metrics", sys.stdout)
    if options.console_port is not None:
        say(f"console: {console_address(options)}", sys.stdout)
    if options.detach:
        data = shlex.quote(str(options.data))
        say(f"in the background: ottla status --data {data}, ottla down --data {data}", sys.stdout)
    say(
        f"ready: bootstrap.servers={options.bootstrap_servers} "
        f"zookeeper={options.advertised_zookeeper}",
        sys.stdout,
    )


def say(text: str, stream: TextIO | None = None) -> None:
    """A terminal that is gone must not keep a cluster from its orderly stop."""
    with contextlib.suppress(OSError):
        print(text, file=stream or sys.stderr, flush=True)


def _ending(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _await_end(children: list[_Child]) -> None:
    deadline_s = time.monotonic() + STOP_TIMEOUT_S
    waiting = list(children)
    while waiting and time.monotonic() < deadline_s:
        waiting = [child for child in waiting if os.waitpid(child.pid, os.WNOHANG)[0] == 0]
        if waiting:
            time.sleep(0.02)
    for child in waiting:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)
