"""`python compiled.py ENVIRONMENT`: byte code for all of an environment, as pip leaves it behind.

Most of it is there already: the tests' own environment has the same packages, from the same cache,
and was compiled when it was set up. Four thousand files anew would take a quarter of a minute.
Knows nothing of this project: a page's `pip` runs it.
"""

from __future__ import annotations

import compileall
import os
import shutil
import sys
import sysconfig
from importlib.util import cache_from_source
from pathlib import Path


def link_compiled(source: Path, target: Path) -> int:
    """Byte code of `source` for every file that is the same in `target`; how many there were."""
    linked = 0
    for file in target.rglob("*.py"):
        other = source / file.relative_to(target)
        made, place = Path(cache_from_source(str(other))), Path(cache_from_source(str(file)))
        if made.exists() and not place.exists() and _is_same(file, other):
            place.parent.mkdir(exist_ok=True)
            _link(made, place)
            linked += 1
    return linked


def _is_same(one: Path, other: Path) -> bool:
    """As Python itself tells whether byte code is that of a file."""
    first, second = one.stat(), other.stat()
    return (int(first.st_mtime), first.st_size) == (int(second.st_mtime), second.st_size)


def _link(made: Path, place: Path) -> None:
    try:
        os.link(made, place)
    except OSError:  # on another file system
        shutil.copy(made, place)


def main() -> int:
    environment = Path(sys.argv[1])
    own = Path(sysconfig.get_path("purelib"))
    target = environment / own.relative_to(sys.prefix)
    link_compiled(own, target)
    # What is there and up to date is passed over.
    compileall.compile_dir(str(target), quiet=2, workers=0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
