from __future__ import annotations

import pytest

from ottla.storage.log.leader_epochs import UNKNOWN, LeaderEpochs


def epochs() -> LeaderEpochs:
    return LeaderEpochs([(2, 10), (4, 20), (7, 50)])


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (7, (7, 60)),  # the latest one ends where the log ends
        (8, UNKNOWN),
        (-1, UNKNOWN),
        (1, (1, 10)),
        (2, (2, 20)),
        (3, (2, 20)),
        (5, (4, 50)),
    ],
)
def test_end_offsets(asked: int, answer: tuple[int, int]) -> None:
    assert epochs().end_offset_for(asked, 60) == answer


def test_an_empty_cache_knows_nothing() -> None:
    assert LeaderEpochs().end_offset_for(0, 5) == UNKNOWN
    assert LeaderEpochs().latest == -1


def test_an_older_epoch_or_offset_removes_what_contradicts_it() -> None:
    cache = epochs()
    cache.assign(7, 55)
    assert not cache.dirty
    cache.assign(5, 30)
    assert cache.entries() == [(2, 10), (4, 20), (5, 30)]
    cache.assign(6, 20)
    assert cache.entries() == [(2, 10), (6, 20)]
    assert cache.dirty


def test_truncation_from_both_ends() -> None:
    cache = epochs()
    cache.truncate_from_end(50)
    assert cache.entries() == [(2, 10), (4, 20)]
    cache.truncate_from_start(15)
    assert cache.entries() == [(2, 15), (4, 20)]
    cache.truncate_from_start(25)
    assert cache.entries() == [(4, 25)]
    cache.truncate_from_start(5)
    assert cache.entries() == [(4, 25)]


def test_the_epoch_of_an_offset() -> None:
    assert [epochs().epoch_at(offset) for offset in (9, 10, 19, 20, 99)] == [-1, 2, 2, 4, 7]
