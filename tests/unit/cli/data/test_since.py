"""Times and durations of `--since`."""

from __future__ import annotations

import pytest

from ottla.cli.data.since import BadMoment, parse_since

NOW_MS = 1_000_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", NOW_MS - 90_000),
        ("10m", NOW_MS - 600_000),
        ("1h30m", NOW_MS - 5_400_000),
        ("1.5h", NOW_MS - 5_400_000),
        ("10 minutes", NOW_MS - 600_000),
        ("250ms", NOW_MS - 250),
        ("2d", NOW_MS - 172_800_000),
        ("1w", NOW_MS - 604_800_000),
        ("PT1H", NOW_MS - 3_600_000),
        ("999999999999w", 0),
        ("1970-01-02", 86_400_000),
        ("1970-01-01T00:00:01", 1000),
        ("1970-01-01 01:00:00.250+01:00", 250),
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31", 0),
        ("1769850000000", 1769850000000),
    ],
)
def test_moments(text: str, expected: int) -> None:
    assert parse_since(text, NOW_MS) == expected


@pytest.mark.parametrize(
    "text", ["", "x", "10 mm", "9" * 400 + " h", "-10m", "PT", "P1X", "2026-13-01", "1h2"]
)
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(BadMoment, match="--since"):
        parse_since(text, NOW_MS)
