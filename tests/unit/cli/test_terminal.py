"""Foreign text on a terminal."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys

from ottla.cli.terminal import Terminal


def test_escape_sequences_are_shown() -> None:
    out = io.StringIO()
    terminal = Terminal(out)
    print("Topic: x\x1b[2J\tä", file=terminal)
    assert out.getvalue() == "Topic: x\\x1b[2J\tä\n"
    terminal.flush()


def test_a_command_on_a_real_terminal() -> None:
    shown = _on_a_terminal("no\x1b[2Jsuch")
    assert b"no\\x1b[2Jsuch" in shown and b"\x1b" not in shown


def _on_a_terminal(command: str) -> bytes:
    reader, writer = pty.openpty()
    try:
        subprocess.run([sys.executable, "-m", "ottla", command], stdout=writer, stderr=writer)
        return os.read(reader, 65536)
    finally:
        os.close(writer)
        os.close(reader)
