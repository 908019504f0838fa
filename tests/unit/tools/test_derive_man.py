"""Man pages: one for each command, with its options, and nothing that roff takes for itself."""

from __future__ import annotations

import runpy
from pathlib import Path

from ottla.cli.main import COMMANDS

TOOL = runpy.run_path(str(Path(__file__).parents[3] / "tools" / "derive_man.py"))


def test_every_command_has_a_page_with_its_options():
    pages = TOOL["man_pages"]()
    assert {f"ottla-{name}.1" for name in COMMANDS} | {"ottla.1", "ottla-pipeline-run.1"} <= set(
        pages
    )
    topics = pages["ottla-topics.1"]
    assert topics.startswith('.TH "OTTLA-TOPICS" 1 ')
    assert "\\fB\\-\\-replication\\-factor" in topics
    for name, page in pages.items():
        for line in page.splitlines():
            assert not line.startswith((".", "'")) or line[:3] in (".TH", ".SH", ".TP"), name


def test_text_is_escaped():
    assert TOOL["escaped"](".a\n'b\\c-d") == "\\&.a\n\\&'b\\ec\\-d"
