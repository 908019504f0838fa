"""Bytes in JSON: text where they are text, base64 else."""

from __future__ import annotations

import pytest

from ottla.console.records.seen import Part
from ottla.console.records.shown import Data, data


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (None, None),
        (Part(b"", 0), Data(0, text="")),
        (Part("ü\u202e\x00".encode(), 6), Data(6, text="ü\u202e\x00")),
        (Part(b"\xff\x00", 2), Data(2, base64="/wA=")),
        (Part("aü".encode()[:2], 3), Data(3, text="a", is_cut=True)),
        (Part(b"a\xc3", 2), Data(2, base64="YcM=")),
        (Part(b"\xffa\xc3", 9), Data(9, base64="/2HD", is_cut=True)),
    ],
)
def test_data(part: Part | None, expected: Data | None) -> None:
    assert data(part) == expected
