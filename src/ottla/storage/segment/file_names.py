"""What the files of a segment are called: the base offset in twenty digits, and a suffix each."""

from __future__ import annotations

from collections.abc import Iterable

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
DELETED_SUFFIX = ".deleted"
SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
_DIGITS = 20


def file_name(base_offset: int, suffix: str) -> str:
    return f"{base_offset:0{_DIGITS}d}{suffix}"


def offsets_among(names: Iterable[str], suffix: str) -> list[int]:
    """The offsets of the names that `file_name` makes with this suffix, ascending."""
    stems = (name[: -len(suffix)] for name in names if name.endswith(suffix))
    return sorted(
        int(stem) for stem in stems if len(stem) == _DIGITS and stem.isascii() and stem.isdigit()
    )
