"""Builds `native/` and installs it beside Ottla; `make setup` runs it when something there changed.

    python tools/build_native.py uv python stamp

Native code is optional, so this never fails: where cargo is missing or a build goes wrong, one line
says so and pure Python stays in force. The stamp is written only after a build, so that the next
`make setup` tries again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "native"
# An empty target folder takes half a minute, most of it for pyo3.
TIMEOUT_S = 600
# Without a network an answer comes soon, not after minutes of trying.
PATIENCE = {"CARGO_NET_RETRY": "1", "CARGO_HTTP_TIMEOUT": "15", "UV_HTTP_TIMEOUT": "15"}


def build(uv: str, python: str) -> str | None:
    """None where it is installed then; else why not, in one line."""
    if shutil.which("cargo") is None:
        return "cargo is not on the path"
    command = [uv, "pip", "install", "--no-deps", "--reinstall-package", "ottla-native"]
    try:
        run = subprocess.run(
            [*command, "--python", python, str(FOLDER)],
            env={**os.environ, **PATIENCE},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"the build was not done after {TIMEOUT_S} s"
    except OSError as error:
        return str(error)
    return None if run.returncode == 0 else complaint(run.stdout + run.stderr)


def complaint(output: str) -> str:
    """The line of a failed build that says why: the first of the compiler's, else uv's last."""
    lines = [line.strip(" │├╰─▶×") for line in output.splitlines()]
    told = [line for line in lines if line.startswith("error")]
    said = told or [line for line in lines if line]
    return (said[0] if told else said[-1]) if said else "the build failed without a word"


def main(arguments: list[str]) -> int:
    uv, python, stamp = arguments
    reason = build(uv, python)
    if reason is None:
        Path(stamp).touch()
        print("native code: built and installed (ottla_native)")
    else:
        print(f"native code: not built ({reason}); pure Python does its work, slower")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
