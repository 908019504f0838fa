"""Transactions that were open when their topic was deleted are aborted when it is back (ADR 50).

Nobody else would end them: to the coordinator a deleted partition is done, and what is in its log
would keep readers of committed records waiting for ever. A file in the log's folder says up to
where and up to which leader epoch that may be the case, until a leader has written the markers.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple

from ottla.coordinator.transactions.markers import MarkerOrder
from ottla.errors import ErrorCode
from ottla.storage.manager.trash import UNDELETED_FILE
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.replication.replica_manager import ReplicaManager
    from ottla.coordinator.transactions.markers import MarkerWrites
    from ottla.runtime import Disk
    from ottla.storage.log.log import Log

logger = logging.getLogger(__name__)

_ATTEMPTS = 300
_PAUSE_S = 1.0


class Note(NamedTuple):
    """Where a log ended and its last leader epoch, when it came back from the trash."""

    end_offset: int
    leader_epoch: int


def hanging(log: Log, note: Note) -> list[tuple[int, int, int]]:
    """Producer id, epoch and coordinator epoch of each transaction that began before the deletion.

    The offset alone does not tell: a follower that was cut off to where its leader ends has records
    of the topic's second life below it. Those have a higher leader epoch than any of the first.
    """
    return [
        (producer_id, producer.epoch, max(0, producer.coordinator_epoch))
        for producer_id, producer in log.producers.items()
        if 0 <= producer.transaction_first_offset < note.end_offset
        and log.epochs.epoch_at(producer.transaction_first_offset) <= note.leader_epoch
    ]


class UndeletedTransactions:
    """Listens for partitions that this broker leads from now on."""

    def __init__(self, replicas: ReplicaManager, disk: Disk, markers: MarkerWrites) -> None:
        self._replicas = replicas
        self._disk = disk
        self._markers = markers
        self._tasks: set[asyncio.Task[None]] = set()
        replicas.leadership.add(self._began, lambda *_: None)

    def _began(self, tp: TopicPartition, leader_epoch: int) -> None:
        log = self._replicas.log_manager.get(tp)
        if log is None or log.producers.first_unstable_offset is None:
            return
        note = self._noted(log)
        if note is not None:
            work = self._abort(log, note, leader_epoch)
            task = asyncio.get_running_loop().create_task(work)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _noted(self, log: Log) -> Note | None:
        try:
            end_offset, epoch = self._disk.read_bytes(log.folder / UNDELETED_FILE).split()
            return Note(int(end_offset), int(epoch))
        except (OSError, ValueError):
            return None

    async def _abort(self, log: Log, note: Note, leader_epoch: int) -> None:
        for _ in range(_ATTEMPTS):
            partition = self._replicas.partitions.get(log.tp)
            if partition is None or partition.leader_epoch != leader_epoch:
                return  # the next leader does it
            orders = [
                MarkerOrder(*found[:2], False, found[2], frozenset({log.tp}))
                for found in hanging(log, note)
            ]
            answers = await self._markers.write(orders)
            if all(error is ErrorCode.NONE for answer in answers for error in answer.values()):
                logger.info("%d transactions of %s from before are aborted", len(orders), log.tp)
                try:
                    self._disk.remove(log.folder / UNDELETED_FILE)
                except OSError as error:
                    logger.warning("%s stays: %s", log.folder / UNDELETED_FILE, error)
                return
            await asyncio.sleep(_PAUSE_S)
        logger.error("transactions of %s from before its deletion could not be aborted", log.tp)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
