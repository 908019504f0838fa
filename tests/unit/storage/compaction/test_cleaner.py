"""Which logs are compacted, when, and what stops a pass."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from ottla.config.broker import BrokerConfig
from ottla.runtime import SystemDisk
from ottla.storage.compaction import plan
from ottla.storage.manager.log_manager import LogManager
from ottla.storage.segment.sparse_indexes import rebuild
from ottla.wire import records
from tests.support.storage.cleaner_helpers import DAY_MS, START_MS, Rig, age, compacted
from tests.support.storage.log_helpers import TP, all_offsets, batch, reopen, runtime


def fill(rig: Rig, count: int = 30) -> None:
    for number in range(count):
        rig.append([(b"k%d" % (number % 5), b"v%d" % number)])


async def test_only_what_is_dirty_enough_is_compacted(tmp_path: Path) -> None:
    rig = Rig(tmp_path, compacted(min_cleanable_dirty_ratio=0.5))
    fill(rig)
    rig.seal()
    assert await rig.cleaner.clean_next() is rig.log  # all of it is dirty
    clean_bytes = rig.log.size
    rig.append([(b"k0", b"again")])
    rig.seal()
    dirty = plan.examine(rig.log, rig.clock.ms)
    assert 0 < dirty.ratio < 0.5 and dirty.clean_bytes < clean_bytes
    assert await rig.cleaner.clean_next() is None


async def test_old_records_are_compacted_whatever_the_ratio(tmp_path: Path) -> None:
    config = compacted(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=DAY_MS)
    rig = Rig(tmp_path, config)
    fill(rig)
    rig.seal()
    assert await rig.cleaner.clean_next() is None
    rig.clock.ms += DAY_MS + 1
    assert await rig.cleaner.clean_next() is rig.log


async def test_the_lag_rolls_segments_of_compacted_topics_only(tmp_path: Path) -> None:
    for policy, count in (("compact", 2), ("delete", 1)):
        config = compacted(cleanup_policy=frozenset({policy}), max_compaction_lag_ms=1000)
        rig = Rig(tmp_path / policy, config)
        rig.append([(b"a", b"1")])
        rig.clock.ms += 1001
        rig.append([(b"a", b"2")])
        assert len(rig.log.segments) == count


async def test_young_records_are_left_alone(tmp_path: Path) -> None:
    rig = Rig(tmp_path, compacted(min_compaction_lag_ms=DAY_MS))
    fill(rig)
    rig.seal()
    assert await rig.cleaner.clean_next() is None
    rig.clock.ms += DAY_MS + 1
    assert await rig.cleaner.clean_next() is rig.log
    assert len(rig.contents()) == 6


async def test_nothing_above_the_last_stable_offset_is_touched(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    fill(rig)
    rig.seal()
    rig.log.high_watermark = 3
    assert plan.examine(rig.log, rig.clock.ms).dirty_bytes == 0
    assert await rig.cleaner.clean_next() is None


async def test_the_last_batch_stays_so_that_followers_reach_the_end(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    fill(rig)
    rig.append([(b"gone", None)])
    rig.log.roll()
    last = rig.log.segments[-2]
    await rig.cleaner.clean_next()
    assert rig.log.segments[-2] is last and rig.contents()[-1] == (30, b"gone", None)


async def test_topics_without_compact_are_not_looked_at(tmp_path: Path) -> None:
    rig = Rig(tmp_path, compacted(cleanup_policy=frozenset({"delete"})))
    fill(rig)
    rig.seal()
    assert await rig.cleaner.clean_next() is None


async def test_a_damaged_log_is_marked_and_the_others_go_on(tmp_path: Path) -> None:
    rig, healthy = Rig(tmp_path / "bad"), Rig(tmp_path / "good")
    for one in (rig, healthy):
        fill(one)
        one.seal()
    object.__setattr__(healthy.log, "tp", healthy.log.tp._replace(partition=4))
    path = rig.log.segments[0].path(".log")
    data = bytearray(path.read_bytes())
    data[70] ^= 0xFF
    path.write_bytes(data)
    rig.cleaner._logs = lambda: [rig.log, healthy.log]
    rig.cleaner._current = lambda tp: rig.log if tp == rig.log.tp else healthy.log
    found = {await rig.cleaner.clean_next(), await rig.cleaner.clean_next()}
    assert found == {rig.log, healthy.log}
    assert rig.cleaner.is_left_out(rig.log) and not rig.cleaner.is_left_out(healthy.log)
    assert len(healthy.contents()) == 6
    assert rig.names(".cleaned") == []


async def test_a_log_that_lost_its_damage_is_compacted_again(tmp_path: Path) -> None:
    """A follower that fetches everything anew, or a topic that was deleted and made again."""
    rig = Rig(tmp_path)
    fill(rig)
    rig.seal()
    path = rig.log.segments[0].path(".log")
    path.write_bytes(path.read_bytes()[:70] + b"?" + path.read_bytes()[71:])
    assert await rig.cleaner.clean_next() is rig.log
    assert rig.cleaner.is_left_out(rig.log) and await rig.cleaner.clean_next() is None
    rig.log.truncate_fully_and_start_at(0)
    fill(rig)
    rig.seal()
    assert await rig.cleaner.clean_next() is rig.log
    assert len(rig.contents()) == 6


async def test_a_truncation_meanwhile_ends_the_pass_without_harm(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    fill(rig)
    rig.seal()
    pass_ = asyncio.ensure_future(rig.cleaner.clean_next())
    await asyncio.sleep(0)
    rig.log.truncate_to(10)
    await pass_
    assert [offset for offset, _, _ in rig.contents()] == list(range(10))
    assert rig.names(".cleaned") == rig.names(".swap") == []
    assert rig.log.cleaned_offset == -1 and not rig.failures


async def test_a_truncation_below_the_checkpoint_moves_it_back(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    fill(rig)
    rig.seal()
    await rig.cleaner.clean_next()
    rig.log.truncate_to(27)
    assert rig.log.cleaned_offset == rig.log.end_offset <= 27


async def test_nothing_is_compacted_while_a_log_is_copied(tmp_path: Path) -> None:
    """The copy would miss the tombstones of records that it has already."""
    folders = [tmp_path / "x", tmp_path / "y"]
    config = BrokerConfig({"zookeeper.connect": "h:1", "log.dirs": ",".join(map(str, folders))})
    logs = LogManager(runtime(), config, lambda _: compacted())
    await logs.start()
    await asyncio.sleep(0)  # the regular pass has found nothing, and waits
    log = logs.get_or_create(TP)
    for _ in range(30):
        log.append_as_leader(batch(), 0)
    log.set_high_watermark(log.end_offset)
    begun = asyncio.ensure_future(logs.cleaner.clean_next())
    await asyncio.sleep(0)
    assert logs.cleaner.busy_with == TP
    logs.create_future(TP, next(folder for folder in folders if folder != log.data_dir))
    assert await begun is None and await logs.cleaner.clean_next() is None
    assert len(all_offsets(log)) == 30
    logs.delete_future(TP)
    assert await logs.cleaner.clean_next() is log and len(all_offsets(log)) < 10
    await logs.shutdown()


async def test_the_rate_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(tmp_path)
    rig.cleaner = rig.new_cleaner(log_cleaner_io_max_bytes_per_second="10000")
    fill(rig, 40)
    rig.seal()
    size = rig.log.size
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr("ottla.storage.compaction.cleaner.asyncio.sleep", sleep)
    await rig.cleaner.clean_next()
    # Read once for the map and once to write, and what was written.
    assert 2 * size / 10_000 * 0.8 < sum(pauses) < 3 * size / 10_000


async def transactional(rig: Rig, value: bytes | None, *, commit: bool, key: bytes = b"a") -> None:
    state = rig.log.producers.get(7)
    sequence = 0 if state is None else state.last_sequence + 1
    rig.append(
        [(key, value)],
        producer_id=7,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    )
    mark(rig, commit=commit)


def mark(rig: Rig, *, commit: bool) -> None:
    from ottla.storage.append.checks import Origin

    marker = records.build_marker(
        producer_id=7,
        producer_epoch=0,
        commit=commit,
        coordinator_epoch=1,
        timestamp_ms=rig.clock.ms,
    )
    rig.log.append_as_leader(memoryview(bytearray(marker)), 0, Origin.COORDINATOR)
    rig.log.set_high_watermark(rig.log.end_offset)


async def test_aborted_records_go_and_do_not_supersede(tmp_path: Path) -> None:
    rig = Rig(tmp_path, compacted(delete_retention_ms=0))
    await transactional(rig, b"committed", commit=True)
    await transactional(rig, b"aborted", commit=False)
    await transactional(rig, b"other", commit=True, key=b"b")
    rig.seal()
    await rig.cleaner.clean_next()
    assert [value for _, _, value in rig.contents()] == [b"committed", b"other", b"t"]
    # The abort marker outlives its records for readers that are under way, then goes as well.
    markers = [header.base_offset for header, _ in rig.batches() if header.is_control]
    assert markers == [1, 3, 5]
    for _ in range(3):
        rig.clock.ms += DAY_MS
        rig.append([(b"c", b"1")])
        rig.seal()
        await rig.cleaner.clean_next()
    markers = [header.base_offset for header, _ in rig.batches() if header.is_control]
    assert 3 not in markers and 1 in markers
    assert all(not segment.transactions.aborted() for segment in rig.log.segments)


async def test_a_marker_in_a_later_segment_is_known(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.append(
        [(b"a", b"aborted")], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
    )
    rig.log.roll()
    mark(rig, commit=False)
    rig.append([(b"b", b"1")])
    await rig.cleaner.clean_next()
    assert [value for _, _, value in rig.contents()] == [b"1"]
    # Its producer's last batch stays, empty, so that its sequence is known.
    assert [header.record_count for header, _ in rig.batches()] == [0, 1, 1]


async def test_an_earlier_abort_of_its_producer_does_not_bring_a_deleted_key_back(
    tmp_path: Path,
) -> None:
    rig = Rig(tmp_path, compacted(delete_retention_ms=0, segment_bytes=250))
    rig.append([(b"k", b"v" * 90)])
    await transactional(rig, b"aborted", commit=False)
    rig.seal()
    await rig.cleaner.clean_next()
    # The abort is still in the index of what is clean, its marker before all that is dirty.
    assert any(segment.transactions.aborted() for segment in rig.log.segments)
    await transactional(rig, None, commit=True, key=b"k")
    rig.seal()
    for number in range(4):
        await rig.cleaner.clean_next()
        assert (b"k", b"v" * 90) not in [(key, value) for _, key, value in rig.contents()]
        age(rig.log, DAY_MS)
        rig.append([(b"other-%d" % number, b"v" * 120)])
        rig.seal()
    assert b"k" not in [key for _, key, _ in rig.contents()]


async def test_a_kill_at_any_step_of_the_swap_leaves_log_and_indexes_that_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path / "log", compacted(delete_retention_ms=0, index_interval_bytes=50))
    await transactional(rig, b"aborted", commit=False)
    await transactional(rig, b"kept", commit=True)
    for number in range(12):
        rig.append([(b"k%d" % (number % 4), b"%d" % number)])
    rig.seal()
    await rig.cleaner.clean_next()
    # The next pass drops the marker and with it the entry in the transaction index.
    age(rig.log, DAY_MS)
    await transactional(rig, b"kept", commit=True, key=b"b")
    rig.seal()
    assert any(segment.transactions.aborted() for segment in rig.log.segments)
    wanted = {key: value for _, key, value in rig.contents()}
    copies: list[Path] = []
    rename = SystemDisk.rename

    def rename_and_copy(disk: SystemDisk, source: Path, target: Path) -> None:
        rename(disk, source, target)
        copies.append(tmp_path / str(len(copies)) / rig.log.folder.name)
        shutil.copytree(rig.log.folder, copies[-1])

    monkeypatch.setattr(SystemDisk, "rename", rename_and_copy)
    await rig.cleaner.clean_next()
    monkeypatch.undo()
    assert not any(segment.transactions.aborted() for segment in rig.log.segments)
    end_offset = rig.log.end_offset
    assert len(copies) > 10
    for rig.log.folder in copies:
        rig.log = reopen(rig.log, recovery_point=end_offset)
        assert rig.log.end_offset == end_offset
        assert {key: value for _, key, value in rig.contents()} == wanted
        markers = {header.base_offset for header, _ in rig.batches() if header.is_control}
        for segment in rig.log.segments:
            # One without its marker would hide all that the producer wrote later.
            assert markers.issuperset(entry.last_offset for entry in segment.transactions.aborted())
            written = segment.indexes().entry_counts()
            rebuilt = rebuild(
                segment.file(), segment.base_offset, segment.size, segment.index_interval_bytes
            )
            assert written == (len(rebuilt[0]), len(rebuilt[1]))


def test_neighbours_are_merged_up_to_the_segment_size(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    fill(rig)
    parts = rig.log.segments[:-1]
    groups = plan.group_segments(rig.log, parts, rig.log.active.base_offset)
    assert [part for group in groups for part in group] == parts
    assert all(len(group) == 1 for group in groups)
    rig.log.use_settings(compacted(segment_bytes=1000))
    groups = plan.group_segments(rig.log, parts, rig.log.active.base_offset)
    assert all(sum(part.size for part in group) <= 1000 for group in groups)
    assert max(len(group) for group in groups) == 2
    rig.log.use_settings(compacted(segment_bytes=1000, segment_index_bytes=8))
    assert START_MS  # index entries count as well
    groups = plan.group_segments(rig.log, parts, rig.log.active.base_offset)
    assert all(len(group) == 1 for group in groups)
