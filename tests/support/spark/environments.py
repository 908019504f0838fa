"""Environments with another Spark or another Python than the locked ones, kept in the cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from ottla.spark.launch.launchers import cache_folder
from tests.support.documents.desk import find_uv

ROOT = Path(__file__).parents[3]
# PySpark is a source distribution of 450 MB, which becomes a wheel first.
INSTALL_TIMEOUT_S = 1800


def interpreter(version: str) -> Path | None:
    """A Python of this version, such as 3.12: on PATH, or one of pyenv's."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return Path(sys.executable)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python"))]
    for candidate in filter(None, found):
        # pyenv's shims are there for versions that are not switched on, too.
        if subprocess.run([candidate, "-c", ""], capture_output=True, check=False).returncode == 0:
            return Path(candidate)
    return None


def missing_reason(python: str) -> str | None:
    if find_uv() is None:
        return "no uv on PATH or in the cache: `make setup` brings it"
    if interpreter(python) is None:
        return f"no Python {python} on PATH or in pyenv"
    return None


def spark_environment(spark: str, python: str) -> Path:
    """The Python of an environment with that PySpark and what this package needs; the package
    itself comes from the checkout."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extra = project["optional-dependencies"]["spark"]
    others = [line for line in extra if not line.startswith("pyspark")]
    connect = ["grpcio>=1.76", "grpcio-status>=1.76", "googleapis-common-protos", "zstandard"]
    folder = cache_folder() / "spark-versions" / f"{spark}-python{python}"
    steps = [
        ["install", *project["dependencies"], *others, *connect],
        # uv would keep five times its size.
        ["install", "--no-cache", "--no-deps", f"pyspark=={spark}", "py4j<0.10.9.10"],
    ]
    return _made(folder, python, steps)


def locked_environment(python: str) -> Path:
    """The Python of an environment as `make setup` makes it, of another version."""
    folder = cache_folder() / "spark-versions" / f"locked-python{python}"
    lock = str(ROOT / "requirements.lock")
    # pytest finds the package's plugin only where it is installed.
    package = ["install", "--no-deps", "--editable", str(ROOT)]
    return _made(folder, python, [["sync", "--require-hashes", lock], package])


def _made(folder: Path, python: str, steps: list[list[str]]) -> Path:
    uv, real, stamp = find_uv(), interpreter(python), folder / ".made"
    wanted = "\n".join(" ".join(step) for step in steps)
    executable = folder / "bin" / "python"
    if stamp.exists() and stamp.read_text() == wanted and executable.exists():
        return executable
    _run(str(uv), "venv", "--quiet", "--clear", "--python", str(real), str(folder))
    for step in steps:
        _run(str(uv), "pip", *step, "--quiet", "--compile-bytecode", "--python", str(executable))
    stamp.write_text(wanted)
    return executable


def _run(*command: str) -> None:
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False
    )
    assert ran.returncode == 0, f"{' '.join(command[:3])}: {ran.stderr[-2000:]}"


def environment(**extra: str) -> dict[str, str]:
    """For a process in one of these: the checkout's package, and nothing of this environment."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "PYSPARK_", "VIRTUAL_ENV", "SPARK_"))
    }
    return {**kept, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", **extra}
