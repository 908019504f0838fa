"""`ottla up --detach`: the cluster goes on without a terminal, and the command that started it ends
when it is ready, with what there was to say until then."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path

# The last byte of what the background tells; no text has it.
_READY = b"\0"
_MAX_TOLD_BYTES = 64 * 1024
# Of what processes in the background print. It is little: their logs have files of their own.
MAX_LOG_BYTES = 4 * 1024 * 1024


class Background:
    """The side that goes on. What it and its children print goes to the command's terminal until
    there is a log file for it; what the file has by the end of the start is passed on."""

    def __init__(self, told: int) -> None:
        self._told = told
        self._log = -1
        self._path = Path(os.devnull)

    def print_to(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._log = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        self._redirect(self._log)

    def keep_small(self) -> None:
        """Begins the file anew when it has grown large; what it has is kept beside it, once.
        Everybody appends to it through the same open file, so it keeps its name."""
        if self._log < 0 or os.fstat(self._log).st_size <= MAX_LOG_BYTES:
            return
        with contextlib.suppress(OSError):  # a full disk: the next try may do better
            size = os.fstat(self._log).st_size
            kept = os.pread(self._log, MAX_LOG_BYTES, max(0, size - MAX_LOG_BYTES))
            self._path.with_name(f"{self._path.name}.1").write_bytes(kept)
            os.ftruncate(self._log, 0)

    def tell_ready(self) -> None:
        self._tell(_READY)
        self.forget_terminal()

    def tell_failed(self) -> None:
        """Does nothing after `tell_ready`. What is said from now on is told as well."""
        if self._told >= 0 and self._log >= 0:
            self._tell(b"")
            self._redirect(self._told)

    def forget_terminal(self) -> None:
        """Also for children, which have nothing to tell."""
        if self._told >= 0:
            os.close(self._told)
            self._told = -1

    def _redirect(self, fd: int) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(fd, 1)
        os.dup2(fd, 2)

    def _tell(self, end: bytes) -> None:
        size = os.fstat(self._log).st_size
        text = os.pread(self._log, _MAX_TOLD_BYTES, max(0, size - _MAX_TOLD_BYTES))
        # Whoever pressed Ctrl-C meanwhile hears nothing any more.
        with contextlib.suppress(OSError), os.fdopen(os.dup(self._told), "wb") as out:
            out.write(text + end)


def detach() -> Background | int:
    """Comes back twice: with the background's side in a new process that has no terminal, and with
    an exit code in this one, once that is ready or has failed."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        os.close(writer)
        return _attend(pid, reader)
    os.close(reader)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(writer, 1)
    os.dup2(writer, 2)
    os.close(nothing)
    return Background(writer)


def _attend(pid: int, reader: int) -> int:
    try:
        with os.fdopen(reader, "rb") as source:
            text = _read_told(source.fileno())
    except KeyboardInterrupt:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)
        raise
    is_ready = text.endswith(_READY)
    stream = sys.stdout if is_ready else sys.stderr
    stream.write(text.removesuffix(_READY).decode(errors="replace"))
    stream.flush()
    if is_ready:
        return 0
    _, status = os.waitpid(pid, 0)
    # One that fell silent without a word did not succeed either.
    return max(1, os.waitstatus_to_exitcode(status))


def _read_told(fd: int) -> bytes:
    text = b""
    while not text.endswith(_READY) and (part := os.read(fd, _MAX_TOLD_BYTES)):
        text = (text + part)[-2 * _MAX_TOLD_BYTES :]
    return text
