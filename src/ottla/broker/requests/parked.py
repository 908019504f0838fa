"""Answers that are not there yet: requests that wait without a coroutine or a task."""

from __future__ import annotations

from collections.abc import Callable


class Parked:
    """The answer to one request; `chunks` are its bytes once they are known. A connection keeps
    such answers in the order of their requests."""

    __slots__ = ("chunks", "on_ready")

    def __init__(self) -> None:
        self.chunks: list[bytes | memoryview] | None = None
        self.on_ready: Callable[[], None] | None = None

    def ready(self, chunks: list[bytes | memoryview]) -> None:
        self.chunks = chunks
        if self.on_ready is not None:
            self.on_ready()
