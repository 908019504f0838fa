"""What was begun by hand goes on in a task as if it had begun there."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from ottla.bounds.first_step import resume


def begun(work: Coroutine[Any, Any, int]) -> asyncio.Task[int]:
    return asyncio.create_task(resume(work, work.send(None)))


async def test_it_comes_to_its_end() -> None:
    steps: list[str] = []

    async def work() -> int:
        steps.append("first")
        await asyncio.sleep(0)
        steps.append("second")
        return 7

    task = begun(work())
    assert steps == ["first"]
    assert await task == 7


async def test_a_failure_is_the_tasks() -> None:
    async def work() -> int:
        await asyncio.sleep(0)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await begun(work())


async def test_a_cancellation_reaches_it() -> None:
    heard = asyncio.Event()

    async def work() -> int:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            heard.set()
            raise
        return 0

    task = begun(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert heard.is_set()
