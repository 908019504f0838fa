"""Debian's Chromium for the console's tests, where this may install it: as root, with apt.

A browser that is on PATH already is used as it is. Without either the tests of the console say so.
"""

from __future__ import annotations

import os
import shutil
import subprocess

from ottla.testing.peers import BROWSERS, find_browser

_TIMEOUT_S = 300
# Where there is no way out, apt would otherwise try for minutes.
_IMPATIENT = ("-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=20")


def fetch_browser() -> str:
    """Makes a browser present; returns what was done in a few words."""
    found = find_browser()
    if found is not None:
        return "there already"
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        return f"skipped: none of {', '.join(BROWSERS)} on PATH, and not root with apt-get"
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = [
        apt,
        *_IMPATIENT,
        "install",
        "--yes",
        "--quiet",
        "--no-install-recommends",
        "chromium",
    ]
    # Lists that are too old name packages that are gone: they are brought up to date only then.
    for commands in ([install], [[apt, *_IMPATIENT, "update", "--quiet"], install]):
        complaint = _first_complaint(commands, environment)
        if complaint is None:
            return "installed Debian's chromium"
    return f"failed: {complaint}"


def _first_complaint(commands: list[list[str]], environment: dict[str, str]) -> str | None:
    for command in commands:
        try:
            run = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
                env=environment,
            )
        except subprocess.TimeoutExpired:
            return f"apt-get gave no answer in {_TIMEOUT_S} s"
        if run.returncode != 0:
            lines = (run.stderr or run.stdout).strip().splitlines()
            return lines[-1] if lines else "apt-get failed"
    return None
