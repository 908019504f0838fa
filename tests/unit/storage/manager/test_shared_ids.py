"""Topic ids of small logs in one file: what it says after stops, kills, cuts and namesakes."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.runtime import File, SystemDisk, SystemFile
from ottla.simulation.disk import ProcessDisk, SimDisk
from ottla.storage import checkpoints
from ottla.storage.log.small_logs import NOTES
from ottla.storage.manager.log_manager import LogManager
from ottla.storage.manager.shared_ids import FILE_NAME, SharedIds, decode
from ottla.types import ZERO_TOPIC_ID, TopicPartition
from tests.support.storage.log_helpers import START_MS, batch
from tests.support.storage.log_managers import TOPIC_ID, manager
from tests.support.zk.polling import until

A, B = TopicPartition("a", 0), TopicPartition("b.c_d-e", 7)
OTHER_ID = bytes(range(16, 32))
LOG_FILE = "00000000000000000000.log"


async def killed(logs: LogManager) -> None:
    """As kill -9 leaves it: nothing is closed, nothing is written."""
    await logs._tasks.cancel()
    logs.dirs.release_locks()


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def names_like(folder: Path, pattern: str) -> list[Path]:
    return list(folder.glob(pattern))


async def restarted(*folders: Path) -> LogManager:
    logs = manager(*folders)
    await logs.start()
    return logs


def ids_of(logs: LogManager) -> dict[TopicPartition, bytes]:
    return {log.tp: log.topic_id for log in logs.logs()}


async def test_a_log_without_a_record_is_a_folder_and_a_line(tmp_path: Path) -> None:
    logs = await restarted(tmp_path)
    logs.get_or_create(A, topic_id=TOPIC_ID)
    logs.get_or_create(B, topic_id=OTHER_ID)
    assert names_in(tmp_path / "a-0") == names_in(tmp_path / str(B)) == set()
    # A read, a look by time and a cut make no file either.
    log = logs.get(A)
    assert log is not None
    assert not log.read(0, 100, 0, min_one_batch=True)
    assert log.active.locate_timestamp(0, 0) is None and log.truncate_to(0) == []
    assert log.active.largest_timestamp() > 0 and names_in(log.folder) == set()
    await killed(logs)
    logs = await restarted(tmp_path)
    assert ids_of(logs) == {A: TOPIC_ID, B: OTHER_ID}
    assert names_in(tmp_path / "a-0") == set()
    log = logs.get_or_create(A)
    assert log.append_as_leader(batch(2), 0).last_offset == 1
    assert names_in(log.folder) == {LOG_FILE}
    await killed(logs)
    logs = await restarted(tmp_path)
    assert ids_of(logs) == {A: TOPIC_ID, B: OTHER_ID}
    assert logs.get_or_create(A).end_offset == 2
    await logs.shutdown()


async def test_a_clean_stop_and_a_kill_after_it_keep_the_ids(tmp_path: Path) -> None:
    logs = await restarted(tmp_path)
    logs.get_or_create(A, topic_id=TOPIC_ID)
    logs.get_or_create(B, topic_id=OTHER_ID).append_as_leader(batch(1), 0)
    await logs.shutdown()
    # Even where the file is lost: the notes of the stop have them as well.
    (tmp_path / FILE_NAME).unlink()
    for _ in range(3):
        logs = await restarted(tmp_path)
        assert ids_of(logs) == {A: TOPIC_ID, B: OTHER_ID}
        await killed(logs)


async def test_the_first_flush_writes_the_log_its_own_id(tmp_path: Path) -> None:
    logs = await restarted(tmp_path)
    log = logs.get_or_create(A, topic_id=TOPIC_ID)
    log.append_as_leader(batch(1), 0)
    await logs.flusher.flush(log)
    own = (log.folder / checkpoints.PARTITION_METADATA).read_bytes()
    assert checkpoints.decode_partition_metadata(own) == TOPIC_ID
    await killed(logs)
    # And that one counts, whatever the shared file says.
    SharedIds(SystemDisk(), tmp_path).add({"a-0": OTHER_ID})
    logs = await restarted(tmp_path)
    assert ids_of(logs) == {A: TOPIC_ID}
    assert b"a-0" not in (tmp_path / FILE_NAME).read_bytes()
    await logs.shutdown()


async def test_a_namesake_never_gets_the_id_of_the_log_before_it(tmp_path: Path) -> None:
    logs = await restarted(tmp_path)
    logs.get_or_create(A, topic_id=TOPIC_ID)
    logs.delete(A)
    # Durable before the name is used again, so that no power cut can mix them up.
    synced: list[set[str]] = []
    write = logs._runtime.disk.write_atomically

    def watched(path: Path, data: bytes) -> None:
        write(path, data)
        if path.name == FILE_NAME:
            synced.append(names_in(tmp_path))
            assert decode(data) == ({}, 0)

    logs._runtime.disk.write_atomically = watched  # type: ignore[method-assign]
    logs.get_or_create(A, topic_id=ZERO_TOPIC_ID)
    assert len(synced) == 1 and "a-0" not in synced[0]
    await killed(logs)
    logs = await restarted(tmp_path)
    assert ids_of(logs) == {A: ZERO_TOPIC_ID}
    logs.delete(A)
    logs.get_or_create(A, topic_id=OTHER_ID)
    await killed(logs)
    logs = await restarted(tmp_path)
    assert ids_of(logs) == {A: OTHER_ID}
    await logs.shutdown()


async def test_a_folder_that_went_while_the_broker_was_away_takes_its_line_along(
    tmp_path: Path,
) -> None:
    logs = await restarted(tmp_path)
    logs.get_or_create(A, topic_id=TOPIC_ID)
    await killed(logs)
    (tmp_path / "a-0").rmdir()
    logs = await restarted(tmp_path)
    await killed(logs)
    (tmp_path / "a-0").mkdir()  # by whoever: it is not the folder that had the id
    logs = await restarted(tmp_path)
    assert ids_of(logs) == {A: ZERO_TOPIC_ID}
    # The controller's next order names the id.
    logs.get_or_create(A).assign_topic_id(OTHER_ID)
    await killed(logs)
    logs = await restarted(tmp_path)
    assert ids_of(logs) == {A: OTHER_ID}
    await logs.shutdown()


@pytest.mark.parametrize("cut", range(1, 60, 7))
async def test_a_torn_line_costs_its_own_log_the_id_and_no_other(tmp_path: Path, cut: int) -> None:
    logs = await restarted(tmp_path)
    logs.get_or_create(A, topic_id=TOPIC_ID)
    logs.get_or_create(B, topic_id=OTHER_ID)
    await killed(logs)
    path = tmp_path / FILE_NAME
    whole = path.read_bytes()
    line = len(whole) - whole.rindex(b"\n", 0, -1) - 1
    path.write_bytes(whole[: -min(cut, line)])
    logs = await restarted(tmp_path)
    # Only the end of the line is missing, or more.
    assert ids_of(logs) == {A: TOPIC_ID, B: OTHER_ID if cut == 1 else ZERO_TOPIC_ID}
    third = TopicPartition("third", 0)
    logs.get_or_create(third, topic_id=OTHER_ID)
    await killed(logs)
    logs = await restarted(tmp_path)
    assert ids_of(logs)[third] == OTHER_ID and ids_of(logs)[A] == TOPIC_ID
    await logs.shutdown()


def test_an_append_never_becomes_part_of_a_line_without_its_end(tmp_path: Path) -> None:
    ids = SharedIds(SystemDisk(), tmp_path)
    for topic_id in (TOPIC_ID, OTHER_ID):
        ids.add({str(A): topic_id})
    path = tmp_path / FILE_NAME
    # As many line ends as a whole file with one name has.
    path.write_bytes(path.read_bytes()[:-1])
    ids = SharedIds(SystemDisk(), tmp_path)
    ids.keep(ids.load())
    ids.add({str(B): TOPIC_ID})
    assert decode(path.read_bytes()) == ({str(A): OTHER_ID, str(B): TOPIC_ID}, 0)


@pytest.mark.parametrize(
    "data", [b"", b"\0" * 100, b"ottla-topic-ids 2\nx\n", b"ottla-topic-ids 1\nzz\xff a\n\n1\n"]
)
async def test_what_is_no_such_file_counts_as_none_and_is_written_anew(
    tmp_path: Path, data: bytes
) -> None:
    logs = await restarted(tmp_path)
    logs.get_or_create(A, topic_id=TOPIC_ID)
    await killed(logs)
    (tmp_path / FILE_NAME).write_bytes(data)
    logs = await restarted(tmp_path)
    assert ids_of(logs) == {A: ZERO_TOPIC_ID}
    logs.get_or_create(B, topic_id=OTHER_ID)
    await killed(logs)
    logs = await restarted(tmp_path)
    assert ids_of(logs) == {A: ZERO_TOPIC_ID, B: OTHER_ID}
    await logs.shutdown()


class FullDisk(SystemDisk):
    """Takes half of what is appended to the file of ids, then nothing."""

    is_full = False

    def open(self, path: Path, *, create: bool = True) -> File:
        file = super().open(path, create=create)
        if self.is_full and create and path.name == FILE_NAME:
            file.append(b"\nhalf of a l")
            file.close()
            raise OSError(28, "No space left on device")
        return file


async def test_a_full_disk_takes_the_folder_offline_and_leaves_the_lines_good(
    tmp_path: Path,
) -> None:
    disk = FullDisk()
    logs = manager(tmp_path / "x", tmp_path / "y", disk=disk)
    await logs.start()
    first = logs.get_or_create(A, topic_id=TOPIC_ID)
    disk.is_full = True
    wanted = {TopicPartition("many", number): OTHER_ID for number in range(200)}
    await logs.create_ahead(wanted)
    assert not names_like(tmp_path, "*/many-*")
    disk.is_full = False
    await logs.create_ahead(wanted)
    await killed(logs)
    logs = await restarted(tmp_path / "x", tmp_path / "y")
    assert ids_of(logs) == {A: TOPIC_ID} | wanted
    assert logs.get_or_create(A).data_dir == first.data_dir
    await logs.shutdown()


@pytest.mark.parametrize("is_synced", [False, True])
async def test_a_file_that_somebody_takes_away_is_made_again(
    tmp_path: Path, is_synced: bool
) -> None:
    logs = await restarted(tmp_path)
    logs.get_or_create(A, topic_id=TOPIC_ID)
    if is_synced:
        await asyncio.sleep(0.05)
    (tmp_path / FILE_NAME).unlink()
    if is_synced:
        logs.get_or_create(B, topic_id=OTHER_ID)
    else:
        logs.get_or_create(A).append_as_leader(batch(1), 0)
    await asyncio.sleep(0.05)
    assert not logs.dirs.offline()
    await killed(logs)
    logs = await restarted(tmp_path)
    assert ids_of(logs) == {A: TOPIC_ID} | ({B: OTHER_ID} if is_synced else {})
    await logs.shutdown()


@pytest.mark.parametrize("failures", [1, 2, 3])
def test_a_disk_that_is_full_again_and_again_leaves_the_lines_good(
    tmp_path: Path, failures: int
) -> None:
    disk = FullDisk()
    ids = SharedIds(disk, tmp_path)
    ids.add({str(A): TOPIC_ID})
    disk.is_full = True
    for _ in range(failures):
        with pytest.raises(OSError, match="No space"):
            ids.add({str(B): OTHER_ID})
    disk.is_full = False
    ids.add({str(B): OTHER_ID})
    assert decode((tmp_path / FILE_NAME).read_bytes()) == ({str(A): TOPIC_ID, str(B): OTHER_ID}, 0)


async def test_many_logs_are_one_append_and_one_folder_each(tmp_path: Path) -> None:
    class CountingDisk(SystemDisk):
        opened = 0

        def open(self, path: Path, *, create: bool = True) -> File:
            self.opened += 1
            return super().open(path, create=create)

    disk = CountingDisk()
    logs = manager(tmp_path, disk=disk)
    await logs.start()
    disk.opened = 0
    wanted = {TopicPartition("many", number): TOPIC_ID for number in range(300)}
    await logs.create_ahead(wanted)
    # To append all lines, and to sync them.
    assert disk.opened == 2 and len(names_like(tmp_path, "many-*")) == 300
    await logs.shutdown()
    logs = await restarted(tmp_path)
    assert ids_of(logs) == wanted and not (tmp_path / NOTES).exists()
    await logs.shutdown()


async def test_a_log_that_is_set_aside_or_moved_takes_its_id_along(tmp_path: Path) -> None:
    one, two = tmp_path / "x", tmp_path / "y"
    logs = await restarted(one, two)
    log = logs.get_or_create(A, topic_id=TOPIC_ID)
    target = two if log.data_dir == one else one
    logs.create_future(A, target)
    logs.replace_with_future(A)
    await killed(logs)
    logs = await restarted(one, two)
    assert ids_of(logs) == {A: TOPIC_ID} and logs.get_or_create(A).data_dir == target
    logs.get_or_create(B, topic_id=OTHER_ID)
    await logs.set_aside(B, lambda: True)
    assert [stray.topic_id for stray in await logs.strays.describe()] == [OTHER_ID]
    logs.get_or_create(B, topic_id=TOPIC_ID)
    await killed(logs)
    logs = await restarted(one, two)
    assert ids_of(logs) == {A: TOPIC_ID, B: TOPIC_ID}
    await logs.shutdown()


@pytest.mark.parametrize("seed", range(12))
async def test_after_a_power_cut_no_log_has_the_id_of_its_namesake(seed: int) -> None:
    host = SimDisk(str(seed), lambda: START_MS)
    folder = Path("/data")
    is_on = True
    disk = ProcessDisk(host, lambda: is_on)
    logs = manager(folder, disk=disk)
    await logs.start()
    disk.sync_dir(Path("/"))
    logs.get_or_create(A, topic_id=TOPIC_ID)
    logs.get_or_create(B, topic_id=TOPIC_ID).append_as_leader(batch(1), 0)
    for tp in (A, B):
        logs.delete(tp)
    assert await logs.removals.make_durable()
    logs.get_or_create(A, topic_id=OTHER_ID)
    flushed = logs.get_or_create(B, topic_id=OTHER_ID)
    flushed.append_as_leader(batch(1), 0)
    await logs.flusher.flush(flushed)
    disk.sync_dir(folder)
    host.power_cut()
    is_on = False
    await killed(logs)
    logs = manager(folder, disk=ProcessDisk(host, lambda: True))
    await logs.start()
    found = ids_of(logs)
    # What was flushed is known for sure; of what was not, at worst nothing is known.
    assert found[B] == OTHER_ID and found[A] in (OTHER_ID, ZERO_TOPIC_ID)
    await logs.shutdown()


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("seed", range(12))
async def test_no_power_cut_leaves_records_without_an_id(seed: int, is_killed: bool) -> None:
    """Not even where the broker was killed and started again before: what a process reads need not
    be on the disk."""
    host = SimDisk(str(seed), lambda: START_MS)
    folder = Path("/data")
    is_on = True
    disk = ProcessDisk(host, lambda: is_on)
    logs = manager(folder, disk=disk)
    await logs.start()
    disk.sync_dir(Path("/"))
    logs.get_or_create(A, topic_id=TOPIC_ID)
    # Nobody knew whose this one was, until an order told.
    nameless = logs.get_or_create(B)
    logs.ids.assign(nameless, OTHER_ID)
    if is_killed:
        await killed(logs)
        logs = manager(folder, disk=disk)
        await logs.start()
    logs.get_or_create(A).append_as_leader(batch(1), 0)
    # A follower's log that begins where the leader's does.
    logs.get_or_create(B).truncate_fully_and_start_at(5)
    logs.get_or_create(B).append_as_leader(batch(1), 0)
    for path in (folder, folder / str(A), folder / str(B)):
        disk.sync_dir(path)
    host.power_cut()
    is_on = False
    await killed(logs)
    logs = manager(folder, disk=ProcessDisk(host, lambda: True))
    await logs.start()
    assert ids_of(logs) == {A: TOPIC_ID, B: OTHER_ID}
    await logs.shutdown()


class CutDisk:
    """The disk of one host in memory, and the processes that use it one after the other."""

    def __init__(self, seed: int) -> None:
        self.host = SimDisk(str(seed), lambda: START_MS)
        self.folder = Path("/data")
        self._alive = [True]

    async def start(self) -> LogManager:
        alive = self._alive
        self.disk = ProcessDisk(self.host, lambda: alive[0])
        logs = manager(self.folder, disk=self.disk)
        await logs.start()
        self.disk.sync_dir(Path("/"))
        return logs

    async def after_power_cut(self, logs: LogManager) -> dict[TopicPartition, bytes]:
        """Which logs a start finds, and their ids. What was made has its name on disk: records and
        folders that are there are what a cut is bad for."""
        for name in ("", *self.host.folder_names(self.folder)):
            self.disk.sync_dir(self.folder / name)
        self.host.power_cut()
        self._alive[0], self._alive = False, [True]
        await killed(logs)
        logs = await self.start()
        found = ids_of(logs)
        await logs.shutdown()
        return found


@pytest.mark.parametrize("seed", range(12))
async def test_an_id_that_a_killed_broker_wrote_keeps_its_line_until_it_is_on_disk(
    seed: int,
) -> None:
    """It had begun to flush. The next one reads the file that was written for that."""
    host = CutDisk(seed)
    logs = await host.start()
    for tp, topic_id in ((A, TOPIC_ID), (B, OTHER_ID)):
        log = logs.get_or_create(tp, topic_id=topic_id)
        log.append_as_leader(batch(1), 0)
        log.begin_flush()
    await killed(logs)
    logs = await host.start()
    renamed = TopicPartition("renamed", 7)
    assert await logs.renamed.rename(logs.renamed.find({renamed: OTHER_ID})) == [renamed]
    if seed % 2:
        await logs.shutdown()
        logs = await host.start()
    assert await host.after_power_cut(logs) == {A: TOPIC_ID, renamed: OTHER_ID}


@pytest.mark.parametrize("seed", range(12))
async def test_a_first_record_does_not_trust_what_a_flush_has_only_begun(seed: int) -> None:
    """The log has its own file by then, which is not on disk yet."""
    host = CutDisk(seed)
    logs = await host.start()
    log = logs.get_or_create(A, topic_id=TOPIC_ID)
    log.begin_flush()
    log.append_as_leader(batch(1), 0)
    assert await host.after_power_cut(logs) == {A: TOPIC_ID}


@pytest.mark.parametrize("seed", range(12))
async def test_a_log_that_comes_back_from_the_trash_keeps_its_id(seed: int) -> None:
    host = CutDisk(seed)
    logs = await host.start()
    logs.get_or_create(A, topic_id=TOPIC_ID).append_as_leader(batch(1), 0)
    assert await logs.trash_moves.keep(A, lambda: True)
    back = TopicPartition("back", 0)
    await logs.trash_moves.bring_back({back: TOPIC_ID})
    assert await host.after_power_cut(logs) == {back: TOPIC_ID}


@pytest.mark.parametrize(
    "torn", [b"", bytes(43), b"version: 0\ntopic"], ids=["empty", "zeros", "cut"]
)
async def test_a_torn_id_is_not_left_for_another_broker(tmp_path: Path, torn: bytes) -> None:
    """Apache Kafka takes the whole data folder out of use for it, and nothing else of a small log's
    is written at a clean stop."""
    logs = await restarted(tmp_path)
    log = logs.get_or_create(A, topic_id=TOPIC_ID)
    log.append_as_leader(batch(1), 0)
    log.begin_flush()
    await killed(logs)
    path = tmp_path / str(A) / checkpoints.PARTITION_METADATA
    path.write_bytes(torn)
    logs = await restarted(tmp_path)
    assert ids_of(logs) == {A: TOPIC_ID}
    await logs.shutdown()
    assert names_in(tmp_path / str(A)) == {LOG_FILE}
    logs = await restarted(tmp_path)
    assert ids_of(logs) == {A: TOPIC_ID}
    await logs.flusher.flush(logs.get_or_create(A))
    assert checkpoints.decode_partition_metadata(path.read_bytes()) == TOPIC_ID
    await logs.shutdown()


class FailingFile(SystemFile):
    def sync(self) -> None:
        self.truncate(0)
        raise OSError(5, "Input/output error")


class FailingSyncs(SystemDisk):
    """The first sync of the file of ids fails, and the system forgets what it could not write: the
    next one would have nothing to do and succeed, as on Linux."""

    has_failed = False

    def open(self, path: Path, *, create: bool = True) -> File:
        if path.name == FILE_NAME and not create and not self.has_failed:
            self.has_failed = True
            return FailingFile(os.open(path, os.O_RDWR))
        return super().open(path, create=create)


async def test_a_sync_that_failed_is_not_repeated_but_all_is_written_anew(tmp_path: Path) -> None:
    ids = SharedIds(FailingSyncs(), tmp_path)
    ids.add({str(A): TOPIC_ID, str(B): OTHER_ID})
    with pytest.raises(OSError, match="Input/output"):
        ids.make_durable()
    ids.make_durable()
    assert decode((tmp_path / FILE_NAME).read_bytes()) == ({str(A): TOPIC_ID, str(B): OTHER_ID}, 0)


async def test_a_sync_that_failed_while_logs_were_made_ahead_is_made_up_for(tmp_path: Path) -> None:
    disk = FailingSyncs()
    logs = manager(tmp_path, disk=disk)
    await logs.start()
    wanted = {TopicPartition("many", number): OTHER_ID for number in range(200)}
    await logs.create_ahead(wanted)
    for tp, topic_id in wanted.items():
        logs.get_or_create(tp, topic_id=topic_id).append_as_leader(batch(1), 0)
    await killed(logs)
    logs = await restarted(tmp_path)
    assert ids_of(logs) == wanted
    await logs.shutdown()


@pytest.mark.parametrize("is_log_nameless", [False, True])
async def test_a_move_keeps_the_id_that_the_log_or_its_copy_has(
    tmp_path: Path, is_log_nameless: bool
) -> None:
    """A power cut took one of them, or the log had none itself when the copy was begun."""
    one, two = tmp_path / "x", tmp_path / "y"
    logs = await restarted(one, two)
    log = logs.get_or_create(A, topic_id=TOPIC_ID if is_log_nameless else ZERO_TOPIC_ID)
    target = two if log.data_dir == one else one
    logs.create_future(A, target)
    if is_log_nameless:
        log.topic_id = ZERO_TOPIC_ID
    else:
        logs.ids.assign(log, TOPIC_ID)
    assert logs.replace_with_future(A).topic_id == TOPIC_ID
    await killed(logs)
    logs = await restarted(one, two)
    assert ids_of(logs) == {A: TOPIC_ID} and logs.get_or_create(A).data_dir == target
    await logs.shutdown()


async def test_a_full_disk_that_takes_no_id_fails(tmp_path: Path) -> None:
    disk = FullDisk()
    logs = manager(tmp_path, disk=disk)
    await logs.start()
    log = logs.get_or_create(A)
    disk.is_full = True
    with pytest.raises(KafkaError) as raised:
        logs.ids.assign(log, TOPIC_ID)
    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert logs.dirs.offline() == [tmp_path] and log.topic_id == ZERO_TOPIC_ID
    await logs.shutdown()


class SyncingDisk(SystemDisk):
    synced = 0

    def open(self, path: Path, *, create: bool = True) -> File:
        if path.name == FILE_NAME and not create:
            self.synced += 1
        return super().open(path, create=create)


async def test_a_new_log_is_secured_while_it_waits_for_its_first_record(tmp_path: Path) -> None:
    disk = SyncingDisk()
    logs = manager(tmp_path, disk=disk)
    await logs.start()
    for number in range(20):
        logs.get_or_create(TopicPartition("few", number), topic_id=TOPIC_ID)
    await until(lambda: disk.synced)
    await asyncio.sleep(0.05)
    # One for all of them, and none when the records come.
    for log in list(logs.logs()):
        log.append_as_leader(batch(1), 0)
    assert disk.synced == 1
    await logs.shutdown()


async def test_a_first_record_does_not_wait_for_the_ids_of_other_logs(tmp_path: Path) -> None:
    """On the event loop a slow disk would hold up everybody."""
    disk = SyncingDisk()
    logs = manager(tmp_path, disk=disk)
    await logs.start()
    log = logs.get_or_create(A, topic_id=TOPIC_ID)
    await until(lambda: disk.synced)
    await asyncio.sleep(0.05)
    other = logs.get_or_create(B, topic_id=OTHER_ID)
    log.append_as_leader(batch(1), 0)
    assert disk.synced == 1
    other.append_as_leader(batch(1), 0)
    assert disk.synced == 2
    await logs.shutdown()


def test_a_line_that_came_during_a_sync_is_not_taken_for_synced(tmp_path: Path) -> None:
    late: list[dict[str, bytes]] = []
    synced: list[bytes] = []

    class SlowFile(SystemFile):
        def sync(self) -> None:
            synced.append(self.read_at(self.size(), 0))
            while late:
                ids.add(late.pop())

    class SlowDisk(SystemDisk):
        def open(self, path: Path, *, create: bool = True) -> File:
            return super().open(path) if create else SlowFile(os.open(path, os.O_RDWR))

    ids = SharedIds(SlowDisk(), tmp_path)
    ids.add({str(A): TOPIC_ID})
    late.append({str(A): OTHER_ID, str(B): OTHER_ID})
    ids.make_durable()
    ids.secure("somebody-0")
    assert [decode(data) for data in synced] == [({str(A): TOPIC_ID}, 0)]
    ids.secure(str(A))
    ids.secure(str(B))
    assert [decode(data)[0] for data in synced[1:]] == [{str(A): OTHER_ID, str(B): OTHER_ID}]
