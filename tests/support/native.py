"""Both forms of what native code replaces: tests of it run in each."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest

from ottla.wire import native
from tests.support.judges import need

FORMS = ("python", "native")


def native_code() -> ModuleType:
    """The package, whatever OTTLA_NATIVE says. Skips with the reason; fails with it in CI, where
    there is a cargo to build it."""
    try:
        package = importlib.import_module("ottla_native")
    except ImportError as error:
        missing = f"native code is not tested: {error}; `make setup` builds it (needs cargo)"
        if shutil.which("cargo") is None:
            pytest.skip(missing)
        need(missing)
        raise
    if package.FORM != native.FORM:
        pytest.fail("ottla_native is not of this checkout: `make setup` builds it")
    return package


@contextmanager
def in_force(form: str) -> Iterator[None]:
    """One form, for as long as this lasts."""
    before = native.code
    native.code = native_code() if form == "native" else None
    try:
        yield
    finally:
        native.code = before
