"""A request of the client on its way: what to send, and what to do with the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

Decoder = Callable[[bytes, int, int], Any]
# Told the error code (0 for success) right when the answer arrives, before any later event.
OnAnswer = Callable[[int], None]


class Request(NamedTuple):
    future: asyncio.Future[Any]
    path: str  # as the caller said it, for errors
    operation: int
    body: bytes
    decode: Decoder | None = None
    on_answer: OnAnswer | None = None


# Reads that leave, and are answered, as one MultiRead.
Reads = list[Request]
