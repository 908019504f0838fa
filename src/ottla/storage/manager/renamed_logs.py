"""Logs of topics that have another name now: found by the topic's id, folders renamed (ADR 51).

A broker hears of a rename by an order for a name it does not know, with an id that it does: from
the controller that renames, from its successor, or long after, when the broker was away meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

from ottla.runtime import Runtime
from ottla.storage.log.log import Log
from ottla.storage.manager import folder_names
from ottla.storage.manager.data_dirs import DataDirs
from ottla.storage.manager.log_table import LogTable
from ottla.storage.manager.removals import FolderListener, no_listener, place_of
from ottla.topics.configs import LogConfig
from ottla.types import ZERO_TOPIC_ID, TopicId, TopicPartition

logger = logging.getLogger(__name__)


class RenamedLogs:
    """Part of the log manager, over the same table."""

    def __init__(
        self,
        runtime: Runtime,
        dirs: DataDirs,
        table: LogTable,
        settings_of: Callable[[str], LogConfig],
    ) -> None:
        self._runtime = runtime
        self._dirs = dirs
        self._table = table
        self._settings_of = settings_of
        self.on_folder: FolderListener = no_listener

    def find(self, wanted: Mapping[TopicPartition, TopicId]) -> dict[TopicPartition, Log]:
        """Of partitions that have no log by their name: the log by the topic's id. A log of which
        a power cut took the id may be under that name; it is nobody's where there is another."""
        missing = {
            (topic_id, tp.partition): tp
            for tp, topic_id in wanted.items()
            if topic_id != ZERO_TOPIC_ID
            and ((known := self._table.get(tp)) is None or known.topic_id == ZERO_TOPIC_ID)
        }
        if not missing:
            return {}
        return {
            missing[log.topic_id, log.tp.partition]: log
            for log in self._table.logs()
            if (log.topic_id, log.tp.partition) in missing
        }

    async def rename(self, found: Mapping[TopicPartition, Log]) -> list[TopicPartition]:
        """Gives the logs their new names, for good before this returns; those that have them.
        Nobody may write to them meanwhile."""
        done: list[TopicPartition] = []
        for path in dict.fromkeys(log.data_dir for log in found.values()):
            # What is written ahead of a rename must not be said of another log that has the name.
            # Looked at for each folder: the disk was waited for since.
            logs = {
                tp: log
                for tp, log in found.items()
                if log.data_dir == path
                and self._table.get(tp) is None
                and self._table.get(log.tp) is log
            }
            if not logs or self._dirs[path].offline is not None:
                continue
            try:
                # A power cut between two renames finds ids and checkpoints under either name.
                self._dirs[path].shared_ids.add(
                    {str(tp): log.topic_id for tp, log in logs.items() if log.side_files.needs_line}
                )
                self._dirs[path].write_all(self._table.logs_in(path), also=logs)
                renamed = [tp for tp, log in logs.items() if self._rename(tp, log)]
                await self._runtime.blocking(partial(self._runtime.disk.sync_dir, path))
            except OSError as error:
                self._dirs.failed(path, error)
                continue
            done += renamed
        return done

    def _rename(self, tp: TopicPartition, log: Log) -> bool:
        """Raises OSError."""
        old, target = log.tp, log.data_dir / str(tp)
        log.release()
        try:
            self._runtime.disk.rename(log.folder, target)
        except OSError as error:
            refusal = folder_names.refused_name(tp, error)
            if refusal is None:
                raise
            logger.error("the log of %s keeps its name: %s", old, refusal)
            self._dirs[log.data_dir].forget(tp)
            return False
        self._table.remove(old)
        log.move_to(target, tp)
        log.use_settings(self._settings_of(tp.topic))
        self._table.enter(log)
        self._dirs[log.data_dir].forget(old)
        logger.info("the log of %s is that of %s now: its topic was renamed", old, tp)
        self.on_folder("folder-renamed", tp, place_of(target))
        return True
