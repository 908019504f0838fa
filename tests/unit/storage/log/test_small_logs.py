"""Stop and start of logs that are too small for side files, and of many logs at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from ottla import runtime as runtime_module
from ottla.errors import ErrorCode, KafkaError
from ottla.runtime import Disk, File, SystemDisk
from ottla.simulation.disk import ProcessDisk, SimDisk
from ottla.storage import checkpoints
from ottla.storage.log import recovery, small_logs
from ottla.storage.log.log import Log
from ottla.storage.log.small_logs import NOTES, SMALL_LOG_BYTES
from ottla.storage.manager.log_manager import LogManager
from ottla.types import TopicPartition
from tests.support.storage.log_helpers import START_MS, all_offsets, batch
from tests.support.storage.log_managers import TOPIC_ID, manager

A = TopicPartition("a", 0)
LOG_FILE = "00000000000000000000.log"
PRODUCER = (7, 0, 0)


async def stopped_with_records(folder: Path, count: int = 5) -> None:
    """A log with two leader epochs and an idempotent producer."""
    logs = manager(folder)
    await logs.start()
    log = logs.get_or_create(A, topic_id=TOPIC_ID)
    log.append_as_leader(batch(count, producer=PRODUCER), 2)
    log.append_as_leader(batch(1), 4)
    log.set_high_watermark(count)
    await logs.checkpoints.write_high_watermarks()
    await logs.shutdown()


async def started(folder: Path, disk: Disk | None = None) -> tuple[LogManager, Log]:
    logs = manager(folder, disk=disk)
    await logs.start()
    log = logs.get(A)
    assert log is not None
    return logs, log


def check_all_is_there(log: Log, count: int = 5) -> None:
    assert (log.topic_id, log.high_watermark, log.end_offset) == (TOPIC_ID, count, count + 1)
    assert log.epochs.entries() == [(2, 0), (4, count)]
    assert log.active.max_timestamp == START_MS + count - 1
    assert all_offsets(log) == list(range(count + 1))
    assert log.append_as_leader(batch(count, producer=PRODUCER), 4).duplicate
    assert log.append_as_leader(batch(1), 5).first_offset == count + 1


def no_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    def recover(*_: object, **__: object) -> None:
        pytest.fail("a log was recovered")

    monkeypatch.setattr(recovery, "recover", recover)


class CountingDisk(SystemDisk):
    """Names of the files that were opened or read in folders of logs."""

    def __init__(self) -> None:
        self.touched: list[str] = []

    def open(self, path: Path, *, create: bool = True) -> File:
        self.touched.append(path.name)
        return super().open(path, create=create)

    def read_bytes(self, path: Path) -> bytes:
        self.touched.append(path.name)
        return super().read_bytes(path)

    def list_dir(self, path: Path) -> list[str]:
        self.touched.append(path.name)
        return super().list_dir(path)


async def test_a_small_log_starts_from_its_note_alone(tmp_path: Path) -> None:
    await stopped_with_records(tmp_path)
    assert (tmp_path / checkpoints.CLEAN_SHUTDOWN).exists()
    names = {path.name for path in (tmp_path / "a-0").iterdir()}
    assert names == {LOG_FILE}
    disk = CountingDisk()
    logs, log = await started(tmp_path, disk)
    assert not {LOG_FILE, checkpoints.PARTITION_METADATA, "a-0"} & set(disk.touched)
    assert not (tmp_path / NOTES).exists() and not (tmp_path / checkpoints.CLEAN_SHUTDOWN).exists()
    check_all_is_there(log)
    await logs.shutdown()


async def test_the_last_batches_of_a_producer_are_noted(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    await logs.start()
    log = logs.get_or_create(A, topic_id=TOPIC_ID)
    for sequence in range(7):
        log.append_as_leader(batch(1, producer=(7, 0, sequence)), 2)
    await logs.shutdown()
    logs, log = await started(tmp_path)
    for sequence in range(2, 7):
        again = log.append_as_leader(batch(1, producer=(7, 0, sequence)), 2)
        assert (again.duplicate, again.first_offset) == (True, sequence)
    with pytest.raises(KafkaError) as refused:
        log.append_as_leader(batch(1, producer=(7, 0, 1)), 2)
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not log.append_as_leader(batch(1, producer=(7, 0, 7)), 2).duplicate
    await logs.shutdown()


async def test_a_log_that_outgrew_its_note_gets_its_side_files(tmp_path: Path) -> None:
    await stopped_with_records(tmp_path)
    logs, log = await started(tmp_path)
    log.append_as_leader(batch(1, value=b"v" * SMALL_LOG_BYTES), 5)
    await logs.shutdown()
    folder = tmp_path / "a-0"
    assert (folder / checkpoints.LEADER_EPOCHS).read_text() == "0\n3\n2 0\n4 5\n5 6\n"
    assert not (folder / (checkpoints.LEADER_EPOCHS + ".tmp")).exists()
    assert (folder / "00000000000000000007.snapshot").exists()
    logs, log = await started(tmp_path)
    assert log.epochs.entries() == [(2, 0), (4, 5), (5, 6)]
    assert log.append_as_leader(batch(5, producer=PRODUCER), 5).duplicate
    await logs.shutdown()


def forget_notes(folder: Path) -> None:
    (folder / NOTES).unlink()


def damage_notes(folder: Path) -> None:
    (folder / NOTES).write_text('{"version":0,"logs":[["a-0"]]}')


def damage_a_snapshot(folder: Path) -> None:
    path = folder / NOTES
    text = path.read_text()
    assert ']],"0001' in text, "a snapshot of version 1 follows the epochs"
    path.write_text(text.replace(']],"0001', ']],"0002'))


def no_hex(folder: Path) -> None:
    path = folder / NOTES
    path.write_text(path.read_text().replace(TOPIC_ID.hex(), "orders"))


def notes_of_another_version(folder: Path) -> None:
    (folder / NOTES).write_text('{"version":1,"logs":[]}')


def other_time(folder: Path) -> None:
    os.utime(folder / "a-0" / LOG_FILE, (1, 1))


def lose_the_marker(folder: Path) -> None:
    (folder / checkpoints.CLEAN_SHUTDOWN).unlink()


@pytest.mark.parametrize(
    "change",
    [
        forget_notes,
        damage_notes,
        damage_a_snapshot,
        no_hex,
        notes_of_another_version,
        other_time,
        lose_the_marker,
    ],
)
async def test_without_a_note_that_counts_the_records_tell_all(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    await stopped_with_records(tmp_path)
    change(tmp_path)
    logs, log = await started(tmp_path)
    assert log.epochs.dirty, "no file has them yet"
    check_all_is_there(log)
    await logs.shutdown()


async def test_a_log_that_was_changed_since_is_read(tmp_path: Path) -> None:
    await stopped_with_records(tmp_path)
    path = tmp_path / "a-0" / LOG_FILE
    data = path.read_bytes()
    path.write_bytes(data[:-3])  # the last batch is torn
    logs, log = await started(tmp_path)
    assert (log.end_offset, log.epochs.entries()) == (5, [(2, 0)])
    assert path.stat().st_size < len(data) - 3
    await logs.shutdown()


async def test_epochs_of_a_noted_log_survive_a_crash_after_more_records(tmp_path: Path) -> None:
    await stopped_with_records(tmp_path)
    logs, log = await started(tmp_path)
    log.append_as_leader(batch(1), 6)
    for data_dir in logs.dirs:
        assert data_dir.lock is not None
        data_dir.lock.release()
    again, log = await started(tmp_path)
    assert log.epochs.entries() == [(2, 0), (4, 5), (6, 6)]
    assert all_offsets(log) == list(range(7))
    await again.shutdown()
    await logs.shutdown()


async def test_deleted_records_stay_deleted(tmp_path: Path) -> None:
    await stopped_with_records(tmp_path)
    logs, log = await started(tmp_path)
    log.advance_start_offset(3)
    await logs.shutdown()
    logs, log = await started(tmp_path)
    assert (log.start_offset, log.epochs.entries()) == (3, [(2, 3), (4, 5)])
    with pytest.raises(KafkaError) as raised:
        log.read(2, 100, 6, min_one_batch=True)
    assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    await logs.shutdown()


async def test_hundreds_of_logs_stop_with_one_sync_and_start_without_recovery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    whole = runtime_module._sync_file_systems
    monkeypatch.setattr(
        runtime_module,
        "_sync_file_systems",
        lambda paths: synced.append(len(paths)) or whole(paths),
    )
    partitions = [TopicPartition(f"t{number}", 0) for number in range(300)]
    logs = manager(tmp_path)
    await logs.start()
    for number, tp in enumerate(partitions):
        # Every tenth is large enough for side files.
        value = b"v" * (1 if number % 10 else SMALL_LOG_BYTES)
        logs.get_or_create(tp, topic_id=TOPIC_ID).append_as_leader(batch(2, value=value), 1)
    await logs.shutdown()
    assert len(synced) == 1 and synced[0] >= 2 * len(partitions)
    assert (tmp_path / checkpoints.CLEAN_SHUTDOWN).exists()
    no_recovery(monkeypatch)
    logs = manager(tmp_path)
    await logs.start()
    for tp in partitions:
        log = logs.get(tp)
        assert log is not None and all_offsets(log) == [0, 1]
        assert log.epochs.entries() == [(1, 0)]
    await logs.shutdown()
    assert len(synced) == 1, "nothing was written, so nothing is synced"


class UnsyncableDisk(SystemDisk):
    def sync_all(self, paths: Collection[Path]) -> None:
        raise OSError(5, "Input/output error")


async def test_a_stop_that_cannot_sync_leaves_no_marker(tmp_path: Path) -> None:
    logs = manager(tmp_path, disk=UnsyncableDisk())
    await logs.start()
    logs.get_or_create(A, topic_id=TOPIC_ID).append_as_leader(batch(3), 1)
    await logs.shutdown()
    assert not (tmp_path / checkpoints.CLEAN_SHUTDOWN).exists()
    logs, log = await started(tmp_path)
    assert all_offsets(log) == [0, 1, 2]
    await logs.shutdown()


STOPPING_BROKER = """
import asyncio, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from ottla.runtime import SystemDisk
from ottla.types import TopicPartition
from tests.support.storage.log_helpers import batch
from tests.support.storage.log_managers import TOPIC_ID, manager

