"""Which PySpark is installed, without starting it."""

from __future__ import annotations

import importlib.metadata
import re

# The first whose Python data sources can stream.
_OLDEST = (4, 0)


def pyspark_version() -> str:
    try:
        return importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:  # on the path of a Spark of its own
        from pyspark.version import __version__

        return str(__version__)


def is_too_old(version: str) -> bool:
    found = re.match(r"(\d+)\.(\d+)", version)
    return found is not None and (int(found[1]), int(found[2])) < _OLDEST
