"""An event loop on a thread of its own, for plain code that waits for it now and then.

Spark takes rows when it likes: a generator may rest for minutes between two of them. Connections,
retries and deadlines must not rest with it, so the loop runs beside whoever uses it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from ottla.errors import InvariantViolated, OttlaError

T = TypeVar("T")

# How long the end of a process waits for the thread: a socket is closed in a moment.
_END_S = 5.0


class LoopClosed(OttlaError):
    """Nothing runs on this loop any more."""


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

    def begin(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Starts it on the loop; the future is for `result`."""
        if os.getpid() != self._pid:
            coroutine.close()
            raise InvariantViolated("a loop does not survive the fork of its process")
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:
            coroutine.close()
            raise LoopClosed("the client is closed") from None

    def result(self, future: concurrent.futures.Future[T]) -> T:
        """What it comes to. Whatever interrupts the wait (Ctrl-C, the end of a task) also ends the
        work."""
        # Not `future.result`: an interrupt in the midst of its condition can leave that locked.
        try:
            done = threading.Lock()
            done.acquire()
            future.add_done_callback(lambda _: done.release())
            done.acquire()
        except BaseException:
            future.cancel()
            raise
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise LoopClosed("the client was closed meanwhile") from None

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
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    await at_end()
    await asyncio.sleep(0)  # transports say goodbye in the turn after their end


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
