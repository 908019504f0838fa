"""The long runs of `make campaign`, and the pages in docs/campaigns that they leave behind."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "campaigns"
# What people write below this line stays when a campaign runs again.
FINDINGS = "## Findings"


def commit() -> str:
    """The commit that ran, and whether its sources were changed."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", "src")
    return git("rev-parse", "--short", "HEAD") + (" with local changes" if changed else "")


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    columns = list(head)
    lines = [columns, ["---"] * len(columns), *([str(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_page(
    name: str, title: str, about: str, parameters: Mapping[str, object], results: str
) -> Path:
    """One page per campaign: when, what, how, and what came out."""
    page = PAGES / f"{name}.md"
    old = page.read_text() if page.exists() else ""
    findings = old.partition(FINDINGS)[2].strip() or "None so far."
    facts = {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "commit": commit(),
        "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}",
        **parameters,
    }
    parts = [f"# {title}", about, table(("run", ""), facts.items()), "## Results", results]
    PAGES.mkdir(parents=True, exist_ok=True)
    page.write_text("\n\n".join([*parts, FINDINGS, findings]) + "\n")
    return page
