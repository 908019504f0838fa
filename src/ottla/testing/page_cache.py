"""What the page cache has of a file."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path


def resident_pages(path: Path) -> list[bool]:
    """Page by page, by mincore(2)."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        # Private, since a shared one of a file opened for reading has no address to be had.
        with mmap.mmap(file.fileno(), size, flags=mmap.MAP_PRIVATE) as mapped:
            libc = ctypes.CDLL(None, use_errno=True)
            found = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
            start = ctypes.c_char.from_buffer(mapped)
            try:
                failed = libc.mincore(
                    ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(size), found
                )
            finally:
                del start
            if failed:
                raise OSError(ctypes.get_errno(), "mincore failed")
            return [bool(page & 1) for page in found]


def uncache(path: Path) -> None:
    """As if nobody had read or written the file for long."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
