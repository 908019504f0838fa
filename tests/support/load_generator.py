"""The compiled load generator, where there is one."""

from __future__ import annotations

import shutil

import pytest

from ottla.bench.connections.generator import GeneratorFailed, generator
from tests.support.judges import need


def need_generator() -> None:
    """Skips with the reason; fails with it in CI, where there is a cargo to build it."""
    try:
        generator()
    except GeneratorFailed as missing:
        if shutil.which("cargo") is None:
            pytest.skip(str(missing))
        need(str(missing))
