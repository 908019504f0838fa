"""File work on logs that is done off the event loop."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ottla.runtime import Runtime
from ottla.storage import segment as segments
from ottla.storage.log import Log


def remove_paths(runtime: Runtime, paths: list[Path]) -> None:
    for path in paths:
        if runtime.disk.is_dir(path):
            runtime.disk.remove_tree(path)
        else:
            runtime.disk.remove(path)


def sync_files(runtime: Runtime, paths: Iterable[Path]) -> None:
    """With descriptors of its own: the log's may be closed by another owner meanwhile."""
    for path in paths:
        if runtime.disk.exists(path):
            file = runtime.disk.open(path, create=False)
            try:
                file.sync()
            finally:
                file.close()


def close_logs(logs: list[Log], runtime: Runtime) -> None:
    for log in logs:
        dirty = log.end_offset > log.recovery_point
        log.write_snapshot()
        if log.epochs.dirty:
            log.write_epochs()
        log.active.write_indexes()
        if dirty:
            sync_files(
                runtime, [segment.path(segments.LOG_SUFFIX) for segment in log.segments[-2:]]
            )
        sync_files(runtime, log.unsynced)
        log.unsynced.clear()
        log.recovery_point = log.end_offset
        log.release()
