"""Builds `native/` and installs it beside Ottla, and builds the load generator in `native/load`;
`make setup` runs it when something there changed.

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
from contextlib import suppress
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "native"
# An empty target folder takes half a minute, most of it for pyo3.
TIMEOUT_S = 600
# Without a network an answer comes soon, not after minutes of trying.
PATIENCE = {"CARGO_NET_RETRY": "1", "CARGO_HTTP_TIMEOUT": "15", "UV_HTTP_TIMEOUT": "15"}


def build(uv: str, python: str) -> str | None:
    """None where it is installed then; else why not, in one line."""
    command = [uv, "pip", "install", "--no-deps", "--reinstall-package", "ottla-native"]
    return run([*command, "--python", python, str(FOLDER)])


def build_load() -> str | None:
    """The generator stays where it is built: `ottla bench data` finds it there."""
    manifest = str(FOLDER / "load" / "Cargo.toml")
    return run(["cargo", "build", "--release", "--locked", "--manifest-path", manifest])


def run(command: list[str]) -> str | None:
    """None where the build went well; else why not, in one line."""
    if shutil.which("cargo") is None:
        return "cargo is not on the path"
    try:
        done = subprocess.run(
            command,
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
    return None if done.returncode == 0 else complaint(done.stdout + done.stderr)


def complaint(output: str) -> str:
    """The line of a failed build that says why: the compiler's first, else uv's, else the last."""
    lines = [line.strip(" │├╰─▶×") for line in output.splitlines()]
    errors = [line for line in lines if line.startswith("error")]
    reasons = [line for line in errors if "Failed to build" not in line]
    for said in (reasons[:1], errors[:1], [line for line in lines if line][-1:]):
        if said:
            return said[0]
    return "the build failed without a word"


def remove(uv: str, python: str) -> None:
    """What an earlier build left is not that of the sources any more."""
    with suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            [uv, "pip", "uninstall", "--quiet", "--python", python, "ottla-native"],
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )


def main(arguments: list[str]) -> int:
    uv, python, stamp = arguments
    reason = build(uv, python)
    if reason is None:
        print("native code: built and installed (ottla_native)")
    else:
        remove(uv, python)
        print(f"native code: not built ({reason}); pure Python does its work, slower")
    load_reason = build_load()
    if load_reason is not None:
        print(
            f"load generator: not built ({load_reason}); "
            "`ottla bench data` has no rows on connections"
        )
    if reason is None and load_reason is None:
        Path(stamp).touch()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
