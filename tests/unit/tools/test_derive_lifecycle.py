"""docs/lifecycle.md is what the controller's tables say."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[3] / "tools" / "derive_lifecycle.py"


@pytest.fixture
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("derive_lifecycle", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(tool: ModuleType) -> None:
    page = tool.PAGE.read_text(encoding="utf-8")
    assert tool.derive(page) == page, "run python tools/derive_lifecycle.py"


def test_only_what_lies_between_the_marks_is_written(tool: ModuleType) -> None:
    page = "".join(
        f"{name} before\n<!-- {name} states: written by tools/derive_lifecycle.py -->\nold\n"
        f"<!-- end of {name} states -->\n{name} after\n"
        for name in ("partition", "replica")
    )
    derived = tool.derive(page)
    assert "old" not in derived
    assert "| NonExistentPartition | OfflinePartition |\n" in derived
    assert "    ReplicaDeletionSuccessful --> NonExistentReplica\n" in derived
    assert derived.startswith("partition before\n<!-- partition states")
    assert derived.endswith("<!-- end of replica states -->\nreplica after\n")


def test_a_page_without_marks_is_refused(tool: ModuleType) -> None:
    with pytest.raises(SystemExit, match="no marks for the partition states"):
        tool.derive("# A page\n")
