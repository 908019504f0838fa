"""An asyncio event loop on virtual time: no threads, no sockets, the same order in every run.

When nothing is ready, time jumps to the next timer. Every callback belongs to a process (a
context variable says which): a killed process's callbacks never run again, as after `kill -9`,
and a paused one's wait until it goes on, as after SIGSTOP.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import warnings
from asyncio import base_events, events
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar
from typing import Any, Protocol, TypeVar, cast

from ottla.errors import OttlaError

T = TypeVar("T")

# Callbacks that may run without time going on: more is a loop that feeds itself.
MAX_CALLBACKS_PER_INSTANT = 1_000_000
# How long work on the executor takes: most file work is quick, some meets a busy disk.
_QUICK_WORK_S = (0.00005, 0.001)
_SLOW_WORK_S = (0.01, 0.2)
_SLOW_WORK_SHARE = 0.02
_DISCARD_ROUNDS = 3


class SimulationStuck(OttlaError):
    """Nothing can ever happen any more, or the same instant never ends."""


class ProcessTurns(Protocol):
    """In which order a process does what it has to, and when: `turns.Turns`."""

    # The only handle of the process that the loop runs itself.
    next_step: asyncio.Handle | None

    def add(self, handle: asyncio.Handle) -> None:
        """A callback, timer or step of a task is ready."""

    def readable(self, handle: asyncio.Handle) -> None:
        """The kernel has something for the process; `handle` fetches it."""

    def readable_at(self, when: float, handle: asyncio.Handle) -> asyncio.TimerHandle:
        """It will have it then."""


class Readable(Protocol):
    """What `add_reader` takes here instead of a descriptor: a `sockets.ListeningSocket`."""

    def watch(self, callback: Callable[..., object], *args: Any) -> None: ...
    def unwatch(self) -> bool: ...


class Accepted(Protocol):
    """What its `accept` gives: a `transport.SimTransport`."""

    def accept(self, factory: Callable[[], asyncio.BaseProtocol], /) -> None: ...


class Process:
    """What runs on a host from one start to its end. `loop` skips or holds its callbacks."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.held: deque[asyncio.Handle] | None = None
        # Where its work takes time; without them everything is done at once.
        self.turns: ProcessTurns | None = None
        self.context = Context()
        self.context.run(_current.set, self)

    @property
    def paused(self) -> bool:
        return self.held is not None


_current: ContextVar[Process | None] = ContextVar("process", default=None)


def current_process() -> Process | None:
    return _current.get()


class _Task(asyncio.Task[T]):
    """Its hash is a number and not an address, so that sets of tasks keep their order."""

    def __init__(self, number: int, coro: Coroutine[Any, Any, T], **options: Any) -> None:
        self.number = number
        context: Context | None = options.get("context")
        self.process = current_process() if context is None else context.get(_current)
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self.number


class _Future(asyncio.Future[Any]):
    def __init__(self, number: int, loop: asyncio.AbstractEventLoop) -> None:
        self.number = number
        self.process = current_process()
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.number


