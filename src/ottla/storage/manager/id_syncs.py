"""Topic ids of new logs on their way to the disk, off the event loop (ADR 48)."""

from __future__ import annotations

import asyncio

from ottla.errors import ErrorCode, KafkaError
from ottla.runtime import Runtime
from ottla.storage.log.log import Log
from ottla.storage.manager.data_dirs import DataDirs
from ottla.types import TopicId


class IdSyncs:
    """Part of the log manager. A first record that is faster than the sync makes its own, on the
    event loop (`SideFiles.secure_id`)."""

    def __init__(self, runtime: Runtime, dirs: DataDirs) -> None:
        self._runtime = runtime
        self._dirs = dirs
        self._is_due = asyncio.Event()

    def assign(self, log: Log, topic_id: TopicId) -> None:
        """To a log that has none. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        try:
            self._dirs[log.data_dir].shared_ids.add({str(log.tp): topic_id})
        except OSError as error:
            self._dirs.failed(log.data_dir, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from None
        log.assign_topic_id(topic_id, is_shared=True)
        self.soon()

    def soon(self) -> None:
        """Once for all that one turn of the loop adds: an order has many logs."""
        self._is_due.set()

    async def run(self) -> None:
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            for data_dir in self._dirs.usable():
                try:
                    await self._runtime.blocking(data_dir.shared_ids.make_durable)
                except OSError as error:
                    self._dirs.failed(data_dir.path, error)
