"""docs/architecture.md is what the next person reads first: it says what is there, all of it."""

from __future__ import annotations

import ast
import configparser
from collections import Counter
from functools import cache
from pathlib import Path

from tests.support.architecture import ROOT, SOURCE, all_hops, layers, mapped, walk

# Named module by module; of the others the map names folders.
MODULE_BY_MODULE = ("broker", "controller", "storage")
ONE_FILE_PER_API = "broker/handlers/"


def _folders() -> set[str]:
    return {
        f"{path.parent.relative_to(SOURCE)}/"
        for path in SOURCE.rglob("__init__.py")
        if path.parent != SOURCE
    }


def _modules(folder: Path) -> set[str]:
    found = {str(path.relative_to(SOURCE)) for path in folder.rglob("*.py")}
    return {
        name
        for name in found
        if not name.endswith("__init__.py") and not name.startswith(ONE_FILE_PER_API)
    }


def _to_be_mapped() -> set[str]:
    modules = {name for part in MODULE_BY_MODULE for name in _modules(SOURCE / part)}
    at_the_top = {path.name for path in SOURCE.glob("*.py")} - {"__init__.py"}
    return _folders() | modules | at_the_top


def test_the_map_names_every_folder_and_module() -> None:
    assert sorted(_to_be_mapped() - set(mapped())) == [], "lines that the map lacks"


def test_the_map_names_nothing_else() -> None:
    assert sorted(set(mapped()) - _to_be_mapped()) == []


def test_the_map_names_nothing_twice() -> None:
    assert [name for name, count in Counter(mapped()).items() if count > 1] == []


def test_the_picture_of_the_layers_is_the_contract() -> None:
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter")
    assert layers() == contracts["importlinter:contract:layers"]["layers"].split("\n")[1:]


@cache
def _defined(file: str) -> set[str]:
    """Functions and classes of a module, methods as `Class.method`."""
    tree = ast.parse((SOURCE / file).read_text(encoding="utf-8"))
    names = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {
                f"{node.name}.{child.name}"
                for child in node.body
                if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            }
    return names


def test_every_hop_of_the_walks_exists() -> None:
    missing = [
        str(hop)
        for hop in all_hops()
        if not (SOURCE / hop.file).exists() or hop.name not in _defined(hop.file)
    ]
    assert missing == []


def test_every_step_of_the_walks_has_hops() -> None:
    walks = [walk(1), walk(2), walk(2, other_way=True), walk(3)]
    assert [len(steps) for steps in walks] == [9, 7, 3, 8]
    assert all(step.hops for steps in walks for step in steps)
