"""How far a copy is: a bar on a terminal, lines now and then elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from ottla.pipelines.copy.copier import Progress
    from ottla.runtime import Clock

_LINE_S = 10.0


class CopyBar:
    """`total` offsets are to be copied; where it is None, what was seen so far. `stage` says what
    is done now; it is asked again and again, also while `show` is not called."""

    def __init__(
        self, total: int | None, *, stage: Callable[[], str], clock: Clock | None = None
    ) -> None:
        from ottla.runtime import system_runtime

        self._total = total
        self._stage = stage
        self._clock = clock or system_runtime().clock
        self._most = 0
        self._next_ms = 0.0
        self._stack = ExitStack()
        self._bar: Bar | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> CopyBar:
        if sys.stderr.isatty():
            self._bar = self._stack.enter_context(_bar(self._stage))
            self._task = self._bar.add_task("", total=None, records=0, rate=0.0, lag=0)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def show(self, progress: Progress) -> None:
        from ottla.pipelines.copy.clone_report import progress_line

        self._most = max(self._most, progress.lag + progress.records)
        total = self._most if self._total is None else self._total
        if self._bar is not None and self._task is not None:
            self._bar.update(
                self._task,
                total=total,
                completed=max(total - progress.lag, 0),
                records=progress.records,
                rate=progress.records_per_s,
                lag=progress.lag,
            )
        elif self._clock.monotonic_ms() >= self._next_ms:
            click.echo(progress_line(progress, total), err=True)
            self._next_ms = self._clock.monotonic_ms() + _LINE_S * 1000


def _bar(stage: Callable[[], str]) -> Bar:
    from rich.console import Console
    from rich.progress import BarColumn, ProgressColumn, TaskProgressColumn, TextColumn
    from rich.progress import Progress as Bar
    from rich.text import Text

    class Stage(ProgressColumn):
        def render(self, task: object) -> RenderableType:
            return Text(stage(), style="yellow")

    # Numbers and words of our own only: the guard against foreign text on terminals, which
    # `sys.stderr` is, would show the bar's own escape sequences.
    console = Console(file=sys.__stderr__)
    return Bar(
        BarColumn(bar_width=20),
        TaskProgressColumn(),
        TextColumn("{task.fields[records]:,} records"),
        TextColumn("[cyan]{task.fields[rate]:,.0f}/s"),
        TextColumn("lag {task.fields[lag]:,}"),
        Stage(),
        console=console,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
