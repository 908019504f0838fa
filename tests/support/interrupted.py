"""Handlers of signals, which run between any two lines of the thread that they interrupt."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any


def stuck_at(handler: Callable[[], None]) -> str | None:
    """The first line of a handler at which another run of it would never end, since the interrupted
    one holds a lock; None for no such line. Another thread stands for the second signal."""
    found: list[str] = []

    def look(frame: FrameType, *_: object) -> Any:
        other = threading.Thread(target=handler, daemon=True)
        other.start()
        other.join(1)
        if other.is_alive():
            found.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
        return None if found else look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        handler()
    finally:
        sys.settrace(before)
    return found[0] if found else None
