"""Which transactions are aborted when a topic is back from the trash, and which go on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

from ottla.broker.replication.leadership import LeadershipListeners
from ottla.broker.replication.undeleted_transactions import UndeletedTransactions
from ottla.coordinator.transactions.markers import MarkerOrder
from ottla.errors import ErrorCode
from ottla.runtime import SystemDisk
from ottla.storage.log.log import Log
from ottla.storage.manager.log_manager import LogManager
from ottla.storage.manager.trash import UNDELETED_FILE
from ottla.types import TopicPartition
from ottla.wire import records
from tests.support.controller.controlled_cluster import eventually
from tests.support.storage.log_managers import TOPIC_ID, manager

TP = TopicPartition("t", 0)
BEFORE, AFTER = 3, 5  # leader epochs of the topic's two lives


class Markers:
    """Writes every marker at once."""

    def __init__(self) -> None:
        self.aborted: list[int] = []

    async def write(self, orders: Sequence[MarkerOrder]) -> list[dict[TopicPartition, ErrorCode]]:
        self.aborted += [order.producer_id for order in orders]
        return [dict.fromkeys(order.partitions, ErrorCode.NONE) for order in orders]


def append(log: Log, count: int, leader_epoch: int, producer_id: int = -1) -> None:
    """With a producer it begins a transaction."""
    built = records.build_batch(
        [records.Record(None, b"v", 0) for _ in range(count)],
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
        transactional=producer_id >= 0,
    )
    log.append_as_leader(memoryview(bytearray(built)), leader_epoch)


async def back_from_the_trash(logs: LogManager) -> Log:
    """It ends at 100. Transactions of producers 1 and 2 have been open from 10 and 95 on."""
    await logs.start()
    log = logs.get_or_create(TP, topic_id=TOPIC_ID)
    for count, producer_id in ((10, -1), (1, 1), (79, -1), (5, -1), (5, 2)):
        append(log, count, BEFORE, producer_id)
    assert await logs.trash_moves.keep(TP, lambda: True)
    await logs.trash_moves.bring_back({TP: TOPIC_ID})
    back = logs.get(TP)
    assert back is not None and back.end_offset == 100
    return back


async def lead(logs: LogManager, log: Log) -> list[int]:
    """The producers whose transactions the new leader aborts."""
    markers = Markers()
    replicas = SimpleNamespace(
        log_manager=logs,
        leadership=LeadershipListeners(),
        partitions={TP: SimpleNamespace(leader_epoch=AFTER + 1)},
    )
    undeleted = UndeletedTransactions(replicas, SystemDisk(), markers)  # type: ignore[arg-type]
    log.assign_epoch_start(AFTER + 1)
    replicas.leadership.began(TP, AFTER + 1)
    # The note goes last of all.
    await eventually(lambda: not (log.folder / UNDELETED_FILE).exists())
    await undeleted.close()
    return sorted(markers.aborted)


async def test_those_from_before_are_aborted(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    log = await back_from_the_trash(logs)
    append(log, 2, AFTER, producer_id=3)
    assert await lead(logs, log) == [1, 2]
    await logs.shutdown()


async def test_one_that_began_where_the_log_was_cut_off_goes_on(tmp_path: Path) -> None:
    """The broker followed another one, whose log was shorter: what is there now is of the topic's
    second life, also where it is not behind the end of the first."""
    logs = manager(tmp_path)
    log = await back_from_the_trash(logs)
    log.truncate_to(90)
    append(log, 2, AFTER)
    append(log, 2, AFTER, producer_id=3)
    assert log.end_offset < 100
    assert await lead(logs, log) == [1]
    await logs.shutdown()
