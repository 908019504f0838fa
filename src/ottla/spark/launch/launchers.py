"""Small shell scripts that start another program with an argument or a setting less."""

from __future__ import annotations

import os
import zlib
from pathlib import Path


def cache_folder() -> Path:
    """`OTTLA_CACHE`, where everything fetched is kept between checkouts."""
    configured = os.environ.get("OTTLA_CACHE")
    return Path(configured) if configured else Path.home() / ".cache" / "ottla"


def launcher(kind: str, real: Path, script: str, below: str = "") -> Path:
    """The script as `<cache>/<kind>/<of this program>/<below>/<kind>`, written where it is not.

    One per environment: two checkouts may share the cache.
    """
    path = cache_folder() / kind / f"{zlib.crc32(bytes(real)):08x}" / below / kind
    if not path.is_file() or path.read_text() != script:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Renamed into place, so that a second process never sees half a script.
        unfinished = path.with_name(f"{kind}.{os.getpid()}")
        unfinished.write_text(script)
        unfinished.chmod(0o755)
        unfinished.replace(path)
    return path
