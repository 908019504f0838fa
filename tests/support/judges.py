"""Judges that may be missing on a machine: Java, jars, suites, Spark."""

from __future__ import annotations

import pytest

from ottla.testing.peers import peers_required


def need(missing: str | None) -> None:
    """Skips with the reason; in CI, where the judges must be there, fails with it."""
    if missing is not None:
        (pytest.fail if peers_required() else pytest.skip)(missing)
