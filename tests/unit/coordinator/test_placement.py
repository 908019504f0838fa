"""Java's hash decides the coordinator."""

from __future__ import annotations

import pytest

from ottla.coordinator.placement import java_string_hash, partition_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("test", 3556498),
        ("my-group", -1906497762),
        ("\U0001f600", 0xD83D * 31 + 0xDE00),  # two UTF-16 units
        ("polygenelubricants", -(2**31)),
    ],
)
def test_java_string_hash(text: str, value: int) -> None:
    assert java_string_hash(text) == value


def test_partitions() -> None:
    assert partition_of("test", 50) == 48
    assert partition_of("my-group", 50) == 12
    assert partition_of("polygenelubricants", 50) == 0, "the smallest integer counts as 0"
