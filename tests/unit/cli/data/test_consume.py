"""Where `ottla consume` begins."""

from __future__ import annotations

import click
import pytest

from ottla.cli.data.consume import Start, parse_start


def test_starts() -> None:
    assert parse_start("earliest") == Start()
    assert parse_start("latest") == Start(at_end=True)
    assert parse_start("12") == Start(offset=12)
    assert parse_start("-12") == Start(at_end=True, back=12)
    for text in ("", "x", "1.5", "--1", "9" * 30):
        with pytest.raises(click.UsageError):
            parse_start(text)
