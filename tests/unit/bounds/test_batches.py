from __future__ import annotations

import pytest

from ottla.bounds.batches import (
    MAX_CHANGES,
    PARTITIONS_PER_EVENT,
    check_changes,
    first_of,
    pieces,
    pieces_of_mapping,
)
from ottla.errors import ErrorCode, KafkaError


def test_more_changes_than_one_request_may_ask_for() -> None:
    check_changes(MAX_CHANGES)
    with pytest.raises(KafkaError, match="excessively large batch") as caught:
        check_changes(MAX_CHANGES + 1)
    assert caught.value.code is ErrorCode.POLICY_VIOLATION


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_pieces_are_the_whole(extra: int) -> None:
    items = list(range(2 * PARTITIONS_PER_EVENT + extra))
    cut = [list(piece) for piece in pieces(items)]
    assert [item for piece in cut for item in piece] == items
    assert max(map(len, cut)) == PARTITIONS_PER_EVENT
    mapping = {item: str(item) for item in items}
    parts = list(pieces_of_mapping(mapping))
    assert [len(part) for part in parts] == [len(piece) for piece in cut]
    assert {key: value for part in parts for key, value in part.items()} == mapping


def test_nothing_is_one_empty_piece() -> None:
    assert list(pieces([])) == [[]]
    assert list(pieces_of_mapping({})) == [{}]


def test_a_line_names_the_first_ones() -> None:
    assert first_of(["a", "b"]) == "a, b"
    assert first_of(range(12)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more"
