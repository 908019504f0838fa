"""CRC-32C from the crc32c package.

The package's own import reads its metadata, which costs 25 ms of every broker's start. Only the
extension module is needed, so it is loaded from its place; where a later release has it elsewhere,
the whole package is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

# The second argument goes on from the checksum of what stands before.
Checksum = Callable[..., int]


def _load() -> Checksum:
    package = PathFinder.find_spec("crc32c")
    if package is not None and package.submodule_search_locations:
        spec = PathFinder.find_spec("_crc32c", package.submodule_search_locations)
        if spec is not None and spec.loader is not None:
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            native: Checksum = module.crc32c
            return native
    from crc32c import crc32c as whole

    return whole


crc32c = _load()
