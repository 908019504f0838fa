"""The state-change log: what was done to partitions and replicas, in Apache Kafka's words.

Controller and broker both write to it (kafka.controller.StateChangeLogger). One record of the
logging module holds many lines: ten thousand single ones hold up a failover by half a second.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ottla.printable import one_line

LOGGER_NAME = "state.change.logger"
# log4j's level below DEBUG, where Kafka writes what it does to each single replica.
TRACE = 5
MAX_WAITING_LINES = 10_000
# Of one record. Texts below malloc's threshold of 128 KB stand in memory that there is; every
# copy of a larger one comes out of fresh pages, which takes longer than all that is done with it.
MAX_LINES_TOGETHER = 250
# Marks a record whose line feeds are ours.
MANY_LINES = {"has_many_lines": True}

logger = logging.getLogger(LOGGER_NAME)
logging.addLevelName(TRACE, "TRACE")


def write_lines(level: int, lines: Iterable[str]) -> None:
    """Many lines at once; each becomes a line of its own in the file (`process/logs.py`)."""
    if logger.isEnabledFor(level):
        listed = list(lines)
        for start in range(0, len(listed), MAX_LINES_TOGETHER):
            text = _joined(listed[start : start + MAX_LINES_TOGETHER])
            if text:
                logger.log(level, "%s", text, extra=MANY_LINES)


def _joined(lines: list[str]) -> str:
    """Looked at together: hardly ever is one of thousands not plain as it is."""
    if one_line(together := "".join(lines)) is together:
        return "\n".join(lines)
    return "\n".join(map(one_line, lines))


class StateChangeLines:
    """Gathers lines until `flush`; a warning or an error goes out at once, after what waits."""

    def __init__(self) -> None:
        self._level = logging.INFO
        self._lines: list[str] = []

    def is_enabled(self, level: int) -> bool:
        return logger.isEnabledFor(level)

    def add(self, level: int, line: str) -> None:
        if level != self._level or len(self._lines) >= MAX_WAITING_LINES:
            self.flush()
        self._level = level
        self._lines.append(line)
        if level >= logging.WARNING:
            self.flush()

    def add_all(self, level: int, lines: list[str]) -> None:
        """Lines of one level, which stay together."""
        if level != self._level or len(self._lines) >= MAX_WAITING_LINES:
            self.flush()
        self._level = level
        self._lines += lines
        if level >= logging.WARNING or len(self._lines) > MAX_WAITING_LINES:
            self.flush()

    def flush(self) -> None:
        if self._lines:
            lines, self._lines = self._lines, []
            write_lines(self._level, lines)
