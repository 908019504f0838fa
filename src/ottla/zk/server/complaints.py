"""What the log says about clients: a line now and then, however often there is a reason. Pure."""

from __future__ import annotations

EVERY_MS = 10_000.0


class Complaints:
    """One kind of line: at most one in ten seconds, and it says how many were left out."""

    def __init__(self) -> None:
        self._next_ms = 0.0
        self._left_out = 0

    def line(self, text: str, now_ms: float) -> str | None:
        """What to log, or None where the last line is too fresh."""
        if now_ms < self._next_ms:
            self._left_out += 1
            return None
        self._next_ms = now_ms + EVERY_MS
        more, self._left_out = self._left_out, 0
        return f"{text} (and {more} more like it before)" if more else text
