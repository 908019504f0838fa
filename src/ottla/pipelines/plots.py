"""Plots as SVG inside one HTML page that needs nothing else. Pure: numbers in, text out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

_WIDTH, _HEIGHT = 900, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 210, 24, 34
_COLOURS = ("#2b6cb0", "#c05621", "#2f855a", "#6b46c1", "#b83280", "#718096")
_TICKS = 5
_ROUND_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_MARK_LINE, _MARK_LINES = 13, 4
_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; color: #1a202c }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; font-size: 13px }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid #e2e8f0 }
th:first-child, td:first-child { text-align: left }
svg text { font: 11px system-ui, sans-serif; fill: #4a5568 }
"""

Point = tuple[float, float]


class Mark(NamedTuple):
    """A moment on the x axis and what happened then."""

    x: float
    text: str


class _Scale(NamedTuple):
    low: float
    high: float
    begin: float
    end: float

    def at(self, value: float) -> float:
        span = self.high - self.low or 1.0
        return self.begin + (value - self.low) / span * (self.end - self.begin)


def line_plot(
    title: str, lines: Mapping[str, Sequence[Point]], *, unit: str = "", marks: Sequence[Mark] = ()
) -> str:
    """Lines over a shared x axis, with marks."""
    points = [point for line in lines.values() for point in line] or [(0.0, 0.0)]
    xs = [x for x, _ in points] + [mark.x for mark in marks]
    across = _Scale(min(xs), max(xs), _LEFT, _WIDTH - _RIGHT)
    up = _upwards(max(y for _, y in points))
    parts = [_y_axis(up, unit, _WIDTH - _RIGHT), _x_axis(across)]
    for number, mark in enumerate(marks):
        x = across.at(mark.x)
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" '
            'stroke="#a0aec0" stroke-dasharray="4 3"/>'
        )
        # One below the other: marks that follow each other closely stay readable.
        y = _TOP + 10 + number % _MARK_LINES * _MARK_LINE
        parts.append(f'<text x="{x + 4:.1f}" y="{y}">{escape(mark.text)}</text>')
    for number, (name, line) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        path = " ".join(f"{across.at(x):.1f},{up.at(y):.1f}" for x, y in line)
        parts.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="1.8" points="{path}"/>'
        )
        y = _TOP + 10 + number * 16
        parts.append(
            f'<text x="{_WIDTH - _RIGHT + 12}" y="{y}" style="fill:{colour}">{escape(name)}</text>'
        )
    return _figure(title, parts)


def bar_plot(title: str, bars: Sequence[tuple[str, float]], *, unit: str = "") -> str:
    up = _upwards(max((value for _, value in bars), default=1.0))
    parts = [_y_axis(up, unit, _WIDTH - 20)]
    room = (_WIDTH - _LEFT - 20) / max(len(bars), 1)
    for number, (name, value) in enumerate(bars):
        x = _LEFT + number * room + room * 0.1
        y = up.at(value)
        parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{room * 0.8:.1f}" '
            f'height="{_HEIGHT - _BOTTOM - y:.1f}" fill="{_COLOURS[0]}">'
            f"<title>{escape(name)}: {value:,.6g}</title></rect>"
        )
        if len(bars) <= 24:
            label = name if len(name) <= 12 else name[:11] + "…"
            parts.append(
                f'<text x="{x + room * 0.4:.1f}" y="{_HEIGHT - _BOTTOM + 14}" '
                f'text-anchor="middle">{escape(label)}</text>'
            )
    return _figure(title, parts)


def page(title: str, sections: Sequence[str]) -> str:
    body = "\n".join(sections)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body><h1>{escape(title)}</h1>\n{body}\n</body></html>\n"
    )


def html_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{escape(cell_text(cell))}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>\n{body}</table>"


def text_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Columns as wide as they need to be, for a terminal."""
    cells = [list(columns)] + [[cell_text(cell) for cell in row] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    return [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]


def cell_text(cell: object) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:,.3g}" if abs(cell) < 1000 else f"{cell:,.0f}"
    if isinstance(cell, int):
        return f"{cell:,}"
    return "".join(char if char.isprintable() else "?" for char in str(cell))


def _figure(title: str, parts: Sequence[str]) -> str:
    drawn = "\n".join(parts)
    return (
        f'<h3>{escape(title)}</h3>\n<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" role="img" aria-label="{escape(title)}">\n{drawn}\n</svg>'
    )


def round_ticks(low: float, high: float) -> list[float]:
    """Multiples of a round step that lie between the two, about as many as `_TICKS`."""
    rough = (high - low) / _TICKS or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in _ROUND_STEPS if power * factor >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def _upwards(highest: float) -> _Scale:
    """From zero to the first round tick that is not below the highest value."""
    ticks = round_ticks(0.0, highest or 1.0)
    top = ticks[-1] if ticks[-1] >= highest else ticks[-1] + ticks[1]
    return _Scale(0.0, top, _HEIGHT - _BOTTOM, _TOP)


def _y_axis(up: _Scale, unit: str, right: int) -> str:
    parts = []
    for value in round_ticks(up.low, up.high):
        y = up.at(value)
        parts.append(
            f'<line x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#edf2f7"/>'
        )
        parts.append(
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_short(value)}</text>'
        )
    parts.append(f'<text x="{_LEFT}" y="{_TOP - 10}">{escape(unit)}</text>')
    return "\n".join(parts)


def _x_axis(across: _Scale) -> str:
    y = _HEIGHT - _BOTTOM + 16
    return "\n".join(
        f'<text x="{across.at(value):.1f}" y="{y}" text-anchor="middle">{_short(value)} s</text>'
        for value in round_ticks(across.low, across.high)
    )


def _short(value: float) -> str:
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{suffix}"
    return f"{value:.3g}"
