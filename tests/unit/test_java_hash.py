"""Java's String.hashCode."""

from __future__ import annotations

import pytest

from ottla.java_hash import spread_hash, string_hash


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
def test_string_hash(text: str, value: int) -> None:
    assert string_hash(text) == value


def test_the_spread_hash_is_unsigned() -> None:
    assert spread_hash("test") == 3556498 ^ (3556498 >> 16)
    assert spread_hash("polygenelubricants") == 0x8000_8000
