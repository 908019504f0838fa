"""Which form of the loops over record bytes is in force: native code or pure Python (ADR 40).

The package `ottla_native` (`native/`, in Rust) has a few of them a second time. It is optional, and
`OTTLA_NATIVE=0` leaves it out. Pure Python is complete, decides where native code cannot, and is
what native code is held to in tests.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

logger = logging.getLogger(__name__)

VARIABLE = "OTTLA_NATIVE"
# The interface of both sides; raised with every change of it.
FORM = 3
# How many times as many records native code looks at in the same time, or more.
_PACE = 20


def _load() -> tuple[Any, str]:
    """The package, or None, and what is in force."""
    if os.environ.get(VARIABLE) == "0":
        return None, f"pure Python ({VARIABLE}=0)"
    try:
        package = importlib.import_module("ottla_native")
    except ModuleNotFoundError:
        return None, "pure Python (ottla_native is not installed)"
    except ImportError as error:
        logger.warning("ottla_native cannot be loaded, pure Python takes its place: %s", error)
        return None, "pure Python (ottla_native cannot be loaded)"
    form = getattr(package, "FORM", None)
    if form != FORM:
        logger.warning(
            "ottla_native has interface %s, %s is needed: pure Python takes its place until the "
            "two are installed together",
            form,
            FORM,
        )
        return None, f"pure Python (ottla_native has interface {form}, not {FORM})"
    return package, f"native code (ottla_native {package.__version__})"


# None where pure Python is in force. Callers look here each time, so that tests can change it.
code, _in_force = _load()


def in_force() -> str:
    """For people: which form it is, and why."""
    return _in_force


def paced(records: int) -> int:
    """How many records are looked at in the time that pure Python takes for so many."""
    return records if code is None else records * _PACE


@contextmanager
def pure_python() -> Iterator[None]:
    """Pure Python in this process for as long as this lasts: for comparisons."""
    global code
    before, code = code, None
    try:
        yield
    finally:
        code = before
