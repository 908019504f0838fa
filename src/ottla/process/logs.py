"""Where log lines go: everything to a file per process, warnings to stderr as well.

The state-change log has a file of its own, as in Kafka, with every line: Kafka's log4j.properties
leaves out TRACE, and so what becomes of single replicas. The audit log has one too
(kafka-authorizer.log there), which appears with its first line.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from ottla import state_changes
from ottla.printable import escaped, one_line

LINE = "[%(asctime)s,%(msecs)03d] %(log4j_level)s %(message)s (%(name)s)"
TIME = "%Y-%m-%d %H:%M:%S"
MAX_FILE_BYTES = 32 * 1024 * 1024
KEPT_FILES = 3
# Kafka's name for it; `security/authorizer.py`, which not every broker loads, writes there.
AUDIT_LOGGER = "kafka.authorizer.logger"
# Levels by the names that tools for Kafka's logs know.
_LOG4J_LEVELS = {logging.WARNING: "WARN", logging.CRITICAL: "FATAL"}


class LineFormatter(logging.Formatter):
    """Every message is one whole line of the log, for people and programs that grep, whatever
    clients have put into it. Only the state-change log writes several at once."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  logging's own name
        record.log4j_level = _LOG4J_LEVELS.get(record.levelno, record.levelname)
        message = record.message
        if not getattr(record, "has_many_lines", False):
            record.message = one_line(message)
            return super().formatMessage(record)
        # What stands around a line is found with a short one: the message may have a megabyte.
        record.message = "\n"
        head, _, tail = super().formatMessage(record).partition("\n")
        record.message = message
        inner = message.replace("\n", f"{tail}\n{head}")
        return f"{head}{inner}{tail}"

    def formatException(self, ei: Any) -> str:  # noqa: N802  logging's own name
        """Indented: what an exception says may hold line feeds, but begins no line of the log."""
        text = escaped(super().formatException(ei))
        return "\n".join(f"\t{line}" for line in text.split("\n"))


def configure_logging(
    folder: Path | None, name: str, *, stderr_level: int = logging.WARNING
) -> None:
    """Sets up the root logger of one process; `folder` None means stderr alone."""
    formatter = LineFormatter(LINE, TIME)
    stderr = logging.StreamHandler(sys.stderr)
    stderr.setLevel(stderr_level)
    stderr.setFormatter(LineFormatter(f"{name}: {LINE}", TIME))
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    root.addHandler(stderr)
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    root.addHandler(_file_handler(folder / f"{name}.log", formatter))
    state_changes.logger.addHandler(_file_handler(folder / f"{name}-state-change.log", formatter))
    state_changes.logger.setLevel(state_changes.TRACE)
    state_changes.logger.propagate = False
    audit = logging.getLogger(AUDIT_LOGGER)
    audit.addHandler(_file_handler(folder / f"{name}-authorizer.log", formatter))
    audit.propagate = False


def leave_stderr() -> None:
    """From now on files alone: nobody reads the stderr of a process in the background."""
    root = logging.getLogger()
    for handler in tuple(root.handlers):
        if type(handler) is logging.StreamHandler:
            root.removeHandler(handler)


class LogFile(RotatingFileHandler):
    """A file that may come to stand on a full disk: lines that do not fit are left out. The first
    of them is told on stderr, and how many there were once lines can be written again."""

    _lost = 0

    def shouldRollover(self, record: logging.LogRecord) -> bool:  # noqa: N802  logging's own name
        """Once the file is full. The original formats every record a second time to find out
        whether it will be, and asks the system three times; a record may be ten thousand lines."""
        if self.stream is None:
            self.stream = self._open()
        return os.fstat(self.stream.fileno()).st_size >= self.maxBytes

    def emit(self, record: logging.LogRecord) -> None:
        lost = self._lost
        super().emit(record)
        if lost and self._lost == lost:
            self._lost = 0
            _say(f"{self.baseFilename}: written again; {lost} lines are missing")

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  logging's own name
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)  # a mistake of ours: whoever made it wants to see where
            return
        # What the stream still has of the line would come again with each later one.
        stream, self.stream = self.stream, None  # opened when it is needed
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
        self._lost += 1
        if self._lost == 1:
            _say(f"{self.baseFilename}: {error.strerror or error}; log lines are left out")


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def _file_handler(path: Path, formatter: logging.Formatter) -> logging.Handler:
    handler = LogFile(
        path, maxBytes=MAX_FILE_BYTES, backupCount=KEPT_FILES, delay=True, encoding="utf-8"
    )
    handler.setFormatter(formatter)
    return handler
