"""How far a copy is, on a terminal and elsewhere."""

from __future__ import annotations

import io
import os
import select
import sys

import pytest

from ottla.cli.data.copy_bar import CopyBar
from ottla.pipelines.copy.copier import Progress


def test_lines_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with CopyBar(100, stage=lambda: "reading back") as bar:
        for records in (25, 50, 100):
            bar.show(Progress(records, 10.0, 100 - records, 1))
        lines = sys.stderr.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(lines) == 1, "now and then, not each time"
    assert lines[0].endswith("25%  25 records  10/s  lag 75")


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """It shows the stage, and what is to be copied may grow."""
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setattr(sys, "__stderr__", terminal)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "100")
        with CopyBar(None, stage=lambda: "fenced for 0.3 s") as bar:
            bar.show(Progress(1_000, 500.0, 1_000, 1))
            bar.show(Progress(2_000, 2_500.0, 2_000, 2))
        terminal.flush()
        shown = b""
        while select.select([ours], [], [], 0.2)[0]:
            shown += os.read(ours, 1 << 16)
    os.close(ours)
    text = shown.decode()
    for words in ("50%", "2,000 records", "2,500/s", "lag 2,000", "fenced for 0.3 s"):
        assert words in text, text
