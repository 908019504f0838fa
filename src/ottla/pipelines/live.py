"""How a pipeline's jobs are doing, on a terminal while they run, or as lines now and then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table

    from ottla.pipelines.stream_run import StreamRun
    from ottla.runtime import Clock

LINES_EVERY_MS = 10_000
_COLOURS = {"running": "green", "failed": "bold red", "restarting": "yellow"}


class LiveView:
    """A table that is redrawn in place; where the output is not a terminal, lines."""

    def __init__(self, console: Console, clock: Clock) -> None:
        self._console = console
        self._clock = clock
        self._live: Live | None = None
        self._next_lines_ms = 0.0

    def __enter__(self) -> LiveView:
        from rich.live import Live

        if self._console.is_terminal:
            self._live = Live(console=self._console, transient=True, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, streams: Sequence[StreamRun]) -> None:
        if self._live is not None:
            self._live.update(table(streams))
            return
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._next_lines_ms:
            self._next_lines_ms = now_ms + LINES_EVERY_MS
            for run in streams:
                self._console.print(line(run), highlight=False, markup=False, soft_wrap=True)


def table(streams: Sequence[StreamRun]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    grid = Table(box=None, padding=(0, 2), pad_edge=False)
    for title in ("job", "state"):
        grid.add_column(title)
    for title in ("rows in", "out", "rows/s", "lag", "batch"):
        grid.add_column(title, justify="right")
    grid.add_column("")
    for run in streams:
        colour = _COLOURS.get(run.state, "dim")
        grid.add_row(
            escape(run.name),
            f"[{colour}]{run.state}[/]",
            f"{run.progress.rows_in:,}",
            f"{run.progress.rows_out:,}",
            f"{run.rows_per_s:,.0f}",
            lag_text(run),
            batch_text(run),
            escape(run.error or ""),
        )
    return grid


def line(run: StreamRun) -> str:
    words = f"{run.name}: {run.state}, {run.progress.rows_in:,} rows in"
    words += f", {run.progress.rows_out:,} out, {run.rows_per_s:,.0f} rows/s"
    words += f", lag {lag_text(run)}, batch {batch_text(run)}"
    return f"{words} ({run.error})" if run.error else words


def lag_text(run: StreamRun) -> str:
    return "-" if run.progress.lag is None else f"{run.progress.lag:,}"


def batch_text(run: StreamRun) -> str:
    return "-" if run.progress.batch_s is None else f"{run.progress.batch_s:.2f} s"
