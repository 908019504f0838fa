"""What compaction keeps and drops, file by file."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ottla.storage.log import lookup
from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.storage.segment import renamed_files
from ottla.wire import records
from tests.support.storage.cleaner_helpers import DAY_MS, START_MS, Rig, age, compacted
from tests.support.storage.log_helpers import found_by, reopen


def latest(pairs: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    return dict(pairs)


@pytest.mark.parametrize("compression", range(5))
async def test_the_newest_value_of_each_key_stays(tmp_path: Path, compression: int) -> None:
    rig = Rig(tmp_path)
    draw = random.Random(compression)
    written: list[tuple[bytes, bytes]] = []
    for number in range(40):
        pairs = [
            (b"%d" % draw.randrange(10) * draw.choice((1, 30)), b"v%d-%d" % (number, n))
            for n in range(draw.randrange(1, 6))
        ]
        written += pairs
        rig.append(pairs, compression=compression)
    rig.seal()
    end = rig.log.end_offset
    assert await rig.cleaner.clean_next() is rig.log
    newest = {key: offset for offset, (key, _) in enumerate(written)}
    expected = [
        (offset, key, value) for offset, (key, value) in enumerate(written) if newest[key] == offset
    ]
    assert rig.contents() == [*expected, (end - 1, b"tail", b"t")]
    assert rig.log.end_offset == end
    assert rig.log.cleaned_offset == end - 1
    assert await rig.cleaner.clean_next() is None  # nothing is dirty any more


async def test_a_cleaned_log_reads_the_same_after_a_restart(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    for number in range(60):
        rig.append([(b"k%d" % (number % 7), b"x" * 30)])
    rig.seal()
    size, count = rig.log.size, len(rig.log.segments)
    await rig.cleaner.clean_next()
    assert rig.log.size < size / 4
    rig.seal()
    await rig.cleaner.clean_next()  # small neighbours are merged now
    assert len(rig.log.segments) < count / 2
    found = rig.contents()
    for clean in (True, False):
        again = reopen(rig.log, clean=clean)
        rig.log = again
        assert rig.contents() == found
    assert rig.names(".cleaned") == rig.names(".swap") == []


async def test_leader_epochs_begin_where_they_did_after_a_kill(tmp_path: Path) -> None:
    """Also one of which compaction left no batch, and one that lost its first."""
    rig = Rig(tmp_path)
    for rig.epoch, keys in ((2, b"ab"), (3, b"a"), (5, b"bcc"), (6, b"ad")):
        for key in keys:
            rig.append([(b"%c" % key, b"v")])
    rig.seal()
    epochs = rig.log.epochs.entries()
    assert epochs == [(2, 0), (3, 2), (5, 3), (6, 6)]
    await rig.cleaner.clean_next()
    kept = [(header.base_offset, header.partition_leader_epoch) for header, _ in rig.batches()]
    assert kept == [(3, 5), (5, 5), (6, 6), (7, 6), (8, 6)]
    assert reopen(rig.log).epochs.entries() == epochs
    # What a note says of a place where batches are is not heard.
    rig.log.epochs = LeaderEpochs([(4, 4), (5, 5), (9, 6), (10, 20)])
    rig.log.side_files.write_epochs(rig.log.epochs)
    assert reopen(rig.log).epochs.entries() == [(5, 3), (6, 6)]


async def test_batches_keep_their_place_and_numbers(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.append(
        [(b"a", b"1"), (b"b", b"1"), (b"a", b"2")],
        producer_id=9,
        producer_epoch=1,
        base_sequence=5,
    )
    rig.append([(b"b", b"2")])
    rig.seal()
    await rig.cleaner.clean_next()
    header, view = rig.batches()[0]
    assert (header.base_offset, header.last_offset_delta, header.record_count) == (0, 2, 1)
    assert (header.base_sequence, header.last_sequence, header.producer_id) == (5, 7, 9)
    records.verify_crc(view)


async def test_the_largest_timestamp_is_that_of_what_is_left(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    items = [
        records.Record(b"a", b"1", START_MS),
        records.Record(b"b", b"1", START_MS + 50),
        records.Record(b"c", b"1", START_MS + 10),
    ]
    rig.log.append_as_leader(memoryview(bytearray(records.build_batch(items))), 0)
    rig.append([(b"b", b"2")])
    rig.seal()
    await rig.cleaner.clean_next()
    header, view = rig.batches()[0]
    times = [record.timestamp for record in records.iter_records(view)]
    assert times == [START_MS, START_MS + 10]
    assert header.max_timestamp == START_MS + 10


async def test_a_lookup_by_append_time_names_a_record_that_is_left(tmp_path: Path) -> None:
    rig = Rig(tmp_path, compacted(message_timestamp_type="LogAppendTime"))
    rig.append([(b"a", b"1")], producer_id=9, producer_epoch=0, base_sequence=0)
    rig.append([(b"a", b"1"), (b"b", b"1"), (b"c", b"1")])
    rig.append([(b"a", b"2")])
    rig.seal()
    await rig.cleaner.clean_next()
    first, second = (header for header, _ in rig.batches()[:2])
    assert first.record_count == 0 and (second.base_offset, second.record_count) == (1, 2)
    found = found_by(lookup.search_at_or_after(rig.log, START_MS))
    assert found is not None and (found.offset, found.timestamp) == (2, START_MS)


async def test_tombstones_stay_for_their_time_and_then_go(tmp_path: Path) -> None:
    # Large values keep the segments apart: a merged one is as old as its youngest part.
    rig = Rig(tmp_path, compacted(delete_retention_ms=DAY_MS, segment_bytes=250))
    large = b"v" * 120
    rig.append([(b"a", large)])
    rig.append([(b"b", large)])
    rig.append([(b"a", None)])
    rig.seal()
    await rig.cleaner.clean_next()
    assert [key for _, key, _ in rig.contents()] == [b"b", b"a", b"tail"]
    age(rig.log, 2 * DAY_MS)
    for key in (b"c", b"d"):
        # A pass counts from the newest segment that was clean before it.
        assert b"a" in [key for _, key, _ in rig.contents()]
        rig.append([(key, large)])
        rig.seal()
        await rig.cleaner.clean_next()
    assert [key for _, key, _ in rig.contents() if key != b"tail"] == [b"b", b"c", b"d"]


async def test_records_without_a_key_go(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    items = [records.Record(None, b"?", START_MS), records.Record(b"a", b"1", START_MS)]
    built = records.build_batch(items)
    rig.log.append_as_follower(memoryview(bytearray(built)))
    rig.log.set_high_watermark(rig.log.end_offset)
    rig.seal()
    await rig.cleaner.clean_next()
    assert [key for _, key, _ in rig.contents()] == [b"a", b"tail"]


async def test_a_producers_last_batch_is_kept_without_records(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    for sequence in range(2):
        rig.append([(b"a", b"1")], producer_id=9, producer_epoch=1, base_sequence=sequence)
    rig.append([(b"a", b"2")])
    rig.seal()
    await rig.cleaner.clean_next()
    first = rig.batches()[0][0]
    assert (first.base_offset, first.record_count, first.base_sequence) == (1, 0, 1)
    assert [value for _, _, value in rig.contents()] == [b"2", b"t"]
    again = reopen(rig.log)
    producer = again.producers.get(9)
    assert producer is not None and producer.last_sequence == 1
    # Once the producer wrote again, the empty batch has done its duty.
    rig.append([(b"b", b"1")], producer_id=9, producer_epoch=1, base_sequence=2)
    rig.seal()
    await rig.cleaner.clean_next()
    assert rig.batches()[0][0].base_offset == 2


async def test_a_full_map_ends_the_pass_early_and_the_next_one_goes_on(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.cleaner = rig.new_cleaner(log_cleaner_dedupe_buffer_size=str(192 * 5))
    for number in range(30):
        rig.append([(b"k%d" % (number % 10), b"v%d" % number)])
    rig.seal()
    ends = []
    while await rig.cleaner.clean_next() is not None:
        ends.append(rig.log.cleaned_offset)
        assert len(ends) < 20
    assert len(ends) > 1 and ends == sorted(ends) and ends[-1] == rig.log.end_offset - 1
    values = {key: value for _, key, value in rig.contents()}
    assert values == {b"k%d" % n: b"v%d" % (20 + n) for n in range(10)} | {b"tail": b"t"}


async def test_a_crash_between_swap_and_the_end_is_completed_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path)
    for number in range(60):
        rig.append([(b"k%d" % (number % 7), b"x" * 30)])
    rig.seal()
    before = dict.fromkeys(key for _, key, _ in rig.contents())
    swapped = []

    def die(*_: object) -> None:
        swapped.append(rig.names(".swap"))
        raise KeyboardInterrupt

    monkeypatch.setattr("ottla.storage.log.segments.complete_swap", die)
    with pytest.raises(KeyboardInterrupt):
        await rig.cleaner.clean_next()
    assert swapped[0] and rig.names(".swap") == swapped[0]
    again = rig.log = reopen(rig.log)
    assert rig.names(".swap") == []
    newest = {key: offset for offset, key, _ in rig.contents()}
    assert newest.keys() == before.keys() and again.end_offset == 61


async def test_work_in_progress_is_thrown_away_at_a_start(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    for number in range(20):
        rig.append([(b"k", b"%d" % number)])
    found = rig.contents()
    (rig.log.folder / ("0" * 20 + ".log" + renamed_files.CLEANED_SUFFIX)).write_bytes(b"half")
    rig.log = reopen(rig.log)
    assert rig.contents() == found and rig.names(".cleaned") == []
