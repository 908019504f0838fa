"""What happened, line by line: the same seed gives the same lines."""

from __future__ import annotations

import hashlib
from collections.abc import Callable


class Trace:
    """Lines are hashed as they come and kept only where somebody wants to read them."""

    def __init__(self, now_s: Callable[[], float], keep: bool = False) -> None:
        self._now_s = now_s
        self._hash = hashlib.blake2b(digest_size=16)
        self._keep = keep
        self.lines: list[str] = []
        self.count = 0

    def add(self, kind: str, text: str) -> None:
        line = f"{self._now_s():.6f} {kind} {text}\n"
        self._hash.update(line.encode())
        self.count += 1
        if self._keep:
            self.lines.append(line)

    def note(self, text: str) -> None:
        """A line for the reader only: log lines depend on the log level."""
        if self._keep:
            self.lines.append(f"{self._now_s():.6f} log {text}\n")

    def digest(self) -> str:
        return self._hash.hexdigest()
