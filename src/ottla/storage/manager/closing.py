"""Closing logs at a clean stop, off the event loop."""

from __future__ import annotations

from pathlib import Path

from ottla.runtime import Runtime
from ottla.storage import checkpoints
from ottla.storage.log.log import Log
from ottla.storage.log.small_logs import Note, is_bare, take_note
from ottla.storage.segment.file_names import LOG_SUFFIX


def _write_epochs_aside(log: Log, runtime: Runtime) -> Path:
    """Under another name and not synced yet; a start removes what is left of it."""
    path = log.folder / (checkpoints.LEADER_EPOCHS + ".tmp")
    runtime.disk.remove(path)
    file = runtime.disk.open(path)
    try:
        file.append(checkpoints.encode_epochs(log.epochs.entries()))
    finally:
        file.close()
    return path


def close_logs(logs: list[Log], runtime: Runtime, notes: list[Note]) -> None:
    """Everything durable, all descriptors given back; what the next start needs to know of the
    small ones is added to the notes. One sync for all: ten thousand in turn would take minutes."""
    disk = runtime.disk
    unsynced: set[Path] = set()
    bare: list[Log] = []
    epochs: dict[Path, Log] = {}
    for log in logs:
        names = disk.list_dir(log.folder)
        if is_bare(log, names):
            bare.append(log)
        else:
            log.side_files.write_shared_id()
            log.write_snapshot()
            log.active.indexes().write()
            if log.epochs.dirty:
                epochs[_write_epochs_aside(log, runtime)] = log
        if log.end_offset > log.recovery_point:
            unsynced.update(segment.path(LOG_SUFFIX) for segment in log.segments[-2:])
            unsynced.add(log.folder)
        if log.side_files.unsynced:
            unsynced |= log.side_files.unsynced
            unsynced.add(log.folder)
    disk.sync_all(unsynced | epochs.keys())
    # Only contents that are on disk may take the place of older ones.
    for path, log in epochs.items():
        disk.rename(path, log.folder / checkpoints.LEADER_EPOCHS)
        log.epochs.dirty = False
    disk.sync_all([log.folder for log in epochs.values()])
    for log in logs:
        log.side_files.unsynced.clear()
        log.recovery_point = log.end_offset
        log.release()
    # Not of a copy on its way to another folder, whose state no checkpoint speaks of.
    notes += [take_note(log, disk) for log in bare if log.folder.name == str(log.tp)]
