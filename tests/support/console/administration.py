"""Administration beside a browser: Playwright's loop runs in the test's own thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ottla.client.admin.client import Admin
from ottla.runtime import system_runtime


def administer(bootstrap: str, work: Callable[[Admin], Coroutine[Any, Any, Any]]) -> Any:
    async def run() -> Any:
        async with Admin.connect(system_runtime(), bootstrap) as admin:
            return await work(admin)

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, run()).result()