class SimulationLoop(base_events.BaseEventLoop):
    """Runs like any event loop: `run_until_complete`, `create_task`, `call_later`.

    Only the turning is its own; queues, handles and the rest are BaseEventLoop's.
    """

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _stopping: bool

    def __init__(self, seed: str) -> None:
        super().__init__()
        self._random = random.Random(f"{seed}/loop")
        self._now = 0.0
        # Of the time that the process which runs now takes for what it does.
        self._spent = 0.0
        self._numbers = 0
        self._tasks: dict[_Task[Any], None] = {}
        self._callbacks_now = 0
        self.callbacks = 0
        self.set_task_factory(self._make_task)

    # time

    def time(self) -> float:
        return self._now + self._spent

    def spend(self, seconds: float) -> None:
        """For the process that runs now it is later from here on."""
        self._spent += seconds

    def rest(self) -> float:
        """Its work is done; when that was."""
        ended, self._spent = self.time(), 0.0
        return ended

    def _run_once(self) -> None:
        """One turn: timers that are due, then everything that was ready when it began."""
        ready, timers = self._ready, self._scheduled
        while timers and timers[0]._cancelled:
            heapq.heappop(timers)
        if not ready and not self._stopping:
            if not timers:
                raise SimulationStuck("every task waits and no timer is set")
            if timers[0].when() > self._now:
                self._now = timers[0].when()
                self._callbacks_now = 0
        while timers and timers[0].when() <= self._now:
            ready.append(heapq.heappop(timers))
        count = len(ready)
        self.callbacks += count
        self._callbacks_now += count
        if self._callbacks_now > MAX_CALLBACKS_PER_INSTANT:
            raise SimulationStuck(f"time stands still at {self._now:.6f} s")
        for _ in range(count):
            self._run_handle(ready.popleft())

    def _run_handle(self, handle: asyncio.Handle) -> None:
        if handle._cancelled:
            return
        process: Process | None = handle._context.get(_current)  # type: ignore[attr-defined]
        if process is not None:
            if not process.alive:
                return
            if process.held is not None:
                process.held.append(handle)
                return
            if process.turns is not None and handle is not process.turns.next_step:
                process.turns.add(handle)
                return
        handle._run()

    # processes

    def pause(self, process: Process) -> None:
        if process.held is None:
            process.held = deque()

    def resume(self, process: Process) -> None:
        held, process.held = process.held, None
        self._ready.extend(held or ())

    def spawn(self, process: Process, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Starts work inside a process; its tasks and timers belong to it from then on."""
        return self.create_task(work, context=process.context)

    # asyncio's ways to make things

    def _make_task(
        self, _loop: asyncio.AbstractEventLoop, coro: Any, *, context: Context | None = None
    ) -> _Task[Any]:
        self._numbers += 1
        task = _Task(self._numbers, coro, loop=self, context=context)
        self._tasks[task] = None
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(cast("_Task[Any]", task), None)

    def create_future(self) -> asyncio.Future[Any]:
        self._numbers += 1
        return _Future(self._numbers, self)

    def add_reader(  # type: ignore[override]
        self, listening: Readable, callback: Callable[..., object], *args: Any
    ) -> None:
        listening.watch(callback, *args)

    def remove_reader(self, listening: Readable) -> bool:  # type: ignore[override]
        return listening.unwatch()

    async def connect_accepted_socket(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        accepted: Accepted,
        **_options: Any,
    ) -> None:
        accepted.accept(protocol_factory)

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """The work is done on this thread, a little later; its end is told later still."""
        future: asyncio.Future[T] = self.create_future()
        is_slow = self._random.random() < _SLOW_WORK_SHARE
        delay_s = self._random.uniform(*(_SLOW_WORK_S if is_slow else _QUICK_WORK_S))
        self.call_later(delay_s / 2, self._work, future, delay_s / 2, func, args)
        return future

    def _work(
        self, future: asyncio.Future[T], delay_s: float, func: Callable[..., T], args: tuple[Any]
    ) -> None:
        try:
            result = func(*args)
        except Exception as error:
            self.call_later(delay_s, _fail_future, future, error)
        else:
            self.call_later(delay_s, _finish_future, future, result)

    def _write_to_self(self) -> None:
        """Wakes a loop that waits in another thread; there is none."""

    # the end

    def discard_tasks(self) -> None:
        """Ends what is left without letting it do anything: the run is over."""
        with warnings.catch_warnings():
            # Clean-up code that starts to wait again is of no interest here.
            warnings.simplefilter("ignore", RuntimeWarning)
            for _ in range(_DISCARD_ROUNDS):
                # Closing a coroutine may make it start others.
                tasks, self._tasks = list(self._tasks), {}
                for task in tasks:
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    coroutine = cast("Coroutine[Any, Any, Any]", task.get_coro())
                    with suppress(BaseException):
                        coroutine.close()
        self._ready.clear()
        self._scheduled.clear()


def _finish_future(future: asyncio.Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)


def _fail_future(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


def run(loop: SimulationLoop, work: Coroutine[Any, Any, T]) -> T:
    """Runs `work` to its end on `loop`, then drops everything else and closes the loop."""
    previous = events._get_running_loop()
    events._set_running_loop(None)
    try:
        return loop.run_until_complete(work)
    finally:
        loop.discard_tasks()
        loop.close()
        events._set_running_loop(previous)
