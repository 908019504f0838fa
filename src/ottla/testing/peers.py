"""Where the judges live: the jars that `tools/peers/fetch.py` fetched, and a Java to run them.

Nothing here downloads. A caller that finds no jars or no Java gets None and says why it skips.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ottla.spark.launch.java import MINIMUM_JAVA, java, java_home, java_version
from ottla.spark.launch.launchers import cache_folder

__all__ = [
    "BROWSERS",
    "BROWSER_FLAGS",
    "MINIMUM_JAVA",
    "REQUIRE_VARIABLE",
    "STAMP",
    "cache_folder",
    "find_browser",
    "java",
    "java_home",
    "java_version",
    "peer_folder",
    "peer_jars",
    "peers_required",
]

STAMP = ".stamp"
REQUIRE_VARIABLE = "OTTLA_REQUIRE_PEERS"
# A container has no namespaces for the sandbox and little shared memory.
BROWSER_FLAGS = ("--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu")
# Debian's Chromium, and what others call it.
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def peer_folder(name: str) -> Path:
    return cache_folder() / "peers" / name


def peer_jars(name: str) -> list[Path] | None:
    """The jars of one set, or None where the set was not fetched completely."""
    folder = peer_folder(name)
    if not (folder / STAMP).is_file():
        return None
    return sorted(folder.glob("*.jar"))


def find_browser() -> str | None:
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def peers_required() -> bool:
    """True in CI: there a missing peer is a failure and not a skip."""
    return os.environ.get(REQUIRE_VARIABLE, "") not in ("", "0")
