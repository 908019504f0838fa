"""When a task ends a transaction and goes on in the next one. Pure.

Brokers abort what is open for longer than transaction.timeout.ms. A task that takes longer commits
what it has so far; one that runs again goes on after that, which needs its rows in the same order.
So only time ends a transaction early, never its size: most tasks have one.
"""

from __future__ import annotations

# Rows are waited for in Spark's hands, where nothing can be ended: half of the time is for a wait
# that turns out longer than those before it.
_SHARE = 0.5
_CAUTION = 1.25


class Cuts:
    """The transactions of one task, by the clock."""

    def __init__(self, lifetime_ms: float) -> None:
        self._lifetime_ms = lifetime_ms
        self._opened_ms: float | None = None
        self._longest_ms = 0.0
        self._last_ms = 0.0
        self._waits = 0

    def waited(self, milliseconds: float) -> None:
        """So long it took until Spark had rows. Before the first come sorts and joins: it tells
        little about the others and counts only until the next."""
        self._waits += 1
        self._last_ms = milliseconds
        if self._waits > 1:
            self._longest_ms = max(self._longest_ms, milliseconds)

    def opened(self, now_ms: float) -> None:
        """Records are sent; the brokers' clock runs from the first."""
        if self._opened_ms is None:
            self._opened_ms = now_ms

    def ended(self) -> None:
        self._opened_ms = None

    def is_due(self, now_ms: float) -> bool:
        """Whether the transaction should end before the next rows are asked for."""
        if self._opened_ms is None:
            return False
        wait_ms = max(self._longest_ms, self._last_ms)
        open_ms = now_ms - self._opened_ms
        return open_ms + _CAUTION * wait_ms >= _SHARE * self._lifetime_ms

    def is_overdue(self, now_ms: float) -> bool:
        """Whether brokers have aborted it by now."""
        return self._opened_ms is not None and now_ms - self._opened_ms >= self._lifetime_ms