class StuckDisk(SystemDisk):
    def sync_all(self, paths):
        print("syncing", flush=True)
        time.sleep(600)

async def main():
    logs = manager(Path(sys.argv[1]), disk=StuckDisk())
    await logs.start()
    for number in range(150):
        tp = TopicPartition(f"t{number}", 0)
        logs.get_or_create(tp, topic_id=TOPIC_ID).append_as_leader(batch(2), 1)
    await logs.shutdown()

asyncio.run(main())
"""


def kill_while_it_syncs(folder: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", STOPPING_BROKER, str(folder), str(Path(__file__).parents[4])],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "syncing\n"
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()


async def test_killed_while_it_syncs_a_broker_leaves_no_marker(tmp_path: Path) -> None:
    kill_while_it_syncs(tmp_path)
    assert not (tmp_path / checkpoints.CLEAN_SHUTDOWN).exists()
    assert not (tmp_path / NOTES).exists()
    logs = manager(tmp_path)
    await logs.start()
    for number in range(150):
        log = logs.get(TopicPartition(f"t{number}", 0))
        assert log is not None and all_offsets(log) == [0, 1]
    await logs.shutdown()


@pytest.mark.parametrize("seed", range(8))
async def test_a_power_cut_after_a_clean_stop_takes_nothing(seed: int) -> None:
    host = SimDisk(str(seed), lambda: START_MS)
    folder = Path("/data")
    disk = ProcessDisk(host, lambda: True)
    logs = manager(folder, disk=disk)
    await logs.start()
    disk.sync_dir(Path("/"))
    big = logs.get_or_create(TopicPartition("big", 0), topic_id=TOPIC_ID)
    big.append_as_leader(batch(3, value=b"v" * SMALL_LOG_BYTES), 1)
    small = logs.get_or_create(A, topic_id=TOPIC_ID)
    small.append_as_leader(batch(5, producer=PRODUCER), 2)
    small.append_as_leader(batch(1), 4)
    small.set_high_watermark(5)
    await logs.checkpoints.write_high_watermarks()
    await logs.shutdown()
    host.power_cut()
    alive = True
    logs, log = await started(folder, ProcessDisk(host, lambda: alive))
    big_again = logs.get(big.tp)
    assert big_again is not None and all_offsets(big_again) == [0, 1, 2]
    assert big_again.epochs.entries() == [(1, 0)]
    check_all_is_there(log)
    # The marker is gone for good, whatever comes next.
    host.power_cut()
    alive = False
    await logs.shutdown()
    assert host.find(folder / checkpoints.CLEAN_SHUTDOWN) is None
    logs, log = await started(folder, ProcessDisk(host, lambda: True))
    assert all_offsets(log)[:6] == list(range(6))
    await logs.shutdown()


def test_many_files_and_one_by_one_are_all_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / str(number) for number in range(3)]
    for path in paths:
        path.write_bytes(b"x")
    disk = SystemDisk()
    fsyncs: list[int] = []
    monkeypatch.setattr(runtime_module.os, "fsync", fsyncs.append)
    disk.sync_all([*paths, tmp_path, tmp_path / "gone"])
    assert len(fsyncs) == 4
    monkeypatch.setattr(runtime_module, "_SYNCED_ONE_BY_ONE", 2)
    disk.sync_all([*paths, tmp_path / "gone"])
    assert len(fsyncs) == 4, "one call for the file system instead"
    monkeypatch.setattr(runtime_module, "_sync_file_systems", lambda _: False)
    disk.sync_all(paths)
    assert len(fsyncs) == 7, "where the system has no such call"


def test_notes_read_as_written() -> None:
    note = small_logs.Note("a-0", TOPIC_ID.hex(), 3, 70, 5, 4, 9, 3, None, [(1, 3)], "", [])
    assert small_logs.decode_notes(small_logs.encode_notes([note])) == {
        "a-0": note._replace(epochs=[[1, 3]])  # type: ignore[list-item]
    }
