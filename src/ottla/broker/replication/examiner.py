"""Gives batches the time it takes to look into them: a little on the loop, the rest beside it.

A batch of a few kilobytes may hold a hundred megabytes, or millions of records. Whoever sends such
a one waits for it; others do not. Threads share one interpreter with the loop, so there are two:
one goes round the batches that take many short steps, a slice of each at a time; the other has
those that take long steps or much memory, one after the other.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from ottla.runtime import Worker
from ottla.storage.append.steps import Pause, Steps

if TYPE_CHECKING:
    from ottla.runtime import Runtime

T = TypeVar("T")

# A step takes a millisecond or two.
_STEPS_ON_LOOP = 4
_STEPS_OF_A_SLICE = 10


class Examiner:
    """One per broker; `finish` keeps nothing in order: a connection has one request at a time."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._short_work = Worker()
        self._long_work = Worker()
        # Bounds memory: what is unpacked at a time.
        self._long_turn = asyncio.Semaphore(1)

    async def finish(self, steps: Steps[T]) -> T:
        """The end of some steps; raises what they raise. Waits only where they are many or long."""
        job = _Job(steps)
        job.make(_STEPS_ON_LOOP)
        while not job.is_done:
            if job.meets_long:
                async with self._long_turn:
                    while not job.is_done:
                        job.meets_long = False
                        await self._runtime.blocking(job.make_more, self._long_work)
            else:
                await self._runtime.blocking(job.make_more, self._short_work)
        return job.outcome()

    def try_at_once(self, steps: Steps[T]) -> T | None:
        """The same without a wait; None where it would take one. They are begun then: whoever
        comes back brings new ones."""
        job = _Job(steps)
        job.make(_STEPS_ON_LOOP)
        return job.outcome() if job.is_done else None

    def close(self) -> None:
        """Ends the threads after what they are at."""
        self._short_work.close()
        self._long_work.close()


class _Job(Generic[T]):
    """The steps of one batch, and what came of them."""

    __slots__ = ("_error", "_result", "_steps", "is_done", "meets_long")

    def __init__(self, steps: Steps[T]) -> None:
        self._steps = steps
        self._result: T | None = None
        self._error: Exception | None = None
        self.is_done = False
        # The next step is not for the loop.
        self.meets_long = False

    def make(self, most: int) -> None:
        try:
            for _ in range(most):
                if next(self._steps) is Pause.LONG:
                    self.meets_long = True
                    return
        except StopIteration as end:
            self.is_done, self._result = True, end.value
        except Exception as error:
            self.is_done, self._error = True, error

    def make_more(self) -> None:
        self.make(_STEPS_OF_A_SLICE)

    def outcome(self) -> T:
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                # Its traceback holds what was unpacked, and in a circle would hold it for long.
                del error
        return cast("T", self._result)
