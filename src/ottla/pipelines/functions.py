"""Python functions that a pipeline file names: `module:function` or `file.py:function`."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from ottla.pipelines.spec_keys import SpecError


def load_function(place: str) -> Callable[..., Any]:
    """Runs the module; raises SpecError where it cannot be run or has no such function."""
    module_name, _, name = place.rpartition(":")
    try:
        module = _load(module_name)
    except SpecError:
        raise
    # A module that calls exit() must not end the pipeline without a word.
    except (Exception, SystemExit) as error:
        words = str(error).strip() or "no more is known"
        raise SpecError(
            f"function: {module_name}: {type(error).__name__}: {words.splitlines()[0]}"
        ) from error
    function = getattr(module, name, None)
    if not callable(function):
        raise SpecError(f"function: {module_name} has no function {name!r}")
    return function  # type: ignore[no-any-return]


def _load(name: str) -> ModuleType:
    if not name.endswith(".py"):
        return importlib.import_module(name)
    if not Path(name).is_file():
        raise SpecError(f"function: there is no file {name}")
    spec = importlib.util.spec_from_file_location(Path(name).stem, name)
    if spec is None or spec.loader is None:
        raise ImportError(f"{name} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_takes(function: Callable[..., Any], place: str, count: int) -> None:
    """Raises SpecError for a function that cannot be called with so many DataFrames."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # builtins do not say
        return
    try:
        signature.bind(*range(count))
    except TypeError:
        raise SpecError(
            f"function: {place} is called with {count} DataFrame{'s' * (count != 1)}, one for each "
            f"topic, and takes {signature}"
        ) from None
