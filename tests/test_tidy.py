"""House rules as a test: what a reviewer would otherwise have to say again and again."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAX_FUNCTION_LINES = 70
UNFINISHED = re.compile(r"\bTO" + r"DO\b|\bFIX" + r"ME\b|\bXX" + r"X\b|NotImplemented" + "Error")


def _python_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in listed.stdout.split() if (ROOT / name).exists()]


def test_there_is_something_to_check() -> None:
    assert len(_python_files()) > 20


def test_functions_stay_under_70_lines() -> None:
    long = []
    for path in _python_files():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > MAX_FUNCTION_LINES:
                    long.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name} {lines}")
    assert long == []


def test_nothing_is_left_unfinished() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in _python_files()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if UNFINISHED.search(line)
    ]
    assert found == []


def test_production_code_reads_no_clock_and_draws_no_random_number_by_itself() -> None:
    """Simulation depends on it: time and randomness come in through `ottla.runtime`."""
    outside = re.compile(
        r"\btime\.(time|time_ns|monotonic|sleep)\(|\brandom\.(random|randint|choice)\("
    )
    allowed = {"runtime.py"}
    folders = ("broker", "controller", "coordinator", "storage", "zk", "metadata", "topics", "wire")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for folder in folders
        for path in sorted((ROOT / "src/ottla" / folder).rglob("*.py"))
        if path.name not in allowed
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if outside.search(line)
    ]
    assert found == []


@pytest.mark.parametrize("handler", sorted((ROOT / "src/ottla/broker/handlers").glob("[a-z]*.py")))
def test_every_handler_says_what_it_does_and_leaves_out(handler: Path) -> None:
    header = ast.get_docstring(ast.parse(handler.read_text())) or ""
    assert "Versions" in header and "Left out" in header, "the header names versions and gaps"
