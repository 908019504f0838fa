"""The files of a segment under other names: set aside for removal, or written by compaction and
waiting to be put in place (Log.replaceSegments, Log.completeSwapOperations).

`.cleaned` is work in progress and thrown away at a start. `.swap` is finished and takes the place
of the segments that it covers, now or at the next start. The log file is the last to become
`.swap` and the first to lose the suffix, so that a `.log.swap` is never without its
`.txnindex.swap`; the other indexes can be made again.
"""

from __future__ import annotations

import logging
from pathlib import Path

from ottla.runtime import Disk
from ottla.storage.segment import batch_scan
from ottla.storage.segment.batch_scan import LogDamaged
from ottla.storage.segment.file_names import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
    offsets_among,
)
from ottla.storage.segment.segment import Segment

logger = logging.getLogger(__name__)
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
_REMOVED_SUFFIXES = (DELETED_SUFFIX, CLEANED_SUFFIX, ".tmp")
_PASSING_SUFFIXES = (*_REMOVED_SUFFIXES, SWAP_SUFFIX)
_LOG_LAST = tuple(reversed(SEGMENT_SUFFIXES))


def set_aside(disk: Disk, segment: Segment, *, keep_snapshot: bool = False) -> list[Path]:
    """Renames the files of a segment to `.deleted`; returns the new names."""
    segment.set_aside()
    removed: list[Path] = []
    extra = () if keep_snapshot else (SNAPSHOT_SUFFIX,)
    for suffix in (*SEGMENT_SUFFIXES, *extra):
        path = segment.path(suffix)
        if disk.exists(path):
            target = path.with_name(path.name + DELETED_SUFFIX)
            disk.rename(path, target)
            removed.append(target)
    return removed


def to_swap(disk: Disk, folder: Path, base_offset: int) -> None:
    """`.cleaned` to `.swap`, durably. Blocking; nobody else uses these names."""
    for suffix in _LOG_LAST:
        name = file_name(base_offset, suffix)
        if disk.exists(folder / (name + CLEANED_SUFFIX)):
            disk.rename(folder / (name + CLEANED_SUFFIX), folder / (name + SWAP_SUFFIX))
    disk.sync_dir(folder)


def complete_swap(disk: Disk, segment: Segment) -> None:
    """The segments that this one replaces are set aside already."""
    for suffix in SEGMENT_SUFFIXES:
        path = segment.path(suffix)
        source = path.with_name(path.name + SWAP_SUFFIX)
        if disk.exists(source):
            disk.rename(source, path)


def discard(disk: Disk, folder: Path, base_offset: int) -> None:
    """Takes back what a pass wrote and nobody wants any more; the log first, so that no restart
    finds it without the rest."""
    for suffix in SEGMENT_SUFFIXES:
        name = file_name(base_offset, suffix)
        disk.remove(folder / (name + SWAP_SUFFIX))
        disk.remove(folder / (name + CLEANED_SUFFIX))


def bases_on_disk(disk: Disk, folder: Path) -> list[int]:
    return bases_among(disk.list_dir(folder))


def bases_among(names: list[str]) -> list[int]:
    return offsets_among(names, LOG_SUFFIX)


def tidy(disk: Disk, folder: Path) -> list[str]:
    """Clears up after a crash: deleted files, half-done compactions, indexes without a log. What
    is left."""
    names = disk.list_dir(folder)
    # Somebody's folder with such a name is none of ours.
    passing = [name for name in names if name.endswith(_PASSING_SUFFIXES)]
    passing = [name for name in passing if not disk.is_dir(folder / name)]
    # A swap at or after an unfinished output belongs to a split that starts over.
    smallest_cleaned = min((_stem(name) for name in passing if _is_cleaned(name)), default=None)
    swaps: list[int] = []
    transaction_indexes: list[str] = []
    for name in passing:
        if name.endswith(_REMOVED_SUFFIXES):
            disk.remove(folder / name)
        else:
            is_wanted = smallest_cleaned is None or _stem(name) < smallest_cleaned
            if is_wanted and offsets_among([name], LOG_SUFFIX + SWAP_SUFFIX):
                swaps.append(int(_stem(name)))
            elif is_wanted and name.endswith(TXN_INDEX_SUFFIX + SWAP_SUFFIX):
                transaction_indexes.append(name)
            else:
                disk.remove(folder / name)
    for base_offset in swaps:
        _finish_swap(disk, folder, base_offset)
    for name in transaction_indexes:
        if disk.exists(folder / name):
            disk.rename(folder / name, folder / name.removesuffix(SWAP_SUFFIX))
    if passing:
        names = disk.list_dir(folder)
    left: list[str] = []
    for name in names:
        stem, _, suffix = name.partition(".")
        is_index = f".{suffix}" in SEGMENT_SUFFIXES
        if is_index and stem + LOG_SUFFIX not in names:
            disk.remove(folder / name)
        else:
            left.append(name)
    return left


def _stem(name: str) -> str:
    return name.partition(".")[0]


def _is_cleaned(name: str) -> bool:
    return name.endswith(CLEANED_SUFFIX)


def _finish_swap(disk: Disk, folder: Path, base_offset: int) -> None:
    """Puts a compacted segment in the place of those that it covers. It was synced before it got
    its name; if it is damaged all the same, the segments that it was made of are the better ones,
    as long as they are there. The first of them is the first to go."""
    target = folder / file_name(base_offset, LOG_SUFFIX)
    source = target.with_name(target.name + SWAP_SUFFIX)
    try:
        end = _end_of(disk, source, base_offset)
    except LogDamaged as damage:
        if disk.exists(target):
            logger.warning("%s is thrown away: %s", source, damage)
            discard(disk, folder, base_offset)
            return
        logger.warning("%s is used up to its damage: %s", source, damage)
        file = disk.open(source, create=False)
        try:
            file.truncate(damage.position)
        finally:
            file.close()
        end = _end_of(disk, source, base_offset)
    # Its own name too, if the log that had it is set aside already: what an index of that one says
    # does not hold for this.
    for covered in sorted({base_offset, *bases_on_disk(disk, folder)}):
        if base_offset <= covered < end:
            for suffix in SEGMENT_SUFFIXES:
                disk.remove(folder / file_name(covered, suffix))
    disk.rename(source, target)


def _end_of(disk: Disk, path: Path, base_offset: int) -> int:
    """The offset after the last batch, of which compaction may have left none; raises
    LogDamaged."""
    file = disk.open(path, create=False)
    end = base_offset + 1
    try:
        for _, header in batch_scan.headers(file, 0, file.size()):
            end = header.base_offset + header.last_offset_delta + 1
    finally:
        file.close()
    return end
