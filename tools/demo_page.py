"""The page that the demo leaves: speeds, marks, and the life of the topics with a slider.

One file that needs nothing else: script and style are inside, and the policy lets nothing else run.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

_SCRIPT = Path(__file__).with_name("demo_page.js")
_STYLE = Path(__file__).with_name("demo_page.css")


class Mark(NamedTuple):
    """A moment, in seconds since the beginning, and what happened then."""

    x: float
    text: str


def page(
    speeds: Mapping[str, Sequence[tuple[float, float]]],
    marks: Sequence[Mark],
    events: Sequence[Mapping[str, Any]],
    began_ms: float,
) -> str:
    """`speeds` are rows per second by job, `events` those of the lifecycle topic."""
    data = {
        "speeds": {
            job: [[round(x, 2), round(y, 1)] for x, y in line] for job, line in speeds.items()
        },
        "marks": marks,
        "events": events,
        "began_ms": began_ms,
    }
    script, style = _SCRIPT.read_text(), _STYLE.read_text()
    policy = f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'"
    # Nothing in the data can end the element that it is in.
    text = json.dumps(data, ensure_ascii=True).replace("<", "\\u003c")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Ottla demo</title>\n<style>{style}</style></head>\n"
        '<body><main id="main"><h1>Ottla demo</h1></main>\n'
        f'<script type="application/json" id="data">{text}</script>\n'
        f'<script type="module">{script}</script></body></html>\n'
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
