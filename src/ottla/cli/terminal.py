"""What commands show on a terminal."""

from __future__ import annotations

from typing import Any, TextIO

from ottla.printable import escaped


class Terminal:
    """A stream to a terminal. Names, configs and records are foreign text: an escape sequence in
    one of them is shown, not obeyed."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(escaped(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
