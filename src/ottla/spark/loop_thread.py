"""An event loop on a thread of its own, for plain code that waits for it now and then.

Spark takes rows when it likes: a generator may rest for minutes between two of them. Connections,
retries and deadlines must not rest with it, so the loop runs beside whoever uses it.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, TypeVar

from ottla.errors import InvariantViolated, OttlaError

T = TypeVar("T")

# How long the end of a process waits for the thread: a socket is closed in a moment.
_END_S = 5.0
# How often whoever waits looks whether there is still a loop.
_LOOK_S = 1.0


class LoopClosed(OttlaError):
    """Nothing runs on this loop any more."""


class Work(Generic[T]):
    """What a coroutine on the loop comes to.

    Not a `concurrent.futures.Future`: its condition is Python, and an interrupt (a signal runs its
    handler between any two steps of the main thread) can leave it locked. The loop's thread would
    then wait for it for ever. Here whoever waits takes one lock that nobody else takes.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> None:
        self._loop = loop
        self._coroutine = coroutine
        self._task: asyncio.Task[T] | None = None
        self._done = threading.Lock()
        self._done.acquire()
        self.is_done = False

    def start(self) -> None:
        """On the loop, as everything but `wait`, `outcome` and `cancel`."""
        self._task = self._loop.create_task(self._coroutine)
        self._task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[T]) -> None:
        if not task.cancelled():
            task.exception()  # asyncio would complain of one that nobody has asked for
        self.is_done = True
        self._done.release()

    def wait(self, timeout_s: float) -> bool:
        return self.is_done or self._done.acquire(timeout=timeout_s)

    def outcome(self) -> T:
        """When it is done."""
        if self._task is None:
            raise InvariantViolated("nothing was begun that could be done")
        try:
            return self._task.result()
        except asyncio.CancelledError:
            raise LoopClosed("the client was closed meanwhile") from None

    def cancel(self) -> None:
        """Waits for nothing."""
        try:
            self._loop.call_soon_threadsafe(self._cancel)
        except RuntimeError:
            pass  # the loop is closed, and everything on it ended

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


class LoopThread:
    """A daemon thread: it never keeps a process alive, and ends in order when the process does.

    It belongs to the process that made it. A child of a fork has no such thread, and makes its own.
    """

    def __init__(self, name: str, at_end: Callable[[], Awaitable[None]]) -> None:
        """`at_end` runs last, on the loop; it must not refer to this object."""
        self._pid = os.getpid()
        self._loop = _new_loop()
        _loops.add(self._loop)
        self._thread = threading.Thread(
            target=_serve, args=(self._loop, at_end), name=name, daemon=True
        )
        self._thread.start()
        # Also where nobody calls `close`: before the interpreter ends, or when this is forgotten.
        self._end = weakref.finalize(self, _stop, self._pid, self._loop, self._thread)

    def begin(self, coroutine: Coroutine[Any, Any, T]) -> Work[T]:
        """Starts it on the loop; what is returned is for `result`."""
        if os.getpid() != self._pid:
            coroutine.close()
            raise InvariantViolated("a loop does not survive the fork of its process")
        work = Work(self._loop, coroutine)
        try:
            self._loop.call_soon_threadsafe(work.start)
        except RuntimeError:
            coroutine.close()
            raise LoopClosed("the client is closed") from None
        return work

    def result(self, work: Work[T]) -> T:
        """What it comes to. Whatever interrupts the wait (Ctrl-C, the end of a task) also ends the
        work."""
        try:
            while not work.wait(_LOOK_S):
                # The loop may have been closed in the moment when the work was handed to it.
                if not self._thread.is_alive() and not work.is_done:
                    raise LoopClosed("the client was closed meanwhile")
        except BaseException:
            work.cancel()
            raise
        return work.outcome()

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Has the loop call it soon; nothing happens where the loop is closed."""
        if os.getpid() == self._pid:
            try:
                self._loop.call_soon_threadsafe(function, *arguments)
            except RuntimeError:
                pass  # closed: there is nothing left to be told

    def close(self) -> None:
        """Cancels what is under way and waits for the thread."""
        self._end()


_loops: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()


def _leave_to_the_parent() -> None:
    """In a child of a fork. Tasks that its parent goes on with are freed here some time, which is
    no reason for asyncio to complain."""
    for loop in _loops:
        for task in asyncio.all_tasks(loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # as asyncio.gather


os.register_at_fork(after_in_child=_leave_to_the_parent)


def _new_loop() -> asyncio.AbstractEventLoop:
    import uvloop

    return uvloop.new_event_loop()


def _serve(loop: asyncio.AbstractEventLoop, at_end: Callable[[], Awaitable[None]]) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(_finish(at_end))
    finally:
        loop.close()


async def _finish(at_end: Callable[[], Awaitable[None]]) -> None:
    await _cancel_all()
    await at_end()
    await asyncio.sleep(0)  # transports say goodbye in the turn after their end
    await _cancel_all()  # what was begun meanwhile


async def _cancel_all() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


def _stop(pid: int, loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    if os.getpid() != pid:
        # A child of a fork: the thread is its parent's, and so are the tasks, which nobody will end
        # here. Since Python 3.12 each would say so when the child ends.
        for task in asyncio.all_tasks(loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        return
    try:
        loop.call_soon_threadsafe(loop.stop)
    except RuntimeError:
        return  # closed already
    if thread is not threading.current_thread():  # where the collector runs, anything may end
        thread.join(_END_S)
