"""A picture of a table of figures: how many times better than the peer each row is, as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from ottla.bench.table import Row

WIDTH, LABEL_WIDTH, ROW_HEIGHT, MARGIN = 1180, 550, 22, 40
# The axis is logarithmic, from this many times worse to as many times better.
DECADES = 1.5


def draw(rows: Sequence[Row], title: str) -> str:
    shown = [row for row in rows if row.ratio is not None]
    height = 2 * MARGIN + ROW_HEIGHT * len(shown)
    middle = LABEL_WIDTH + (WIDTH - LABEL_WIDTH - MARGIN) / 2
    unit = (WIDTH - LABEL_WIDTH - MARGIN) / 2 / DECADES
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{MARGIN / 2}" y="22" font-size="15">{escape(title)}; right is better</text>',
        *_grid(middle, unit, height),
    ]
    for number, row in enumerate(shown):
        parts += _bar(row, middle, unit, MARGIN + ROW_HEIGHT * number)
    return "\n".join([*parts, "</svg>\n"])


def _grid(middle: float, unit: float, height: int) -> list[str]:
    lines = []
    for ratio in (0.1, 0.25, 0.5, 1, 2, 4, 10):
        x = middle + unit * math.log10(ratio)
        colour = "#444" if ratio == 1 else "#ddd"
        lines.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{MARGIN}" y2="{height - MARGIN}" '
            f'stroke="{colour}"/>'
        )
        lines.append(
            f'<text x="{x:.1f}" y="{height - MARGIN + 16}" text-anchor="middle">{ratio:g}×</text>'
        )
    return lines


def _bar(row: Row, middle: float, unit: float, y: float) -> list[str]:
    ratio = row.ratio or 1.0
    length = unit * max(-DECADES, min(DECADES, math.log10(ratio)))
    # Green where the goal is met, red where it is not, grey where there is none.
    colour = {True: "#3a8f5c", False: "#c0392b", None: "#8a97a6"}[row.holds]
    goal = f" (goal {row.goal})" if row.goal else ""
    label = escape(f"{row.work}{goal}")
    anchor, at = ("start", middle + length + 4) if length >= 0 else ("end", middle + length - 4)
    baseline = y + ROW_HEIGHT * 0.7
    return [
        f'<text x="{LABEL_WIDTH - 8}" y="{baseline:.1f}" text-anchor="end">{label}</text>',
        f'<rect x="{middle + min(0.0, length):.1f}" y="{y + 3:.1f}" width="{abs(length):.1f}" '
        f'height="{ROW_HEIGHT - 6}" fill="{colour}"/>',
        f'<text x="{at:.1f}" y="{baseline:.1f}" text-anchor="{anchor}">{ratio:.2f}×</text>',
    ]
