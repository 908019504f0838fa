"""Where running pipelines of this user say that they are there: one file each, `<pid>.json`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

VERSION = 1
# A pipeline of a thousand jobs needs less.
MAX_BYTES = 1_000_000
# The same document beside the metrics, where a pipeline serves those.
HTTP_PATH = "/pipeline.json"


def announcements(environ: Mapping[str, str]) -> Path | None:
    """None for somebody without a home."""
    state = environ.get("XDG_STATE_HOME")
    if state and Path(state).is_absolute():
        return Path(state) / "ottla" / "pipelines"
    home = environ.get("HOME")
    return Path(home) / ".local" / "state" / "ottla" / "pipelines" if home else None
