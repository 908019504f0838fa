"""Log lines that a client can cause at will, limited by what they are about and by time.

A line for each refusal is what an operator wants, until somebody is refused 100,000 times. Here
each key has a few lines per period, each source (a principal, an address) more, all of them
together a bound; what was left out is counted and told when the period ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ottla.runtime import Clock

# Sources of which the lines left out are counted apart; those of further ones are counted together.
_MAX_COUNTED_SOURCES = 100
_OTHERS = "others"


class LineLimits(NamedTuple):
    """How many lines there may be in each period."""

    period_ms: int = 60_000
    per_key: int = 5
    per_source: int = 100
    in_all: int = 1000


_DEFAULT_LIMITS = LineLimits()


class RepeatedLines:
    """Writes to one logger within limits.

    The first lines are written at once. A period begins with the first line after the one before
    has ended, so a rare line is never left out.
    """

    def __init__(
        self, logger: logging.Logger, clock: Clock, limits: LineLimits = _DEFAULT_LIMITS
    ) -> None:
        self._logger = logger
        self._clock = clock
        self._limits = limits
        self._ends_ms = 0.0
        self._written = 0
        self._by_key: dict[Hashable, int] = {}
        self._by_source: dict[str, int] = {}
        self._left_out: dict[str, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def log(self, level: int, source: str, key: Hashable, text: str, *arguments: object) -> bool:
        """Writes a line unless there were too many like it; whether it was written.

        `source` is who causes it, `key` what it is about: equal keys count as the same line.
        """
        if not self._logger.isEnabledFor(level):
            return False
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._ends_ms:
            self._end_period()
            self._ends_ms = now_ms + self._limits.period_ms
        if not self._has_room(source, (source, key)):
            self._leave_out(source, now_ms)
            return False
        self._written += 1
        self._by_key[source, key] = self._by_key.get((source, key), 0) + 1
        self._by_source[source] = self._by_source.get(source, 0) + 1
        self._logger.log(level, text, *arguments)
        return True

    def _has_room(self, source: str, key: Hashable) -> bool:
        limits = self._limits
        return (
            self._written < limits.in_all
            and self._by_source.get(source, 0) < limits.per_source
            and self._by_key.get(key, 0) < limits.per_key
        )

    def _leave_out(self, source: str, now_ms: float) -> None:
        counts = self._left_out
        if source not in counts and len(counts) >= _MAX_COUNTED_SOURCES:
            source = _OTHERS
        counts[source] = counts.get(source, 0) + 1
        if self._timer is None:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                return  # told with the first line of the next period
            self._timer = loop.call_later((self._ends_ms - now_ms) / 1000, self._end_period)

    def _end_period(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        left_out, self._left_out = self._left_out, {}
        self._ends_ms = 0.0
        self._written = 0
        self._by_key.clear()
        self._by_source.clear()
        for source, count in left_out.items():
            self._logger.warning(
                "%d more lines because of %s were left out within %d s",
                count,
                source,
                self._limits.period_ms // 1000,
            )
