"""Which part of a topic a page wants."""

from __future__ import annotations

import pytest

from ottla.console.records.topics import (
    Held,
    cursor_text,
    parse_cursor,
    parse_partitions,
    windows,
)
from ottla.console.web.failures import ApiError
from ottla.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
HELD = {T0: Held(5, 9), T1: Held(0, 0)}


def test_partitions() -> None:
    assert parse_partitions("", 3) == [0, 1, 2]
    assert parse_partitions(" 2,0 ,2", 3) == [0, 2]
    for text in ("3", "x", "-1", "0,,1", "1e1"):
        with pytest.raises(ApiError) as caught:
            parse_partitions(text, 3)
        assert caught.value.field == "partitions"
    with pytest.raises(ApiError, match="choose up to 1,000"):
        parse_partitions("", 50_000)
    assert parse_partitions("49999", 50_000) == [49_999]


def test_cursors() -> None:
    assert parse_cursor("0:5,1:0", 2) == {0: 5, 1: 0}
    assert cursor_text({1: 0, 0: 5}) == "0:5,1:0"
    assert cursor_text({}) is None
    for text in ("", "0", "2:1", "0:-1", "0:1;"):
        with pytest.raises(ApiError):
            parse_cursor(text, 2)


def test_windows_lie_within_the_log() -> None:
    assert windows(HELD, newest=True) == {T0: (5, 9), T1: (0, 0)}
    assert windows(HELD, newest=True, at={T0: 100, T1: 100}) == {T0: (5, 9), T1: (0, 0)}
    assert windows(HELD, newest=True, at={T0: 1, T1: 1}) == {T0: (5, 5), T1: (0, 0)}
    assert windows(HELD, newest=False, at={T0: 7, T1: 7}) == {T0: (7, 9), T1: (0, 0)}
    assert windows(HELD, newest=False, cursor={0: 6}) == {T0: (6, 9)}
