"""House rules as a test: what a reviewer would otherwise have to say again and again."""

from __future__ import annotations

import ast
import configparser
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "ottla"
UNIT_TESTS = ROOT / "tests" / "unit"
MAX_FUNCTION_LINES = 70
MAX_METHODS = 30
# A class with more than this many methods says in its docstring what it is for.
MAX_METHODS_UNSAID = 10
MAX_MODULES_IN_A_FOLDER = 25
# One file per API: as many as there are APIs.
ONE_FILE_PER_API = SOURCE / "broker" / "handlers"
NOT_FOR_LOGGERS = {"log", "_log", "_logger"}
UNFINISHED = re.compile(r"\bTO" + r"DO\b|\bFIX" + r"ME\b|\bXX" + r"X\b|NotImplemented" + "Error")
_PATH_IN_TEXT = re.compile(r"`([\w./-]+/[\w.-]+\.(?:py|toml|md|lock|yaml))[:`]")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def _python_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in sorted(listed.stdout.split()) if (ROOT / name).exists()]


def _python_files_in(folder: Path) -> list[Path]:
    return [path for path in _python_files() if path.is_relative_to(folder)]


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _place(path: Path, node: ast.stmt | None = None) -> str:
    return str(path.relative_to(ROOT)) + ("" if node is None else f":{node.lineno}")


def _classes() -> Iterator[tuple[Path, ast.ClassDef, int]]:
    """Every class and how many methods it has."""
    for path in _python_files():
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.ClassDef):
                yield path, node, sum(isinstance(child, Function) for child in node.body)


def _assert_none(found: list[str]) -> None:
    """With all of them in the message."""
    assert found == [], "\n" + "\n".join(found)


def test_there_is_something_to_check() -> None:
    assert len(_python_files()) > 20


def test_functions_stay_under_70_lines() -> None:
    long = []
    for path in _python_files():
        for node in ast.walk(_tree(path)):
            if isinstance(node, Function):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > MAX_FUNCTION_LINES:
                    long.append(f"{_place(path, node)} {node.name} {lines}")
    _assert_none(long)


def test_classes_have_up_to_30_methods() -> None:
    large = [
        f"{_place(path, node)} {node.name} {methods}"
        for path, node, methods in _classes()
        if methods > MAX_METHODS
    ]
    _assert_none(large)


def test_large_classes_say_what_they_are_for() -> None:
    silent = [
        f"{_place(path, node)} {node.name} {methods}"
        for path, node, methods in _classes()
        if methods > MAX_METHODS_UNSAID and not ast.get_docstring(node)
    ]
    _assert_none(silent)


def test_folders_have_up_to_25_modules() -> None:
    modules = [path for path in _python_files_in(ROOT / "src") if path.name != "__init__.py"]
    crowded = {}
    for folder in sorted({path.parent for path in modules} - {ONE_FILE_PER_API}):
        count = sum(path.parent == folder for path in modules)
        if count > MAX_MODULES_IN_A_FOLDER:
            crowded[_place(folder)] = count
    assert crowded == {}


def test_every_folder_and_module_says_its_purpose() -> None:
    sources = _python_files_in(ROOT / "src")
    folders = {path.parent for path in (*sources, *_python_files_in(ROOT / "tests" / "support"))}
    without_init = [_place(folder) for folder in folders if not (folder / "__init__.py").exists()]
    _assert_none(sorted(set(without_init)))
    said = {*sources, *(folder / "__init__.py" for folder in folders)}
    silent = [_place(path) for path in sorted(said) if not ast.get_docstring(_tree(path))]
    _assert_none(silent)


def test_every_module_stands_in_a_layer() -> None:
    """And every layer is there: `.importlinter` is read by people, too."""
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter")
    assert contracts["importlinter"]["exclude_type_checking_imports"] == "False"
    layers = contracts["importlinter:contract:layers"]
    assert (layers["containers"], layers["exhaustive"]) == ("ottla", "True")
    named = re.findall(r"\w+", layers["layers"])
    there = {
        path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in _python_files_in(SOURCE)
    }
    assert sorted(named) == sorted(there - {"__init__"})


def test_every_unit_test_has_its_module() -> None:
    """tests/unit/<folder>/test_<module>.py or test_<module>_<aspect>.py; tools/ likewise."""
    strays = []
    for path in _python_files_in(UNIT_TESTS):
        if path.name in ("conftest.py", "__init__.py"):
            continue
        place = path.relative_to(UNIT_TESTS)
        root = ROOT if place.parts[0] == "tools" else SOURCE
        words = path.stem.removeprefix("test_").split("_")
        candidates = ["_".join(words[:count]) for count in range(1, len(words) + 1)]
        folder = root / place.parent
        if not any(
            (folder / f"{name}.py").exists() or (folder / name / "__init__.py").exists()
            for name in candidates
        ):
            strays.append(_place(path))
    _assert_none(strays)


def test_tests_share_helpers_only_through_support() -> None:
    wrong = []
    for path in _python_files_in(ROOT / "tests"):
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                relative = node.level > 0
            elif isinstance(node, ast.Import):
                names, relative = [alias.name for alias in node.names], False
            else:
                continue
            if relative or any(
                name.startswith("tests.") and not name.startswith("tests.support.")
                for name in names
            ):
                wrong.append(_place(path, node))
    _assert_none(wrong)


def test_loggers_have_one_name() -> None:
    """`logger`, as `log` is a partition's log; loggers that Kafka names have names of their own."""
    found = []
    for path in _python_files_in(ROOT / "src"):
        for node in _tree(path).body:
            if not isinstance(node, ast.Assign):
                continue
            name, value = ast.unparse(node.targets[0]), ast.unparse(node.value)
            is_own = value == "logging.getLogger(__name__)" and name != "logger"
            if is_own or (value.startswith("logging.getLogger(") and name in NOT_FOR_LOGGERS):
                found.append(f"{_place(path, node)} {name}")
    _assert_none(found)


def test_nothing_is_left_unfinished() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in _python_files()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if UNFINISHED.search(line)
    ]
    _assert_none(found)


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
    _assert_none(found)


@pytest.mark.parametrize("handler", sorted(ONE_FILE_PER_API.glob("[a-z]*.py")))
def test_every_handler_says_what_it_does_and_leaves_out(handler: Path) -> None:
    header = ast.get_docstring(_tree(handler)) or ""
    assert "Versions" in header and "Left out" in header, "the header names versions and gaps"


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_files_that_documents_name_exist(page: Path) -> None:
    named = set(_PATH_IN_TEXT.findall(page.read_text(encoding="utf-8")))
    roots = (ROOT, SOURCE, ROOT / "docs", page.parent)
    missing = [name for name in named if not any((root / name).exists() for root in roots)]
    _assert_none(sorted(missing))
