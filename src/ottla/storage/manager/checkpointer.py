"""The checkpoints of all data folders, written off the event loop."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.runtime import Runtime
from ottla.storage import checkpoints
from ottla.storage.log.log import Log
from ottla.storage.manager.data_dir import DataDir
from ottla.storage.manager.data_dirs import DataDirs
from ottla.storage.manager.log_table import LogTable
from ottla.types import TopicPartition


class Checkpointer:
    """Tells each folder's files what its logs are now; a folder that cannot be written fails."""

    def __init__(self, runtime: Runtime, dirs: DataDirs, table: LogTable) -> None:
        self._runtime = runtime
        self._dirs = dirs
        self._table = table

    async def write_high_watermarks(self) -> None:
        for data_dir in self._dirs.usable():
            logs = self._table.logs_in(data_dir.path)
            if all(log.checkpointed_high_watermark == log.high_watermark for log in logs):
                continue
            watermarks = data_dir.high_watermarks(logs)
            if await self._write(data_dir, checkpoints.HIGH_WATERMARKS, watermarks):
                for log in logs:
                    # What was written, not what it became meanwhile; nothing of a log that has
                    # another name by now.
                    log.checkpointed_high_watermark = watermarks.get(log.tp, -1)

    async def write_offsets(self) -> None:
        """All others, and the high watermarks where they speak of logs that are gone."""
        began = {data_dir.path: data_dir.order() for data_dir in self._dirs.usable()}
        await self.write_cleaned()
        for data_dir in self._dirs.usable():
            await self.write_bounds(data_dir, self._table.logs_in(data_dir.path))
            if data_dir.gone:
                watermarks = data_dir.high_watermarks(self._table.logs_in(data_dir.path))
                if await self._write(
                    data_dir, checkpoints.HIGH_WATERMARKS, watermarks
                ) and await self._write_ids(data_dir):
                    data_dir.written_since(began[data_dir.path])

    async def write_bounds(self, data_dir: DataDir, logs: list[Log]) -> bool:
        """Whether recovery points and log starts are on disk now."""
        points, starts = data_dir.recovery_points(logs), data_dir.start_offsets(logs)
        return await self._write(
            data_dir, checkpoints.RECOVERY_POINTS, points
        ) and await self._write(data_dir, checkpoints.LOG_STARTS, starts)

    async def write_cleaned(self) -> None:
        for data_dir in self._dirs.usable():
            offsets = data_dir.cleaned_offsets(self._table.logs_in(data_dir.path))
            # Where a log is gone, even if the file seems to say so: a write of what was seen before
            # may be on its way.
            is_due = data_dir.gone or offsets != data_dir.checkpointed_cleaned
            if is_due and await self._write(data_dir, checkpoints.CLEANED, offsets):
                data_dir.checkpointed_cleaned = offsets

    async def _write_ids(self, data_dir: DataDir) -> bool:
        try:
            await self._runtime.blocking(data_dir.shared_ids.write)
        except OSError as error:
            self._dirs.failed(data_dir.path, error)
            return False
        return True

    async def _write(
        self, data_dir: DataDir, name: str, offsets: Mapping[TopicPartition, int]
    ) -> bool:
        """Whether it is written; a folder that cannot be written to has failed."""
        order = data_dir.order()
        try:
            # Formatting many thousands of lines is kept off the event loop as well.
            await self._runtime.blocking(lambda: data_dir.write(name, offsets, order))
        except OSError as error:
            self._dirs.failed(data_dir.path, error)
            return False
        return True
