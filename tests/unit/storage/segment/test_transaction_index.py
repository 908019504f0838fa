"""The `.txnindex` of one segment: entries in memory and in the file are the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.runtime import SystemDisk
from ottla.storage.segment import transaction_index
from ottla.storage.segment.transaction_index import AbortedTransaction, TransactionIndex

ENTRIES = [AbortedTransaction(1, 100, 105, 106), AbortedTransaction(2, 107, 110, 111)]


def index(folder: Path, *, is_empty: bool = False) -> TransactionIndex:
    return TransactionIndex(SystemDisk(), folder, 100, is_empty=is_empty)


def test_entries_are_in_the_file_as_soon_as_they_are_added(tmp_path: Path) -> None:
    written = index(tmp_path, is_empty=True)
    assert [written.add(entry) for entry in ENTRIES] == [written.path] * 2
    assert written.aborted() == index(tmp_path).aborted() == ENTRIES
    written.release()
    assert written.aborted() == ENTRIES


def test_a_truncation_takes_markers_from_its_offset_on(tmp_path: Path) -> None:
    cut = index(tmp_path, is_empty=True)
    cut.replace(ENTRIES)
    cut.truncate(111)
    assert cut.aborted() == ENTRIES
    cut.truncate(110)
    assert cut.aborted() == index(tmp_path).aborted() == ENTRIES[:1]
    cut.truncate(100)
    assert cut.aborted() == [] and not cut.path.exists()


@pytest.mark.parametrize(
    ("offset", "upper_bound", "expected", "complete"),
    [
        (100, 100, [], True),  # nothing is read
        (100, 101, ENTRIES[:1], True),
        (105, 106, ENTRIES[:1], True),  # the marker alone
        (106, 107, [], True),  # beside it
        (100, 107, ENTRIES[:1], True),  # up to the first record of the second, without it
        (100, 108, ENTRIES, True),
        (106, 111, ENTRIES[1:], True),
        (106, 112, ENTRIES[1:], False),  # a later segment may have more
        (111, 112, [], False),
    ],
)
def test_what_a_reader_has_to_know(
    offset: int, upper_bound: int, expected: list[AbortedTransaction], *, complete: bool
) -> None:
    found: list[AbortedTransaction] = []
    assert transaction_index.collect(ENTRIES, offset, upper_bound, found) is complete
    assert found == expected


def test_a_damaged_file_is_not_guessed_at(tmp_path: Path) -> None:
    damaged = index(tmp_path)
    damaged.path.write_bytes(transaction_index.encode(ENTRIES)[:-1])
    with pytest.raises(KafkaError) as raised:
        damaged.aborted()
    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE


def test_the_file_is_found_after_the_folder_was_renamed(tmp_path: Path) -> None:
    moved = index(tmp_path / "before", is_empty=True)
    moved.folder.mkdir()
    moved.add(ENTRIES[0])
    moved.release()
    moved.folder = moved.folder.rename(tmp_path / "after")
    assert moved.aborted() == ENTRIES[:1]
