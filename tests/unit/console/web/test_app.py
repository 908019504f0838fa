"""What is read is read for somebody: a browser that has gone cancels it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.console.web.app import _attached, _while_wanted
from ottla.console.web.failures import ApiError
from ottla.console.web.routes import Attachment


class Asked:
    """A request whose browser leaves when it is told to."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self._is_read = False

    async def receive(self) -> dict[str, Any]:
        if not self._is_read:
            self._is_read = True
            return {"type": "http.request", "body": b""}
        await self.gone.wait()
        return {"type": "http.disconnect"}


async def test_a_browser_that_goes_cancels_the_work() -> None:
    asked, begun, ended = Asked(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    request: Any = asked
    waiting = asyncio.ensure_future(_while_wanted(request, work()))
    await begun.wait()
    asked.gone.set()
    with pytest.raises(ApiError, match="Nobody waits"):
        await waiting
    async with asyncio.timeout(5):
        await ended.wait()


async def test_answers_and_failures_come_through() -> None:
    async def answer() -> int:
        return 5

    async def fail() -> int:
        raise ApiError(400, "X", "no")

    request: Any = Asked()
    assert await _while_wanted(request, answer()) == 5
    with pytest.raises(ApiError, match="no"):
        await _while_wanted(request, fail())


def test_names_of_files_are_plain() -> None:
    answer = _attached(Attachment('a"\r\nb/../c.value', b"\x00"))
    assert answer.headers["content-disposition"] == 'attachment; filename="a___b_.._c.value"'
    assert answer.media_type == "application/octet-stream"
