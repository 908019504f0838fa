"""Coroutines whose first step is made at once, without a task; Python 3.12's eager tasks do the
same."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar, cast

T = TypeVar("T")


@coroutine
def resume(running: Coroutine[Any, Any, T], waiting: Any) -> Generator[Any, Any, T]:
    """Goes on with a coroutine whose first step was already made and yielded `waiting`."""
    while True:
        try:
            sent = yield waiting
        except BaseException as error:  # cancellation must reach the coroutine
            thrown: BaseException | None = error
        else:
            thrown = None
        try:
            waiting = running.send(sent) if thrown is None else running.throw(thrown)
        except StopIteration as stop:
            return cast("T", stop.value)
