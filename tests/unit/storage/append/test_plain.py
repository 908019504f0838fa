"""The short way of a leader's append leaves the same log as the long one, or nothing at all."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path

import pytest

from ottla.storage.log.log import Log
from ottla.wire import records
from ottla.wire.checksum import crc32c
from tests.support.storage.log_helpers import START_MS, batch, new_log, reopen, settings


def with_header(data: memoryview, form: str, position: int, value: int) -> memoryview:
    """Sets a header field and renews the CRC, so that only the field is unusual."""
    struct.pack_into(form, data, position, value)
    struct.pack_into(">I", data, 17, crc32c(data[21:]))
    return data


def content(log: Log) -> tuple[object, ...]:
    active = log.active
    return (
        bytes(active.file().read_at(active.size, 0)),
        active.indexes().entry_counts(),
        (active.max_timestamp, active.indexes().max_timestamp_offset, active.first_timestamp),
        (log.end_offset, log.producers.map_end_offset, log.epochs.entries()),
        log.producers.encode_snapshot(),
        [log.bytes_between(offset, log.end_offset) for offset in range(log.end_offset)],
    )


def test_the_log_is_the_one_of_single_appends(tmp_path: Path) -> None:
    wanted = new_log(tmp_path / "wanted", settings(index_interval_bytes=300))
    log = new_log(tmp_path / "plain", settings(index_interval_bytes=300))
    for group in (1, 2, 7, 1, 5):
        batches = [
            batch(
                n % 3 + 1,
                timestamp=START_MS + 1000 * ((n * 5) % 7),
                compression=n % 5,
                producer=(8, 2, _next_sequence(log) + sum(k % 3 + 1 for k in range(n))),
            )
            for n in range(group)
        ]
        batches.append(batch(2, timestamp=START_MS + group))
        firsts = [
            wanted.append_as_leader(memoryview(bytearray(b)), 4).first_offset for b in batches
        ]
        assert log.append_plain(batches, 4) == firsts
        assert content(log) == content(wanted)
    assert content(reopen(log))[0] == content(wanted)[0]
    assert reopen(log).end_offset == wanted.end_offset


def _next_sequence(log: Log) -> int:
    producer = log.producers.get(8)
    return 0 if producer is None else producer.last_sequence + 1


@pytest.mark.parametrize(
    "unusual",
    [
        memoryview(b""),
        batch()[:60],
        batch()[:-1],
        memoryview(bytes(batch())),
        memoryview(bytearray(bytes(batch()) * 2)),
        with_header(batch(), ">b", 16, 1),
        with_header(batch(), ">h", 21, 5),
        with_header(batch(), ">h", 21, records.LOG_APPEND_TIME),
        with_header(batch(), ">h", 21, records.TRANSACTIONAL),
        with_header(batch(), ">h", 21, records.CONTROL),
        with_header(batch(), ">h", 21, -0x8000),
        with_header(batch(), ">q", 0, 3),
        with_header(batch(), ">i", 57, 0),
        with_header(batch(), ">i", 57, 2),
        with_header(batch(), ">i", 23, 1),
        batch(timestamp=-1),
        batch(value=b"x" * 2000),
        batch(producer=(5, 0, 3)),  # a gap
        batch(producer=(5, 0, 0)),  # a duplicate
        batch(producer=(6, 0, -1)),
    ],
)
def test_it_ends_before_the_first_batch_that_is_unusual(
    tmp_path: Path, unusual: memoryview
) -> None:
    log = new_log(tmp_path, settings(max_message_bytes=1500))
    log.append_as_leader(batch(producer=(5, 0, 0)), 1)
    unchanged = bytes(unusual)
    assert log.append_plain([unusual], 1) == []
    assert log.append_plain([batch(2), batch(), unusual, batch()], 1) == [1, 3]
    assert log.end_offset == 4
    assert bytes(unusual) == unchanged


def test_a_wrong_checksum_ends_it(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    wrong = batch()
    wrong[-1] ^= 1
    assert log.append_plain([batch(), wrong], 0) == [0]


@pytest.mark.parametrize(
    "config",
    [
        {"compression_type": "lz4"},
        {"message_timestamp_type": "LogAppendTime"},
        {"message_timestamp_difference_max_ms": 5},
        {"cleanup_policy": frozenset({"compact"})},
        {"segment_bytes": 150},
        {"segment_ms": 50},
    ],
)
def test_topics_that_ask_for_more_and_new_segments_are_left(
    tmp_path: Path, config: dict[str, object]
) -> None:
    log = new_log(tmp_path, settings(**config))
    log.append_as_leader(batch(), 0)
    later = batch(timestamp=START_MS + 100)
    unchanged = bytes(later)
    assert log.append_plain([later], 0) == []
    assert bytes(later) == unchanged and log.end_offset == 1


def test_a_segment_without_times_is_left(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append_as_leader(batch(timestamp=-1, step_ms=0), 0)
    assert log.append_plain([batch()], 0) == []


def test_sequences_go_on_inside_of_an_append(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    first, second = batch(3, producer=(5, 0, 0)), batch(2, producer=(5, 0, 3))
    again = batch(2, producer=(5, 0, 3))
    assert log.append_plain([first, second, again], 0) == [0, 3]
    assert log.append_as_leader(again, 0) == (3, 4, START_MS + 1, True)


def test_what_the_disk_refuses_has_not_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = new_log(tmp_path)
    log.append_plain([batch(producer=(5, 0, 0))], 0)
    before = content(log)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", full)
        with pytest.raises(OSError, match="No space"):
            log.append_plain([batch(producer=(5, 0, 1)), batch(producer=(5, 0, 2))], 0)
    assert content(log) == before
    assert log.append_plain([batch(producer=(5, 0, 1)), batch(producer=(5, 0, 2))], 0) == [1, 2]


@pytest.mark.parametrize("taken", [0, 1, 90, 200])
def test_a_write_that_takes_a_part_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: int
) -> None:
    log, wanted = new_log(tmp_path / "log"), new_log(tmp_path / "wanted")
    wanted.append_plain([batch(), batch(3)], 0)

    def part(fd: int, parts: list[memoryview], position: int) -> int:
        return os.pwrite(fd, b"".join(parts)[:taken], position)

    monkeypatch.setattr(os, "pwritev", part)
    log.append_plain([batch(), batch(3)], 0)
    assert content(log) == content(wanted)


def test_those_that_fit_into_the_segment_go_before_the_one_that_starts_the_next(
    tmp_path: Path,
) -> None:
    size = len(batch())
    log = new_log(tmp_path / "log", settings(segment_bytes=5 * size + 1, segment_ms=10_000))
    assert log.append_plain([batch() for _ in range(8)], 4) == [0, 1, 2, 3, 4]
    assert log.append_plain([batch() for _ in range(3)], 4) == []
    log.append_as_leader(batch(), 4)
    assert log.active.base_offset == 5
    late = batch(timestamp=START_MS + 10_001)
    assert log.append_plain([batch(), batch(), late, batch()], 4) == [6, 7]


def test_a_segment_without_a_time_decides_by_the_clock(tmp_path: Path) -> None:
    log = new_log(tmp_path / "log", settings())
    log.append_as_leader(batch(timestamp=-1), 4)
    assert log.append_plain([batch()], 4) == []
