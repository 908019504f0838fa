"""tools/build_native.py with a cargo and a uv that the test wrote: it builds or says why not."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[3] / "tools" / "build_native.py"
Install = Callable[[str, str], str]


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    spec = importlib.util.spec_from_file_location("build_native", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def install(tmp_path: Path) -> Install:
    """`install(name, lines)` puts a program of Python lines on the path."""

    def put(name: str, lines: str) -> str:
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!{sys.executable}\nimport os, pathlib, sys, time\n{lines}\n")
        path.chmod(0o755)
        return str(path)

    return put


def test_it_is_installed_into_the_environment_that_was_named(
    tool: ModuleType, install: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked, built = tmp_path / "asked", tmp_path / "built"
    install("cargo", f"pathlib.Path({str(built)!r}).write_text(' '.join(sys.argv[1:]))")
    uv = install("uv", f"pathlib.Path({str(asked)!r}).write_text(' '.join(sys.argv[1:]))")
    assert tool.main([uv, "/some/python", str(tmp_path / "stamp")]) == 0
    assert (tmp_path / "stamp").exists()
    words = asked.read_text().split()
    assert words[:2] == ["pip", "install"] and words[-1] == str(TOOL.parents[1] / "native")
    assert words[words.index("--python") + 1] == "/some/python"
    manifest = TOOL.parents[1] / "native" / "load" / "Cargo.toml"
    assert built.read_text() == f"build --release --locked --manifest-path {manifest}"
    assert capsys.readouterr().out == "native code: built and installed (ottla_native)\n"


def _line_of_a_failure(
    tool: ModuleType, uv: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> str:
    """`make setup` goes on, one line says why, and the next one tries again."""
    assert tool.main([uv, "python", str(tmp_path / "stamp")]) == 0
    assert not (tmp_path / "stamp").exists()
    return str(capsys.readouterr().out.splitlines()[0])


def test_without_cargo(
    tool: ModuleType, install: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = tmp_path / "asked"
    uv = install("uv", f"pathlib.Path({str(asked)!r}).write_text(' '.join(sys.argv[1:]))")
    assert _line_of_a_failure(tool, uv, tmp_path, capsys) == (
        "native code: not built (cargo is not on the path); pure Python does its work, slower"
    )
    assert asked.read_text() == "pip uninstall --quiet --python python ottla-native"


def test_a_load_generator_that_is_not_built_leaves_the_package_alone(
    tool: ModuleType, install: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install("cargo", "sys.stderr.write('error: no libc'); sys.exit(1)")
    asked = tmp_path / "asked"
    uv = install("uv", f"pathlib.Path({str(asked)!r}).open('a').write(sys.argv[2] + ' ')")
    assert tool.main([uv, "python", str(tmp_path / "stamp")]) == 0
    assert asked.read_text() == "install "
    # So that the next `make setup` tries again.
    assert not (tmp_path / "stamp").exists()
    assert capsys.readouterr().out.splitlines() == [
        "native code: built and installed (ottla_native)",
        "load generator: not built (error: no libc); `ottla bench data` has no rows on connections",
    ]


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("  × Failed\n  ╰─▶ error: no matching package named `pyo3` found\n   more", "no matching"),
        ("error[E0308]: mismatched types\n --> src/lib.rs\nerror: could not compile", "E0308"),
        ("error: Failed to build `x`\n cause: y\n    error: cargo is broken\nhint", "is broken"),
        ("error: Failed to build `x`\n", "Failed to build `x`"),
        ("something\nthe last word\n", "the last word"),
        ("", "the build failed without a word"),
    ],
)
def test_a_build_that_fails(
    tool: ModuleType,
    install: Install,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    printed: str,
    said: str,
) -> None:
    install("cargo", "")
    uv = install("uv", f"sys.stderr.write({printed!r}); sys.exit(1)")
    assert said in _line_of_a_failure(tool, uv, tmp_path, capsys)


def test_a_build_that_hangs(
    tool: ModuleType,
    install: Install,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tool, "TIMEOUT_S", 0.2)
    install("cargo", "")
    uv = install("uv", "time.sleep(60)")
    assert "not done after 0.2 s" in _line_of_a_failure(tool, uv, tmp_path, capsys)


def test_a_uv_that_is_not_there(
    tool: ModuleType, install: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install("cargo", "")
    line = _line_of_a_failure(tool, str(tmp_path / "none"), tmp_path, capsys)
    assert "No such file or directory" in line
