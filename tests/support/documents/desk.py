"""The reader's desk: a folder with what a page needs, and an environment of programs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from ottla.spark.launch.java import java_home
from ottla.spark.launch.launchers import cache_folder
from tests.support.documents import compiled
from tests.support.documents.blocks import ROOT
from tests.support.documents.plan import PagePlan

# pip as pages have it, by uv: from its cache, where that has everything. Compiled as pip does it:
# several processes of Spark start at the same time, and each would compile for itself.
_PIP = """\
#!/bin/sh
command=$1
shift
set -- "$command" --quiet --python "{python}" --constraint "{constraints}" "$@"
"{uv}" --offline pip "$@" 2>/dev/null || "{uv}" pip "$@" || exit
exec "{compiler}" "{compiled}" "{environment}"
"""


def _left_there(folder: str, names: list[str]) -> set[str]:
    """What earlier runs have made."""
    made = {"__pycache__"}
    if Path(folder).name == "examples":
        made |= {"archive", "checkpoints"}
    return made.intersection(names)


def find_uv() -> Path | None:
    """As the Makefile finds it."""
    for candidate in (shutil.which("uv"), cache_folder() / "uv" / "bin" / "uv"):
        if candidate is not None and Path(candidate).is_file():
            return Path(candidate)
    return None


def lay_out(plan: PagePlan, folder: Path) -> None:
    for name in plan.copies:
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=_left_there)
        else:
            shutil.copy(source, target)
    (folder / ".venv").symlink_to(sys.prefix)


def build_wheel(uv: Path, folder: Path) -> Path:
    """The wheel of this checkout; once published it would come from an index."""
    # uv takes a wheel that it knows by name from its cache: this checkout's is another each time.
    # (Refreshing it at the installation would go online, and make PySpark anew, 2.8 GB, each time.)
    subprocess.run([uv, "cache", "clean", "--quiet", "ottla"], check=True)
    for network in (["--offline"], []):
        built = subprocess.run(
            [uv, "build", "--quiet", "--wheel", *network, "--out-dir", folder, ROOT],
            capture_output=True,
            text=True,
            check=False,
        )
        if built.returncode == 0:
            (wheel,) = folder.glob("*.whl")
            return wheel
    raise RuntimeError(built.stderr)


def empty_environment(uv: Path, folder: Path) -> Path:
    """The folder of programs of a new virtual environment, with nothing in it but `pip`."""
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    constraints = folder / "constraints.txt"
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pins = [line.rstrip(" \\") for line in lines if "--hash" not in line]
    constraints.write_text("\n".join(pins) + "\n")
    pip = folder / "bin" / "pip"
    script = _PIP.format(
        uv=uv,
        python=folder / "bin" / "python",
        constraints=constraints,
        compiler=sys.executable,
        compiled=compiled.__file__,
        environment=folder,
    )
    pip.write_text(script)
    pip.chmod(0o755)
    return folder / "bin"


def environment(programs: Path, home: Path, wheels: Path | None) -> dict[str, str]:
    """Of this process, without what points to the checkout; caches stay where they are."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "PYTHONPATH", "VIRTUAL_ENV", "OTTLA_BOOTSTRAP"))
    }
    # Nothing is found by chance in the environment of the tests.
    elsewhere = [
        folder
        for folder in kept.get("PATH", "").split(os.pathsep)
        if not (Path(folder) / "ottla").exists()
    ]
    path = os.pathsep.join([str(programs), *elsewhere])
    # A laptop's own name may not resolve in a network with nothing but a loopback interface.
    found = {
        **kept,
        "PATH": path,
        "HOME": str(home),
        "OTTLA_CACHE": str(cache_folder()),
        "UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR") or str(Path.home() / ".cache" / "uv"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "JAVA_HOME": str(java_home()),
    }
    return found if wheels is None else {**found, "UV_FIND_LINKS": str(wheels)}
