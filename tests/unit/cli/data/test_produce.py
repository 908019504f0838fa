"""What `ottla produce` says of its progress, on a terminal and off one."""

from __future__ import annotations

import pytest

from ottla.cli.data import produce
from ottla.cli.data.produce import Progress


class Terminal:
    """Standard error that is one; shows at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.text = ""
        monkeypatch.setattr(produce.sys, "stderr", self)
        monkeypatch.setattr(produce, "_PROGRESS_EVERY_S", -1.0)
        monkeypatch.setattr(produce.click, "echo", self._echo)

    def isatty(self) -> bool:
        return True

    def _echo(self, text: str = "", *, err: bool, nl: bool = True) -> None:
        assert err
        self.text += text + "\n" * nl


async def _told(terminal: Terminal, *, quiet: bool = False, is_typed: bool = False) -> str:
    progress = Progress("t", quiet=quiet, is_typed=is_typed)
    progress.show(1)
    progress.show(2)
    progress.end_line()
    progress.finish(3)
    return terminal.text.partition(" in 0.")[0]


async def test_a_count_runs_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    told = await _told(Terminal(monkeypatch))
    assert told == "\r1 record\r2 records\n\r3 records to t"


async def test_typed_lines_are_not_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    told = await _told(Terminal(monkeypatch), is_typed=True)
    assert told == "One record per line; Ctrl-D ends.\n3 records to t"


async def test_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await _told(Terminal(monkeypatch), quiet=True, is_typed=True) == ""
